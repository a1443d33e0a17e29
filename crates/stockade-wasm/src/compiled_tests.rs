use std::os::unix::fs::PermissionsExt;

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
