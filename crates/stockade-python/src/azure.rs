//! The options of the managed wall, and tokens of a credential that is a Python object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use pyo3::prelude::*;
use stockade_backends::{AcaError, AzureChoice, Secret, Token, TokenSource};
use tokio::task::spawn_blocking;

/// The attributes of `stockade.Azure`.
#[derive(FromPyObject)]
pub(crate) struct AzureOptions {
    resource_group: Option<String>,
    sandbox_group: Option<String>,
    subscription_id: Option<String>,
    region: Option<String>,
    endpoint: Option<String>,
    disk: Option<String>,
    ensure_group_location: Option<String>,
    _labels: Vec<(String, String)>,
    /// Takes a scope and returns a token with the seconds until it expires.
    _token: Option<Py<PyAny>>,
}

impl AzureOptions {
    pub(crate) fn choice(self) -> AzureChoice {
        let source = |function| Arc::new(PythonTokens(Arc::new(function))) as Arc<dyn TokenSource>;
        AzureChoice {
            resource_group: self.resource_group,
            sandbox_group: self.sandbox_group,
            subscription_id: self.subscription_id,
            region: self.region,
            endpoint: self.endpoint,
            disk: self.disk,
            ensure_group_location: self.ensure_group_location,
            labels: self._labels,
            token_source: self._token.map(source),
        }
    }
}

/// A Python function that gives tokens.
struct PythonTokens(Arc<Py<PyAny>>);

impl fmt::Debug for PythonTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PythonTokens")
    }
}

impl TokenSource for PythonTokens {
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<Token, AcaError>> {
        let (function, scope) = (Arc::clone(&self.0), scope.to_owned());
        Box::pin(async move {
            let asked = spawn_blocking(move || Python::attach(|py| ask(py, &function, &scope)));
            let failed = |reason: String| AcaError::Credential { reason };
            let asked = asked.await.map_err(|_| failed("the credential panicked".to_owned()))?;
            asked.map_err(failed)
        })
    }
}

/// Asks for a token. Of an exception only its type is kept: its text may contain a credential.
fn ask(py: Python<'_>, function: &Py<PyAny>, scope: &str) -> Result<Token, String> {
    let raised = |error: PyErr| {
        let kind = error.get_type(py).name().map_or_else(|_| String::new(), |it| it.to_string());
        format!("the credential raised {kind}")
    };
    let answer = function.call1(py, (scope,)).map_err(raised)?;
    let (token, seconds): (String, f64) = answer.extract(py).map_err(raised)?;
    let valid = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(Token { secret: Secret::new(token), valid })
}
