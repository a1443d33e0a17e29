//! The functions of the host that a machine can call, and how each is performed: by the same code
//! as for an instance of the WebAssembly wall.

mod files;
mod streams;

use stockade_wasm::Guest;
use stockade_wasm::bindings::stockade::python::host::{self, FailureKind, Header, Request};
use wasmtime_wasi::cli::WasiCliView;
use wasmtime_wasi::clocks::WasiClocksView;
use wasmtime_wasi::p2::bindings::cli::{environment, stderr, stdin, stdout};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::random::random;
use wasmtime_wasi::p2::bindings::sockets::network::ErrorCode;
use wasmtime_wasi::{WasiView, p2};

use crate::protocol::{Call, MAX_FRAME};
use crate::values::{Malformed, Reader, Writer};

/// The longest random bytes of one call.
const MAX_RANDOM: u64 = 1 << 20;
/// The longest answer to a program, with room for the rest of its frame.
const MAX_ANSWER: usize = MAX_FRAME - (1 << 20);

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The program ends, with this code.
    Exit(i32),
    /// The program's own mistake, in the words of the library.
    Trap(String),
    /// No machine of this version calls so.
    Malformed,
}

impl From<Malformed> for Failed {
    fn from(_: Malformed) -> Failed {
        Failed::Malformed
    }
}

impl From<wasmtime::Error> for Failed {
    fn from(error: wasmtime::Error) -> Failed {
        Failed::Trap(error.root_cause().to_string())
    }
}

pub(crate) type Done = Result<Writer, Failed>;

/// The parameters of one call.
pub(crate) struct Parameters<'a>(pub(crate) &'a [Vec<u8>]);

impl<'a> Parameters<'a> {
    /// Reads one parameter, whole.
    pub(crate) fn read<T>(
        &self,
        at: usize,
        value: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let mut reader = Reader::new(self.0.get(at).ok_or(Malformed)?);
        let value = value(&mut reader)?;
        reader.end()?;
        Ok(value)
    }
}

macro_rules! functions {
    ($($function:ident $name:literal $parameters:literal;)*) => {
        /// One function of the host.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Function {
            $($function,)*
        }

        /// Every function, in the order of their numbers: its name and the number of its parameters.
        const FUNCTIONS: &[(Function, &str, u8)] = &[
            $((Function::$function, $name, $parameters),)*
        ];
    };
}

