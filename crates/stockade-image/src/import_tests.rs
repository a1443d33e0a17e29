use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use serde_json::{Value, json};
use stockade_archive::{ArchiveError, Refusal as InArchive};
use stockade_testing::image::{EntryType, Image, Layer, digest};

use super::*;
use crate::Refusal;

const LIMITS: Limits = Limits { bytes: 4 << 20, entries: 500 };
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar";

/// A store next to a file that no image may change.
struct TestStore {
    folder: tempfile::TempDir,
    store: Store,
}

fn place() -> TestStore {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("canary"), "safe").unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    TestStore { folder, store }
}

impl TestStore {
    fn bytes(&self, archive: &[u8]) -> Result<Imported, ImageError> {
        let path = self.folder.path().join("image.tar");
        fs::write(&path, archive).unwrap();
        self.store.import(&path, None, LIMITS)
    }

    fn layers(&self, layers: Vec<Layer>) -> Result<Imported, ImageError> {
        self.bytes(&image(layers).saved())
    }

    /// The directory that the only image was unpacked into.
    #[track_caller]
    fn root(&self) -> PathBuf {
        self.store.find("test:1").unwrap().root
    }

    /// Nothing was kept, and nothing outside was changed.
    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(self.store.list().unwrap(), []);
        let images = self.folder.path().join("store/images");
        assert_eq!(fs::read_dir(images).unwrap().count(), 0);
        self.is_safe();
    }

    #[track_caller]
    fn is_safe(&self) {
        assert_eq!(fs::read(self.folder.path().join("canary")).unwrap(), b"safe");
        let mut names: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["canary", "image.tar", "store"]);
    }
}

fn image(layers: Vec<Layer>) -> Image {
    Image::new("test:1", layers, json!({}))
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(content).unwrap();
    gzip.finish().unwrap()
}

