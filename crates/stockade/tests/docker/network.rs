//! Egress from a container without a network: allowed by name, everything else denied.

use crate::support::{internet, run, tests};

tests![
    allowed_host_is_reached_by_curl_with_and_without_the_proxy,
    allowed_host_is_reached_by_requests_with_and_without_the_proxy,
    other_host_is_denied_with_the_reason,
    large_download_arrives_complete,
    requests_inside_tls_are_judged_and_clients_trust_the_gate,
    program_without_variables_trusts_the_gate_by_the_bundle_of_the_image,
    secret_is_sent_to_its_host_and_a_copy_elsewhere_is_an_alarm,
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

fn requests_inside_tls_are_judged_and_clients_trust_the_gate(runtime: &'static str) {
    if internet().is_none() {
        return;
    }
    let flags = ["--allow", "GET https://files.test/echo"];
    let status = ["-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}"];
    let curl = |words: &[&str]| {
        run(runtime, &flags, &[&["curl"], &status[..], words].concat()).text().to_owned()
    };
    for version in ["--http1.1", "--http2"] {
        assert_eq!(curl(&[version, "https://files.test/echo"]), "200");
        assert_eq!(curl(&[version, "-X", "POST", "https://files.test/echo"]), "403");
        assert_eq!(curl(&[version, "--path-as-is", "https://files.test/echo/%2e%2e/"]), "403");
        // The second request of a connection.
        let both = ["https://files.test/echo", "-o", "/dev/null", "https://files.test/"];
        assert_eq!(curl(&[&[version], &both[..]].concat()), "200403");
    }
    let script = "
import requests, urllib.request
print(requests.get('https://files.test/echo', timeout=20).status_code)
print(urllib.request.urlopen('https://files.test/echo', timeout=20).status)
";
    let trusted = run(runtime, &flags, &["python3", "-c", script]);
    assert_eq!(trusted.text(), "200\n200\n");
}

fn program_without_variables_trusts_the_gate_by_the_bundle_of_the_image(runtime: &'static str) {
    if internet().is_none() {
        return;
    }
    let curl = ["env", "-i", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}"];
    let curl = [&curl[..], &["https://files.test/echo"]].concat();
    let inspected = ["--allow-host", "files.test", "--inspect"];
    let trusted = run(runtime, &inspected, &curl);
    assert_eq!(trusted.text(), "200", "{trusted:?}");
    // The image's own bundle has only the authorities of the world.
    let refused = run(runtime, &FILES, &curl);
    assert_eq!((refused.code, refused.stdout.as_str()), (60, "000"), "{refused:?}");
    // The rest of the directory is as in the image, and no program can change it.
    let list =
        "import os; print(*sorted(os.listdir('/etc/ssl/certs'))); open('/etc/ssl/certs/x', 'w')";
    let list = ["python3", "-c", list];
    let [own, plain] = [&inspected[..], &FILES].map(|flags| run(runtime, flags, &list));
    assert_eq!(own.stdout, plain.stdout);
    assert!(
        plain.stdout.split(' ').count() > 100 && own.stderr.contains("PermissionError"),
        "{own:?}"
    );
}

fn secret_is_sent_to_its_host_and_a_copy_elsewhere_is_an_alarm(runtime: &'static str) {
    const VALUE: &str = "sk-2f7C9a1E5b8D3c6A0e4B";
    if internet().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room for a key");
    let key = folder.path().join("key");
    std::fs::write(&key, VALUE).expect("the key can be written");
    let secret = format!("API_KEY=file:{}@files.test", key.display());
    let flags = ["--allow-host", "files.test", "--allow", "https://other.test/**"];
    let flags = [&flags[..], &["--secret", &secret]].concat();
    let script = "
import os, urllib.error, urllib.request
def ask(url):
    request = urllib.request.Request(url)
    request.add_header('Authorization', 'Bearer ' + os.environ['API_KEY'])
    try:
        return urllib.request.urlopen(request, timeout=20).read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
print('echoed', ask('https://files.test/echo').lower())
print('copied', ask('https://other.test/echo'))
print('plain', ask('http://files.test/echo'))
";
    let run = run(runtime, &flags, &["python3", "-c", script]);
    let (echoed, rest) = run.text().split_once("copied ").expect("both were asked");
    assert!(echoed.contains("authorization: bearer ***"), "{run:?}");
    assert_eq!(rest.matches("the placeholder of the secret API_KEY was in").count(), 2, "{run:?}");
    assert!(!run.stdout.contains(VALUE) && !run.stderr.contains(VALUE), "{run:?}");
}