functions! {
    Broker "stockade::python::call-broker" 1;
    Request "stockade::python::send-request" 1;
    Now "wasi::clocks::now" 0;
    Resolution "wasi::clocks::resolution" 0;
    AtInstant "wasi::clocks::subscribe-instant" 1;
    AfterDuration "wasi::clocks::subscribe-duration" 1;
    WallNow "wasi::wclock::now" 0;
    WallResolution "wasi::wclock::resolution" 0;
    Random "wasi::random::get-random-bytes" 1;
    Stdin "wasi::cli::get-stdin" 0;
    Stdout "wasi::cli::get-stdout" 0;
    Stderr "wasi::cli::get-stderr" 0;
    Environment "wasi::cli::get-environment" 0;
    Arguments "wasi::cli::get-arguments" 0;
    Exit "wasi::cli::exit" 1;
    TerminalStdin "wasi::cli::get-terminal-stdin" 0;
    TerminalStdout "wasi::cli::get-terminal-stdout" 0;
    TerminalStderr "wasi::cli::get-terminal-stderr" 0;
    InstanceNetwork "wasi::sockets::instance-network" 0;
    CreateTcp "wasi::sockets::create-tcp-socket" 1;
    CreateUdp "wasi::sockets::create-udp-socket" 1;
    Resolve "wasi::sockets::resolve-addresses" 2;
    Poll "wasi::io::poll" 1;
    Block "wasi::io::[method]pollable.block" 1;
    CheckWrite "wasi::io::[method]output-stream.check-write" 1;
    Write "wasi::io::[method]output-stream.write" 2;
    WriteAndFlush "wasi::io::[method]output-stream.blocking-write-and-flush" 2;
    Flush "wasi::io::[method]output-stream.blocking-flush" 1;
    SubscribeOutput "wasi::io::[method]output-stream.subscribe" 1;
    Read "wasi::io::[method]input-stream.read" 2;
    SubscribeInput "wasi::io::[method]input-stream.subscribe" 1;
    Preopens "wasi::filesystem::get-directories" 0;
    ReadStream "wasi::filesystem::[method]descriptor.read-via-stream" 2;
    WriteStream "wasi::filesystem::[method]descriptor.write-via-stream" 2;
    AppendStream "wasi::filesystem::[method]descriptor.append-via-stream" 1;
    Advise "wasi::filesystem::[method]descriptor.advise" 4;
    SyncData "wasi::filesystem::[method]descriptor.sync-data" 1;
    GetFlags "wasi::filesystem::[method]descriptor.get-flags" 1;
    SetSize "wasi::filesystem::[method]descriptor.set-size" 2;
    SetTimes "wasi::filesystem::[method]descriptor.set-times" 3;
    ReadFile "wasi::filesystem::[method]descriptor.read" 3;
    WriteFile "wasi::filesystem::[method]descriptor.write" 3;
    ReadDirectory "wasi::filesystem::[method]descriptor.read-directory" 1;
    Sync "wasi::filesystem::[method]descriptor.sync" 1;
    CreateDirectory "wasi::filesystem::[method]descriptor.create-directory-at" 2;
    Stat "wasi::filesystem::[method]descriptor.stat" 1;
    StatAt "wasi::filesystem::[method]descriptor.stat-at" 3;
    SetTimesAt "wasi::filesystem::[method]descriptor.set-times-at" 5;
    LinkAt "wasi::filesystem::[method]descriptor.link-at" 5;
    OpenAt "wasi::filesystem::[method]descriptor.open-at" 5;
    ReadLink "wasi::filesystem::[method]descriptor.readlink-at" 2;
    RemoveDirectory "wasi::filesystem::[method]descriptor.remove-directory-at" 2;
    RenameAt "wasi::filesystem::[method]descriptor.rename-at" 4;
    SymlinkAt "wasi::filesystem::[method]descriptor.symlink-at" 3;
    Unlink "wasi::filesystem::[method]descriptor.unlink-file-at" 2;
    Hash "wasi::filesystem::[method]descriptor.metadata-hash" 1;
    HashAt "wasi::filesystem::[method]descriptor.metadata-hash-at" 3;
    NextEntry "wasi::filesystem::[method]directory-entry-stream.read-directory-entry" 1;
}

/// The functions that a machine gets. The runtime writes its packages as raw identifiers of Rust.
pub(crate) fn names() -> Vec<(String, u8)> {
    let raw = |name: &str| match name.split("::").collect::<Vec<_>>().as_slice() {
        [namespace, package, function] => format!("r#{namespace}::r#{package}::{function}"),
        _ => name.to_owned(),
    };
    FUNCTIONS.iter().map(|(_, name, parameters)| (raw(name), *parameters)).collect()
}

/// Performs one call for a program.
pub(crate) async fn perform(guest: &mut Guest, call: &Call) -> Result<Vec<u8>, Failed> {
    let (function, _, parameters) =
        FUNCTIONS.get(usize::from(call.function)).ok_or(Failed::Malformed)?;
    if call.parameters.len() != usize::from(*parameters) {
        return Err(Failed::Malformed);
    }
    let parameters = Parameters(&call.parameters);
    Ok(dispatch(guest, *function, &parameters).await?.finish())
}

