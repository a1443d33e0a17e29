//! What the caller chooses: the sandbox group, the endpoints, the disk and the credential.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::{Secret, TokenSource};

/// Which sandbox group to use, and how to reach and authenticate to it.
#[derive(Clone, Debug, Default)]
pub struct AcaOptions {
    /// The resource group, which must exist.
    pub resource_group: Option<String>,
    /// The sandbox group.
    pub sandbox_group: Option<String>,
    /// The subscription.
    pub subscription_id: Option<String>,
    /// The region, which determines the endpoint.
    pub region: Option<String>,
    /// The address of the data plane, instead of that of the region.
    pub endpoint: Option<String>,
    /// The address of Azure Resource Manager, instead of the public cloud's.
    pub arm_endpoint: Option<String>,
    /// The public disk image that sandboxes start from.
    pub disk: Option<String>,
    /// Where to create the sandbox group if it is missing; without it a missing group is an error.
    pub ensure_group_location: Option<String>,
    /// More labels for sandboxes.
    pub labels: Vec<(String, String)>,
    /// How to authenticate.
    pub credentials: CredentialChoice,
    /// A source of tokens that the caller brings; it replaces `credentials`.
    pub token_source: Option<Arc<dyn TokenSource>>,
    /// `SSL_CERT_FILE`: the certificates of authorities, instead of this machine's.
    pub certificates: Option<PathBuf>,
    /// How long to wait for what.
    pub timing: Timing,
}

/// The credentials that the environment configures, and which kind to use.
#[derive(Clone, Debug, Default)]
pub struct CredentialChoice {
    /// The kinds to try, in `AZURE_TOKEN_CREDENTIALS`; without it all of them.
    pub kinds: Option<String>,
    /// `AZURE_TENANT_ID`.
    pub tenant: Option<String>,
    /// `AZURE_CLIENT_ID`.
    pub client: Option<String>,
    /// `AZURE_CLIENT_SECRET`.
    pub secret: Option<Secret>,
    /// `AZURE_FEDERATED_TOKEN_FILE`.
    pub federated_token_file: Option<PathBuf>,
    /// `AZURE_AUTHORITY_HOST`.
    pub authority: Option<String>,
    /// `IDENTITY_ENDPOINT`.
    pub identity_endpoint: Option<String>,
    /// `IDENTITY_HEADER`.
    pub identity_header: Option<Secret>,
    /// `AZURE_POD_IDENTITY_AUTHORITY_HOST`, instead of the metadata service of a virtual machine.
    pub metadata_host: Option<String>,
    /// `PATH`, in which `az` is searched for.
    pub path: Option<OsString>,
}

/// The limits in time of talking to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// One request, other than an execution.
    pub request: Duration,
    /// The longest pause between two polls of a sandbox that is being created.
    pub poll: Duration,
    /// How long a sandbox may take until it runs.
    pub running: Duration,
    /// How long requests are refused with 403 until new roles are known everywhere.
    pub roles: Duration,
    /// How long to wait while the service reports that it is busy.
    pub busy: Duration,
    /// The first pause before a request is repeated; each further one is twice as long.
    pub pause: Duration,
    /// How long the end of a sandbox may take.
    pub cleanup: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            request: Duration::from_secs(30),
            poll: Duration::from_secs(3),
            running: Duration::from_secs(300),
            roles: Duration::from_secs(90),
            busy: Duration::from_secs(60),
            pause: Duration::from_millis(500),
            cleanup: Duration::from_secs(15),
        }
    }
}

