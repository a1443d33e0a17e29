use super::*;

#[test]
fn spellings_of_one_path_are_one_path() {
    for text in ["/data/a", "//data//a", "/data/./a", "/data/b/../a", "/data/a/", "/../data/a"] {
        assert_eq!(GuestPath::parse(text).unwrap().as_str(), "/data/a", "{text}");
    }
    assert_eq!(GuestPath::parse("notes.txt").unwrap().as_str(), "/workspace/notes.txt");
    assert_eq!(GuestPath::parse("../etc/shadow").unwrap().as_str(), "/etc/shadow");
    assert_eq!(GuestPath::parse("/..").unwrap().as_str(), "/");
}

#[test]
fn a_path_with_a_common_name_prefix_is_not_below() {
    let path = GuestPath::parse("/database").unwrap();
    assert!(!path.is_at_or_below("/data"));
    assert!(path.is_at_or_below("/"));
    let data = GuestPath::parse("/data").unwrap();
    assert_eq!(path.below(&data), None);
    assert_eq!(GuestPath::parse("/data/x/y").unwrap().below(&data), Some("x/y"));
    assert_eq!(data.below(&data), Some(""));
}

#[test]
fn impossible_paths_are_refused() {
    let long = format!("/{}", "x".repeat(256));
    let deep = "/x".repeat(2048);
    for text in ["", "/a\0b", "/a\nb", long.as_str(), deep.as_str()] {
        assert!(GuestPath::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn mounts_do_not_replace_the_sandboxs_own_places() {
    for text in
        ["/", "/proc", "/proc/self", "/sys/fs", "/dev/shm", "/usr", "/etc", "data", "/a/../b"]
    {
        assert!(GuestPath::parse_mount(text).is_err(), "{text}");
    }
    for text in ["/data", "/usr/share/dict", "/etc/ssl/certs", "/home/me/project", "/processes"] {
        assert!(GuestPath::parse_mount(text).is_ok(), "{text}");
    }
}

#[test]
fn relative_host_paths_start_at_the_policy_file() {
    let base = Path::new("/home/me/project");
    let path = |text| host_path(text, base, Access::Read).unwrap();
    assert_eq!(path("./corpus"), Path::new("/home/me/project/corpus"));
    assert_eq!(path("../data/"), Path::new("/home/me/data"));
    assert_eq!(path("/srv/data"), Path::new("/srv/data"));
    assert_eq!(path("."), base);
}

#[test]
fn host_trees_that_give_control_of_the_host_are_refused_in_every_spelling() {
    let base = Path::new("/");
    for text in [
        "/",
        "//",
        "/.",
        "/run",
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/proc/1/root",
        "/var/lib/docker",
        "/var/lib/docker/overlay2",
        "/root",
        "/home",
        "/home/me",
        "/etc",
        "/etc/shadow",
        "/srv/../root",
        "/etc/gshadow",
        "/home/me/.ssh/id_rsa",
        "/srv/x/.aws",
        "/srv/../run/user",
        "/dev/sda",
        "/sys/fs/cgroup",
        "/boot",
    ] {
        assert!(host_path(text, base, Access::Read).is_err(), "{text}");
    }
    for text in ["/etc/cron.d", "/usr/local/bin", "/lib/systemd", "/bin"] {
        assert!(host_path(text, base, Access::Write).is_err(), "{text}");
        assert!(host_path(text, base, Access::Read).is_ok(), "{text}");
    }
}

#[test]
fn credentials_are_never_mounted() {
    for text in ["/srv/x/.ssh", "/home/me/.aws/credentials", "/home/me/.config/gcloud/x"] {
        assert!(host_path(text, Path::new("/"), Access::Read).is_err(), "{text}");
    }
    for text in ["/srv/gcloud", "/srv/ssh", "/home/me/.config/app"] {
        assert!(host_path(text, Path::new("/"), Access::Read).is_ok(), "{text}");
    }
}

#[test]
fn nothing_in_a_host_path_is_expanded() {
    for text in ["~/x", "~root", "$HOME/x", "${HOME}", "/data/*", "/data/a?"] {
        let error = host_path(text, Path::new("/srv"), Access::Read).unwrap_err();
        assert!(!error.remedy().is_empty(), "{text}");
    }
}

#[test]
fn a_base_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let base = Path::new(std::ffi::OsStr::from_bytes(b"/srv/\xff"));
    assert!(host_path("data", base, Access::Read).is_err());
    assert_eq!(host_path("/data", base, Access::Read), Ok(PathBuf::from("/data")));
}
