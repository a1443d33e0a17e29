//! Reads policy files and code, with a size limit for each.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use stockade_backends::ContainerLook;
use stockade_image::Listed;
use stockade_policy::{MAX_TEXT_BYTES, Policy, PolicyText};
use stockade_provider::HostFacts;

use crate::Problem;

/// The maximum size of code, in bytes.
const MAX_CODE_BYTES: u64 = 64 << 20;

/// Reads one policy text.
pub(crate) fn text(file: &Path) -> anyhow::Result<PolicyText> {
    // One byte over the limit, so that the parser detects a text that is too long.
    let limit = u64::try_from(MAX_TEXT_BYTES)?.saturating_add(1);
    let bytes = bytes(file, "the policy", limit)?;
    let here = here()?;
    let (name, base) = if is_standard_input(file) {
        ("standard input".to_owned(), here)
    } else {
        let directory = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        (file.display().to_string(), here.join(directory))
    };
    Ok(PolicyText { name, bytes, base })
}

/// The working directory.
pub(crate) fn here() -> anyhow::Result<PathBuf> {
    std::env::current_dir().map_err(|error| {
        let message = format!("cannot find the working directory: {error}");
        Problem::new(message, "change to a directory that exists").into()
    })
}

/// Reads and checks one policy.
pub(crate) fn policy(file: &Path) -> anyhow::Result<Policy> {
    parsed(&text(file)?)
}

/// Reads, checks and combines policies.
pub(crate) fn combined(files: &[PathBuf]) -> anyhow::Result<Policy> {
    refuse_shared_input(files.iter().map(PathBuf::as_path))?;
    let texts: Vec<PolicyText> = files.iter().map(|file| text(file)).collect::<Result<_, _>>()?;
    combined_texts(texts.into_iter())
}

/// Checks and combines policies.
pub(crate) fn combined_texts(texts: impl Iterator<Item = PolicyText>) -> anyhow::Result<Policy> {
    let policies: Vec<Policy> = texts.map(|text| parsed(&text)).collect::<Result<_, _>>()?;
    Policy::combine_all(&policies)
        .map_err(|error| Problem::new(error.to_string(), "merge some of them by hand").into())
}

fn parsed(text: &PolicyText) -> anyhow::Result<Policy> {
    Policy::parse(text).map_err(|errors| Problem::refused(&errors, Problem::POLICY_KEYS).into())
}

/// Refuses two files on standard input: the second read would get an empty text.
pub(crate) fn refuse_shared_input<'f>(files: impl Iterator<Item = &'f Path>) -> anyhow::Result<()> {
    if files.filter(|file| is_standard_input(file)).count() > 1 {
        let message = "standard input is named more than once";
        return Err(Problem::new(message, "pass all but one as files").into());
    }
    Ok(())
}

/// Reads code for a rule to evaluate. Refuses code that is not UTF-8: a rule and an interpreter
/// would read it differently.
pub(crate) fn code(file: &Path) -> anyhow::Result<String> {
    String::from_utf8(script(file)?).map_err(|_| {
        let message = format!("the code in {} is not UTF-8 text", file.display());
        Problem::new(message, "save it as UTF-8").into()
    })
}

/// Reads code to run.
pub(crate) fn script(file: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = bytes(file, "the code", MAX_CODE_BYTES + 1)?;
    if u64::try_from(bytes.len())? > MAX_CODE_BYTES {
        let message =
            format!("the code in {} is larger than {MAX_CODE_BYTES} bytes", file.display());
        return Err(Problem::new(message, "check that this is the right file").into());
    }
    Ok(bytes)
}

/// Reads a tools file. Its parser checks the length.
pub(crate) fn tools(file: &Path) -> anyhow::Result<Vec<u8>> {
    const MAX_TOOLS_BYTES: u64 = 2 << 20;
    bytes(file, "the tools", MAX_TOOLS_BYTES)
}

