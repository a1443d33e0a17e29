//! The calls of the service, one function each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::Url;

use crate::call::{Body, Call, Caller, Plane, Repeats};
use crate::credential::Credentials;
use crate::http::{Http, origin};
use crate::settings::Settings;
use crate::token::{ARM_SCOPE, DATA_SCOPE, TokenSource, Tokens};
use crate::wire::{
    CreateSandbox, EgressDecisions, Executed, FileView, Listing, SandboxPage, SandboxView,
};
use crate::{AcaError, AcaOptions};

/// The most pages of a list.
const MOST_PAGES: usize = 100;
/// The most bytes of one file that is read or written.
pub(crate) const MOST_FILE: usize = 64 << 20;
/// How long a transfer of a file may take.
const FILE_TIME: Duration = Duration::from_secs(120);

/// The service, for one sandbox group.
pub(crate) struct Service {
    pub(crate) settings: Settings,
    pub(crate) caller: Caller,
    data: Plane,
    pub(crate) arm: Plane,
    source: Arc<dyn TokenSource>,
}

impl Service {
    /// Checks options. Sends nothing.
    pub(crate) fn new(options: &AcaOptions) -> Result<Service, AcaError> {
        let settings = Settings::of(options)?;
        let source = match &options.token_source {
            Some(source) => Arc::clone(source),
            None => Arc::new(Credentials {
                choice: settings.credentials.clone(),
                certificates: settings.certificates.clone(),
            }) as Arc<dyn TokenSource>,
        };
        Service::with(settings, source)
    }

    fn with(settings: Settings, source: Arc<dyn TokenSource>) -> Result<Service, AcaError> {
        let origins = [&settings.endpoint, &settings.arm];
        let http = Http::new(&origins, settings.certificates.as_deref()).map_err(|source| {
            AcaError::Transport { doing: "prepare", host: origin(&settings.endpoint), source }
        })?;
        let tokens = Tokens::new(Arc::clone(&source));
        Ok(Service {
            caller: Caller { http, tokens, timing: settings.timing },
            data: Plane { base: settings.endpoint.clone(), scope: DATA_SCOPE },
            arm: Plane { base: settings.arm.clone(), scope: ARM_SCOPE },
            settings,
            source,
        })
    }

    /// The same service with connections and tokens of its own, for another runtime.
    pub(crate) fn again(&self) -> Result<Service, AcaError> {
        Service::with(self.settings.clone(), Arc::clone(&self.source))
    }

    fn path(&self, rest: &str) -> String {
        format!("{}/sandboxes{rest}", self.settings.group_path())
    }

    /// Creates a sandbox. It may exist although this fails.
    pub(crate) async fn create(&self, body: &CreateSandbox) -> Result<SandboxView, AcaError> {
        let body = serde_json::to_value(body).expect("a body is plain values");
        let call = Call::new("create a sandbox", Method::PUT, self.path("")).json(body);
        self.read(&call.repeats(Repeats::IfRefused)).await
    }

    /// Describes a sandbox.
    pub(crate) async fn get(&self, id: &SandboxId) -> Result<SandboxView, AcaError> {
        let path = self.path(&format!("/{id}"));
        self.read(&Call::new("look at a sandbox", Method::GET, path)).await
    }

