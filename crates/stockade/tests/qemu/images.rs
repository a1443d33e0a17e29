//! Images: built, listed, checked and removed.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Scratch, binary, data, finish, image, machines, tests, wait_for};

tests![
    image_is_listed_with_its_wall_and_the_same_packages_make_the_same_root,
    changed_image_is_refused_before_a_machine_starts,
    kernel_that_does_not_boot_ends_in_a_typed_error,
    kernel_that_hangs_ends_in_a_typed_error_within_the_deadline,
];

/// A command with images of its own.
fn with(place: &Scratch, words: &[&str]) -> crate::support::Run {
    finish(Command::new(binary()).args(words).env("XDG_DATA_HOME", place.path()))
}

fn image_is_listed_with_its_wall_and_the_same_packages_make_the_same_root() {
    let place = Scratch::new();
    let root = place.path().join("root");
    fs::create_dir_all(root.join("usr/bin")).expect("files of the test can be used");
    fs::write(root.join("usr/bin/program"), "#!/bin/sh\n").expect("files of the test can be used");
    // Not booted here, so any file is a kernel.
    let kernel = image().join("kernel").display().to_string();
    let from = format!("dir:{}", root.display());
    let built = ["one", "other"].map(|name| {
        let words = ["--json", "image", "build", "--vm", name, "--from", &from];
        with(&place, &[&words[..], &["--kernel", &kernel]].concat()).json()
    });
    assert_eq!(built[0]["files"], built[1]["files"]);
    assert_eq!(built[0]["id"], built[1]["id"]);
    let listed = with(&place, &["image", "ls"]);
    let rows: Vec<&str> = listed.text().lines().filter(|line| line.ends_with("qemu")).collect();
    assert_eq!(rows.len(), 2, "{listed:?}");
    assert_eq!(with(&place, &["image", "rm", "--vm", "one"]).text(), "one\n");
    let again = with(&place, &["image", "rm", "--vm", "one"]);
    assert_eq!(again.code, 125, "{again:?}");
    let listed = with(&place, &["image", "ls"]);
    assert!(listed.text().contains("other") && !listed.stdout.contains("one "), "{listed:?}");
}

fn changed_image_is_refused_before_a_machine_starts() {
    let place = Scratch::new();
    let machines = place.path().join("stockade/machines");
    fs::create_dir_all(&machines).expect("files of the test can be used");
    let from = data().join("stockade/machines/default");
    let copied = finish(Command::new("cp").arg("-r").arg(from).arg(&machines));
    assert_eq!(copied.code, 0, "{copied:?}");
    let root = machines.join("default/root.squashfs");
    let mut bytes = fs::read(&root).expect("files of the test can be used");
    bytes[5000] ^= 1;
    fs::remove_file(&root).expect("files of the test can be used");
    fs::write(&root, bytes).expect("files of the test can be used");
    let refused = with(&place, &["run", "--provider", "qemu", "--no-record", "--", "true"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("is not the file that was built"), "{refused:?}");
    assert!(refused.stderr.contains("image build --vm"), "{refused:?}");
}

fn kernel_that_does_not_boot_ends_in_a_typed_error() {
    let place = Scratch::new();
    let root = place.path().join("root/usr");
    fs::create_dir_all(root).expect("files of the test can be used");
    let from = format!("dir:{}/root", place.path().display());
    // The kernel of the package has its drivers as modules, which this image lacks.
    let kernel = image().join("kernel").display().to_string();
    let words = ["image", "build", "--vm", "default", "--from", &from, "--kernel", &kernel];
    assert_eq!(with(&place, &words).code, 0);
    let failed = with(&place, &["run", "--provider", "qemu", "--no-record", "--", "true"]);
    assert_eq!(failed.code, 125, "{failed:?}");
    assert!(failed.stderr.contains("the machine ended while it started"), "{failed:?}");
    assert!(failed.stderr.contains("Kernel panic"), "{failed:?}");
}

fn kernel_that_hangs_ends_in_a_typed_error_within_the_deadline() {
    let place = Scratch::new();
    let root = place.path().join("root/usr");
    fs::create_dir_all(root).expect("files of the test can be used");
    // The header of a kernel with one sector of setup code, which jumps to itself.
    let mut kernel = vec![0; 4096];
    kernel[0x1f1] = 1;
    kernel[0x200..0x208].copy_from_slice(b"\xeb\xfeHdrS\x02\x02");
    let file = place.path().join("kernel");
    fs::write(&file, kernel).expect("files of the test can be used");
    let (from, kernel) = (format!("dir:{}/root", place.path().display()), file.display());
    let kernel = kernel.to_string();
    let words = ["image", "build", "--vm", "default", "--from", &from, "--kernel", &kernel];
    assert_eq!(with(&place, &words).code, 0);
    let began = Instant::now();
    let failed = with(&place, &["run", "--provider", "qemu", "--no-record", "--", "true"]);
    assert_eq!(failed.code, 125, "{failed:?}");
    assert!(failed.stderr.contains("the machine did not answer within 45 s"), "{failed:?}");
    assert!(failed.stderr.contains("its console's last lines:"), "{failed:?}");
    // One boot and not two.
    assert!(began.elapsed() < Duration::from_secs(80), "{:?}", began.elapsed());
    wait_for("the end of the machine", || (machines() == 0).then_some(()));
}