/// Reads a file of variables, as text.
pub(crate) fn variables(file: &Path) -> anyhow::Result<String> {
    const MAX_VARIABLES_BYTES: u64 = 1 << 20;
    let read = bytes(file, "the variables", MAX_VARIABLES_BYTES + 1)?;
    let shown = file.display();
    if u64::try_from(read.len())? > MAX_VARIABLES_BYTES {
        let message =
            format!("the variables in {shown} are larger than {MAX_VARIABLES_BYTES} bytes");
        return Err(Problem::new(message, "check that this is the right file").into());
    }
    String::from_utf8(read).map_err(|_| {
        let message = format!("the variables in {shown} are not UTF-8 text");
        Problem::new(message, "save them as UTF-8").into()
    })
}

/// Reads the output of `run --json`, up to a limit.
pub(crate) fn result(file: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    bytes(file, "the result", limit)
}

/// Whether this path is our standard input under any of its names.
pub(crate) fn is_standard_input(file: &Path) -> bool {
    ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| file == Path::new(name))
}

/// Whether this path is an open descriptor of our caller, such as a shell's `<(…)`.
pub(crate) fn is_descriptor(file: &Path) -> bool {
    descriptor(file).is_some()
}

/// The number of the open descriptor that a path names.
pub(crate) fn descriptor(file: &Path) -> Option<u32> {
    let number = ["/dev/fd", "/proc/self/fd"].iter().find_map(|of| file.strip_prefix(of).ok());
    let digits = number.and_then(Path::to_str)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    // Numbers of descriptors are not negative and fit into an int.
    digits.parse::<i32>().ok().filter(|_| is_number).and_then(|number| number.try_into().ok())
}

fn bytes(file: &Path, what: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if is_standard_input(file) {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        match open(file) {
            Ok(Ok(open)) => open.take(limit).read_to_end(&mut bytes),
            Ok(Err(problem)) => return Err(problem.into()),
            Err(error) => Err(error),
        }
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => {
            let message = format!("cannot read {what} from {}: {error}", file.display());
            Err(Problem::new(message, "check the path and its permissions").into())
        }
    }
}

/// Opens a file without blocking: opening a named pipe would wait for a writer.
fn open(file: &Path) -> std::io::Result<Result<File, Problem>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("flags of open(2) are an int");
    let open = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    let kind = open.metadata()?.file_type();
    let shown = file.display();
    let (is, remedy) = if kind.is_file() || (is_descriptor(file) && !kind.is_dir()) {
        // Reads from the caller's own pipe block until its writer sends data.
        fcntl_setfl(&open, fcntl_getfl(&open)? - OFlags::NONBLOCK)?;
        return Ok(Ok(open));
    } else if kind.is_dir() {
        ("a directory", "name a file in it".to_owned())
    } else if kind.is_fifo() {
        ("a named pipe", format!("pass it as standard input: - < {shown}"))
    } else {
        ("a device", "name a file".to_owned())
    };
    Ok(Err(Problem::new(format!("{shown} is {is}, not a file"), remedy)))
}

/// What each wall can do on this host.
pub(crate) fn host_facts() -> anyhow::Result<HostFacts> {
    waited(stockade_backends::host_facts())
}

/// The container engine of this host, if that wall is built in.
pub(crate) fn container_look() -> anyhow::Result<Option<ContainerLook>> {
    waited(stockade_backends::container_look())
}

/// The images of the container engine; `None` if it cannot be reached.
pub(crate) fn container_images() -> Option<Vec<Listed>> {
    waited(stockade_backends::container_images()).ok().flatten()
}

/// Waits for work on this thread.
pub(crate) fn waited<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        let message = format!("cannot wait for what the walls find out: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    })?;
    let found = runtime.block_on(work);
    // Does not wait for the cleanup of a trial sandbox that timed out.
    runtime.shutdown_background();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_standard_input_are_recognized_by_path() {
        for name in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
            assert!(is_standard_input(Path::new(name)), "{name}");
        }
        for (name, is) in [
            ("/dev/fd/63", true),
            ("/proc/self/fd/3", true),
            ("/dev/fd/", false),
            ("/dev/fd/x", false),
            ("/dev/fd/3/x", false),
            ("/tmp/3", false),
        ] {
            assert_eq!(is_descriptor(Path::new(name)), is, "{name}");
        }
    }
}