impl AcaOptions {
    /// The options from environment variables.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> AcaOptions {
        let text = |name: &str| {
            let value = variable(name).and_then(|value| value.into_string().ok());
            value.filter(|value| !value.is_empty())
        };
        AcaOptions {
            resource_group: text("STOCKADE_ACA_RESOURCE_GROUP"),
            sandbox_group: text("STOCKADE_ACA_SANDBOX_GROUP"),
            subscription_id: text("AZURE_SUBSCRIPTION_ID"),
            region: text("STOCKADE_ACA_REGION").or_else(|| text("AZURE_SANDBOX_REGION")),
            endpoint: text("STOCKADE_ACA_ENDPOINT"),
            arm_endpoint: text("STOCKADE_ACA_ARM_ENDPOINT"),
            disk: text("STOCKADE_ACA_DISK"),
            ensure_group_location: text("STOCKADE_ACA_ENSURE_GROUP_LOCATION"),
            labels: Vec::new(),
            credentials: CredentialChoice {
                kinds: text("AZURE_TOKEN_CREDENTIALS"),
                tenant: text("AZURE_TENANT_ID"),
                client: text("AZURE_CLIENT_ID"),
                secret: text("AZURE_CLIENT_SECRET").map(Secret::new),
                federated_token_file: text("AZURE_FEDERATED_TOKEN_FILE").map(PathBuf::from),
                authority: text("AZURE_AUTHORITY_HOST"),
                identity_endpoint: text("IDENTITY_ENDPOINT"),
                identity_header: text("IDENTITY_HEADER").map(Secret::new),
                metadata_host: text("AZURE_POD_IDENTITY_AUTHORITY_HOST"),
                path: variable("PATH"),
            },
            token_source: None,
            certificates: text("SSL_CERT_FILE").map(PathBuf::from),
            timing: Timing::default(),
        }
    }
}

/// The kinds of credential, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// A service principal with a secret, from the environment.
    Environment,
    /// A service principal with a federated token, from a file.
    Workload,
    /// The identity of the machine.
    Managed,
    /// The account of the command `az`.
    Cli,
}

impl CredentialKind {
    pub(crate) const ALL: [CredentialKind; 4] = [
        CredentialKind::Environment,
        CredentialKind::Workload,
        CredentialKind::Managed,
        CredentialKind::Cli,
    ];

    /// The kinds that `AZURE_TOKEN_CREDENTIALS` names, as Azure's own libraries read it.
    pub(crate) fn chosen(text: Option<&str>) -> Result<Vec<CredentialKind>, UnknownCredentialKind> {
        let Some(text) = text else { return Ok(CredentialKind::ALL.to_vec()) };
        match text.to_ascii_lowercase().as_str() {
            "prod" => Ok(CredentialKind::ALL[..3].to_vec()),
            "dev" => Ok(vec![CredentialKind::Cli]),
            _ => Ok(vec![text.parse()?]),
        }
    }
}

/// `AZURE_TOKEN_CREDENTIALS` has another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownCredentialKind;

impl FromStr for CredentialKind {
    type Err = UnknownCredentialKind;

    fn from_str(text: &str) -> Result<CredentialKind, UnknownCredentialKind> {
        let found = CredentialKind::ALL.into_iter().find(|kind| {
            let name = format!("{kind}").to_ascii_lowercase();
            name == text.to_ascii_lowercase()
        });
        found.ok_or(UnknownCredentialKind)
    }
}

impl fmt::Display for CredentialKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CredentialKind::Environment => "EnvironmentCredential",
            CredentialKind::Workload => "WorkloadIdentityCredential",
            CredentialKind::Managed => "ManagedIdentityCredential",
            CredentialKind::Cli => "AzureCliCredential",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_credentials_are_named_as_azures_libraries_name_them() {
        let of = |text| CredentialKind::chosen(Some(text)).ok();
        assert_eq!(CredentialKind::chosen(None), Ok(CredentialKind::ALL.to_vec()));
        assert_eq!(of("dev"), Some(vec![CredentialKind::Cli]));
        assert_eq!(of("PROD"), Some(CredentialKind::ALL[..3].to_vec()));
        assert_eq!(of("managedidentitycredential"), Some(vec![CredentialKind::Managed]));
        assert_eq!(of("VisualStudioCodeCredential"), None);
    }

    #[test]
    fn variables_become_options_and_secrets_are_not_shown() {
        let options = AcaOptions::from_variables(|name| {
            (name != "PATH").then(|| OsString::from(format!("value-of-{name}")))
        });
        assert_eq!(options.subscription_id.as_deref(), Some("value-of-AZURE_SUBSCRIPTION_ID"));
        assert_eq!(options.region.as_deref(), Some("value-of-STOCKADE_ACA_REGION"));
        let shown = format!("{options:?}");
        for hidden in ["value-of-AZURE_CLIENT_SECRET", "value-of-IDENTITY_HEADER"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
        assert!(AcaOptions::from_variables(|_| None).resource_group.is_none());
    }
}
