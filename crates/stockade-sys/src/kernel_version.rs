//! The version of the running kernel.

/// The first two numbers of the kernel's version; zero where it does not say, and then nothing that
/// needs a later kernel applies.
pub fn kernel_version() -> (u32, u32) {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}
