use proptest::prelude::*;

use super::*;

/// A ClientHello with these extensions, as one handshake message.
fn message(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
    let listed: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&kind.to_be_bytes()[..], &length, content].concat()
        })
        .collect();
    body.extend_from_slice(&u16::try_from(listed.len()).unwrap().to_be_bytes());
    body.extend_from_slice(&listed);
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1], &length[1..], &body].concat()
}

fn server_name(name: &[u8]) -> (u16, Vec<u8>) {
    let length = u16::try_from(name.len()).unwrap();
    let list = [&[0], &length.to_be_bytes()[..], name].concat();
    (0, [&(length + 3).to_be_bytes()[..], &list].concat())
}

fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[22, 3, 1], &length[..], part].concat()
    };
    message.chunks(size).flat_map(record).collect()
}

fn read(bytes: &[u8]) -> Result<Option<ClientHello>, HelloError> {
    HelloReader::default().read(bytes)
}

fn named(name: &[u8]) -> ClientHello {
    ClientHello { server_name: Some(name.to_vec()) }
}

#[test]
fn server_name_is_found_among_extensions() {
    let others = [(0xfe0d, vec![0; 40]), server_name(b"a.example.org"), (43, vec![2, 3, 4])];
    let bytes = records(&message(&others), 1 << 14);
    assert_eq!(read(&bytes), Ok(Some(named(b"a.example.org"))));
    let without = records(&message(&[(43, vec![2, 3, 4])]), 1 << 14);
    assert_eq!(read(&without), Ok(Some(ClientHello { server_name: None })));
}

#[test]
fn bytes_after_the_hello_are_left_alone() {
    let mut bytes = records(&message(&[server_name(b"a.example.org")]), 1 << 14);
    bytes.extend_from_slice(&[23, 3, 3, 0, 5, 1, 2, 3, 4, 5]);
    assert_eq!(read(&bytes), Ok(Some(named(b"a.example.org"))));
}

#[test]
fn ambiguous_hellos_are_refused() {
    let twice = message(&[server_name(b"a.example.org"), server_name(b"b.example.org")]);
    assert_eq!(read(&records(&twice, 999)), Err(HelloError::Duplicate));
    let one = [&[0, 0, 1, b'a'][..], &[0, 0, 1, b'b']].concat();
    let two_names = message(&[(0, [&[0, 8][..], &one].concat())]);
    assert_eq!(read(&records(&two_names, 999)), Err(HelloError::SeveralNames));
    let empty = message(&[(0, vec![0, 3, 0, 0, 0])]);
    assert_eq!(read(&records(&empty, 999)), Err(HelloError::Malformed));
    let mut long = message(&[server_name(b"a.example.org")]);
    long.push(0);
    assert_eq!(read(&records(&long, 999)), Err(HelloError::Malformed));
    let mut version = message(&[server_name(b"a.example.org")]);
    version[4] = 2;
    assert_eq!(read(&records(&version, 999)), Err(HelloError::Malformed));
}

#[test]
fn bytes_that_are_not_tls_are_refused_at_the_first_byte() {
    for bytes in [&b"GET / HTTP/1.1"[..], b"SSH-2.0-x", b"\x80\x2e\x01\x03\x01", b"\x16\x02"] {
        assert_eq!(read(bytes), Err(HelloError::NotTls), "{bytes:?}");
    }
    assert_eq!(read(&[22, 3, 1, 0, 0]), Err(HelloError::Malformed));
    assert_eq!(read(&[22, 3, 1, 0x40, 1]), Err(HelloError::Malformed));
    assert_eq!(read(&[22, 3, 1, 0, 1, 2]), Err(HelloError::Malformed));
}

#[test]
fn length_and_number_of_pieces_are_bounded() {
    let announced = [1, 0, 0xff, 0xff];
    assert_eq!(read(&records(&announced, 4)), Err(HelloError::TooLong));
    let crumbs = message(&[(21, vec![0; 2000])]);
    assert_eq!(read(&records(&crumbs, 1)), Err(HelloError::TooLong));
}

proptest! {
    #[test]
    fn segmentation_does_not_change_the_server_name(
        name in "[a-z]{1,20}\\.example\\.org",
        size in 1usize..80,
        step in 1usize..50,
    ) {
        let bytes = records(&message(&[(43, vec![0; 30]), server_name(name.as_bytes())]), size);
        let mut reader = HelloReader::default();
        let mut found = None;
        for end in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
            if found.is_none() {
                found = reader.read(&bytes[..end]).unwrap();
            }
        }
        prop_assert_eq!(found, Some(named(name.as_bytes())));
    }

    #[test]
    fn any_bytes_parse_without_a_panic_and_alike_in_pieces(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        crate::fuzzing::client_hello(&bytes);
        crate::fuzzing::client_hello(&[&[22, 3, 1, 0, 150], bytes.as_slice()].concat());
    }
}