#[track_caller]
fn refusal(place: &TestStore, result: Result<Imported, ImageError>) -> Refusal {
    place.is_clean();
    match result {
        Err(ImageError::Refused { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn in_archive(place: &TestStore, result: Result<Imported, ImageError>) -> InArchive {
    place.is_clean();
    match result {
        Err(ImageError::Archive { source: ArchiveError::Refused { refusal, .. }, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

use EntryType::{Block, Char, Directory, Fifo, Link, Regular, Symlink};

#[test]
fn saved_and_layout_archives_give_the_same_image_with_every_compression() {
    let lower =
        Layer::default().directory("usr/bin").file("usr/bin/tool", "one").link("bin", "usr/bin");
    let upper =
        Layer::default().file("bin/other", "two").entry("bin/same", Link, "usr/bin/tool", b"");
    let image = image(vec![lower, upper]);
    let zstd = |content: &[u8]| {
        ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
    };
    let plain = <[u8]>::to_vec;
    let archives = [
        image.saved(),
        image.layout(PLAIN, plain),
        image.layout(GZIP, gzip),
        image.layout("application/vnd.oci.image.layer.v1.tar+zstd", zstd),
    ];
    for archive in archives {
        let place = place();
        let imported = place.bytes(&archive).unwrap();
        assert_eq!((imported.id, imported.names), (image.id(), vec!["test:1".to_owned()]));
        let root = place.root();
        assert_eq!(fs::read_link(root.join("bin")).unwrap(), PathBuf::from("usr/bin"));
        assert_eq!(fs::read(root.join("usr/bin/other")).unwrap(), b"two", "through the link");
        let (one, same) = (root.join("usr/bin/tool"), root.join("usr/bin/same"));
        let (one, same) = (fs::metadata(one).unwrap(), fs::metadata(same).unwrap());
        assert_eq!((one.ino(), one.mtime()), (same.ino(), 1_700_000_000));
        place.is_safe();
    }
}

#[test]
fn whiteouts_hide_lower_layers_and_never_their_own() {
    let place = place();
    let lower = Layer::default()
        .file("a/one", "1")
        .file("a/two", "2")
        .file("b/old", "3")
        .file("b/deep/old", "4")
        .file("gone", "5");
    let upper = Layer::default()
        .file("a/.wh.one", "")
        .file("b/new", "6")
        // After an entry of the same directory: the position does not matter.
        .file("b/.wh..wh..opq", "")
        .file(".wh.gone", "")
        .file(".wh.never", "")
        .file("none/.wh.x", "")
        .directory("gone");
    place.layers(vec![lower, upper]).unwrap();
    let root = place.root();
    let names = |folder: &str| {
        let mut names: Vec<_> =
            fs::read_dir(root.join(folder)).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("a"), ["two"]);
    assert_eq!(names("b"), ["new"]);
    assert!(root.join("gone").is_dir());
    assert_eq!(names("."), ["a", "b", "gone"]);
}

#[test]
fn file_replaces_directory_and_directory_replaces_link() {
    let place = place();
    let lower = Layer::default().file("d/x", "1").link("l", "d").file("f", "2");
    let upper =
        Layer::default().file("d", "now a file").directory("l").file("l/y", "3").directory("f");
    place.layers(vec![lower, upper]).unwrap();
    let root = place.root();
    assert_eq!(fs::read(root.join("d")).unwrap(), b"now a file");
    assert!(root.join("l").symlink_metadata().unwrap().is_dir());
    assert!(root.join("l/y").is_file() && root.join("f").is_dir());
}

#[test]
fn absolute_and_climbing_names_are_refused() {
    for name in ["/etc/evil", "../canary", "a/../../canary", "..", "/"] {
        let place = place();
        let result = place.layers(vec![Layer::default().file(name, "bad")]);
        assert_eq!(in_archive(&place, result), InArchive::Name, "{name}");
    }
}

#[test]
fn nothing_is_written_through_a_link_that_leads_out() {
    for target in ["/", "../../../..", "../../../../..", "/proc/self/cwd", "/tmp"] {
        let place = place();
        let first = Layer::default().link("out", target);
        let second = Layer::default().file("out/canary", "bad").file("out/evil", "bad");
        let outcome = place.layers(vec![first, second]);
        place.is_safe();
        if outcome.is_ok() {
            // The kernel resolved the link as if the image were `/`.
            assert!(place.root().join("evil").exists(), "{target}");
        }
    }
}

#[test]
fn link_to_nothing_or_in_a_circle_is_refused_as_a_directory() {
    for layer in [
        Layer::default().link("a", "b").link("b", "a").file("a/x", "bad"),
        Layer::default().link("a", "missing").file("a/x", "bad"),
        Layer::default().file("a", "file").file("a/x", "bad"),
    ] {
        let place = place();
        let result = place.layers(vec![layer]);
        assert_eq!(refusal(&place, result), Refusal::Path);
    }
}

#[test]
fn hard_links_reach_only_files_of_the_image() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let up = format!("../../../../../../../..{}", secret.display());
    for target in [secret.to_str().unwrap(), &up, "missing", "dir", "", "x"] {
        let place = place();
        let layer = Layer::default().directory("dir").entry("x", Link, target, b"");
        let result = place.layers(vec![layer]);
        assert_eq!(refusal(&place, result), Refusal::HardLink, "{target}");
    }
    // Through a link the name means a file of the image, which is missing.
    let place = place();
    let folder = outside.path().to_str().unwrap();
    let layer = Layer::default().link("out", folder).entry("x", Link, "out/secret", b"");
    let result = place.layers(vec![layer]);
    assert_eq!(refusal(&place, result), Refusal::HardLink);
    assert_eq!(fs::metadata(&secret).unwrap().nlink(), 1);
}

#[test]
fn devices_are_left_out_and_set_id_bits_dropped_with_a_report() {
    let place = place();
    let layer = Layer::default()
        .entry("dev/sda", Block, "", b"")
        // The kernel's overlay takes this for a whiteout.
        .entry("dev/zero", Char, "", b"")
        .entry("fifo", Fifo, "", b"")
        .file(".wh..wh.plnk", "x")
        .owned("su", Regular, "", b"x", 0o6755, 0)
        .owned("shared", Directory, "", b"", 0o3777, 0)
        .owned("far", Regular, "", b"x", 0o600, 1_000_000);
    let imported = place.layers(vec![layer]).unwrap();
    assert_eq!((imported.left_out, imported.set_ids, imported.owners), (4, 2, 1));
    assert_eq!(imported.examples.len(), 7);
    let root = place.root();
    let mode = |name: &str| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("su"), mode("shared"), mode("far")), (0o755, 0o1777, 0o600));
    assert!(!root.join("dev").exists() && !root.join("fifo").exists());
    if rustix::process::geteuid().is_root() {
        assert_eq!(fs::metadata(root.join("far")).unwrap().uid(), 65_534);
    }
}

#[test]
fn whiteout_tricks_are_refused() {
    for layer in [
        // Would remove the parent, the directory itself, or something unnamed.
        Layer::default().file("a/.wh...", ""),
        Layer::default().file("a/.wh..", ""),
        Layer::default().file("a/.wh.", ""),
        // Is a directory, a link, or has content.
        Layer::default().file(".wh.a/b", "x"),
        Layer::default().directory(".wh.a"),
        Layer::default().link(".wh.a", "/etc"),
        Layer::default().file(".wh.a", "content"),
        // Removes what its own layer has, or not, depending on the reader.
        Layer::default().file("a", "x").file(".wh.a", ""),
        Layer::default().file("a/b", "x").file(".wh.a", ""),
    ] {
        let place = place();
        let result = place.layers(vec![Layer::default().file("canary", "kept"), layer]);
        assert_eq!(refusal(&place, result), Refusal::Whiteout);
    }
}

#[test]
fn whiteout_through_a_link_removes_nothing_outside() {
    let place = place();
    let outside = place.folder.path().to_str().unwrap().to_owned();
    let lower = Layer::default().link("out", &outside).link("up", "../../..");
    let upper = Layer::default()
        .file("out/.wh.canary", "")
        .file("up/.wh.canary", "")
        .file("out/.wh..wh..opq", "");
    place.layers(vec![lower, upper]).unwrap();
    place.is_safe();
}

#[test]
fn bombs_are_stopped_by_bytes_entries_and_depth() {
    let large = vec![0; 5 << 20];
    let bomb = image(vec![Layer::default().file("zeros", &large)]);
    let place = place();
    let archive = bomb.layout(GZIP, gzip);
    assert!(archive.len() < 64 << 10, "{}", archive.len());
    let result = place.bytes(&archive);
    assert_eq!(refusal(&place, result), Refusal::TooLarge);
    let half = Layer::default().file("zeros", vec![0; 3 << 20]);
    let result = place.layers(vec![half.clone(), half]);
    assert_eq!(refusal(&place, result), Refusal::TooLarge, "over all layers");
    let many =
        (0..501).fold(Layer::default(), |layer, number| layer.file(&format!("f{number}"), ""));
    let result = place.layers(vec![many]);
    assert_eq!(refusal(&place, result), Refusal::TooLarge);
    // Few entries can imply many directories.
    let implied = (0..12).fold(Layer::default(), |layer, number| {
        layer.file(&format!("{number}/{}f", "d/".repeat(45)), "")
    });
    let result = place.layers(vec![implied]);
    assert_eq!(refusal(&place, result), Refusal::TooLarge, "directories that names imply");
    // The same names, each time through a link to another directory.
    let mut again = Layer::default();
    for number in 0..12 {
        again = again
            .directory(&format!("{number}"))
            .link("l", &format!("{number}"))
            .file(&format!("l/{}f", "d/".repeat(45)), "");
    }
    let result = place.layers(vec![again]);
    assert_eq!(refusal(&place, result), Refusal::TooLarge, "directories that links multiply");
    // Names may be short where links make the tree deep.
    let mut deep = Layer::default();
    let name = "d/".repeat(40);
    for number in 0..8 {
        let from = if number == 0 { String::new() } else { format!("l{number}/") };
        deep = deep
            .directory(&format!("{from}{name}"))
            .link(&format!("l{}", number + 1), &format!("{from}{name}"));
    }
    let result = place.layers(vec![deep]);
    assert_eq!(refusal(&place, result), Refusal::TooDeep);
}

#[test]
fn remedy_for_a_deep_path_or_a_long_name_is_not_a_larger_size() {
    let place = place();
    for (name, expected) in
        [("d/".repeat(200) + "f", Refusal::TooDeep), ("n".repeat(300), Refusal::LongName)]
    {
        let long = Layer::default().entry("long", EntryType::GNULongName, "", name.as_bytes());
        let result = place.layers(vec![long.file("f", "")]);
        let error = result.as_ref().err().unwrap();
        assert!(!error.remedy().contains("--max-size"), "{}", error.remedy());
        assert_eq!(refusal(&place, result), expected);
    }
}

#[test]
fn error_for_a_bad_name_has_its_reason_once() {
    let place = place();
    let bad = Layer::default().entry("long", EntryType::GNULongName, "", b"../x");
    let error = place.layers(vec![bad.file("f", "")]).err().unwrap();
    let source = std::error::Error::source(&error).unwrap();
    let whole = format!("{error}: {source}");
    assert_eq!(whole.matches("absolute, empty, or has `..`").count(), 1, "{whole}");
}

#[test]
fn archive_that_changes_after_its_check_is_stopped_by_what_the_check_counted() {
    let place = place();
    let path = place.folder.path().join("image.tar");
    let noise: Vec<u8> = (0..64_u32 << 10).map(|number| (number % 251) as u8).collect();
    let good = image(vec![Layer::default().file("noise", noise)]);
    let archive = good.saved();
    fs::write(&path, &archive).unwrap();
    let many =
        (0..100).fold(Layer::default(), |layer, number| layer.file(&format!("f{number}"), ""));
    let deep = "d/".repeat(200) + "f\0";
    let deep = Layer::default().entry("long", EntryType::GNULongName, "", deep.as_bytes());
    for bomb in [Layer::default().file("zeros", vec![0; 3 << 20]), many, deep.file("f", "")] {
        let parcel = Parcel::open(&path).unwrap();
        let selected = select(&parcel).unwrap();
        let layer = &selected.layers[0];
        let checked = layer::check(&parcel, layer, &mut LIMITS.clone()).unwrap();
        let at = archive.windows(4096).position(|it| it == &good.layers[0][..4096]).unwrap();
        let bomb = gzip(&bomb.0);
        let changed = [&archive[..at], &bomb[..], &archive[at + bomb.len()..]].concat();
        fs::write(&path, &changed).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = File::open(folder.path()).unwrap();
        let done = &mut Unpacked::default();
        let result = layer::unpack(&parcel, layer, &checked, root.as_fd(), done);
        let is_expected = matches!(&result, Err(ImageError::Refused { refusal, .. })
                if [Refusal::TooLarge, Refusal::TooDeep].contains(refusal));
        assert!(is_expected, "{result:?}");
        assert!(!folder.path().join("d").exists(), "too deep to be removed again");
        fs::write(&path, &archive).unwrap();
    }
}

#[test]
fn directories_that_names_imply_are_open_to_all_users_of_the_image() {
    let place = place();
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let imported = place.layers(vec![Layer::default().file("a/b/file", "1")]);
    rustix::process::umask(before);
    imported.unwrap();
    for name in ["a", "a/b"] {
        let mode = fs::metadata(place.root().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{name}");
    }
}

#[test]
fn content_that_does_not_match_its_digest_is_refused() {
    let good = image(vec![Layer::default().file("a", "1")]);
    let changed = |archive: &[u8], from: &str, to: &str| {
        let text: Vec<u8> = archive.to_vec();
        let at = text.windows(from.len()).position(|it| it == from.as_bytes()).unwrap();
        [&text[..at], to.as_bytes(), &text[at + from.len()..]].concat()
    };
    let place = place();
    // The layer of a saved image.
    let mut other = good.clone();
    other.layers = vec![Layer::default().file("a", "2").0];
    let result = place.bytes(&other.saved());
    assert_eq!(refusal(&place, result), Refusal::Digest);
    // Its configuration.
    let result = place.bytes(&changed(&good.saved(), "2026-01-02", "2026-01-03"));
    assert_eq!(refusal(&place, result), Refusal::Digest);
    // The same in a layout: the configuration, and the manifest's size of a layer.
    let layout = good.layout(PLAIN, <[u8]>::to_vec);
    let result = place.bytes(&changed(&layout, "2026-01-02", "2026-01-03"));
    assert_eq!(refusal(&place, result), Refusal::Digest);
    let result =
        place.bytes(&changed(&layout, "\"schemaVersion\":2,\"c", "\"schemaVersion\":3,\"c"));
    assert_eq!(refusal(&place, result), Refusal::Digest);
    // A compressed layer whose content is another.
    let wrong = |_: &[u8]| gzip(&Layer::default().file("a", "2").0);
    let result = place.bytes(&good.layout(GZIP, wrong));
    assert_eq!(refusal(&place, result), Refusal::Digest);
    place.bytes(&good.saved()).unwrap();
}

#[test]
fn image_of_another_machine_is_refused() {
    for (key, value) in [("architecture", "s390x"), ("os", "windows")] {
        let place = place();
        let mut other = image(vec![Layer::default().file("a", "1")]);
        other.config[key] = json!(value);
        for archive in [other.saved(), other.layout(PLAIN, <[u8]>::to_vec)] {
            let result = place.bytes(&archive);
            let found = refusal(&place, result);
            assert!(matches!(&found, Refusal::Machine { found, .. } if found.contains(value)));
        }
    }
}

/// An archive of `docker save` with another manifest.
fn with_manifest(change: impl Fn(&mut Value)) -> Vec<u8> {
    let good = image(vec![Layer::default().file("a", "1")]);
    let config = good.config.to_string();
    let name = format!("{}.json", &good.id()[7..]);
    let mut manifest =
        json!([{ "Config": name, "RepoTags": ["test:1"], "Layers": ["0/layer.tar"] }]);
    change(&mut manifest);
    let archive = Layer::default().file(&name, config).file("0/layer.tar", &good.layers[0]);
    archive.file("manifest.json", manifest.to_string()).0
}

#[test]
fn wrong_manifests_are_refused_with_the_reason() {
    let place = place();
    let check = |change: fn(&mut Value), expected: Refusal| {
        let result = place.bytes(&with_manifest(change));
        assert_eq!(refusal(&place, result), expected);
    };
    check(|it| it[0]["Layers"] = json!(["0/layer.tar", "0/layer.tar"]), Refusal::Layers);
    check(|it| it[0]["Layers"] = json!([]), Refusal::Layers);
    check(|it| it[0]["Layers"] = json!(["../../etc/passwd"]), Refusal::Absent);
    check(|it| it[0]["Layers"] = json!(["/etc/passwd"]), Refusal::Absent);
    check(|it| it[0]["Config"] = json!("0/layer.tar"), Refusal::Digest);
    check(|it| *it = json!([it[0], it[0]]), Refusal::Several);
    check(|it| *it = json!([]), Refusal::Several);
    check(|it| it[0]["Layers"] = json!(vec!["0/layer.tar"; 300]), Refusal::TooLarge);
    check(|it| it[0]["RepoTags"] = json!(tags(65)), Refusal::Names);
    let result = place.bytes(&with_manifest(|it| *it = json!({ "not": "a list" })));
    assert!(matches!(refusal(&place, result), Refusal::Json { .. }));
    let named = place.bytes(&with_manifest(|it| it[0]["RepoTags"] = json!(tags(64))));
    assert_eq!(named.unwrap().names.len(), 64);
}

fn tags(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("test:{number}")).collect()
}

#[test]
fn tag_alone_in_a_layout_is_not_a_name() {
    let whole = "io.containerd.image.name";
    let other = "org.opencontainers.image.ref.name";
    for (annotations, expected) in [
        (json!({ whole: "docker.io/library/tool:1", other: "1" }), Some("tool:1")),
        (json!({ whole: "docker.io/library/tool:1", other: "python:3" }), Some("tool:1")),
        (json!({ other: "python" }), None),
        (json!({ other: "tool:1" }), Some("tool:1")),
        (json!({ other: "registry.test/tool" }), Some("registry.test/tool:latest")),
        (json!({}), None),
    ] {
        let place = place();
        let mut image = image(vec![Layer::default().file("a", "1")]);
        image.annotations = annotations.clone();
        let imported = place.bytes(&image.layout(PLAIN, <[u8]>::to_vec)).unwrap();
        assert_eq!(imported.names, Vec::from_iter(expected), "{annotations}");
    }
}

#[test]
fn archive_that_is_not_an_image_is_refused() {
    let place = place();
    let result = place.bytes(&Layer::default().file("etc/passwd", "x").0);
    assert_eq!(refusal(&place, result), Refusal::Layout);
    let result = place.bytes(b"not a tar archive");
    assert_eq!(in_archive(&place, result), InArchive::Truncated);
    let result = place.bytes(&gzip(&with_manifest(|_| ())));
    assert!(matches!(refusal(&place, result), Refusal::Kind { .. }));
    let twice = Layer::default().file("manifest.json", "[]").file("manifest.json", "[]").0;
    let result = place.bytes(&twice);
    assert_eq!(refusal(&place, result), Refusal::Twice);
    let large = Layer::default().file("manifest.json", vec![b' '; 5 << 20]).0;
    let result = place.bytes(&large);
    assert_eq!(refusal(&place, result), Refusal::TooLarge);
    let link = Layer::default().link("manifest.json", "/etc/passwd").0;
    let result = place.bytes(&link);
    assert_eq!(refusal(&place, result), Refusal::Layout);
}

#[test]
fn wrong_layouts_are_refused_with_the_reason() {
    let place = place();
    let good = image(vec![Layer::default().file("a", "1")]);
    let foreign = "application/vnd.oci.image.layer.nondistributable.v1.tar";
    for media_type in [foreign, "application/octet-stream", ""] {
        let result = place.bytes(&good.layout(media_type, <[u8]>::to_vec));
        assert!(matches!(refusal(&place, result), Refusal::Kind { .. }), "{media_type}");
    }
    let index = |index: Value| {
        let archive = Layer::default().file("oci-layout", "{}");
        archive.file("index.json", index.to_string()).0
    };
    let one = json!({ "digest": digest(b"x"), "size": 1 });
    for (manifests, expected) in [
        (json!([]), Refusal::Absent),
        (json!([one]), Refusal::Absent),
        (json!([one, one]), Refusal::Several),
        (json!([{ "digest": "sha256:../../x", "size": 1 }]), Refusal::Algorithm),
        (json!([{ "digest": "md5:00", "size": 1 }]), Refusal::Algorithm),
        (json!([{ "digest": digest(b"x"), "size": 1_u64 << 40 }]), Refusal::TooLarge),
    ] {
        let result = place.bytes(&index(json!({ "manifests": manifests })));
        assert_eq!(refusal(&place, result), expected, "{manifests}");
    }
    let result = place.bytes(&good.layout(PLAIN, |_| b"BZh91AY&SY".to_vec()));
    assert!(matches!(refusal(&place, result), Refusal::Kind { .. }));
    let cut = |content: &[u8]| gzip(content)[..40].to_vec();
    assert!(place.bytes(&good.layout(GZIP, cut)).is_err());
    place.is_clean();
}

#[test]
fn image_for_this_machine_is_found_among_others_and_attestations_in_nested_indexes() {
    let named = |text: &str| image(vec![Layer::default().file("machine", text)]);
    let (ours, other) = (named("ours"), || named("other").for_machine("s390x"));
    for (depth, name) in [(1, false), (2, true), (3, true)] {
        let place = place();
        let images = [other(), named("ours"), named("third").for_machine("riscv64")];
        let imported = place.bytes(&Image::nested_layout(&images, PLAIN, depth)).unwrap();
        assert_eq!(imported.id, ours.id(), "{depth}");
        let root = place.store.find(&imported.id).unwrap().root;
        assert_eq!(fs::read_to_string(root.join("machine")).unwrap(), "ours");
        // The name is that of the index around them all.
        assert_eq!(imported.names.contains(&"test:1".to_owned()), name, "{:?}", imported.names);
    }
    let place = place();
    for (images, depth, expected) in [
        (vec![named("one"), named("two")], 2, Refusal::Several),
        (vec![], 2, Refusal::Absent),
        (vec![named("ours")], 4, Refusal::TooLarge),
    ] {
        let result = place.bytes(&Image::nested_layout(&images, PLAIN, depth));
        assert_eq!(refusal(&place, result), expected, "{depth}");
    }
    let result = place.bytes(&Image::nested_layout(&[other()], PLAIN, 2));
    assert!(matches!(refusal(&place, result), Refusal::Machine { .. }));
}

#[test]
fn entries_without_owner_and_kinds_that_readers_disagree_on_are_refused() {
    let place = place();
    let mut blank = Layer::default().file("a", "");
    // The field of the user id, and the checksum over the header.
    blank.0[108..116].fill(0);
    let sum: u32 = blank.0[..148].iter().chain(&blank.0[156..512]).map(|it| u32::from(*it)).sum();
    blank.0[148..156].copy_from_slice(format!("{:06o}\0 ", sum + 8 * 32).as_bytes());
    let result = place.layers(vec![blank]);
    assert_eq!(refusal(&place, result), Refusal::Attributes);
    for layer in [
        Layer::default().entry("sparse", EntryType::GNUSparse, "", b""),
        Layer::default().entry("g", EntryType::XGlobalHeader, "", b"10 path=a\n"),
    ] {
        let result = place.layers(vec![layer]);
        assert_eq!(in_archive(&place, result), InArchive::Kind);
    }
    let result = place.layers(vec![Layer::default().entry("l", Symlink, "a", b"content")]);
    assert_eq!(in_archive(&place, result), InArchive::Size);
}

#[test]
fn name_of_the_caller_replaces_those_of_the_archive_and_bad_ones_are_no_names() {
    let place = place();
    let mut hostile = image(vec![Layer::default().file("a", "1")]);
    hostile.name = "--privileged".to_owned();
    let imported = place.bytes(&hostile.saved()).unwrap();
    assert!(imported.names.is_empty());
    let name = Reference::parse("mine").unwrap();
    let path = place.folder.path().join("image.tar");
    let imported = place.store.import(&path, Some(&name), LIMITS).unwrap();
    assert_eq!((imported.names, imported.was_there), (vec!["mine:latest".to_owned()], true));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn changed_archives_are_imported_or_refused_and_stay_inside(at in 0..20_000_usize, byte in 0_u8..) {
        let place = place();
        let mut archive = with_manifest(|_| ());
        let at = at % archive.len();
        archive[at] = byte;
        let _ = place.bytes(&archive);
        place.is_safe();
    }
}
