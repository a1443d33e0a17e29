//! A running double, for tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use stockade_internet::Authority;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::server::Acceptor;

use crate::fault::Injection;
use crate::log::Logged;
use crate::routes::arm_group;
use crate::world::World;
use crate::{identity, server};

/// The subscription that the double has.
pub const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";
/// The resource group that the double has.
pub const RESOURCE_GROUP: &str = "agents-rg";
/// The sandbox group that the double has.
pub const GROUP: &str = "agents";

/// A running double. Dropping it ends every sandbox.
pub struct Double {
    world: Arc<World>,
    runtime: Option<Runtime>,
    secure: SocketAddr,
    plain: SocketAddr,
    certificates: PathBuf,
}

impl Double {
    /// Starts a double on loopback, with its sandbox group.
    pub fn start() -> Result<Double> {
        let double = Double::without_group()?;
        let group = json!({
            "id": arm_group(),
            "name": GROUP,
            "location": "westus2",
            "properties": { "provisioningState": "Succeeded" },
        });
        double.world.lock().groups.insert(arm_group(), group);
        Ok(double)
    }

    /// Starts a double whose sandbox group does not exist yet.
    pub fn without_group() -> Result<Double> {
        let authority = Arc::new(Authority::new().context("making a certificate authority")?);
        let directory = tempfile::Builder::new().prefix("azure-double-").tempdir()?;
        let certificates = directory.path().join("ca.pem");
        std::fs::write(&certificates, authority.pem())?;
        let world = Arc::new(World::new(directory, authority));
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        // Bound without a runtime: tests start doubles inside their own.
        let (secure_listener, secure) = listener()?;
        let (plain_listener, plain) = listener()?;
        runtime.spawn(accept_secure(secure_listener, Arc::clone(&world)));
        runtime.spawn(accept_plain(plain_listener, Arc::clone(&world)));
        Ok(Double { world, runtime: Some(runtime), secure, plain, certificates })
    }

