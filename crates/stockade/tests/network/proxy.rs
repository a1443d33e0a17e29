//! The proxy inside, with malformed and hostile requests.

use crate::conversation::{Said, converse};
use crate::support::{Place, Watch, internet, tests};

tests![
    h07_other_ports_of_an_allowed_host_are_denied,
    h08_malformed_authorities_are_refused,
    h09_spellings_of_a_host_are_normalized_or_refused,
    h10_names_that_only_look_alike_are_refused,
    h17_host_header_must_match_the_target,
    h20_http2_is_refused,
    h21_ambiguous_requests_are_refused,
    h21_each_request_of_a_connection_is_judged,
    h21_smuggled_response_is_not_relayed,
    h29_proxy_does_not_connect_to_itself_or_to_the_machine,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

/// A plain request in absolute form.
fn get(target: &str, headers: &str) -> Said {
    Said::new(format!("GET {target} HTTP/1.1\r\n{headers}\r\n"))
}

/// A request to `files.test` with ambiguous headers.
fn doubtful(headers: &str, body: &str) -> Said {
    let head = "POST http://files.test/upload HTTP/1.1\r\nHost: files.test\r\n";
    Said::new(format!("{head}{headers}\r\n{body}"))
}

/// Sends these in one sandbox after a valid request, which must succeed; each must be refused.
#[track_caller]
fn all_refused(said: Vec<Said>) {
    let all = [vec![Said::connect("files.test:443")], said].concat();
    let heard = converse(&FILES, &all);
    assert_eq!(heard[0].status(), 200, "{:?}", heard[0]);
    for (said, heard) in all.iter().zip(&heard).skip(1) {
        let said = String::from_utf8_lossy(&said.bytes).into_owned();
        assert!(heard.is_refused(), "{said:?} was answered with {heard:?}");
        assert!(!heard.0.contains(internet().token()), "{said:?} was answered with {heard:?}");
    }
}

fn h07_other_ports_of_an_allowed_host_are_denied() {
    let watch = Watch::start();
    let said: Vec<Said> = [443, 80, 22, 25, 8080, 8443, 0, 65_535]
        .map(|port| Said::connect(format!("files.test:{port}")))
        .to_vec();
    let heard: Vec<u16> = converse(&FILES, &said).iter().map(|heard| heard.status()).collect();
    assert_eq!(heard[..6], [200, 200, 403, 403, 403, 403]);
    assert!(heard[6..].iter().all(|status| matches!(status, 400 | 403)), "{heard:?}");
    let wrong = |entry: &stockade_internet::LogEntry| {
        ["93.184.1.1:22", "93.184.1.1:25"].contains(&entry.to.as_str())
    };
    assert_eq!(watch.seen(wrong), []);
}

fn h08_malformed_authorities_are_refused() {
    let place = Place::new();
    let (evil, watch) = (place.name.as_str(), Watch::start());
    let authorities = [
        format!("files.test@{evil}:443"),
        format!("files.test:443@{evil}"),
        format!("files.test:443@{evil}:443"),
        format!("{evil}#files.test:443"),
        format!("{evil}#.files.test:443"),
        format!("{evil}?files.test:443"),
        format!("{evil}/files.test:443"),
        format!("{evil}\\files.test:443"),
        format!("{evil}:443#@files.test:443"),
        format!("{evil};files.test:443"),
        format!("{evil},files.test:443"),
        format!("[{evil}]:443"),
        format!("{evil}:443:443"),
        format!("{evil}:files.test"),
        "files.test".to_owned(),
        "files.test:".to_owned(),
        "files.test:0443".to_owned(),
        "files.test:+443".to_owned(),
        "files.test:443443".to_owned(),
        ":443".to_owned(),
        "http://files.test:443/".to_owned(),
    ];
    let requests = [
        format!("http://files.test@{evil}/"),
        format!("http://{evil}#files.test/"),
        format!("http://{evil}\\@files.test/"),
        format!("http://files.test:80@{evil}:80/"),
    ];
    let mut said: Vec<Said> = authorities.iter().map(Said::connect).collect();
    said.extend(requests.iter().map(|target| get(target, "Host: files.test\r\n")));
    all_refused(said);
    assert_eq!(watch.to(&place), []);
}

fn h09_spellings_of_a_host_are_normalized_or_refused() {
    let same = ["FILES.test:443", "Files.Test:443", "files.test.:443"];
    let same: Vec<Said> = same.iter().map(Said::connect).collect();
    for (said, heard) in same.iter().zip(converse(&FILES, &same)) {
        assert_eq!(heard.status(), 200, "{said:?}: {heard:?}");
    }
    let place = Place::new();
    let (evil, watch) = (place.name.as_str(), Watch::start());
    let long = format!("{}.files.test:443", "a".repeat(64));
    let longer = format!("{}files.test:443", "a.".repeat(127));
    let longest = format!("{}:443", "a".repeat(9000));
    let spellings: Vec<Vec<u8>> = vec![
        b"files.test..:443".to_vec(),
        b".files.test:443".to_vec(),
        b"a..files.test:443".to_vec(),
        b"files.test%2e:443".to_vec(),
        b"files%2etest:443".to_vec(),
        b"files.test%00:443".to_vec(),
        format!("{evil}%00.files.test:443").into_bytes(),
        format!("{evil}\0.files.test:443").into_bytes(),
        b"files.test\0:443".to_vec(),
        format!("{evil}\t.files.test:443").into_bytes(),
        b"files.test\t:443".to_vec(),
        format!("{evil}\r.files.test:443").into_bytes(),
        b"files.test\x7f:443".to_vec(),
        b"files.test\xff:443".to_vec(),
        b"[::1%25x.files.test]:443".to_vec(),
        b"::1%25x.files.test:443".to_vec(),
        long.into_bytes(),
        longer.into_bytes(),
        longest.into_bytes(),
        b"-files.test:443".to_vec(),
        b"*.test:443".to_vec(),
        b"*:443".to_vec(),
    ];
    all_refused(spellings.iter().map(Said::connect).collect());
    assert_eq!(watch.to(&place), []);
}

fn h10_names_that_only_look_alike_are_refused() {
    let watch = Watch::start();
    let names = [
        "files\u{3002}test",
        "files\u{ff0e}test",
        "fi\u{ad}les.test",
        "\u{fb01}les.test",
        "file\u{455}.test",
        "files.tes\u{2060}t",
        "xn--files-.test",
        "xn--files.test-",
        "xn--.test",
        "files.\u{212a}test",
    ];
    // A browser would normalize some of these to files.test; the proxy does not.
    let said = names.iter().map(|name| Said::connect(format!("{name}:443")));
    all_refused(said.collect());
    let strange = |entry: &stockade_internet::LogEntry| {
        entry.server == "dns" && (entry.name.contains("xn--") || !entry.name.is_ascii())
    };
    assert_eq!(watch.seen(strange), []);
}

fn h17_host_header_must_match_the_target() {
    let place = Place::new();
    let (evil, watch) = (place.name.as_str(), Watch::start());
    let target = "http://files.test/";
    let said = vec![
        get(target, &format!("Host: {evil}\r\n")),
        get(target, &format!("Host: files.test\r\nHost: {evil}\r\n")),
        get(target, "Host: files.test\r\nHost: files.test\r\n"),
        get(target, "Host: files.test:8080\r\n"),
        get(target, ""),
        get(target, &format!("Host: files.test, {evil}\r\n")),
        get("ftp://files.test/", "Host: files.test\r\n"),
        get("https://files.test/", "Host: files.test\r\n"),
        get("file:///etc/passwd", "Host: files.test\r\n"),
        get("/", "Host: files.test\r\n"),
        get("*", "Host: files.test\r\n"),
        get(&format!("http://{evil}/"), "Host: files.test\r\n"),
        Said::new(format!("CONNECT {evil}:443 HTTP/1.1\r\nHost: files.test:443\r\n\r\n")),
    ];
    all_refused(said);
    let honest = converse(&FILES, &[get(target, "Host: files.test\r\n")]);
    assert!(honest[0].0.contains(internet().token()), "{honest:?}");
    assert_eq!(watch.to(&place), []);
}

fn h20_http2_is_refused() {
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    all_refused(vec![
        Said::new([preface.as_bytes(), &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()),
        Said::new("CONNECT files.test:443 HTTP/2.0\r\nHost: files.test:443\r\n\r\n"),
        Said::new("GET http://files.test/ HTTP/3\r\nHost: files.test\r\n\r\n"),
    ]);
    // A client may offer h2c; the proxy responds with plain HTTP/1.1, or refuses.
    let offer = "Host: files.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
                 HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n";
    let heard = converse(&FILES, &[get("http://files.test/", offer)]);
    assert!(heard[0].is_refused() || heard[0].status() == 200, "{heard:?}");
}

fn h21_ambiguous_requests_are_refused() {
    let chunks = "0\r\n\r\n";
    all_refused(vec![
        doubtful("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunks),
        doubtful("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunks),
        doubtful("Transfer-Encoding: xchunked\r\n", chunks),
        doubtful("Transfer-Encoding : chunked\r\n", chunks),
        doubtful("Transfer-Encoding:\x0bchunked\r\n", chunks),
        doubtful("Transfer-Encoding: chunked, identity\r\n", chunks),
        doubtful("Content-Length: 3\r\nContent-Length: 5\r\n", "hello"),
        doubtful("Content-Length: +5\r\n", "hello"),
        doubtful("Content-Length: 5, 5\r\n", "hello"),
        doubtful("Content-Length: 0x5\r\n", "hello"),
        doubtful("Content-Length: -1\r\n", ""),
        doubtful("Content-Length: 99999999999999999999999\r\n", ""),
        doubtful("X: a\r\n b\r\n", ""),
        doubtful(" X: a\r\n", ""),
        doubtful("X\0: a\r\n", ""),
        doubtful("X: a\0b\r\n", ""),
        doubtful("no colon\r\n", ""),
        Said::new("GET http://files.test/ HTTP/1.1\nHost: files.test\n\n"),
        Said::new("GET http://files.test/ HTTP/1.1\r\nHost: files.test\n\r\n"),
        Said::new("GET http://files.test/\r\n\r\n"),
        Said::new("GET  http://files.test/ HTTP/1.1\r\nHost: files.test\r\n\r\n"),
        Said::new("GET http://files.test/ a HTTP/1.1\r\nHost: files.test\r\n\r\n"),
        Said::new("G\0T http://files.test/ HTTP/1.1\r\nHost: files.test\r\n\r\n"),
        Said::new(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS to the proxy \r\n\r\n"),
    ]);
}

fn h21_each_request_of_a_connection_is_judged() {
    let place = Place::new();
    let (evil, watch) = (place.name.as_str(), Watch::start());
    let first = "GET http://files.test/ HTTP/1.1\r\nHost: files.test\r\n\r\n";
    let second = format!("GET http://{evil}/ HTTP/1.1\r\nHost: {evil}\r\n\r\n");
    // Two requests at once; then the second in the place of a body.
    let hidden = format!(
        "GET http://files.test/ HTTP/1.1\r\nHost: files.test\r\nContent-Length: 0\r\n\r\n{second}"
    );
    let said = [format!("{first}{second}"), hidden]
        .map(|text| Said { bytes: text.into_bytes(), answers: 2 });
    for heard in converse(&FILES, &said) {
        let token = internet().token();
        assert_eq!(heard.0.matches(token).count(), 1, "{heard:?}");
        assert!(!heard.0.contains(&format!("{token} {evil}")), "{heard:?}");
    }
    assert_eq!(watch.to(&place), []);
}

fn h21_smuggled_response_is_not_relayed() {
    let flags = ["--allow-host", "smuggle.test", "--allow-host", "files.test"];
    let said: Vec<Said> =
        ["extra", "both", "twice", "plus", "chunk", "bare", "fold", "switch", "nothing"]
            .iter()
            .map(|kind| {
                let first = format!(
                    "GET http://smuggle.test/smuggle/{kind} HTTP/1.1\r\nHost: smuggle.test\r\n\r\n"
                );
                let second = "GET http://files.test/ HTTP/1.1\r\nHost: files.test\r\n\r\n";
                Said { bytes: format!("{first}{second}").into_bytes(), answers: 2 }
            })
            .collect();
    for (said, heard) in said.iter().zip(converse(&flags, &said)) {
        let smuggled = heard.0.contains("smuggled");
        assert!(!smuggled, "{:?}: {heard:?}", String::from_utf8_lossy(&said.bytes));
    }
}

fn h29_proxy_does_not_connect_to_itself_or_to_the_machine() {
    let own = std::net::TcpListener::bind("127.0.0.1:0").expect("the machine has a loopback");
    own.set_nonblocking(true).expect("a listener can be asked");
    let port = own.local_addr().expect("it has an address").port();
    let mut said = Vec::new();
    for host in
        ["127.0.0.54", "127.0.0.53", "127.0.0.1", "localhost", "[::1]", "sandbox", "0.0.0.0"]
    {
        for port in [3128, 53, 1, 443, 80, port] {
            said.push(Said::connect(format!("{host}:{port}")));
        }
    }
    all_refused(said);
    assert!(own.accept().is_err(), "the machine's loopback was reached");
}
