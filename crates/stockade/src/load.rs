//! Reading policy files and code, never more of them than can be used.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use stockade_policy::{MAX_TEXT_BYTES, Policy, PolicyText};

use crate::Problem;

/// The most code that is read, in bytes.
const MAX_CODE_BYTES: u64 = 64 << 20;

/// Reads one policy text.
pub(crate) fn text(file: &Path) -> anyhow::Result<PolicyText> {
    // One byte more than fits, so that the check sees that it does not fit.
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
    let text = text(file)?;
    Policy::parse(&text).map_err(|errors| Problem::refused(&errors).into())
}

/// Reads, checks and combines policies.
pub(crate) fn combined(files: &[PathBuf]) -> anyhow::Result<Policy> {
    refuse_shared_input(files.iter().map(PathBuf::as_path))?;
    let policies: Vec<Policy> = files.iter().map(|file| policy(file)).collect::<Result<_, _>>()?;
    Policy::combine_all(&policies)
        .map_err(|error| Problem::new(error.to_string(), "merge some of them by hand").into())
}

/// Standard input can be read once only: a second reading would see an empty text.
pub(crate) fn refuse_shared_input<'f>(files: impl Iterator<Item = &'f Path>) -> anyhow::Result<()> {
    if files.filter(|file| is_standard_input(file)).count() > 1 {
        let message = "standard input is named more than once";
        return Err(Problem::new(message, "pass all but one as files").into());
    }
    Ok(())
}

/// Reads code that a rule is to judge. What is not text is refused: a rule and an interpreter
/// would read it differently.
pub(crate) fn code(file: &Path) -> anyhow::Result<String> {
    String::from_utf8(script(file)?).map_err(|_| {
        let message = format!("the code in {} is not UTF-8 text", file.display());
        Problem::new(message, "save it as UTF-8").into()
    })
}

/// Reads code that is to run.
pub(crate) fn script(file: &Path) -> anyhow::Result<Vec<u8>> {
    if !is_standard_input(file) && file.is_dir() {
        let message = format!("{} is a directory, not a script", file.display());
        return Err(Problem::new(message, "name a file in it").into());
    }
    let bytes = bytes(file, "the code", MAX_CODE_BYTES + 1)?;
    if u64::try_from(bytes.len())? > MAX_CODE_BYTES {
        let message =
            format!("the code in {} is larger than {MAX_CODE_BYTES} bytes", file.display());
        return Err(Problem::new(message, "check that this is the right file").into());
    }
    Ok(bytes)
}

pub(crate) fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn bytes(file: &Path, what: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if is_standard_input(file) {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes))
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => {
            let message = format!("cannot read {what} from {}: {error}", file.display());
            Err(Problem::new(message, "check the path and its permissions").into())
        }
    }
}
