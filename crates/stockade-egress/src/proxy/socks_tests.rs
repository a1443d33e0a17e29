use proptest::prelude::*;

use super::*;

fn by_name(name: &[u8]) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[5, 1, 0, 3, length], name, &[1, 0xbb]].concat()
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

#[test]
fn requests_by_name_and_by_address_are_parsed() {
    let request = |bytes: &[u8]| read_request(bytes).unwrap().unwrap();
    let expected = SocksRequest { host: host("a.example.org"), port: 443, bytes: 20 };
    assert_eq!(request(&by_name(b"A.Example.org")), expected);
    assert_eq!(request(&[5, 1, 0, 1, 192, 0, 2, 7, 0, 80]).host, host("192.0.2.7"));
    let v6 = [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
    assert_eq!(request(&v6).host, host("::1"));
    assert_eq!(request(&by_name(b"192.0.2.7")).host, host("192.0.2.7"));
}

#[test]
fn everything_but_a_connection_to_a_host_is_refused_with_its_code() {
    let code = |bytes: &[u8]| read_request(bytes).unwrap_err().code();
    assert_eq!(code(&[5, 2, 0, 1, 192, 0, 2, 7, 0, 80]), 7);
    assert_eq!(code(&[5, 3, 0, 1, 192, 0, 2, 7, 0, 80]), 7);
    assert_eq!(code(&[5, 1, 0, 9]), 8);
    assert_eq!(code(&[4, 1]), 1);
    assert_eq!(code(&[5, 1, 1, 1]), 1);
    assert_eq!(code(&[5, 1, 0, 1, 192, 0, 2, 7, 0, 0]), 2);
    let long = [b'a'; 255];
    for name in [&b"evil.example.net\0.a.example.org"[..], b"a b", b"", b"127.1", b"\xff", &long] {
        assert_eq!(code(&by_name(name)), 2, "{name:?}");
    }
}

#[test]
fn greetings_offer_methods() {
    let greeting = |bytes: &[u8]| read_greeting(bytes).unwrap();
    let open = Some(Greeting { without_authentication: true, bytes: 4 });
    assert_eq!(greeting(&[5, 2, 2, 0, 9]), open);
    assert!(!greeting(&[5, 1, 2]).unwrap().without_authentication);
    assert_eq!(greeting(&[5, 2, 0]), None);
    assert_eq!(read_greeting(&[5, 0]), Err(SocksError::Malformed));
}

proptest! {
    #[test]
    fn segmentation_does_not_change_the_request(cut in 0usize..20) {
        let whole = by_name(b"a.example.org");
        prop_assert_eq!(read_request(&whole[..cut]), Ok(None));
        prop_assert!(read_request(&whole).unwrap().is_some());
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::socks(&bytes);
        crate::fuzzing::socks(&[&[5, 1, 0, 3], bytes.as_slice()].concat());
    }
}
