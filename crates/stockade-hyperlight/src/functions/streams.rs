//! Streams and pollables.
//!
//! The runtime inside never reports that a resource is dropped, so a pollable stays until its
//! program ends.

use stockade_wasm::Guest;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::io::poll::{Host as _, HostPollable as _};
use wasmtime_wasi::p2::bindings::io::streams::{HostInputStream, HostOutputStream};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, StreamError};

use super::{Done, Failed, Function, Parameters};
use crate::values::{Reader, Writer};

/// The most bytes of one read.
const MAX_READ: u64 = 1 << 20;

pub(super) async fn dispatch(
    guest: &mut Guest,
    function: Function,
    parameters: &Parameters<'_>,
) -> Done {
    if function == Function::Poll {
        let all = parameters.read(0, |it| it.list(Reader::u32))?;
        let all = all.into_iter().map(Resource::new_borrow).collect();
        let ready = guest.table().poll(all).await?;
        let list = Writer::new().length(ready.len());
        return Ok(ready.into_iter().fold(list, Writer::u32));
    }
    let rep = parameters.read(0, Reader::u32)?;
    let output = || Resource::<DynOutputStream>::new_borrow(rep);
    let input = || Resource::<DynInputStream>::new_borrow(rep);
    let table = guest.table();
    match function {
        Function::Block => {
            table.block(Resource::new_borrow(rep)).await?;
            Ok(Writer::new())
        }
        Function::CheckWrite => {
            let result = HostOutputStream::check_write(table, output());
            answer(guest, result, Writer::u64)
        }
        Function::Write => {
            let bytes = parameters.read(1, Reader::bytes)?;
            let result = HostOutputStream::write(table, output(), bytes);
            answer(guest, result, |it, ()| it)
        }
        Function::WriteAndFlush => {
            let bytes = parameters.read(1, Reader::bytes)?;
            let result = table.blocking_write_and_flush(output(), bytes).await;
            answer(guest, result, |it, ()| it)
        }
        Function::Flush => {
            let result = table.blocking_flush(output()).await;
            answer(guest, result, |it, ()| it)
        }
        Function::SubscribeOutput => {
            Ok(Writer::new().u32(HostOutputStream::subscribe(table, output())?.rep()))
        }
        Function::Read => {
            let count = parameters.read(1, Reader::u64)?.min(MAX_READ);
            let result = HostInputStream::read(table, input(), count);
            answer(guest, result, |it, bytes| it.bytes(&bytes))
        }
        Function::SubscribeInput => {
            Ok(Writer::new().u32(HostInputStream::subscribe(table, input())?.rep()))
        }
        _ => Err(Failed::Malformed),
    }
}

/// A result, or the stream's error.
fn answer<T>(
    guest: &mut Guest,
    result: Result<T, StreamError>,
    write: impl FnOnce(Writer, T) -> Writer,
) -> Done {
    match result {
        Ok(value) => Ok(write(Writer::new().u8(0), value)),
        Err(StreamError::Closed) => Ok(Writer::new().u8(1).u32(1)),
        Err(StreamError::LastOperationFailed(error)) => {
            let error = guest.table().push(error).map_err(wasmtime::Error::from)?;
            Ok(Writer::new().u8(1).u32(0).u32(error.rep()))
        }
        Err(StreamError::Trap(error)) => Err(error.into()),
    }
}
