use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use wasmtime::{Config, Engine};

use super::*;

fn engine() -> Engine {
    Engine::new(Config::new().wasm_component_model(true)).unwrap()
}

fn artefacts() -> (tempfile::TempDir, Artefacts) {
    let directory = tempfile::tempdir().unwrap();
    let artefacts = Artefacts::open_at(&directory.path().join("compiled")).unwrap();
    (directory, artefacts)
}

/// The smallest component, compiled.
fn compiled(engine: &Engine) -> Vec<u8> {
    engine.precompile_component(b"\0asm\x0d\0\x01\0").unwrap()
}

#[test]
fn kept_component_is_loaded_by_its_own_engine_only() {
    let (_directory, artefacts) = artefacts();
    let engine = engine();
    assert!(artefacts.load(&engine).unwrap().is_none());
    artefacts.keep(&prefix(&engine), &compiled(&engine), PRIVATE).unwrap();
    assert!(artefacts.load(&engine).unwrap().is_some());
    let other = Engine::new(Config::new().epoch_interruption(true)).unwrap();
    assert!(artefacts.load(&other).unwrap().is_none(), "another engine compiles its own");
}

#[test]
fn component_of_another_engine_under_this_ones_name_is_refused() {
    let (_directory, artefacts) = artefacts();
    let engine = engine();
    let other = Engine::new(Config::new().epoch_interruption(true)).unwrap();
    artefacts.keep(&prefix(&engine), &compiled(&other), PRIVATE).unwrap();
    let error = artefacts.load(&engine).unwrap_err();
    assert!(matches!(error, WasmError::Engine { .. }), "{error}");
}

#[test]
fn altered_and_truncated_components_are_refused() {
    let (directory, artefacts) = artefacts();
    let engine = engine();
    artefacts.keep(&prefix(&engine), &compiled(&engine), PRIVATE).unwrap();
    let name = artefacts.find(&prefix(&engine)).unwrap().unwrap();
    let path = directory.path().join("compiled").join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes[..bytes.len() / 2].to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    for bad in [bytes, half] {
        std::fs::write(&path, bad).unwrap();
        let error = artefacts.load(&engine).unwrap_err();
        assert!(matches!(error, WasmError::Altered { .. }), "{error}");
    }
}

/// The names of the compiled components that are there.
fn kept_names(artefacts: &Artefacts) -> Vec<String> {
    let mut names = artefacts.names().unwrap();
    names.retain(|name| name.ends_with(".cwasm") && !name.starts_with('.'));
    names.sort();
    names
}

/// Keeps a component of an engine of its own name, used so many seconds after 2001.
fn keep_used(artefacts: &Artefacts, directory: &Path, engine: &str, seconds: u64) -> String {
    let prefix = format!("python-0000000000000000-{engine}-");
    artefacts.keep(&prefix, engine.as_bytes(), PRIVATE).unwrap();
    let name = artefacts.find(&prefix).unwrap().unwrap();
    let file = File::options().write(true).open(directory.join("compiled").join(&name)).unwrap();
    let used = Duration::from_secs(1_000_000_000 + seconds);
    file.set_modified(SystemTime::UNIX_EPOCH + used).unwrap();
    name
}

#[test]
fn only_the_compiled_components_that_were_used_last_stay() {
    let (directory, artefacts) = artefacts();
    let place = directory.path();
    let names: Vec<String> = ["e0", "e1", "e2", "e3", "e4", "e5"]
        .iter()
        .zip(0..)
        .map(|(engine, second)| keep_used(&artefacts, place, engine, second))
        .collect();
    // What killed processes left, and what belongs to no version of Stockade.
    for name in [".7-from", ".7-to", ".7-python-00-e9-00.cwasm", "note.txt"] {
        std::fs::write(place.join("compiled").join(name), "x").unwrap();
    }
    // The oldest is used again.
    let used = artefacts.verified("python-0000000000000000-e0-").unwrap().unwrap();
    assert_eq!(used.path(), place.join("compiled").join(&names[0]));
    drop(used);
    let _lock = artefacts.lock().unwrap();
    artefacts.remove_old(3).unwrap();
    let expected = [&names[0], &names[4], &names[5]];
    assert_eq!(kept_names(&artefacts).iter().collect::<Vec<_>>(), expected);
    let mut others = artefacts.names().unwrap();
    others.retain(|name| !name.ends_with(".cwasm") && name != "." && name != "..");
    others.sort();
    assert_eq!(others, [".lock", "note.txt"]);
}

#[test]
fn compiled_component_that_a_process_uses_is_not_removed() {
    let (directory, artefacts) = artefacts();
    let place = directory.path();
    let oldest = keep_used(&artefacts, place, "e0", 0);
    let used = artefacts.verified("python-0000000000000000-e0-").unwrap().unwrap();
    let middle = keep_used(&artefacts, place, "e1", 1);
    let newest = keep_used(&artefacts, place, "e2", 2);
    let path = place.join("compiled").join(&oldest);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    artefacts.remove_old(1).unwrap();
    assert_eq!(kept_names(&artefacts), [oldest, newest.clone()], "not {middle}");
    drop(used);
    artefacts.remove_old(1).unwrap();
    assert_eq!(kept_names(&artefacts), [newest]);
}

#[test]
fn component_that_was_removed_after_it_was_opened_counts_as_missing() {
    let (directory, artefacts) = artefacts();
    let name = keep_used(&artefacts, directory.path(), "e0", 0);
    let path = directory.path().join("compiled").join(name);
    let open = File::open(&path).unwrap();
    assert!(InUse::mark(open.try_clone().unwrap()).unwrap().is_some());
    std::fs::remove_file(&path).unwrap();
    assert!(InUse::mark(open).unwrap().is_none());
    assert!(artefacts.verified("python-0000000000000000-e0-").unwrap().is_none());
}

#[test]
fn directory_is_the_callers_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("compiled");
    Artefacts::open_at(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = Artefacts::open_at(&path).err().unwrap();
    assert!(matches!(error, WasmError::Untrusted { .. }), "{error}");
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(Artefacts::open_at(&link).is_err());
}
