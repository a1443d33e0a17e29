use std::os::unix::fs::PermissionsExt;

use super::*;

const VALUE: &str = "sk-3f8A1c6E9b2D7a4C0e5F";

fn file(mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, format!("{VALUE}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (folder, path)
}

fn of_file(path: &Path) -> Result<String, String> {
    let read = read("KEY", &SecretSource::File(path.to_owned()));
    read.map(|value| value.to_string()).map_err(|error| error.to_string())
}

fn of_words(words: &[&str], most: Duration) -> Result<Vec<u8>, String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    of_program(&words, most).map(|value| value.to_vec())
}

#[test]
fn file_that_others_may_write_is_refused_with_the_remedy() {
    for mode in [0o400, 0o600, 0o644] {
        let (_folder, path) = file(mode);
        assert_eq!(of_file(&path).unwrap(), VALUE, "{mode:o}");
    }
    for mode in [0o620, 0o602, 0o666] {
        let (_folder, path) = file(mode);
        let error = of_file(&path).unwrap_err();
        assert!(error.ends_with("other users may write it; run chmod go-w on it"), "{error}");
        assert!(!error.contains(VALUE), "{error}");
    }
}

#[test]
fn what_is_not_a_regular_file_is_refused_without_waiting() {
    let (folder, _) = file(0o600);
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::from_raw_mode(0o600)).unwrap();
    for path in [fifo.as_path(), folder.path(), Path::new("/dev/null")] {
        let error = of_file(path).unwrap_err();
        assert!(error.ends_with("it is not a regular file"), "{error}");
    }
    assert!(of_file(&folder.path().join("missing")).unwrap_err().contains("No such file"));
}

#[test]
fn program_gets_its_words_without_a_shell() {
    let most = Duration::from_secs(20);
    let words = ["printf", "%s|", "$HOME", "a;b", "`id`"];
    assert_eq!(of_words(&words, most).unwrap(), b"$HOME|a;b|`id`|");
    let error = of_words(&["false"], most).unwrap_err();
    assert!(error.contains("exit status: 1"), "{error}");
    assert!(of_words(&["/nonexistent/program"], most).is_err());
}

#[test]
fn program_that_prints_too_much_or_never_ends_is_ended() {
    let begun = Instant::now();
    let error = of_words(&["yes"], Duration::from_secs(60)).unwrap_err();
    assert_eq!(error, "it printed more than 4096 bytes");
    let brief = Duration::from_millis(200);
    let error = of_words(&["sleep", "600"], brief).unwrap_err();
    assert_eq!(error, "it did not end its output within 0.2 seconds");
    let error = of_words(&["sh", "-c", "exec >&-; exec sleep 600"], brief).unwrap_err();
    assert_eq!(error, "it did not end");
    assert!(begun.elapsed() < Duration::from_secs(30));
}
