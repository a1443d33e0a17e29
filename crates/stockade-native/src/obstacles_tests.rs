use super::*;

/// An unprivileged user on a host that forbids nothing.
fn host() -> Knobs {
    let max_namespaces = [("user.max_user_namespaces".to_owned(), 15_000)].into();
    Knobs { max_namespaces, user_ids: Some(ALL_IDS), ..Knobs::default() }
}

fn born(errno: Errno, knobs: &Knobs) -> (String, String) {
    let Obstacle { reason, remedy } = of_birth("clone", Some(errno.raw_os_error()), knobs);
    (reason, remedy)
}

#[test]
fn zero_user_namespaces_name_the_sysctl_and_the_command() {
    let max_namespaces = [("user.max_user_namespaces".to_owned(), 0)].into();
    assert_eq!(
        born(Errno::NOSPC, &Knobs { max_namespaces, ..host() }),
        (
            "user namespaces are forbidden by the sysctl user.max_user_namespaces, which is 0"
                .to_owned(),
            "allow them as root: `sysctl -w user.max_user_namespaces=15000`".to_owned()
        )
    );
}

#[test]
fn another_kind_of_namespace_names_its_own_sysctl() {
    let max_namespaces = [
        ("user.max_net_namespaces".to_owned(), 0),
        ("user.max_user_namespaces".to_owned(), 15_000),
    ];
    let (reason, remedy) =
        born(Errno::NOSPC, &Knobs { max_namespaces: max_namespaces.into(), ..host() });
    assert_eq!(
        reason,
        "namespaces are forbidden by the sysctl user.max_net_namespaces, which is 0"
    );
    assert!(remedy.contains("`sysctl -w user.max_net_namespaces=15000`"), "{remedy}");
}

#[test]
fn reached_namespace_limit_is_named() {
    let (reason, _) = born(Errno::NOSPC, &host());
    assert!(reason.contains("user.max_*_namespaces is reached"), "{reason}");
}

#[test]
fn debian_sysctl_applies_to_all_but_root() {
    let knobs = Knobs { unprivileged_userns_clone: Some(0), ..host() };
    let (reason, remedy) = born(Errno::PERM, &knobs);
    assert_eq!(
        reason,
        "user namespaces are forbidden by the sysctl kernel.unprivileged_userns_clone, which is 0"
    );
    assert!(remedy.contains("`sysctl -w kernel.unprivileged_userns_clone=1`"), "{remedy}");
    assert!(remedy.contains("run Stockade as root"), "{remedy}");
    let as_root = born(Errno::PERM, &Knobs { is_root: true, ..knobs });
    assert_eq!(as_root, born(Errno::PERM, &host()));
}

#[test]
fn ubuntu_restriction_names_the_profile_at_clone_and_inside() {
    let knobs = Knobs { apparmor_restrict_unprivileged_userns: Some(1), ..host() };
    let (reason, remedy) = born(Errno::ACCESS, &knobs);
    assert!(
        reason.contains("kernel.apparmor_restrict_unprivileged_userns, which is 1"),
        "{reason}"
    );
    let inside = of_step("make_scratch", Some(Errno::ACCESS.raw_os_error()), &knobs);
    for remedy in [remedy, inside] {
        assert!(remedy.contains("stockade doctor --apparmor-profile"), "{remedy}");
        assert!(remedy.contains("apparmor_parser -r /etc/apparmor.d/stockade"), "{remedy}");
    }
    let off = Knobs { apparmor_restrict_unprivileged_userns: Some(0), ..host() };
    assert_eq!(born(Errno::ACCESS, &off), born(Errno::ACCESS, &host()));
}

#[test]
fn seccomp_filter_is_reported_before_any_sysctl() {
    let knobs = Knobs {
        clone_refused: Some(Errno::PERM.raw_os_error()),
        seccomp_filter: true,
        unprivileged_userns_clone: Some(0),
        ..host()
    };
    let (reason, remedy) = born(Errno::PERM, &knobs);
    assert!(reason.contains("a seccomp filter over the process that started"), "{reason}");
    assert!(remedy.contains("RestrictNamespaces="), "{remedy}");
    let knobs = Knobs { container: Some("/.dockerenv".to_owned()), ..knobs };
    let (reason, remedy) = born(Errno::PERM, &knobs);
    assert!(reason.contains("this container's seccomp profile"), "{reason}");
    assert!(remedy.contains("`--security-opt seccomp=unconfined`"), "{remedy}");
    assert!(remedy.contains("pivot_root"), "{remedy}");
}

