//! The requests of Stockade's client and of Azure's own Python library, compared one by one.
//!
//! `sdk-traffic.json` is what the library sent to the double: tests/sdk/drive.py recorded it, with
//! version 0.1.0b4. Where both do the same thing, method, path, query, media type and the fields of
//! the body agree, and the values that the act determines; each difference is listed here with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stockade_aca::{AcaOptions, sweep};
use stockade_azure_double::{Double, Logged};
use stockade_provider::{FilePart, FilePath, FileWriteMode, FileWriting, FinalLink};

use crate::support::{can_run, code, create, options, run};

/// What kind of request it is, by its method and the end of its path.
const KINDS: [(&str, &str, &str); 18] = [
    ("GET", "/providers/Microsoft.App/sandboxGroups/agents", "look at the group"),
    ("PUT", "/providers/Microsoft.App/sandboxGroups/agents", "create the group"),
    ("GET", "/operations/agents", "follow the operation"),
    ("PUT", "/sandboxes", "create"),
    ("GET", "/sandboxes", "list"),
    ("GET", "/sandboxes/{id}", "look"),
    ("DELETE", "/sandboxes/{id}", "delete"),
    ("POST", "/sandboxes/{id}/executeShellCommand", "execute"),
    ("GET", "/sandboxes/{id}/egress-decisions", "decisions"),
    ("POST", "/sandboxes/{id}/egresspolicy", "set the egress policy"),
    ("POST", "/sandboxes/{id}/stop", "stop"),
    ("POST", "/sandboxes/{id}/resume", "resume"),
    ("PUT", "/sandboxes/{id}/files", "write"),
    ("GET", "/sandboxes/{id}/files", "read"),
    ("DELETE", "/sandboxes/{id}/files", "remove"),
    ("GET", "/sandboxes/{id}/files/stat", "stat"),
    ("GET", "/sandboxes/{id}/files/list", "entries"),
    ("POST", "/sandboxes/{id}/files/mkdir", "make a directory"),
];

/// Requests that only the library sends, with the reason.
const ONLY_THEIRS: [(&str, &str); 2] = [
    ("set the egress policy", "ours travels in the create call, so no program runs without it"),
    ("stop", "Stockade never suspends a sandbox itself"),
];

/// Parts of a request that differ, with the reason.
const DIFFERENCES: [(&str, &str, &str); 2] = [
    (
        "create",
        "/body/lifecycle/autoDeletePolicy",
        "protects against orphans; the library sets it with a later call",
    ),
    ("create", "/body/labels", "each client has labels of its own"),
];

/// Parts of a request whose values agree too, for the same act.
const VALUES: [(&str, &str); 16] = [
    ("look at the group", "/path"),
    ("create the group", "/body"),
    ("create", "/path"),
    ("create", "/body/sourcesRef"),
    ("create", "/body/resources"),
    ("create", "/body/lifecycle/autoSuspendPolicy"),
    ("create", "/body/egressPolicy"),
    ("create", "/body/labels/agent_id"),
    ("write", "/query/path"),
    ("write", "/query/createDirs"),
    ("write", "/body"),
    ("read", "/query"),
    ("stat", "/query"),
    ("entries", "/query"),
    ("make a directory", "/body"),
    ("remove", "/query"),
];

/// A request without what differs between two runs: ids and values.
fn shape(request: &Logged) -> (String, Value) {
    let parts: Vec<&str> = request.path.split('/').collect();
    let parts = parts.iter().map(|part| if part.starts_with("sb-") { "{id}" } else { *part });
    let path = parts.collect::<Vec<_>>().join("/");
    let kind =
        KINDS.iter().find(|(method, end, _)| request.method == *method && path.ends_with(end));
    let kind = kind.map_or_else(|| format!("{} {path}", request.method), |it| it.2.to_owned());
    let names: BTreeSet<&String> = request.query.keys().collect();
    let shape = json!({
        "method": request.method,
        "path": path,
        "query": names,
        "version": request.query.get("api-version"),
        "content_type": request.content_type,
        "body": types(&request.body),
    });
    (kind, shape)
}

/// The value at `pointer` in each logged request of a kind.
fn values(log: &[Logged], kind: &str, pointer: &str) -> Vec<Value> {
    let of_kind = log.iter().filter(|it| shape(it).0 == kind);
    let part = |it: &Logged| it.to_json().pointer(pointer).cloned().unwrap_or_default();
    of_kind.map(part).collect()
}

