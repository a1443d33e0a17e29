use super::*;

const STREAM: u32 = 4;

fn header(flags: u16) -> Header {
    Header { kind: Header::DATA, flags, stream: STREAM, length: 0 }
}

fn resets(ends: &mut Ends) -> Vec<[u8; 12]> {
    let mut frames = Vec::new();
    ends.take_resets(|frame| frames.push(frame));
    frames
}

const RESET_FRAME: [u8; 12] = [0, 0, 0, 8, 0, 0, 0, 4, 0, 0, 0, 0];

fn ends_holding_a_stream() -> Ends {
    let mut ends = Ends::default();
    ends.hold(STREAM);
    ends
}

#[test]
fn headers_are_found_for_any_split_of_the_bytes() {
    let data = [0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 3, 0];
    let window = [0, 1, 0, 0, 0, 0, 0, 7, 0, 4, 0, 0];
    let away = [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let bytes = [data.as_slice(), &window, &away].concat();
    let expected = [
        Header { kind: 0, flags: 1, stream: 5, length: 3 },
        Header { kind: 1, flags: 0, stream: 7, length: 262144 },
        Header { kind: 3, flags: 0, stream: 0, length: 1 },
    ];
    for piece in 1..=bytes.len() {
        let mut headers = Headers::default();
        let mut found = Vec::new();
        for part in bytes.chunks(piece) {
            let note = |header| {
                found.push(header);
                Ok::<_, ()>(())
            };
            headers.follow(part, note).unwrap();
        }
        assert_eq!(found, expected, "in pieces of {piece}");
        assert!(headers.is_between_frames());
    }
}

#[test]
fn inside_a_header_or_a_body_is_not_between_frames() {
    let data = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2, 9, 9];
    for end in 1..data.len() {
        let mut headers = Headers::default();
        headers.follow(&data[..end], |_| Ok::<_, ()>(())).unwrap();
        assert!(!headers.is_between_frames(), "after {end} bytes");
    }
}

#[test]
fn first_of_end_and_reset_is_recorded() {
    let mut ends = ends_holding_a_stream();
    ends.hear(header(0));
    assert_eq!(ends.heard(STREAM), None);
    ends.hear(header(Header::LAST));
    ends.hear(header(Header::RESET));
    assert_eq!(ends.heard(STREAM), Some(Heard::End));
    let mut ends = ends_holding_a_stream();
    ends.hear(header(Header::RESET));
    ends.hear(header(Header::LAST));
    assert_eq!(ends.heard(STREAM), Some(Heard::Reset));
}

#[test]
fn no_reset_is_sent_after_both_sides_half_close() {
    let mut ends = ends_holding_a_stream();
    ends.say(header(Header::LAST));
    ends.hear(header(Header::LAST));
    ends.release(STREAM, true);
    assert!(resets(&mut ends).is_empty());
}

#[test]
fn dropped_stream_resets_its_sender_after_the_half_close_passed() {
    let mut early = ends_holding_a_stream();
    early.release(STREAM, true);
    assert!(resets(&mut early).is_empty(), "the end is still on its way");
    early.say(header(Header::LAST));
    assert_eq!(resets(&mut early), [RESET_FRAME]);
    let mut late = ends_holding_a_stream();
    late.say(header(Header::LAST));
    late.release(STREAM, true);
    assert_eq!(resets(&mut late), [RESET_FRAME]);
}

#[test]
fn drop_after_the_peers_end_sends_a_reset() {
    let mut ends = ends_holding_a_stream();
    ends.hear(header(Header::LAST));
    ends.release(STREAM, false);
    assert_eq!(resets(&mut ends), [RESET_FRAME]);
}

#[test]
fn open_stream_is_reset_by_the_multiplexer_and_forgotten() {
    let mut ends = ends_holding_a_stream();
    ends.release(STREAM, false);
    assert!(resets(&mut ends).is_empty());
    assert!(ends.streams.is_empty());
}

#[test]
fn untracked_streams_are_ignored() {
    let mut ends = Ends::default();
    ends.hear(header(Header::LAST));
    ends.say(header(Header::LAST));
    ends.release(STREAM, true);
    assert!(resets(&mut ends).is_empty() && ends.streams.is_empty());
}
