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

pub(crate) use self::answer::{Refusal, answer_denied, answer_failed, linger};
pub(crate) use self::chunked::Chunked;
pub(crate) use self::exchange::{Authority, Leaving, exchange};
pub(crate) use self::head::head_end;
pub(crate) use self::request::parse_request;
pub(crate) use self::response::{Asked, parse_response};
