//! A store of a test's own, and images made from programs of this host.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stockade_testing::image::{EntryType, Image, Layer};
use stockade_testing::{Run, Scratch, finish, under_test};

use crate::{binary, event};

/// Whether this host lets Stockade build a wall.
pub(crate) fn walls_can_be_built() -> bool {
    stockade_testing::walls_can_be_built(&under_test(env!("CARGO_BIN_EXE_stockade")))
}

/// An image with a shell, some programs, a user and a few files.
pub(crate) fn shell(name: &str, run: Value) -> Image {
    let mut lower = Layer::default();
    for program in ["/bin/sh", "/bin/bash", "/bin/cat", "/bin/ls", "/usr/bin/id", "/usr/bin/wc"] {
        lower = lower.program(program);
    }
    let upper = Layer::default()
        .link("bin/id", "/usr/bin/id")
        .link("bin/wc", "/usr/bin/wc")
        .directory("etc")
        .file("etc/passwd", "root:x:0:0::/:\nagent:x:1005:1006::/home/agent:\n")
        .directory("home")
        .owned("home/agent", EntryType::Directory, "", b"", 0o755, 1005)
        .owned("home/agent/private", EntryType::Regular, "", b"private\n", 0o600, 1005)
        .file("own", "the image's\n");
    Image::new(name, vec![lower, upper], run)
}

/// A directory with a store; dropping it removes both.
pub(crate) struct Place(Scratch);

impl Place {
    pub(crate) fn new() -> Place {
        Place(Scratch::new())
    }

    /// A store with one image.
    #[track_caller]
    pub(crate) fn with(image: &Image) -> Place {
        let place = Place::new();
        let file = place.path().join("image.tar");
        image.save(&file);
        let imported = place.image(&["import", file.to_str().expect("the path is text")]);
        assert_eq!(imported.text(), format!("{}\n", image.name), "{imported:?}");
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A `stockade` command with this store.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = binary();
        command.args(words);
        command.env("XDG_DATA_HOME", self.path().join("data"));
        command.env("XDG_STATE_HOME", self.path().join("state"));
        // Only the store: this host may have an engine with other images.
        command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        command
    }

    /// Runs `stockade image`.
    pub(crate) fn image(&self, words: &[&str]) -> Run {
        finish(self.command(&[&["image"], words].concat()))
    }

    /// Runs `stockade run --provider native --image` with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Run {
        finish(self.command(&[&["run", "--provider", "native", "--image"], words].concat()))
    }

    /// The digest of an image.
    pub(crate) fn id(&self, name: &str) -> Value {
        let listed = self.image(&["ls", "--json"]).json();
        let all = listed.as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|it| it["names"][0] == name);
        found.map(|it| it["id"].clone()).unwrap_or_default()
    }

    /// The first event of the latest record.
    pub(crate) fn first_event(&self) -> Value {
        let run = finish(self.command(&["audit", "show", "--json"]));
        let text = run.text();
        let first = text.lines().next().unwrap_or_default();
        match event(first) {
            Value::Null => event(text)[0].clone(),
            found => found,
        }
    }
}
