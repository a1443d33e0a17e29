//! What one instance has: its files, its streams, and the functions of the host.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stockade_policy::{Denial, Policy};
use stockade_provider::{Carried, Destination, Gateway};
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use wasmtime::component::{Component, HasData, HasSelf, Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddressFamily};
use wasmtime_wasi::p2::bindings::sockets::{tcp_create_socket, udp_create_socket};
use wasmtime_wasi::p2::{Network, SocketError, SocketResult, TcpSocket, UdpSocket};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::bindings::stockade::python::host;
use crate::bindings::{Python, PythonPre};
use crate::engine::engine;
use crate::files::{FilesystemView, HasFilesystem, OpenCount, Tree};
use crate::limits::InstanceLimits;
use crate::tools::ToolConnection;
use crate::{WasmError, http};

/// How many bytes wait in a stream to a destination.
const STREAM_BYTES: usize = 64 << 10;

/// The state of one instance.
pub struct Guest {
    pub(crate) table: ResourceTable,
    pub(crate) wasi: WasiCtx,
    pub(crate) tree: Arc<Tree>,
    pub(crate) open: OpenCount,
    pub(crate) limits: InstanceLimits,
    pub(crate) calls: HostCalls,
    pub(crate) tools: Option<ToolConnection>,
}

/// The way from an instance to the gateway of its sandbox.
#[derive(Clone)]
pub(crate) struct HostCalls {
    pub(crate) gateway: Option<Arc<dyn Gateway>>,
    /// Where the gateway's tasks run: they outlive the thread of the program.
    pub(crate) runtime: Handle,
    pub(crate) policy: Arc<Policy>,
    /// Becomes true when the sandbox ends.
    pub(crate) ended: watch::Receiver<bool>,
    pub(crate) streams: Arc<AtomicUsize>,
    pub(crate) denials: Arc<Mutex<Vec<Denial>>>,
}

impl HostCalls {
    pub(crate) fn carries(&self) -> Carried {
        self.gateway.as_ref().map(|gateway| gateway.carries()).unwrap_or_default()
    }

    /// A stream to a destination; `None` if there is no gateway or too many streams are open.
    pub(crate) fn open(&self, destination: Destination) -> Option<DuplexStream> {
        let gateway = self.gateway.as_ref()?;
        let place = StreamPlace::take(&self.streams, gateway.most_streams())?;
        let (inside, outside) = tokio::io::duplex(STREAM_BYTES);
        let serving = gateway.serve(destination, Box::new(outside));
        let mut ended = self.ended.clone();
        self.runtime.spawn(async move {
            let _place = place;
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => {}
                () = serving => {}
            }
        });
        Some(inside)
    }

    /// Keeps a denial of the wall itself for the report.
    pub(crate) fn deny(&self, denial: Denial) {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner).push(denial);
    }
}

/// One of the streams that may be open at once.
struct StreamPlace(Arc<AtomicUsize>);

impl StreamPlace {
    fn take(streams: &Arc<AtomicUsize>, most: usize) -> Option<StreamPlace> {
        let add = |open: usize| (open < most).then_some(open + 1);
        streams.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).ok()?;
        Some(StreamPlace(Arc::clone(streams)))
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl Guest {
    /// Its streams, pollables and open files.
    pub fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }

    /// Its files.
    pub fn filesystem_view(&mut self) -> FilesystemView<'_> {
        FilesystemView {
            table: &mut self.table,
            host: self.wasi.filesystem(),
            tree: &self.tree,
            open: &mut self.open,
        }
    }
}

impl host::Host for Guest {
    async fn call_broker(&mut self, line: Vec<u8>) -> wasmtime::Result<Result<Vec<u8>, String>> {
        let mut connection = match self.tools.take() {
            Some(connection) => connection,
            None => match ToolConnection::open(&self.calls) {
                Ok(connection) => connection,
                Err(why) => return Ok(Err(why.to_owned())),
            },
        };
        let answer = connection.ask(line).await;
        // A failed connection is not used again: a late answer would be taken for that of the next
        // call.
        if answer.is_ok() {
            self.tools = Some(connection);
        }
        Ok(answer)
    }

    async fn send_request(
        &mut self,
        request: host::Request,
    ) -> wasmtime::Result<Result<host::Response, host::Failure>> {
        Ok(http::send(&self.calls, request).await)
    }
}

/// Sockets: there are none.
pub(crate) struct NoSockets;

impl HasData for NoSockets {
    type Data<'a> = NoSockets;
}

impl tcp_create_socket::Host for NoSockets {
    fn create_tcp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<TcpSocket>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

impl network::Host for NoSockets {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(
        &mut self,
        _: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        Ok(None)
    }
}

impl network::HostNetwork for NoSockets {
    fn drop(&mut self, _: Resource<Network>) -> wasmtime::Result<()> {
        // Nothing here makes one.
        Ok(())
    }
}

impl udp_create_socket::Host for NoSockets {
    async fn create_udp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

/// Connects the component's imports with the functions of the host.
pub(crate) fn link(component: &Component) -> Result<PythonPre<Guest>, WasmError> {
    let failed = |source| WasmError::engine("link the component", source);
    let mut linker = Linker::<Guest>::new(engine()?);
    (|| {
        // Defines everything of WASI first. What follows replaces the files and the sockets.
        linker.allow_shadowing(true);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        types::add_to_linker::<Guest, HasFilesystem>(&mut linker, Guest::filesystem_view)?;
        preopens::add_to_linker::<Guest, HasFilesystem>(&mut linker, Guest::filesystem_view)?;
        tcp_create_socket::add_to_linker::<Guest, NoSockets>(&mut linker, |_| NoSockets)?;
        udp_create_socket::add_to_linker::<Guest, NoSockets>(&mut linker, |_| NoSockets)?;
        linker.allow_shadowing(false);
        Python::add_to_linker::<Guest, HasSelf<Guest>>(&mut linker, |guest| guest)?;
        PythonPre::new(linker.instantiate_pre(component)?)
    })()
    .map_err(failed)
}
