use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_provider::{
    Carried, Destination, Duplex, EntryProgram, Gateway, Root, SandboxRequest, chain,
};

use super::*;

#[derive(Debug)]
struct Carries(bool);

impl Gateway for Carries {
    fn serve(&self, _: Destination, _: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn carries(&self) -> Carried {
        Carried { network: false, tools: self.0 }
    }

    fn most_streams(&self) -> usize {
        0
    }
}

fn request(policy: &str, files: &[(&str, &[u8])]) -> SandboxRequest {
    let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec()));
    SandboxRequest {
        policy: Arc::new(Policy::parse_str("test", policy, Path::new("/srv")).unwrap()),
        root: Root::Standard,
        entry: EntryProgram::Program("true".to_owned()),
        protected: Vec::new(),
        gateway: Some(Arc::new(Carries(true))),
        tools: Some(ToolAccess { files: files.collect(), environment: Vec::new() }),
        authorities: None,
    }
}

fn refusal(request: &SandboxRequest) -> String {
    chain(&stockade_provider::Error::from(files(request).unwrap_err()))
}

#[test]
fn tool_files_are_planned_as_text_with_their_paths() {
    let wanted = request("{}", &[("tools.json", b"[]"), ("python/x.py", "é".as_bytes())]);
    let taken = files(&wanted).unwrap().unwrap();
    let file =
        |path: &str, content: &str| ToolFile { path: path.into(), content: content.to_owned() };
    assert_eq!(taken, [file("tools.json", "[]"), file("python/x.py", "é")]);
    assert_eq!(files(&SandboxRequest { tools: None, gateway: None, ..wanted }).unwrap(), None);
}

#[test]
fn tool_files_at_invalid_paths_are_refused() {
    for path in [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        ".",
        "tools.sock",
        "bin",
        "bin/sh",
        "bin/stockade-tool",
    ] {
        let said = refusal(&request("{}", &[(path, b"")]));
        assert!(said.contains("no place"), "{path}: {said}");
    }
    assert!(refusal(&request("{}", &[("a", b""), ("a", b"")])).contains("no place"));
    assert!(refusal(&request("{}", &[("a", b"\xff")])).contains("not UTF-8"));
}

#[test]
fn too_many_or_too_large_tool_files_are_refused() {
    let large = vec![b'x'; MOST_BYTES + 1];
    assert!(refusal(&request("{}", &[("a", &large)])).contains("at most 4194304"));
    let many: Vec<String> = (0..=MOST_FILES).map(|number| number.to_string()).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(refusal(&request("{}", &many)).contains("257 files"));
}

#[test]
fn policy_that_uses_the_tool_directory_is_refused() {
    for (policy, part) in [
        ("filesystem: {read: [{host: /usr, guest: /run/stockade}]}", "shows something else"),
        ("filesystem: {read: [{host: /usr, guest: /run/stockade/bin}]}", "shows something else"),
        ("filesystem: {hide: [/run/stockade]}", "filesystem.hide names /run/stockade"),
        ("filesystem: {hide: [/run/stockade/tools.json]}", "filesystem.hide names"),
    ] {
        let said = refusal(&request(policy, &[]));
        assert!(said.contains(part), "{policy}: {said}");
    }
    let beside = "filesystem: {read: [{host: /usr, guest: /run/stockades}], hide: [/run/other]}";
    assert_eq!(files(&request(beside, &[])).unwrap(), Some(Vec::new()));
}

#[test]
fn tools_without_a_broker_are_refused() {
    let mut wanted = request("{}", &[]);
    wanted.gateway = Some(Arc::new(Carries(false)));
    assert!(refusal(&wanted).contains("no tool broker answers"));
    wanted.gateway = None;
    assert!(refusal(&wanted).contains("no tool broker answers"));
}