async fn dispatch(guest: &mut Guest, function: Function, parameters: &Parameters<'_>) -> Done {
    match function {
        Function::Broker => {
            let line = parameters.read(0, Reader::bytes)?;
            let answer = host::Host::call_broker(guest, line).await?;
            Ok(match answer {
                Ok(line) if line.len() > MAX_ANSWER => {
                    Writer::new().u8(1).string("the answer is too long for this wall")
                }
                Ok(line) => Writer::new().u8(0).bytes(&line),
                Err(why) => Writer::new().u8(1).string(&why),
            })
        }
        Function::Request => send_request(guest, parameters).await,
        Function::Now => Ok(Writer::new().u64(monotonic_clock::Host::now(&mut guest.clocks())?)),
        Function::Resolution => {
            Ok(Writer::new().u64(monotonic_clock::Host::resolution(&mut guest.clocks())?))
        }
        Function::AtInstant => {
            let when = parameters.read(0, Reader::u64)?;
            let pollable = monotonic_clock::Host::subscribe_instant(&mut guest.clocks(), when)?;
            Ok(Writer::new().u32(pollable.rep()))
        }
        Function::AfterDuration => {
            let time = parameters.read(0, Reader::u64)?;
            let pollable = monotonic_clock::Host::subscribe_duration(&mut guest.clocks(), time)?;
            Ok(Writer::new().u32(pollable.rep()))
        }
        Function::WallNow => Ok(datetime(wall_clock::Host::now(&mut guest.clocks())?)),
        Function::WallResolution => {
            Ok(datetime(wall_clock::Host::resolution(&mut guest.clocks())?))
        }
        Function::Random => {
            let count = parameters.read(0, Reader::u64)?.min(MAX_RANDOM);
            let random = guest.ctx().ctx.random();
            Ok(Writer::new().bytes(&random::Host::get_random_bytes(random, count)?))
        }
        Function::Stdin => Ok(Writer::new().u32(stdin::Host::get_stdin(&mut guest.cli())?.rep())),
        Function::Stdout => {
            Ok(Writer::new().u32(stdout::Host::get_stdout(&mut guest.cli())?.rep()))
        }
        Function::Stderr => {
            Ok(Writer::new().u32(stderr::Host::get_stderr(&mut guest.cli())?.rep()))
        }
        Function::Environment => {
            let all = environment::Host::get_environment(&mut guest.cli())?;
            let list = Writer::new().length(all.len());
            Ok(all.iter().fold(list, |list, (name, value)| list.string(name).string(value)))
        }
        Function::Arguments => {
            let all = environment::Host::get_arguments(&mut guest.cli())?;
            Ok(all.iter().fold(Writer::new().length(all.len()), |list, word| list.string(word)))
        }
        Function::Exit => Err(Failed::Exit(i32::from(parameters.read(0, Reader::u8)? != 0))),
        Function::TerminalStdin | Function::TerminalStdout | Function::TerminalStderr => {
            Ok(Writer::new().u8(0))
        }
        // No other function takes a network.
        Function::InstanceNetwork => Ok(Writer::new().u32(0)),
        Function::CreateTcp | Function::CreateUdp | Function::Resolve => {
            Ok(Writer::new().u8(1).u32(ErrorCode::AccessDenied as u32))
        }
        Function::Poll
        | Function::Block
        | Function::CheckWrite
        | Function::Write
        | Function::WriteAndFlush
        | Function::Flush
        | Function::SubscribeOutput
        | Function::Read
        | Function::SubscribeInput => streams::dispatch(guest, function, parameters).await,
        _ => files::dispatch(guest, function, parameters).await,
    }
}

fn datetime(time: p2::bindings::clocks::wall_clock::Datetime) -> Writer {
    Writer::new().u64(time.seconds).u32(time.nanoseconds)
}

async fn send_request(guest: &mut Guest, parameters: &Parameters<'_>) -> Done {
    let request = parameters.read(0, |it| {
        Ok(Request {
            method: it.string()?,
            url: it.string()?,
            headers: it.list(|it| Ok(Header { name: it.string()?, value: it.string()? }))?,
            body: it.bytes()?,
        })
    })?;
    let too_large = |what: &str| Writer::new().u8(1).u32(FailureKind::TooLarge as u32).string(what);
    Ok(match host::Host::send_request(guest, request).await? {
        Ok(response) if response.body.len() > MAX_ANSWER => {
            too_large("the response is too long for this wall")
        }
        Ok(response) => {
            let head = Writer::new().u8(0).u16(response.status).string(&response.reason);
            let headers = head.length(response.headers.len());
            let add =
                |list: Writer, header: &Header| list.string(&header.name).string(&header.value);
            response.headers.iter().fold(headers, add).bytes(&response.body)
        }
        Err(failure) => Writer::new().u8(1).u32(failure.kind as u32).string(&failure.message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MAX_PARAMETERS;

    #[test]
    fn names_differ_and_every_number_fits() {
        let mut names: Vec<&str> = FUNCTIONS.iter().map(|(_, name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FUNCTIONS.len());
        assert!(FUNCTIONS.iter().all(|(_, _, count)| usize::from(*count) <= MAX_PARAMETERS));
        assert!(u16::try_from(FUNCTIONS.len()).is_ok());
    }
}