    /// The address of the data plane, of Azure Resource Manager and of the token service.
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.secure)
    }

    /// The port of the same.
    pub fn port(&self) -> u16 {
        self.secure.port()
    }

    /// The address of the identity services of machines.
    pub fn identity_endpoint(&self) -> String {
        format!("http://{}", self.plain)
    }

    /// The file with the certificate that clients must trust.
    pub fn certificates(&self) -> &Path {
        &self.certificates
    }

    /// The variables with which Stockade uses the double, authenticated by a client secret.
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.places();
        variables.extend(secret());
        variables
    }

    /// The variables without a credential.
    pub fn places(&self) -> Vec<(String, String)> {
        let certificates = self.certificates.display().to_string();
        [
            ("STOCKADE_ACA_RESOURCE_GROUP", RESOURCE_GROUP.to_owned()),
            ("STOCKADE_ACA_SANDBOX_GROUP", GROUP.to_owned()),
            ("AZURE_SUBSCRIPTION_ID", SUBSCRIPTION.to_owned()),
            ("STOCKADE_ACA_ENDPOINT", self.endpoint()),
            ("STOCKADE_ACA_ARM_ENDPOINT", self.endpoint()),
            ("AZURE_AUTHORITY_HOST", self.endpoint()),
            ("SSL_CERT_FILE", certificates.clone()),
            ("REQUESTS_CA_BUNDLE", certificates),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The variables of a service principal with a federated token, which is written to a file.
    pub fn federated(&self, file: &Path) -> Result<Vec<(String, String)>> {
        std::fs::write(file, identity::ASSERTION)?;
        let file = file.display().to_string();
        Ok(pairs(&[
            ("AZURE_TENANT_ID", identity::TENANT),
            ("AZURE_CLIENT_ID", identity::CLIENT),
            ("AZURE_FEDERATED_TOKEN_FILE", &file),
        ]))
    }

    /// The variables of a machine with an identity endpoint.
    pub fn machine_identity(&self) -> Vec<(String, String)> {
        let endpoint = format!("{}/msi/token", self.identity_endpoint());
        pairs(&[("IDENTITY_ENDPOINT", &endpoint), ("IDENTITY_HEADER", identity::IDENTITY_HEADER)])
    }

    /// The texts that must not appear in any output.
    pub fn secrets(&self) -> Vec<String> {
        let inner = self.world.lock();
        let own = [identity::SECRET, identity::ASSERTION, identity::IDENTITY_HEADER];
        own.into_iter().map(str::to_owned).chain(inner.tokens.keys().cloned()).collect()
    }

    /// A valid token of the data plane, for clients that bring their own.
    pub fn data_token(&self) -> &'static str {
        identity::STATIC[0].0
    }

    /// A valid token of Azure Resource Manager.
    pub fn arm_token(&self) -> &'static str {
        identity::STATIC[1].0
    }

    /// Withdraws every token that was issued.
    pub fn withdraw_tokens(&self) {
        self.world.lock().tokens.clear();
    }

    /// Injects a fault.
    pub fn inject(&self, injection: Injection) {
        self.world.lock().injections.push(injection);
    }

    /// Ends every fault.
    pub fn heal(&self) {
        self.world.lock().injections.clear();
    }

    /// Everything that reached the double.
    pub fn log(&self) -> Vec<Logged> {
        self.world.lock().log.clone()
    }

    /// The ids of the sandboxes that exist.
    pub fn sandboxes(&self) -> Vec<String> {
        self.world.lock().sandboxes.keys().cloned().collect()
    }

    /// How many sandboxes were ever created.
    pub fn created(&self) -> usize {
        self.world.lock().created.len()
    }

    /// Whether the sandbox group exists.
    pub fn has_group(&self) -> bool {
        self.world.lock().groups.contains_key(&arm_group())
    }

    /// How many polls new sandboxes need until they run; without a number they never do.
    pub fn looks_until_running(&self, looks: Option<usize>) {
        self.world.lock().looks = looks;
    }

    /// The state that new sandboxes reach instead of Running.
    pub fn reach(&self, state: &str) {
        self.world.lock().state = Some(state.to_owned());
    }

    /// What new sandboxes store instead of the requested egress policy.
    pub fn hold_egress(&self, policy: Value) {
        self.world.lock().egress = Some(policy);
    }

    /// What sandboxes hold after they were resumed.
    pub fn hold_egress_after_resume(&self, policy: Value) {
        self.world.lock().egress_after_resume = Some(policy);
    }

    /// Puts every sandbox into a state.
    pub fn put_into(&self, state: &str, stopped_reason: Option<&str>) {
        let sandboxes: Vec<_> = self.world.lock().sandboxes.values().cloned().collect();
        for sandbox in sandboxes {
            let mut inner = sandbox.state();
            inner.name = state.to_owned();
            inner.stopped_reason = stopped_reason.map(str::to_owned);
        }
    }

    /// Makes a sandbox with labels, as another client would.
    pub fn plant(&self, labels: &Value) -> Result<String> {
        let body = json!({
            "sourcesRef": { "diskImage": { "name": "ubuntu", "isPublic": true } },
            "labels": labels,
        });
        let _inside = self.runtime.as_ref().map(Runtime::enter);
        let view = self.world.create(&body)?;
        Ok(view["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Lists have pages of this length; further ones are at `base`, or at the double's own address.
    pub fn page(&self, length: usize, base: &str) {
        self.world.lock().page = Some((length, base.to_owned()));
    }

    /// A file of a sandbox, as it is on this machine.
    pub fn file(&self, sandbox: &str, path: &str) -> Option<Vec<u8>> {
        let found = self.world.lock().sandboxes.get(sandbox).cloned()?;
        crate::paths::Files(found.machine.root()).read(path).ok()
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        for id in self.sandboxes() {
            self.world.delete(&id);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn secret() -> Vec<(String, String)> {
    pairs(&[
        ("AZURE_TENANT_ID", identity::TENANT),
        ("AZURE_CLIENT_ID", identity::CLIENT),
        ("AZURE_CLIENT_SECRET", identity::SECRET),
    ])
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn listener() -> Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn accept_secure(listener: std::net::TcpListener, world: Arc<World>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    while let Ok((stream, _)) = listener.accept().await {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let Ok(hello) = LazyConfigAcceptor::new(Acceptor::default(), stream).await else {
                return;
            };
            // Clients that know it by a name want a certificate for that name.
            let name = hello.client_hello().server_name().map(str::to_owned);
            let Ok(configuration) = world.authority.configuration(name.as_deref(), address) else {
                return;
            };
            if let Ok(stream) = hello.into_stream(configuration).await {
                server::serve(stream, world, "https").await;
            }
        });
    }
}

async fn accept_plain(listener: std::net::TcpListener, world: Arc<World>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(server::serve(stream, Arc::clone(&world), "http"));
    }
}
