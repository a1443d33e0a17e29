//! The effect of allow and block lists.

use crate::support::{
    Place, Token, Watch, command, direct, finish, inside, internet, reaches_only_without_wall,
    tests, try_policy, with_policy,
};

tests![
    h16_redirects_are_judged_like_any_request,
    h22_bytes_after_an_upgrade_reach_only_its_host,
    h23_method_and_path_rules_judge_every_request,
    h24_wildcards_match_only_subdomains,
    h25_blocked_host_wins_over_an_allowed_one,
    h25_blocked_address_is_not_reached_by_an_allowed_name,
    h25_empty_and_missing_lists_allow_nothing,
    network_default_allow_reaches_only_public_hosts,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

fn curl<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["curl", "-sS", "-k", "-m", "10"], words].concat()
}

fn body(host: &str) -> String {
    format!("{} {host}\n", internet().token())
}

fn h16_redirects_are_judged_like_any_request() {
    let place = Place::new();
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://files.test/redirect?to={scheme}://{}/", place.name);
        let run = reaches_only_without_wall(&place, &FILES, &curl(&["-L", &url]));
        assert!(run.stderr.contains("stockade: denied"), "{run:?}");
        // Only the client follows redirects, not the gate.
        let run = inside(&FILES, &curl(&[&url]));
        assert_eq!(run.text(), "elsewhere\n");
    }
    for to in ["http://169.254.169.254/", "http://127.0.0.1/", "file:///etc/hostname"] {
        let run = inside(&FILES, &curl(&["-L", &format!("http://files.test/redirect?to={to}")]));
        assert!(!run.has_token(), "{to}: {run:?}");
    }
}

fn h22_bytes_after_an_upgrade_reach_only_its_host() {
    let place = Place::new();
    let script = "
import os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
talk = socket.create_connection((proxy.hostname, proxy.port), 5)
talk.sendall(b'GET http://files.test/ws HTTP/1.1\\r\\nHost: files.test\\r\\nUpgrade: websocket\\r\\n'
             b'Connection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAA\\r\\n\\r\\n')
print(talk.recv(4096)[:12])
talk.sendall(f'GET http://{sys.argv[1]}/ HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n'.encode())
talk.settimeout(1)
try:
    print(talk.recv(4096))
except TimeoutError:
    print('nothing')
";
    let watch = Watch::start();
    let run = inside(&FILES, &["python3", "-c", script, &place.name]);
    assert!(!run.has_token(), "{run:?}");
    assert_eq!(watch.to(&place), []);
}

fn h23_method_and_path_rules_judge_every_request() {
    for (scheme, port) in [("http", 80), ("https", 443)] {
        let policy = format!(
            "network_allowlist:\n  - {{ host: files.test, ports: [{port}], methods: [GET] }}\n"
        );
        let url = format!("{scheme}://files.test/");
        let allowed = try_policy(&policy, &curl(&[&url]));
        assert_eq!(allowed.text(), body("files.test"), "{allowed:?}");
        let post = curl(&["-X", "POST", &url]);
        assert!(direct(&post).has_token(), "{url} on the machine");
        let denied = try_policy(&policy, &post);
        assert!(!denied.has_token(), "{denied:?}");
        assert!(denied.stdout.contains("network_requests"), "{denied:?}");
    }
}

fn h24_wildcards_match_only_subdomains() {
    let below = ["--allow-host", "*.files.test"];
    for name in ["www.files.test", "a.b.files.test"] {
        let url = format!("https://{name}/");
        assert_eq!(inside(&below, &curl(&[&url])).text(), body(name));
    }
    for name in ["files.test", "evilfiles.test", "files.test.evil.test"] {
        let url = format!("https://{name}/");
        assert_eq!(direct(&curl(&[&url])).text(), body(name));
        for words in [curl(&[&url]), curl(&["--noproxy", "*", &url])] {
            let run = inside(&below, &words);
            assert!(!run.has_token() && run.code != 0, "{name}: {run:?}");
        }
    }
    for wide in ["*", "*.com", "*.co.uk", "*.*.test", "a*.files.test", "93.184.*", ""] {
        let run = finish(command(&["--allow-host", wide], &["true"]));
        assert_eq!(run.code, 125, "{wide}: {run:?}");
        assert!(run.stderr.contains("--allow-host"), "{wide}: {run:?}");
    }
}

fn h25_blocked_host_wins_over_an_allowed_one() {
    let flags = ["--allow-host", "*.files.test", "--block-host", "www.files.test"];
    let allowed = curl(&["https://a.files.test/"]);
    assert_eq!(inside(&flags, &allowed).text(), body("a.files.test"));
    for words in [
        curl(&["https://www.files.test/"]),
        curl(&["--noproxy", "*", "https://www.files.test/"]),
        curl(&["https://WWW.files.test./"]),
    ] {
        assert!(direct(&words).has_token());
        let run = inside(&flags, &words);
        assert!(!run.has_token() && run.code != 0, "{run:?}");
    }
    let both = ["--block-host", "files.test", "--allow-host", "files.test"];
    assert!(!inside(&both, &curl(&["https://files.test/"])).has_token());
}

fn h25_blocked_address_is_not_reached_by_an_allowed_name() {
    let place = Place::new();
    let [a, b, c, _] = place.address.octets();
    let range = format!("{a}.{b}.{c}.0/24");
    let url = format!("http://{}/", place.name);
    assert!(inside(&["--allow-host", &place.name], &curl(&[&url])).has_token());
    for blocked in [range, place.address.to_string()] {
        let flags = ["--allow-host", &place.name, "--block-host", &blocked];
        let watch = Watch::start();
        let run = inside(&flags, &curl(&[&url]));
        assert!(!run.has_token(), "{run:?}");
        let dialled = watch.to_address(place.address.into());
        assert_eq!(dialled, [], "{run:?}");
    }
}

fn h25_empty_and_missing_lists_allow_nothing() {
    for policy in ["version: \"2\"\n", "network_allowlist: []\n", "network_blocklist: []\n"] {
        let words = curl(&["https://files.test/"]);
        let run = with_policy(policy, &words);
        assert!(!run.has_token() && run.code != 0, "{policy}: {run:?}");
    }
    let policy = "network_allowlist: [ files.test ]\nnetwork_ports: []\n";
    assert!(!with_policy(policy, &curl(&["https://files.test/"])).has_token());
}

fn network_default_allow_reaches_only_public_hosts() {
    let policy = "defaults: { network_default: allow }\nnetwork_blocklist: [ other.test ]\n";
    for words in [curl(&["https://files.test/"]), curl(&["--noproxy", "*", "https://files.test/"])]
    {
        assert_eq!(with_policy(policy, &words).text(), body("files.test"));
    }
    for url in [
        "https://other.test/",
        "https://private.test/",
        "https://meta.test/",
        "https://files.test:8443/",
    ] {
        let run = with_policy(policy, &curl(&[url]));
        assert!(!run.has_token() && run.code != 0, "{url}: {run:?}");
    }
}
