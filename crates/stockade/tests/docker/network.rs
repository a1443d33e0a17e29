//! Egress from a container without a network: allowed by name, everything else denied.

use crate::support::{internet, run, tests};

tests![
    allowed_host_is_reached_by_curl_with_and_without_the_proxy,
    allowed_host_is_reached_by_requests_with_and_without_the_proxy,
    other_host_is_denied_with_the_reason,
    large_download_arrives_complete,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

fn allowed_host_is_reached_by_curl_with_and_without_the_proxy(runtime: &'static str) {
    let Some(internet) = internet() else { return };
    let body = format!("{} files.test\n", internet.token());
    for flags in [&[][..], &["--noproxy", "*"]] {
        for url in ["http://files.test/", "https://files.test/"] {
            let words = [&["curl", "-sS", "-k", "-m", "20"], flags, &[url]].concat();
            let run = run(runtime, &FILES, &words);
            assert_eq!(run.text(), body, "{words:?}");
        }
    }
}

fn allowed_host_is_reached_by_requests_with_and_without_the_proxy(runtime: &'static str) {
    let Some(internet) = internet() else { return };
    let script = "
import os, sys, urllib3, requests
urllib3.disable_warnings()
session = requests.Session()
session.trust_env = sys.argv[1] == 'proxy'
for scheme in ['http', 'https']:
    print(session.get(scheme + '://files.test/', verify=False, timeout=20).text, end='')
";
    let body = format!("{} files.test\n", internet.token()).repeat(2);
    for way in ["proxy", "direct"] {
        let run = run(runtime, &FILES, &["python3", "-c", script, way]);
        assert_eq!(run.text(), body, "{way}");
    }
}

fn other_host_is_denied_with_the_reason(runtime: &'static str) {
    let Some(internet) = internet() else { return };
    let denied = ["curl", "-sS", "-m", "20", "http://93-184-200-7.ip.test/"];
    let open = run(runtime, &["--allow-host", "*.ip.test"], &denied);
    assert!(open.text().contains(internet.token()), "{open:?}");
    let by_proxy = run(runtime, &FILES, &denied);
    assert!(by_proxy.stdout.contains("how_to_allow"), "{by_proxy:?}");
    let by_name = run(runtime, &FILES, &[&denied[..], &["--noproxy", "*"]].concat());
    assert_ne!(by_name.code, 0, "{by_name:?}");
    for run in [by_proxy, by_name, run(runtime, &[], &denied)] {
        assert!(!run.stdout.contains(internet.token()), "{run:?}");
        assert!(!run.stderr.contains(internet.token()), "{run:?}");
    }
}

fn large_download_arrives_complete(runtime: &'static str) {
    if internet().is_none() {
        return;
    }
    let script = "curl -sS -m 60 --noproxy '*' 'http://files.test/large?bytes=3000000' | wc -c";
    assert_eq!(run(runtime, &FILES, &["sh", "-c", script]).text().trim(), "3000000");
}
