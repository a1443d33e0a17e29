//! Any bytes on a stream: frames are read until the first refusal, and what was read survives
//! being written again.
#![no_main]

use futures_util::FutureExt;
use futures_util::io::Cursor;
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_wire::{
    Ends, FileChange, FileEntry, FileReply, FileRequest, FrameError, GuestMessage, Headers,
    HostMessage, StreamHeader, StreamOpening, encode, read_message,
};

fuzz_target!(|bytes: &[u8]| {
    read_all::<GuestMessage>(bytes);
    read_all::<HostMessage>(bytes);
    read_all::<StreamHeader>(bytes);
    read_all::<StreamOpening>(bytes);
    read_all::<FileRequest>(bytes);
    read_all::<FileReply>(bytes);
    read_all::<FileEntry>(bytes);
    read_all::<FileChange>(bytes);
    follow(bytes);
});

/// The headers of the multiplexer are the same however their bytes are cut, and no stream that is
/// not held is followed.
fn follow(bytes: &[u8]) {
    let headers = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut headers, mut found) = (Headers::default(), Vec::new());
        for piece in pieces {
            let Ok(()) = headers.follow(piece, |header| {
                found.push(header);
                Ok::<_, std::convert::Infallible>(())
            });
        }
        found
    };
    let whole = headers(&mut std::iter::once(bytes));
    assert_eq!(headers(&mut bytes.chunks(5)), whole);
    let mut ends = Ends::default();
    for header in whole {
        ends.hear(header);
        ends.say(header);
        ends.release(header.stream, header.length.is_multiple_of(2));
    }
    ends.take_resets(|frame| panic!("{frame:?} for a stream that is not held"));
}

fn read_all<T>(bytes: &[u8])
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut stream = Cursor::new(bytes);
    while let Ok(message) = next::<T>(&mut stream) {
        let written = encode(&message).expect("a message that was read can be written");
        let again: T = next(&mut Cursor::new(written.as_slice())).expect("and read again");
        assert_eq!(again, message);
    }
}

fn next<T: DeserializeOwned>(stream: &mut Cursor<&[u8]>) -> Result<T, FrameError> {
    read_message(stream).now_or_never().expect("bytes in memory are always ready")
}