/// A value with each leaf replaced by its type.
fn types(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => json!("truth"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(all) => all.first().map_or(json!([]), |first| json!([types(first)])),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), types(value))).collect()
        }
    }
}

/// The shapes of every request, by its kind.
fn shapes(log: &[Logged]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (kind, mut shape) in log.iter().filter(|it| is_of_service(it)).map(shape) {
        for (of_kind, pointer, _) in DIFFERENCES {
            if kind == of_kind {
                remove(&mut shape, pointer);
            }
        }
        all.entry(kind).or_default().insert(shape.to_string());
    }
    all
}

/// The kinds of the requests in their order. Two looks in a row are one wait.
fn kinds(log: &[Logged]) -> Vec<String> {
    let all = log.iter().filter(|it| is_of_service(it));
    let mut kinds: Vec<String> = all.map(|it| shape(it).0).collect();
    let is_wait = |kind: &str| matches!(kind, "look" | "follow the operation");
    kinds.dedup_by(|one, other| one == other && is_wait(one));
    kinds
}

fn is_of_service(request: &Logged) -> bool {
    !request.path.contains("oauth2")
}

fn recorded() -> Vec<Logged> {
    let text = include_str!("sdk-traffic.json");
    let file: Value = serde_json::from_str(text).expect("the double answers as asked");
    file["log"].as_array().expect("the double answers as asked").iter().map(logged).collect()
}

fn logged(entry: &Value) -> Logged {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    Logged {
        method: text("method"),
        host: text("host"),
        path: text("path"),
        query: serde_json::from_value(entry["query"].clone()).expect("the double answers as asked"),
        body: entry["body"].clone(),
        content_type: entry["content_type"].as_str().map(str::to_owned),
        status: 0,
    }
}

/// Removes a part of a value; whether it was there.
fn remove(value: &mut Value, pointer: &str) -> bool {
    let (above, name) = pointer.rsplit_once('/').expect("the double answers as asked");
    let above = value.pointer_mut(above).and_then(Value::as_object_mut);
    above.is_some_and(|above| above.shift_remove(name).is_some())
}

