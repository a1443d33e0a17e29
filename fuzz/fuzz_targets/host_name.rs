//! Any bytes as a host: no panic, and what is accepted is canonical.

#![no_main]

use stockade_policy::{Host, HostPattern, UrlPath, parse_host_port};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(host) = Host::parse_bytes(data) {
        let printed = host.to_string();
        assert_eq!(Host::parse(&printed), Ok(host.clone()));
        assert_eq!(parse_host_port(&format!("{printed}:443")), Ok((host.clone(), Some(443))));
        if let Host::Name(name) = &host {
            let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
            assert!(name.as_str().bytes().all(plain));
            assert!((1..=253).contains(&name.as_str().len()));
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(pattern) = HostPattern::parse_blocked(text) {
            assert_eq!(HostPattern::parse_blocked(&pattern.to_string()), Ok(pattern));
        }
        if let Ok(path) = UrlPath::parse(text) {
            assert_eq!(UrlPath::parse(path.as_str()), Ok(path));
        }
    }
});
