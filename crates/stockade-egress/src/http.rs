//! HTTP/1.1, parsed strictly and forwarded request by request.

mod answer;
mod body;
mod chunked;
mod exchange;
mod fields;
mod forward;
mod head;
mod read;
mod request;
mod response;
mod serve;

pub(crate) use self::answer::{
    Answers, Refusal, answer_denied, answer_failed, failure_body, linger,
};
pub(crate) use self::chunked::Chunked;
pub(crate) use self::exchange::{Authority, Leaving, exchange};
pub(crate) use self::fields::{Field, Fields, Length};
pub(crate) use self::forward::{note_echoes, rewritten};
pub(crate) use self::head::{HeadError, head_end};
pub(crate) use self::request::{RequestHead, RequestTarget, parse_request};
pub(crate) use self::response::{Asked, parse_response};
pub(crate) use self::serve::{Judged, judge};
