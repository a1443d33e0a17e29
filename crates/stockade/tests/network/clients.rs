//! Unmodified network clients, with the proxy variables and without.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{
    Place, direct, has, inside, internet, not_run, packages, reaches_only_without_wall, skipped,
    tests,
};

tests![
    curl_works,
    wget_works,
    git_clones_over_https,
    pip_installs_from_an_index,
    npm_installs_from_a_registry,
    python_urllib_works,
    python_requests_works,
    python_httpx_works,
    python_aiohttp_works,
    python_websockets_works,
    node_fetch_works,
    java_works,
    go_works,
];

/// The Python clients, from the package index of this host.
const PACKAGES: [&str; 5] = ["aiohttp", "httpx", "pip", "requests", "websockets"];

/// The directory with the Python clients, filled once per host and Python version.
pub(crate) fn install_packages() -> Result<PathBuf, String> {
    let version = Command::new("/usr/bin/python3")
        .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        .output()
        .map_err(|error| format!("/usr/bin/python3: {error}"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or("there is no cache: neither XDG_CACHE_HOME nor HOME is set")?;
    let folder = cache.join(format!("stockade/clients-{version}"));
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        return folder.canonicalize().map_err(failed);
    }
    let making = folder.with_extension(format!("{}.making", std::process::id()));
    std::fs::create_dir_all(&making).map_err(failed)?;
    let installed = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"])
        .args(["--python-version", &version, "--target"])
        .arg(&making)
        .args(PACKAGES)
        .output()
        .map_err(|error| format!("python3 -m pip: {error}"))?;
    if !installed.status.success() {
        // Removes an incomplete directory, so that no run uses it.
        let _ = std::fs::remove_dir_all(&making);
        let errors = String::from_utf8_lossy(&installed.stderr).trim().replace('\n', " ");
        return Err(format!("pip could not install {PACKAGES:?}: {errors}"));
    }
    // A concurrent run may have created the directory first; it is equivalent.
    if std::fs::rename(&making, &folder).is_err() {
        std::fs::remove_dir_all(&making).map_err(failed)?;
    }
    folder.canonicalize().map_err(failed)
}

/// Runs a program without the proxy variables.
const WITHOUT_PROXY: [&str; 13] = [
    "env",
    "-u",
    "HTTP_PROXY",
    "-u",
    "HTTPS_PROXY",
    "-u",
    "ALL_PROXY",
    "-u",
    "http_proxy",
    "-u",
    "https_proxy",
    "-u",
    "all_proxy",
];

/// Asserts that a program works on the machine and in a sandbox that allows its host, with the
/// proxy variables and without, and fails if only another host is allowed.
#[track_caller]
fn works(host: &str, flags: &[&str], words: impl Fn(&str) -> Vec<String>) {
    let expected = internet().token();
    let own = words(host);
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let run = direct_with(flags, &own);
    assert!(run.text().contains(expected), "{own:?} on the machine: {run:?}");
    opened_works(host, flags, &own);
    let flags = [flags, &["--allow-host", host]].concat();
    for words in [own.clone(), [&WITHOUT_PROXY[..], &own].concat()] {
        let run = inside(&flags, &words);
        assert!(run.text().contains(expected), "{words:?}: {run:?}");
    }
    let place = Place::new();
    let other = words(&place.name);
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    let run = reaches_only_without_wall(&place, &flags, &other);
    assert_ne!(run.code, 0, "{run:?}");
}

/// Asserts that a program works with TLS that ends at the gate, which alone can tell its methods,
/// and gets no content if only another method is allowed.
#[track_caller]
fn opened_works(host: &str, flags: &[&str], words: &[&str]) {
    // The session has variables of its own for the certificates.
    let pairs = flags.chunks(2).filter(|pair| !(pair[0] == "--env" && pair[1].contains("CERT")));
    let flags: Vec<&str> = pairs.flatten().copied().collect();
    if words.last() == Some(&"http") {
        return;
    }
    let allowed = format!("GET,HEAD,POST https://{host}/**");
    let run = inside(&[&flags[..], &["--allow", &allowed]].concat(), words);
    assert!(run.text().contains(internet().token()), "{words:?} opened: {run:?}");
    let other = format!("DELETE https://{host}/**");
    let run = inside(&[&flags[..], &["--allow", &other]].concat(), words);
    assert!(!run.stdout.contains(internet().token()), "{words:?}: {run:?}");
    // Some clients print the body of a 403 and end with 0.
    let is_denied = run.code != 0 || run.stdout.contains("\"control\":\"network_requests\"");
    assert!(is_denied, "{words:?}: {run:?}");
}

/// Runs a program on the machine with the variables that the flags set inside.
fn direct_with(flags: &[&str], words: &[&str]) -> crate::support::Run {
    let variables =
        flags.iter().skip_while(|flag| **flag != "--env").filter(|flag| flag.contains('='));
    direct(&[&["env"], variables.copied().collect::<Vec<_>>().as_slice(), words].concat())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn curl_works() {
    if has("curl", "clients") {
        works("files.test", &[], |host| owned(&["curl", "-sS", "-f", &format!("https://{host}/")]));
    }
}

fn wget_works() {
    if has("wget", "clients") {
        let words = ["wget", "-q", "-t", "1", "-T", "5", "-O", "-"];
        works("files.test", &[], |host| {
            owned(&[&words[..], &[&format!("https://{host}/")]].concat())
        });
    }
}

fn git_clones_over_https() {
    if has("git", "clients") {
        let script =
            "cd $(mktemp -d) && git clone -q https://$0/repository.git && cat repository/README";
        works("git.test", &[], |host| owned(&["sh", "-c", script, host]));
    }
}

fn pip_installs_from_an_index() {
    let Ok(folder) = packages() else { return no_packages() };
    let script = "
import runpy, subprocess, sys, tempfile
folder, index, pip = tempfile.mkdtemp(), f'https://{sys.argv[1]}/simple/', sys.argv[2] + '/pip'
words = ['install', '-q', '--retries', '0', '--no-cache-dir', '--index-url', index]
subprocess.run([sys.executable, pip, *words, '--target', folder, 'stockade-tiny'], check=True)
sys.path.insert(0, folder)
import stockade_tiny
print(stockade_tiny.token)
";
    python_works("pypi.test", script, folder);
}

fn npm_installs_from_a_registry() {
    if has("npm", "node") {
        let script = "cd $(mktemp -d) && npm --silent --registry https://$0/ --no-audit --no-fund \
                      --fetch-retries 0 --cache ./cache install stockade-tiny >/dev/null && \
                      node -p 'require(\"stockade-tiny\")'";
        let (mount, variable) = node_trusts();
        let flags = ["--mount", &mount, "--env", &variable];
        works("npm.test", &flags, |host| owned(&["sh", "-c", script, host]));
    }
}

/// Node has its own certificate store; a variable adds the test authority.
fn node_trusts() -> (String, String) {
    let file = internet().ca_file();
    let file = file.to_str().expect("the path is text");
    (format!("{file}:{file}"), format!("NODE_EXTRA_CA_CERTS={file}"))
}

/// Runs a Python script with the packages mounted inside.
#[track_caller]
fn python_works(host: &str, script: &str, folder: &std::path::Path) {
    let folder = folder.to_str().expect("the path is text");
    // The same path inside and on the machine, so that one command line works for both.
    let mount = format!("{folder}:{folder}");
    let variables = "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt";
    let bundle = "REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt";
    let flags = ["--mount", &mount, "--env", variables, "--env", bundle];
    works(host, &flags, |host| owned(&["/usr/bin/python3", "-c", script, host, folder]));
}

fn no_packages() {
    if let Err(reason) = packages() {
        skipped("clients", reason);
    }
}

fn python_urllib_works() {
    let script = "
import sys, urllib.request
print(urllib.request.urlopen(f'https://{sys.argv[1]}/', timeout=10).read().decode())
";
    works("files.test", &[], |host| owned(&["python3", "-c", script, host]));
}

/// A script with the packages on its path and the host name in `host`.
fn with_packages(rest: &str) -> String {
    format!("import sys\nhost = sys.argv[1]\nsys.path.insert(0, sys.argv[2])\n{rest}")
}

fn python_requests_works() {
    let Ok(folder) = packages() else { return no_packages() };
    let script = "import requests\nprint(requests.get(f'https://{host}/', timeout=10).text)";
    python_works("files.test", &with_packages(script), folder);
}

fn python_httpx_works() {
    let Ok(folder) = packages() else { return no_packages() };
    let script = "import httpx\nprint(httpx.get(f'https://{host}/', timeout=10).text)";
    python_works("files.test", &with_packages(script), folder);
}

fn python_aiohttp_works() {
    let Ok(folder) = packages() else { return no_packages() };
    let script = "
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(f'https://{host}/') as answer:
            print(await answer.text())
asyncio.run(main())
";
    python_works("files.test", &with_packages(script), folder);
}

fn python_websockets_works() {
    let Ok(folder) = packages() else { return no_packages() };
    let script = "
import asyncio, urllib.request, websockets
async def main():
    async with websockets.connect(f'wss://{host}/ws') as talk:
        token = urllib.request.urlopen(f'https://{host}/').read().decode().split()[0]
        await talk.send(token)
        print(await talk.recv())
asyncio.run(main())
";
    python_works("files.test", &with_packages(script), folder);
}

fn node_fetch_works() {
    if has("node", "node") {
        // Node ignores proxy variables: name resolution alone must work.
        let script = "fetch(`https://${process.argv[1]}/`).then(a => a.text()).then(console.log)";
        let (mount, variable) = node_trusts();
        let flags = ["--mount", &mount, "--env", &variable];
        works("files.test", &flags, |host| owned(&["node", "-e", script, host]));
    }
}

fn java_works() {
    if !std::path::Path::new("/usr/bin/java").exists() {
        return not_run("java is not installed");
    }
    // Java has its own certificate store, so the first part of this test uses plain HTTP.
    let script = "
cd $(mktemp -d)
cat > Ask.java <<'END'
import java.net.URI;
import java.net.http.*;
public class Ask {
    public static void main(String[] words) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(words[1] + \"://\" + words[0] + \"/\")).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.body());
        if (answer.statusCode() != 200) System.exit(1);
    }
}
END
exec java -Xmx200m Ask.java $0 $1
";
    let flags = ["--memory", "2g", "--cpus", "2"];
    works("files.test", &flags, |host| owned(&["sh", "-c", script, host, "http"]));
    // On the machine it does not trust the servers; inside it trusts the gate.
    opened_works("files.test", &flags, &["sh", "-c", script, "files.test", "https"]);
}

fn go_works() {
    if !std::path::Path::new("/usr/bin/go").exists() {
        return not_run("go is not installed");
    }
    let script = "
cd $(mktemp -d)
cat > ask.go <<'END'
package main
import (\"fmt\"; \"io\"; \"net/http\"; \"os\")
func main() {
    answer, err := http.Get(\"https://\" + os.Args[1] + \"/\")
    if err != nil { fmt.Println(err); os.Exit(1) }
    body, _ := io.ReadAll(answer.Body)
    fmt.Println(string(body))
}
END
GOCACHE=$PWD/cache GOFLAGS=-mod=mod go run ask.go $0
";
    let flags = ["--memory", "2g", "--disk", "1g", "--cpus", "2"];
    works("files.test", &flags, |host| owned(&["sh", "-c", script, host]));
}
