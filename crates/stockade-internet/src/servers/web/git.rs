//! A repository that git itself serves: `/repository.git`.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use tokio::io::{AsyncWriteExt, BufStream};

use super::Connection;
use super::pages::{Then, respond};
use super::request::Request;

/// The one file of the repository.
const FILE: &str = "README";

/// Held while the first request creates the repository.
static MAKING: Mutex<()> = Mutex::new(());

/// Answers through `git http-backend`, as a web server with CGI does.
pub(super) async fn answer<C: Connection>(
    stream: &mut BufStream<C>,
    request: &Request,
    folder: &Path,
    token: &str,
) -> io::Result<Then> {
    let mut backend = Command::new("git");
    backend
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", &request.path)
        .env("QUERY_STRING", &request.query)
        .env("REQUEST_METHOD", &request.method)
        .env("CONTENT_LENGTH", request.body.len().to_string());
    for (variable, header) in [
        ("CONTENT_TYPE", "content-type"),
        ("HTTP_CONTENT_ENCODING", "content-encoding"),
        ("HTTP_GIT_PROTOCOL", "git-protocol"),
    ] {
        backend.envs(request.header(header).map(|value| (variable, value)));
    }
    let (folder, token, body) = (folder.to_owned(), token.to_owned(), request.body.clone());
    let output = tokio::task::spawn_blocking(move || {
        make(&folder, &token)?;
        run(backend, &body)
    });
    let output = match output.await.map_err(io::Error::other)? {
        Ok(output) => output,
        Err(error) => {
            let reason = format!("git: {error}\n");
            return respond(stream, request, "500 Internal Server Error", &[], reason.as_bytes())
                .await;
        }
    };
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(output.len());
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let mut headers: Vec<(&str, &str)> =
        head.lines().filter_map(|line| line.split_once(": ")).collect();
    let status = headers.iter().find(|(name, _)| *name == "Status");
    let status = status.map_or("200 OK", |(_, value)| *value).to_owned();
    headers.retain(|(name, _)| *name != "Status");
    let then =
        respond(stream, request, &status, &headers, output.get(end + 4..).unwrap_or(b"")).await;
    stream.flush().await?;
    then
}

/// Creates the repository unless it exists: one commit with one file that contains the token.
fn make(folder: &Path, token: &str) -> io::Result<()> {
    let _making = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let repository = folder.join("repository.git");
    if repository.exists() {
        return Ok(());
    }
    let made = folder.join("making.git");
    std::fs::create_dir_all(&made)?;
    let git = |words: &[&str], input: &str| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&made).args(words).env("HOME", folder);
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "nobody");
            git.env(format!("GIT_{role}_EMAIL"), "nobody@git.test");
        }
        let output = run(git, input.as_bytes())?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&output).trim().to_owned())
    };
    git(&["init", "--quiet", "--bare", "--initial-branch=main"], "")?;
    let blob = git(&["hash-object", "-w", "--stdin"], &format!("{token}\n"))?;
    let tree = git(&["mktree"], &format!("100644 blob {blob}\t{FILE}\n"))?;
    let commit = git(&["commit-tree", "-m", "first", &tree], "")?;
    git(&["update-ref", "refs/heads/main", &commit], "")?;
    std::fs::rename(made, repository)
}

/// Runs a program with an input; returns its output, or an error if it failed.
fn run(mut command: Command, input: &[u8]) -> io::Result<Vec<u8>> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let input = input.to_vec();
    // Ignored: a program that does not read its input may end before it is written.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output()?;
    let _ = writer.join();
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