/// Does with our client what the recorded library did. Returns the requests of each act of ours.
async fn ours() -> Vec<(&'static str, Vec<Logged>)> {
    let mut acts: Vec<(&'static str, Vec<Logged>)> = Vec::new();
    let double = Double::without_group().expect("the double answers as asked");
    let ensure_group_location = Some("westus2".to_owned());
    let labels = vec![("agent_id".to_owned(), "agent-1".to_owned())];
    let options = AcaOptions { ensure_group_location, labels, ..options(&double) };
    let policy = "{defaults: {max_cpu: 0.5, max_memory_mb: 1024}, \
                  network_allowlist: [packages.example.net]}";
    let sandbox = create(&options, policy).await.expect("the double answers as asked");
    let mut seen = 0;
    let mut did = |act| {
        let log = double.log().split_off(seen);
        seen += log.len();
        acts.push((act, log));
    };
    did("create");
    let files = sandbox.files().expect("the double answers as asked");
    let path = |text: &str| FilePath::try_from(text).expect("the double answers as asked");
    let how = FileWriting { mode: FileWriteMode::Replace, executable: false };
    let content = Box::new(Cursor::new(b"hello".to_vec()));
    let file = path("/workspace/d/a b.txt");
    files.write(&file, how, content).await.expect("the double answers as asked");
    did("write");
    let read = files.read(&file, FilePart::default()).await;
    drop(read.expect("the double answers as asked"));
    did("read");
    files.stat(&file, FinalLink::Follow).await.expect("the double answers as asked");
    did("stat");
    files.list(&path("/workspace"), 1, 10).await.expect("the double answers as asked");
    did("entries");
    files.make_directory(&path("/workspace/e"), true).await.expect("the double answers as asked");
    did("mkdir");
    files.remove(&path("/workspace/d"), true).await.expect("the double answers as asked");
    did("remove");
    run(sandbox.as_ref(), code("print(1)")).await.output();
    did("execute");
    double.put_into("Suspended", None);
    run(sandbox.as_ref(), code("print(1)")).await.output();
    did("resume");
    sweep(&options).await.expect("the double answers as asked");
    did("list");
    sandbox.end().await.expect("the double answers as asked");
    did("delete");
    acts
}

fn all_of(acts: Vec<(&'static str, Vec<Logged>)>) -> Vec<Logged> {
    acts.into_iter().flat_map(|(_, log)| log).collect()
}

/// Every request of the recorded library, in order, by its act in tests/sdk/drive.py.
const THEIRS: [(&str, &[&str]); 18] = [
    ("group_missing", &["look at the group"]),
    ("group_create", &["create the group", "follow the operation", "look at the group"]),
    ("group_look", &["look at the group"]),
    ("create", &["create", "look"]),
    ("look", &["look"]),
    ("list", &["list"]),
    ("egress", &["look", "set the egress policy"]),
    ("write", &["write"]),
    ("read", &["read"]),
    ("stat", &["stat"]),
    ("entries", &["entries"]),
    ("mkdir", &["make a directory"]),
    ("execute", &["execute"]),
    ("decisions", &["decisions"]),
    ("remove", &["remove"]),
    ("stop", &["stop"]),
    ("resume", &["resume"]),
    ("delete", &["delete", "look"]),
];

/// Every request of ours, in order, by its act. Where it differs from that of the library, the
/// reason.
const OURS: [(&str, &[&str], &str); 11] = [
    (
        "create",
        &[
            "look at the group",
            "create the group",
            "follow the operation",
            "create",
            "look",
            "write",
            "execute",
        ],
        "the group is created in the same act and not looked at again; the runner is written and set up",
    ),
    ("write", &["write"], ""),
    ("read", &["read"], ""),
    ("stat", &["stat"], ""),
    ("entries", &["entries"], ""),
    ("mkdir", &["stat", "make a directory"], "the service does not tell that a directory exists"),
    ("remove", &["remove"], ""),
    (
        "execute",
        &["look", "write", "write", "execute", "read", "decisions"],
        "code and limits travel as files, a suspended sandbox would be resumed before, and the \
         decisions are read after",
    ),
    (
        "resume",
        &["look", "resume", "look", "write", "write", "execute", "read", "decisions"],
        "a sandbox is resumed for a program, and its egress policy compared again",
    ),
    ("list", &["list"], ""),
    ("delete", &["delete", "look"], ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_an_act_is_in_the_order_of_azures_own_library() {
    if !can_run() {
        return;
    }
    let mut theirs: Vec<&str> =
        THEIRS.iter().flat_map(|(_, kinds)| kinds.iter().copied()).collect();
    theirs.dedup_by(|one, other| one == other && *one == "look");
    assert_eq!(kinds(&recorded()), theirs);
    let ours = ours().await;
    let mut found: Vec<(&str, Vec<String>)> =
        ours.iter().map(|(act, log)| (*act, kinds(log))).collect();
    // A start also looks for what dead processes left, at the same time as the rest.
    let mut lists = 0;
    for (_, kinds) in found.iter_mut().filter(|(act, _)| *act != "list") {
        let before = kinds.len();
        kinds.retain(|kind| kind != "list");
        lists += before - kinds.len();
        // It may have come between two looks of one wait.
        kinds.dedup_by(|one, other| one == other && one == "look");
    }
    assert_eq!(lists, 1);
    let listed: Vec<(&str, Vec<String>)> = OURS
        .iter()
        .map(|(act, kinds, _)| (*act, kinds.iter().map(|it| (*it).to_owned()).collect()))
        .collect();
    assert_eq!(found, listed);
    for (act, kinds, reason) in OURS {
        let same = THEIRS.iter().any(|(name, of_act)| *name == act && *of_act == kinds);
        assert_eq!(same, reason.is_empty(), "{act}: a difference and its reason are listed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_requests_agree_with_those_of_azures_own_library_one_by_one() {
    if !can_run() {
        return;
    }
    let (theirs, ours) = (recorded(), all_of(ours().await));
    for (kind, pointer, reason) in DIFFERENCES {
        let has = |log: &[Logged]| {
            let mut of_kind = log.iter().map(shape).filter(|(found, _)| found == kind);
            of_kind.any(|(_, mut shape)| remove(&mut shape, pointer))
        };
        assert!(has(&ours) || has(&theirs), "{kind} {pointer} does not differ any more: {reason}");
    }
    let (mut theirs, ours) = (shapes(&theirs), shapes(&ours));
    for (kind, reason) in ONLY_THEIRS {
        assert!(theirs.remove(kind).is_some() && !ours.contains_key(kind), "{kind}: {reason}");
    }
    for (kind, shape) in &theirs {
        assert_eq!(ours.get(kind), Some(shape), "{kind}");
    }
    let unknown: Vec<&String> = ours.keys().filter(|kind| !theirs.contains_key(*kind)).collect();
    assert!(unknown.is_empty(), "the library has no such request: {unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn our_values_are_those_of_azures_own_library_for_the_same_acts() {
    if !can_run() {
        return;
    }
    let (theirs, ours) = (recorded(), all_of(ours().await));
    for (kind, pointer) in VALUES {
        let (wanted, found) = (values(&theirs, kind, pointer), values(&ours, kind, pointer));
        let first = wanted.first().filter(|it| !it.is_null());
        let first = first.unwrap_or_else(|| panic!("{kind} {pointer} is not in the recording"));
        assert!(found.contains(first), "{kind} {pointer}: {first} is not among {found:?}");
    }
    // One sandbox is created, so nothing of another create call can be what agrees.
    assert_eq!(values(&ours, "create", "/path").len(), 1);
    let version = |it: &Logged| it.query.get("api-version").cloned();
    let all: BTreeSet<_> = theirs.iter().map(version).collect();
    assert_eq!(all, BTreeSet::from([Some("2026-02-01-preview".to_owned())]));
    let ours = ours.iter().filter(|it| !it.path.contains("oauth2"));
    assert_eq!(ours.map(version).collect::<BTreeSet<_>>(), all);
}

/// Azure's library, installed once per host for the interpreter that `python3` names.
fn library() -> Result<PathBuf, String> {
    const LIBRARY: &str = "azure-containerapps-sandbox==0.1.0b4";
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or("there is no cache: neither XDG_CACHE_HOME nor HOME is set")?;
    let ask = "import sys; print(*sys.version_info[:2], sep='.')";
    let version = Command::new("python3").args(["-c", ask]).output();
    let version = version.map_err(|error| format!("cannot run python3: {error}"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let folder = cache.join("stockade").join(format!("azure-library-{version}-{LIBRARY}"));
    if folder.exists() {
        return Ok(folder);
    }
    let making = folder.with_extension(format!("{}.making", std::process::id()));
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--pre", "--only-binary", ":all:"]);
    let installed = install.arg("--target").arg(&making).arg(LIBRARY).output();
    let installed = installed.map_err(|error| format!("cannot run pip: {error}"))?;
    if !installed.status.success() {
        let _ = std::fs::remove_dir_all(&making);
        let why = String::from_utf8_lossy(&installed.stderr).trim().replace('\n', " ");
        return Err(format!("pip cannot install {LIBRARY}: {why}"));
    }
    // A concurrent run may have made the directory first; it is equivalent.
    if std::fs::rename(&making, &folder).is_err() {
        let _ = std::fs::remove_dir_all(&making);
    }
    Ok(folder)
}

/// Records the traffic of the library again and compares it. STOCKADE_BLESS=1 writes the file.
#[test]
fn recorded_traffic_is_what_azures_own_library_sends() {
    if !can_run() {
        return;
    }
    let library = match library() {
        Ok(library) => library,
        Err(reason) => return stockade_testing::skipped("clients", &reason),
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Cargo puts the executables of the workspace above those of the tests.
    let test = std::env::current_exe().expect("a test has a file");
    let double = test.parent().and_then(Path::parent).map(|it| it.join("stockade-azure-double"));
    let double = double.expect("tests are two directories below the target");
    assert!(double.is_file(), "build it: cargo build -p stockade-azure-double");
    let mut drive = Command::new("python3");
    drive.env("PYTHONPATH", library).arg(here.join("tests/sdk/drive.py")).arg(double);
    let run = drive.output();
    let run = run.expect("the double answers as asked");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let place = here.join("tests/wall/sdk-traffic.json");
    if std::env::var_os("STOCKADE_BLESS").is_some() {
        std::fs::write(place, &run.stdout).expect("the double answers as asked");
        return;
    }
    let found: Value = serde_json::from_slice(&run.stdout).expect("the double answers as asked");
    let found: Vec<Logged> =
        found["log"].as_array().expect("the double answers as asked").iter().map(logged).collect();
    assert_eq!(shapes(&found), shapes(&recorded()));
    assert_eq!(kinds(&found), kinds(&recorded()));
}