#[test]
fn refused_clone3_is_named() {
    let knobs = Knobs { clone3_refused: Some(Errno::NOSYS.raw_os_error()), ..host() };
    let (reason, remedy) = born(Errno::NOSYS, &knobs);
    assert!(reason.starts_with("clone3, by which"), "{reason}");
    assert!(remedy.contains("clone3"), "{remedy}");
}

#[test]
fn kernel_without_user_namespaces_is_named() {
    let (reason, remedy) = born(Errno::INVAL, &host());
    assert_eq!(reason, "this kernel has no user namespaces");
    assert!(remedy.contains("CONFIG_USER_NS"), "{remedy}");
}

#[test]
fn root_of_a_small_user_namespace_gets_a_remedy() {
    let eperm = Some(Errno::PERM.raw_os_error());
    let root = |user_ids| Knobs { is_root: true, user_ids: Some(user_ids), ..host() };
    let small = of_birth("maps", eperm, &root(65_537));
    assert!(small.reason.contains("root has only 65537 user ids"), "{}", small.reason);
    assert!(small.remedy.contains("setpriv --reuid 65534"), "{}", small.remedy);
    let one = of_birth("maps", eperm, &root(1));
    assert!(one.remedy.contains("outside of this user namespace"), "{}", one.remedy);
    let of_a_host = of_birth("maps", eperm, &root(ALL_IDS));
    assert!(!of_a_host.reason.contains("user ids"), "{}", of_a_host.reason);
}

#[test]
fn container_that_covers_proc_names_the_option() {
    let eperm = Some(Errno::PERM.raw_os_error());
    let remedy = of_step("proc", eperm, &host());
    assert!(remedy.contains("systempaths=unconfined"), "{remedy}");
    let container = Knobs { container: Some("/.dockerenv".to_owned()), ..host() };
    let remedy = of_step("private_mounts", eperm, &container);
    assert!(remedy.contains("`private_mounts`"), "{remedy}");
    assert!(remedy.contains("apparmor=unconfined"), "{remedy}");
}

#[test]
fn root_with_a_wrong_file_type_differs_from_a_kernel_refusal() {
    let container = Knobs { container: Some("/.dockerenv".to_owned()), ..host() };
    for knobs in [host(), container] {
        for errno in [Errno::NOTDIR, Errno::LOOP, Errno::EXIST] {
            let remedy = of_step("file", Some(errno.raw_os_error()), &knobs);
            assert!(remedy.starts_with("the root that was given"), "{remedy}");
        }
        let remedy = of_step("file", Some(Errno::PERM.raw_os_error()), &knobs);
        assert!(remedy.contains("refuses `file`"), "{remedy}");
    }
}

#[test]
fn every_cause_has_its_own_message() {
    let causes = [
        born(Errno::NOSPC, &host()),
        born(Errno::USERS, &host()),
        born(Errno::INVAL, &host()),
        born(Errno::AGAIN, &host()),
        born(Errno::PERM, &host()),
        born(Errno::PERM, &Knobs { container: Some("x".to_owned()), ..host() }),
    ];
    for (at, cause) in causes.iter().enumerate() {
        assert!(!causes[at + 1..].iter().any(|other| other.0 == cause.0), "{cause:?}");
    }
}

#[test]
fn missing_nftables_differs_from_refused_nftables() {
    for errno in [Errno::PROTONOSUPPORT, Errno::OPNOTSUPP, Errno::NOENT] {
        let Obstacle { reason, remedy } = of_egress(Some(errno.raw_os_error()));
        assert!(reason.contains("no nftables"), "{reason}");
        assert!(remedy.contains("`modprobe -a nf_tables nft_chain_nat nft_nat`"), "{remedy}");
    }
    for errno in [Some(Errno::PERM.raw_os_error()), None] {
        let Obstacle { reason, remedy } = of_egress(errno);
        assert!(reason.contains("filter refuses"), "{reason}");
        assert!(remedy.contains("netlink"), "{remedy}");
    }
}
