use std::path::Path;

use super::*;

fn policy(text: &str) -> Policy {
    Policy::parse_str("p", text, Path::new("/srv/p")).unwrap()
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn is_known(policy: &Policy, name: &str) -> bool {
    policy.judge_name(&host(name)).allows()
}

#[test]
fn a_name_resolves_if_some_port_of_it_is_open() {
    let listed = policy("network_allowlist: ['a.example.org:22', '*.example.net']");
    assert!(is_known(&listed, "a.example.org") && is_known(&listed, "x.example.net"));
    assert!(!is_known(&listed, "example.net") && !is_known(&listed, "b.example.org"));
    let verdict = listed.judge_name(&host("b.example.org"));
    assert_eq!(verdict.target, "b.example.org");
    assert_eq!(verdict.why, "network_allowlist does not name b.example.org");
    assert_eq!(verdict.change, "add `b.example.org` to network_allowlist");
    let public = policy("defaults: {network_default: allow}");
    assert!(is_known(&public, "anything.example.org"));
}

#[test]
fn blocked_names_and_metadata_never_resolve() {
    let open = "defaults: {network_default: allow}\nnetwork_allowlist: ['*.google.internal']\n";
    assert!(is_known(&policy(open), "x.google.internal"));
    assert!(is_known(&policy(open), "gist.example.org"));
    assert!(!is_known(&policy(open), "metadata.google.internal"));
    let blocking = policy(&format!("{open}network_blocklist: ['*.example.org']"));
    assert!(!is_known(&blocking, "gist.example.org"));
    let verdict = blocking.judge_outright(&host("gist.example.org")).unwrap();
    assert_eq!(verdict.control, Control::NetworkBlock);
    assert!(blocking.judge_outright(&host("x.google.internal")).is_none());
}

#[test]
fn combined_policies_resolve_a_name_only_with_a_common_port() {
    let one = policy("network_allowlist: ['a.example.org:22', 'b.example.org:443']");
    let two = policy("network_allowlist: ['a.example.org:443', 'b.example.org:443']");
    assert!(is_known(&one, "a.example.org") && is_known(&two, "a.example.org"));
    let both = one.combine(&two);
    assert!(is_known(&both, "b.example.org"));
    assert!(!is_known(&both, "a.example.org"));
    assert!(!is_known(&both.combine(&policy("{}")), "b.example.org"));
}

#[test]
fn the_protocol_is_what_every_gate_has_in_common() {
    let text = |protocol: &str| {
        format!("network_allowlist: [{{host: a.example.org, ports: [443], protocol: {protocol}}}]")
    };
    let spoken = |policies: &[&str]| {
        let policies: Vec<Policy> = policies.iter().map(|one| policy(one)).collect();
        Policy::combine_all(&policies).unwrap().protocol_for(&host("a.example.org"), 443)
    };
    let (tls, http, tcp) = (text("tls"), text("http"), text("tcp"));
    let web = "network_allowlist: [a.example.org]";
    let public = "defaults: {network_default: allow}";
    assert_eq!(spoken(&[web]), Some(Protocol::Web));
    assert_eq!(spoken(&[&tcp]), Some(Protocol::Tcp));
    assert_eq!(spoken(&[&tcp, web]), Some(Protocol::Web));
    assert_eq!(spoken(&[&tcp, &tls]), Some(Protocol::Tls));
    assert_eq!(spoken(&[public, &http]), Some(Protocol::Http));
    assert_eq!(spoken(&[&tls, &http]), None);
    assert_eq!(spoken(&[&tls, "{}"]), None);
}

#[test]
fn own_addresses_are_reachable_only_by_their_literal() {
    let own: IpAddr = "93.184.216.34".parse().unwrap();
    let judge = |text: &str, name: &str| {
        let policy = policy(text);
        let at = |verdict: Verdict| verdict.allows();
        let elsewhere = at(policy.judge_address(&host(name), 443, own));
        (elsewhere, at(policy.judge_own_address(&host(name), 443, own)))
    };
    assert_eq!(judge("network_allowlist: [a.example.org]", "a.example.org"), (true, false));
    let public = "defaults: {network_default: allow}";
    assert_eq!(judge(public, "93.184.216.34"), (true, false));
    assert_eq!(judge("network_allowlist: [93.184.216.34]", "93.184.216.34"), (true, true));
    let both = "network_allowlist: [a.example.org, 93.184.216.34]";
    assert_eq!(judge(both, "a.example.org"), (true, true));
}

#[test]
fn requests_are_judged_if_every_open_entry_restricts_them() {
    let text = "network_allowlist: [{host: a.example.org, ports: [80], methods: [GET]}, \
                b.example.org]";
    let looks = policy(text);
    assert!(looks.judges_requests(&host("a.example.org"), 80));
    assert!(!looks.judges_requests(&host("b.example.org"), 80));
    assert!(
        policy("{network_allowlist: [a.example.org]}")
            .combine(&looks)
            .judges_requests(&host("a.example.org"), 80)
    );
}

#[test]
fn remedy_for_a_request_to_a_host_of_a_flag_is_a_flag() {
    let text = "network_allowlist:\n  - { host: \"::1\", ports: [8080], protocol: http, \
                methods: [\"GET\"], paths: [\"/x\"], inspect: true }\n";
    let flags = [None, Some("--allow GET http://[::1]:8080/x".to_owned())];
    let by_flag = Policy::parse_flags(text, &flags, Path::new("/srv/p")).unwrap();
    let change = |policy: &Policy, method: &str, path: &str| {
        let (method, path) = (Method::parse(method).unwrap(), UrlPath::parse(path).unwrap());
        policy.judge_request(&host("::1"), 8080, &method, &path).change
    };
    let own = change(&by_flag, "POST", "/x");
    assert_eq!(own, "pass --allow 'POST http://[::1]:8080/x' too");
    assert_eq!(change(&by_flag, "GET", "/y"), "pass --allow 'GET http://[::1]:8080/y' too");
    assert_eq!(change(&policy(text), "POST", "/x"), "add POST to the methods of [::1]");
    assert_eq!(by_flag.flag_for(&host("::1"), 8080), Some("--allow GET http://[::1]:8080/x"));
    assert_eq!(by_flag.flag_for(&host("::1"), 8081), None);
    assert_eq!(policy(text).flag_for(&host("::1"), 8080), None);
}

#[test]
fn refused_request_names_every_entry_of_its_host_and_the_closest_as_the_rule() {
    let text = "network_allowlist:\n\
                - {host: a.example.org, methods: [GET], paths: ['/one/**']}\n\
                - {host: a.example.org, methods: [POST], paths: ['/two']}\n\
                - {host: a.example.org, methods: [POST], paths: ['/two']}\n";
    let judged = |policy: &Policy, method: &str, path: &str| {
        let (method, path) = (Method::parse(method).unwrap(), UrlPath::parse(path).unwrap());
        policy.judge_request(&host("a.example.org"), 443, &method, &path)
    };
    let both = "a.example.org is allowed for GET on /one/**; for POST on /two only";
    for (method, path, line, change) in [
        ("GET", "/two", 3, "add GET to the methods of a.example.org"),
        ("POST", "/one/a", 2, "add POST to the methods of a.example.org"),
        ("GET", "/three", 2, "add `/three` to the paths of a.example.org"),
    ] {
        let verdict = judged(&policy(text), method, path);
        assert!(!verdict.allows());
        assert_eq!((verdict.why.as_str(), verdict.change.as_str()), (both, change));
        assert_eq!(verdict.basis.origin().unwrap().line, line, "{method} {path}");
    }
    let many: String =
        (0..12).map(|number| format!("- {{host: a.example.org, paths: [/{number}]}}\n")).collect();
    let verdict = judged(&policy(&format!("network_allowlist:\n{many}")), "GET", "/x");
    assert!(verdict.why.ends_with("on /7 only; and by 4 more entries"), "{}", verdict.why);
}

#[test]
fn entry_that_names_more_than_ports_has_conditions() {
    for (entry, has) in [
        ("a.example.org", false),
        ("{host: a.example.org, ports: [8443]}", false),
        ("{host: a.example.org, inspect: true}", false),
        ("{host: a.example.org, methods: [GET]}", true),
        ("{host: a.example.org, paths: [/a]}", true),
        ("{host: a.example.org, protocol: tls}", true),
        ("{host: '*.example.org', methods: [GET]}", true),
        ("{host: b.example.org, methods: [GET]}", false),
    ] {
        let listed = policy(&format!("network_allowlist: [{entry}]"));
        assert_eq!(listed.has_conditions(&host("a.example.org")), has, "{entry}");
    }
}
