//! Egress from a machine without a network device: allowed by name, everything else denied.

use crate::support::{Scratch, internet, run, tests};

tests![
    allowed_host_is_reached_with_and_without_the_proxy_and_another_is_denied,
    requests_inside_tls_are_judged_and_a_secret_replaces_its_placeholder,
];

fn allowed_host_is_reached_with_and_without_the_proxy_and_another_is_denied() {
    let Some(internet) = internet() else { return };
    let script = "
curl -sS -k -m 30 https://files.test/
curl -sS -k -m 30 --noproxy '*' http://files.test/
curl -sS -m 30 --noproxy '*' 'http://files.test/large?bytes=3000000' | wc -c
curl -sS -m 30 http://93-184-200-7.ip.test/
curl -sS -m 30 --noproxy '*' http://93-184-200-7.ip.test/ || echo unreachable
";
    let flags = ["--allow-host", "files.test", "--timeout", "120s"];
    let denied = run(&flags, &["--", "sh", "-c", script]);
    let body = format!("{} files.test\n", internet.token());
    assert!(denied.stdout.starts_with(&format!("{body}{body}3000000\n")), "{denied:?}");
    assert!(denied.stdout.contains("how_to_allow"), "{denied:?}");
    assert!(denied.stdout.ends_with("unreachable\n"), "{denied:?}");
    assert_eq!(denied.stdout.matches(internet.token()).count(), 2, "{denied:?}");
    // The denied host is there: a policy that names it reaches it.
    let script = "curl -sS -m 30 http://93-184-200-7.ip.test/";
    let open = run(&["--allow-host", "*.ip.test"], &["--", "sh", "-c", script]);
    assert!(open.text().contains(internet.token()), "{open:?}");
}

fn requests_inside_tls_are_judged_and_a_secret_replaces_its_placeholder() {
    const VALUE: &str = "sk-2f7C9a1E5b8D3c6A0e4B";
    if internet().is_none() {
        return;
    }
    let place = Scratch::new();
    let key = place.path().join("key");
    std::fs::write(&key, VALUE).expect("files of the test can be used");
    let secret = format!("API_KEY=file:{}@files.test", key.display());
    let flags = [
        &["--allow", "GET https://files.test/repos/**"][..],
        &["--allow", "GET https://files.test/echo", "--secret", &secret],
    ]
    .concat();
    // Every client trusts the authority of this run by itself.
    let script = "
import os, ssl, urllib.error, urllib.request
def ask(method, path):
    request = urllib.request.Request('https://files.test' + path, method=method)
    request.add_header('Authorization', 'Bearer ' + os.environ['API_KEY'])
    try:
        answer = urllib.request.urlopen(request, timeout=30)
        return answer.status, answer.read().decode().lower()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
status, body = ask('GET', '/echo')
print(status, 'authorization: bearer ***' in body, os.environ['API_KEY'] in body)
# The server has nothing there and says so; what is denied never reaches it.
print(ask('GET', '/repos/one')[0], ask('POST', '/repos/one')[0], ask('GET', '/upload')[0], flush=True)
os.execvp('curl', ['curl', '-sS', '-m', '30', '-o', '/dev/null', '-w', '%{http_code}',
                   'https://files.test/echo'])
";
    let judged = run(&flags, &["--", "python3", "-c", script]);
    assert_eq!(judged.text(), "200 True False\n404 403 403\n200", "{judged:?}");
    assert!(!judged.stdout.contains(VALUE), "{judged:?}");
    // The gate is what denies: without the pattern the same request passes.
    let script =
        "curl -sS -m 30 -o /dev/null -w '%{http_code}' -X POST https://files.test/repos/one";
    let open = run(&["--allow", "https://files.test/**"], &["--", "sh", "-c", script]);
    assert_eq!(open.text(), "404", "{open:?}");
}
