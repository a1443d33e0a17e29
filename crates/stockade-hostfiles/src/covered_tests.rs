use super::*;

fn show(host: &str, guest: &str, mode: Mode) -> Shown {
    let (host, guest) = (PathBuf::from(host), PathBuf::from(guest));
    Shown { host, guest, kind: TreeKind::Directory, mode }
}

#[test]
fn directories_between_a_writable_mount_and_a_covered_path_are_pinned() {
    let shown = [
        show("/srv/d", "/data", Mode::Write),
        show("/srv/d/a/ro", "/data/a/ro", Mode::Read),
        show("/srv/w", "/workspace", Mode::Overlay),
    ];
    let places = ["/data/x/y/.env", "/data/x/z", "/data/top", "/workspace/a/b", "/tmp/t"];
    let places = places.iter().map(Path::new).chain(shown.iter().map(|it| it.guest.as_path()));
    let expected = ["/data/a", "/data/x", "/data/x/y"].map(PathBuf::from);
    assert_eq!(pinned(places, &shown), expected);
}

#[test]
fn innermost_mount_decides_the_host_path_of_a_hidden_place() {
    let shown = [show("/srv/d", "/data", Mode::Write), show("/srv/r", "/data/r", Mode::Read)];
    let found = |place: &str| shown_at(Path::new(place), &shown).map(|(_, host)| host);
    assert_eq!(found("/data/r/x"), Some(PathBuf::from("/srv/r/x")));
    assert_eq!(found("/data/r"), Some(PathBuf::from("/srv/d/r")));
    assert_eq!(found("/data"), None);
}

#[test]
fn read_only_path_is_refused_if_another_mount_shows_it_writable() {
    let write = show("/nonexistent/d", "/data", Mode::Write);
    let nested = show("/nonexistent/d/ro", "/data/ro", Mode::Read);
    let elsewhere = show("/nonexistent/d/ro", "/ro", Mode::Read);
    let same = show("/nonexistent/d", "/same", Mode::Read);
    let second = show("/nonexistent/d", "/again", Mode::Write);
    let layered = show("/nonexistent/d/ro", "/workspace", Mode::Overlay);
    let other = show("/nonexistent/x", "/data/x", Mode::Read);
    let is_refused = |shown: &[&Shown]| {
        let shown: Vec<Shown> = shown.iter().map(|it| (*it).clone()).collect();
        refuse_read_below_writable(&shown, |guest, host| is_covered(&shown, guest, host)).is_err()
    };
    assert!(!is_refused(&[&write, &nested, &other]));
    assert!(!is_refused(&[&write, &nested, &elsewhere]));
    for wrong in [&elsewhere, &same, &layered] {
        assert!(is_refused(&[&write, wrong]), "{wrong:?}");
    }
    assert!(is_refused(&[&write, &nested, &second]));
}

#[test]
fn read_only_file_below_a_writable_directory_is_refused() {
    let write = show("/nonexistent/d", "/data", Mode::Write);
    let file = Shown { kind: TreeKind::File, ..show("/nonexistent/d/f", "/data/f", Mode::Read) };
    assert!(check_read_below_writable(&[write, file]).is_err());
}