    /// The sandboxes with these labels.
    pub(crate) async fn list(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<SandboxView>, AcaError> {
        let doing = "list sandboxes";
        let filter: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let first = Call::new(doing, Method::GET, self.path(""));
        let mut call = match filter.is_empty() {
            true => first,
            false => first.query("labels", filter.join(",")),
        };
        let mut found = Vec::new();
        for _ in 0..MOST_PAGES {
            match self.read(&call).await? {
                SandboxPage::All(all) => {
                    found.extend(all);
                    return Ok(found);
                }
                SandboxPage::Page { value, next_link } => {
                    found.extend(value);
                    let Some(next) = next_link.filter(|next| !next.is_empty()) else {
                        return Ok(found);
                    };
                    call = self.next(doing, &next)?;
                }
            }
        }
        Err(AcaError::Response { doing, reason: "the list does not end".to_owned() })
    }

    /// The call of a further page, which must be on the same host.
    fn next(&self, doing: &'static str, link: &str) -> Result<Call, AcaError> {
        let url = Url::parse(link).ok();
        let url = url.filter(|url| origin(url) == origin(&self.data.base));
        let Some(url) = url else {
            let reason = "its next page is on another host".to_owned();
            return Err(AcaError::Response { doing, reason });
        };
        let mut call = Call::new(doing, Method::GET, url.path().to_owned());
        // The version of the interface is added again.
        call.query = url
            .query_pairs()
            .filter(|(name, _)| name != "api-version")
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        Ok(call)
    }

    /// Resumes a stopped sandbox.
    pub(crate) async fn resume(&self, id: &SandboxId) -> Result<(), AcaError> {
        let path = self.path(&format!("/{id}/resume"));
        self.caller.call(&self.data, &Call::new("resume a sandbox", Method::POST, path)).await?;
        Ok(())
    }

    /// Deletes a sandbox; one that is gone already is no error.
    pub(crate) async fn delete(&self, id: &SandboxId) -> Result<(), AcaError> {
        let path = self.path(&format!("/{id}"));
        let call = Call::new("delete a sandbox", Method::DELETE, path);
        match self.caller.call(&self.data, &call).await {
            Ok(_) | Err(AcaError::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs a shell command, once. `command` is a constant of this crate with a generated id.
    pub(crate) async fn execute(
        &self,
        id: &SandboxId,
        command: &str,
        limit: Duration,
    ) -> Result<Executed, AcaError> {
        let path = self.path(&format!("/{id}/executeShellCommand"));
        let call = Call::new("execute a command", Method::POST, path);
        let call = Call { limit: Some(limit), ..call.json(json!({ "command": command })) };
        self.read(&call).await
    }

    /// The requests that the service decided so far.
    pub(crate) async fn decisions(&self, id: &SandboxId) -> Result<EgressDecisions, AcaError> {
        let path = self.path(&format!("/{id}/egress-decisions"));
        self.read(&Call::new("read the egress decisions", Method::GET, path)).await
    }

    /// Writes a file, with the directories above it.
    pub(crate) async fn put(
        &self,
        id: &SandboxId,
        path: &str,
        mode: Option<&str>,
        content: Bytes,
    ) -> Result<(), AcaError> {
        let mut call = self.file_call("write a file", Method::PUT, id, "", path);
        call = call.query("createDirs", "true");
        if let Some(mode) = mode {
            call = call.query("mode", mode);
        }
        let call = Call { body: Body::Bytes(content), limit: Some(FILE_TIME), ..call };
        self.caller.call(&self.data, &call).await?;
        Ok(())
    }

    /// Reads a file of at most `most` bytes.
    pub(crate) async fn fetch(
        &self,
        id: &SandboxId,
        path: &str,
        most: usize,
    ) -> Result<Vec<u8>, AcaError> {
        let call = self.file_call("read a file", Method::GET, id, "", path);
        let call = Call { most_bytes: most, limit: Some(FILE_TIME), ..call };
        Ok(self.caller.call(&self.data, &call).await?.body)
    }

    /// Describes a file.
    pub(crate) async fn stat(&self, id: &SandboxId, path: &str) -> Result<FileView, AcaError> {
        self.read(&self.file_call("look at a file", Method::GET, id, "/stat", path)).await
    }

    /// Lists a directory.
    pub(crate) async fn entries(&self, id: &SandboxId, path: &str) -> Result<Listing, AcaError> {
        self.read(&self.file_call("list a directory", Method::GET, id, "/list", path)).await
    }

    /// Makes a directory.
    pub(crate) async fn make_directory(&self, id: &SandboxId, path: &str) -> Result<(), AcaError> {
        let place = self.path(&format!("/{id}/files/mkdir"));
        let call = Call::new("make a directory", Method::POST, place);
        self.caller.call(&self.data, &call.json(json!({ "path": path }))).await?;
        Ok(())
    }

    /// Removes a file or a directory.
    pub(crate) async fn remove(
        &self,
        id: &SandboxId,
        path: &str,
        recursive: bool,
    ) -> Result<(), AcaError> {
        let call = self.file_call("remove a file", Method::DELETE, id, "", path);
        let call = call.query("recursive", recursive.to_string());
        self.caller.call(&self.data, &call).await?;
        Ok(())
    }

    fn file_call(
        &self,
        doing: &'static str,
        method: Method,
        id: &SandboxId,
        kind: &str,
        path: &str,
    ) -> Call {
        let place = self.path(&format!("/{id}/files{kind}"));
        Call::new(doing, method, place).query("path", path)
    }

    async fn read<T: DeserializeOwned>(&self, call: &Call) -> Result<T, AcaError> {
        let value: Value = self.caller.json(&self.data, call).await?;
        serde_json::from_value(value).map_err(|error| AcaError::Response {
            doing: call.doing,
            reason: crate::call::harmless(&error.to_string()),
        })
    }
}

/// The id of a sandbox, which the service chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxId(String);

impl SandboxId {
    /// Accepts an id that is one segment of a path.
    pub(crate) fn parse(text: &str) -> Result<SandboxId, AcaError> {
        match crate::settings::segment(text, "sandbox id") {
            Ok(id) => Ok(SandboxId(id)),
            Err(_) => Err(AcaError::Response {
                doing: "create a sandbox",
                reason: "the id of the sandbox is not a plain name".to_owned(),
            }),
        }
    }
}

impl std::fmt::Display for SandboxId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}
