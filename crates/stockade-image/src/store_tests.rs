use serde_json::json;
use stockade_testing::image::{Image, Layer};

use super::*;
use crate::Limits;

fn image(name: &str, content: &str) -> Image {
    let layer = Layer::default().file("file", content).file("etc/passwd", "agent:x:7:8::/home:\n");
    Image::new(name, vec![layer], json!({ "Cmd": ["/file"] }))
}

struct TestStore {
    folder: tempfile::TempDir,
    store: Store,
}

fn place() -> TestStore {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    TestStore { folder, store }
}

impl TestStore {
    fn import(&self, image: &Image) -> crate::Imported {
        self.import_as(image, None)
    }

    fn import_as(&self, image: &Image, name: Option<&str>) -> crate::Imported {
        let path = self.folder.path().join("image.tar");
        image.save(&path);
        let name = name.map(|name| Reference::parse(name).unwrap());
        self.store.import(&path, name.as_ref(), Limits::default()).unwrap()
    }
}

#[test]
fn image_is_found_by_name_digest_and_digits_and_listed() {
    let place = place();
    let image = image("tool:1", "one");
    let imported = place.import(&image);
    assert_eq!((imported.id.as_str(), imported.was_there), (image.id().as_str(), false));
    assert_eq!(imported.names, ["tool:1"]);
    assert!(place.import(&image).was_there);
    let id = image.id();
    for wanted in ["tool:1", "docker.io/library/tool:1", &id, &id[7..], &id[7..19]] {
        let found = place.store.find(wanted).unwrap();
        assert_eq!(fs::read(found.root.join("file")).unwrap(), b"one", "{wanted}");
        assert_eq!(found.config.command, ["/file"]);
        assert_eq!(Store::passwd(&found).unwrap(), "agent:x:7:8::/home:\n");
    }
    for wanted in ["tool", "tool:2", &id[7..18], &digest_of("x")] {
        assert!(matches!(place.store.find(wanted), Err(ImageError::Missing { .. })), "{wanted}");
    }
    let listed = place.store.list().unwrap();
    let created = Some(1_767_323_045);
    let bytes = image.layers[0].len() as u64;
    let names = vec!["tool:1".to_owned()];
    assert_eq!(listed, [Listed { id, names, bytes, layers: Some(1), created }]);
}

fn digest_of(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}

#[test]
fn archive_takes_no_name_of_another_image() {
    let place = place();
    let (one, two) = (image("tool:1", "one"), image("tool:1", "two"));
    assert_eq!(place.import(&one).taken, []);
    let imported = place.import(&two);
    let taken = Taken { name: "tool:1".to_owned(), id: one.id() };
    assert_eq!((imported.names, imported.taken), (Vec::new(), vec![taken]));
    assert_eq!(place.store.find("tool:1").unwrap().id.to_string(), one.id());
    // An image may be imported again, and a removed one keeps no name.
    assert_eq!(place.import(&one).taken, []);
    place.store.remove(&one.id()).unwrap();
    let imported = place.import(&two);
    assert_eq!((imported.names, imported.taken), (vec!["tool:1".to_owned()], Vec::new()));
}

#[test]
fn name_moves_to_the_next_image_and_the_last_name_removes_the_files() {
    let place = place();
    let (one, two) = (image("tool:1", "one"), image("tool:1", "two"));
    place.import(&one);
    assert_eq!(place.import_as(&two, Some("tool:1")).taken, []);
    assert_eq!(place.store.find("tool:1").unwrap().id.to_string(), two.id());
    let unnamed = place.store.find(&one.id()).unwrap();
    let root = unnamed.root.clone();
    assert!(matches!(place.store.remove(&one.id()), Err(ImageError::InUse { .. })));
    drop(unnamed);
    place.store.remove(&one.id()).unwrap();
    assert!(!root.exists());
    place.store.remove("tool:1").unwrap();
    assert_eq!(place.store.list().unwrap(), []);
    assert!(matches!(place.store.remove("tool:1"), Err(ImageError::Missing { .. })));
    assert_eq!(fs::read_dir(&place.store.images).unwrap().count(), 0);
}

#[test]
fn names_that_could_not_be_read_again_are_not_written() {
    let place = place();
    let image = image("tool:1", "one");
    place.import(&image);
    let long = "n".repeat(200);
    let many: BTreeMap<String, String> =
        (0..20_000).map(|number| (format!("{long}{number}:1"), image.id())).collect();
    let written = place.store.write_names(&many);
    assert!(matches!(written, Err(ImageError::Full { .. })), "{written:?}");
    assert_eq!(place.store.find("tool:1").unwrap().id.to_string(), image.id());
}

#[test]
fn value_without_a_json_form_is_an_error_and_not_an_empty_file() {
    let path = Path::new("/store/facts");
    let text = json(path, &Facts { bytes: 1, layers: 2 }).unwrap();
    assert_eq!(text, br#"{"bytes":1,"layers":2}"#);
    // JSON has no keys but texts.
    let error = json(path, &BTreeMap::from([((1, 2), 3)])).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /store/facts");
}

#[test]
fn killed_import_is_not_an_image_and_is_removed_by_the_next() {
    let place = place();
    let new = place.store.images.join(NEW);
    fs::create_dir_all(new.join("root/usr")).unwrap();
    fs::write(new.join("config"), "{}").unwrap();
    assert_eq!(place.store.list().unwrap(), []);
    place.import(&image("tool:1", "one"));
    assert!(!new.exists());
    assert_eq!(place.store.list().unwrap().len(), 1);
}

#[test]
fn store_that_others_can_enter_or_that_was_changed_is_refused() {
    let place = place();
    let image = image("tool:1", "one");
    place.import(&image);
    let config = place.store.images.join(&image.id()[7..]).join("config");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("/file", "/evil")).unwrap();
    assert!(matches!(place.store.find("tool:1"), Err(ImageError::Corrupt { .. })));
    let directory = place.folder.path().join("store");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(Store::open(&directory), Err(ImageError::Unsafe { .. })));
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    Store::open(&directory).unwrap();
    let link = place.folder.path().join("link");
    std::os::unix::fs::symlink(&directory, &link).unwrap();
    assert!(matches!(Store::open(&link), Err(ImageError::Unsafe { .. })));
}

#[test]
fn store_is_in_the_users_data_directory() {
    let variable = |name: &str| match name {
        "XDG_DATA_HOME" => Some("/data".into()),
        _ => Some("/home/me".into()),
    };
    assert_eq!(store_directory(variable), Some("/data/stockade/images".into()));
    let home = |name: &str| (name == "HOME").then(|| "/home/me".into());
    assert_eq!(store_directory(home), Some("/home/me/.local/share/stockade/images".into()));
    assert_eq!(store_directory(|_| None), None);
}
