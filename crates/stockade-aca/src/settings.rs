//! Checks options: every part of an address is a plain name, and every endpoint is HTTPS.

use std::path::PathBuf;

use url::Url;

use crate::options::{AcaOptions, Timing};
use crate::{AcaError, CredentialChoice};

/// The public cloud's Azure Resource Manager.
const ARM: &str = "https://management.azure.com";

/// The public disk image with Python, which the runner needs.
const DISK: &str = "python-3.13";

/// Checked options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) subscription: String,
    pub(crate) resource_group: String,
    pub(crate) sandbox_group: String,
    /// The data plane.
    pub(crate) endpoint: Url,
    pub(crate) arm: Url,
    pub(crate) disk: String,
    /// Where a missing sandbox group is created.
    pub(crate) location: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) credentials: CredentialChoice,
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) timing: Timing,
}

impl Settings {
    /// Checks the options of a caller. Sends nothing.
    pub(crate) fn of(options: &AcaOptions) -> Result<Settings, AcaError> {
        let resource_group = required(
            &options.resource_group,
            "resource group",
            "name it with --aca-resource-group or STOCKADE_ACA_RESOURCE_GROUP",
        )?;
        let sandbox_group = required(
            &options.sandbox_group,
            "sandbox group",
            "name it with --aca-sandbox-group or STOCKADE_ACA_SANDBOX_GROUP",
        )?;
        let subscription = required(
            &options.subscription_id,
            "subscription",
            "name it with --aca-subscription or AZURE_SUBSCRIPTION_ID; \
             `az account show --query id` prints it",
        )?;
        let location = options.ensure_group_location.as_deref();
        let location = location.map(|it| segment(it, "location")).transpose()?;
        let region = options.region.as_deref().or(location.as_deref());
        let endpoint = match (&options.endpoint, region) {
            (Some(endpoint), _) => address(endpoint, "endpoint")?,
            (None, Some(region)) => {
                let region = label(region)?;
                let text = format!("https://management.{region}.azuredevcompute.io");
                address(&text, "endpoint")?
            }
            (None, None) => {
                return Err(AcaError::Option {
                    what: "region".to_owned(),
                    reason: "none is named".to_owned(),
                    remedy:
                        "name it with --aca-region, STOCKADE_ACA_REGION or AZURE_SANDBOX_REGION"
                            .to_owned(),
                });
            }
        };
        let arm = address(options.arm_endpoint.as_deref().unwrap_or(ARM), "ARM endpoint")?;
        Ok(Settings {
            subscription,
            resource_group,
            sandbox_group,
            endpoint,
            arm,
            disk: segment(options.disk.as_deref().unwrap_or(DISK), "disk")?,
            location,
            labels: options.labels.clone(),
            credentials: options.credentials.clone(),
            certificates: options.certificates.clone(),
            timing: options.timing,
        })
    }

    /// The path of the sandbox group on the data plane.
    pub(crate) fn group_path(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/sandboxGroups/{}",
            self.subscription, self.resource_group, self.sandbox_group
        )
    }

    /// The path of the sandbox group in Azure Resource Manager.
    pub(crate) fn arm_path(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.App/sandboxGroups/{}",
            self.subscription, self.resource_group, self.sandbox_group
        )
    }
}

fn required(value: &Option<String>, what: &str, remedy: &'static str) -> Result<String, AcaError> {
    match value {
        Some(value) => segment(value, what),
        None => Err(AcaError::Option {
            what: what.to_owned(),
            reason: "none is named".to_owned(),
            remedy: remedy.to_owned(),
        }),
    }
}

/// Accepts one segment of a path that means the same to every parser.
pub(crate) fn segment(text: &str, what: &str) -> Result<String, AcaError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.()".contains(&byte);
    if !text.is_empty() && text.len() <= 128 && !text.contains("..") && text.bytes().all(is_plain) {
        return Ok(text.to_owned());
    }
    let shown: String = text.chars().take(64).collect();
    Err(AcaError::Option {
        what: what.to_owned(),
        reason: format!("{shown:?} is not a plain name"),
        remedy: "use letters, digits, hyphens, underscores and dots".to_owned(),
    })
}

/// Accepts the name of a region, which becomes a label of a host name.
fn label(text: &str) -> Result<&str, AcaError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !text.is_empty() && text.len() <= 63 && text.bytes().all(is_plain) {
        return Ok(text);
    }
    Err(AcaError::Option {
        what: "region".to_owned(),
        reason: format!("{text:?} is not the name of a region"),
        remedy: "write it as Azure does, such as eastus2".to_owned(),
    })
}

/// Accepts an HTTPS address without a path, user or query.
pub(crate) fn address(text: &str, what: &str) -> Result<Url, AcaError> {
    let wrong = |reason: &str| AcaError::Option {
        what: what.to_owned(),
        reason: format!("{text:?} {reason}"),
        remedy: "write it as https://HOST or https://HOST:PORT".to_owned(),
    };
    let url = Url::parse(text).map_err(|_| wrong("is not an address"))?;
    if url.scheme() != "https" {
        return Err(wrong("is not an HTTPS address"));
    }
    let is_bare = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.path() == "/"
        && url.host_str().is_some_and(|host| !host.is_empty());
    if is_bare { Ok(url) } else { Err(wrong("has more than a host and a port")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> AcaOptions {
        AcaOptions {
            resource_group: Some("agents-rg".to_owned()),
            sandbox_group: Some("agents".to_owned()),
            subscription_id: Some("00000000-0000-0000-0000-000000000001".to_owned()),
            region: Some("westus2".to_owned()),
            ..AcaOptions::default()
        }
    }

    #[test]
    fn region_determines_the_endpoint_and_an_endpoint_replaces_it() {
        let settings = Settings::of(&options()).unwrap();
        assert_eq!(settings.endpoint.as_str(), "https://management.westus2.azuredevcompute.io/");
        assert_eq!(settings.arm.as_str(), "https://management.azure.com/");
        assert_eq!(settings.disk, "python-3.13");
        let endpoint = Some("https://127.0.0.1:8443".to_owned());
        let settings = Settings::of(&AcaOptions { endpoint, ..options() }).unwrap();
        assert_eq!(settings.endpoint.as_str(), "https://127.0.0.1:8443/");
    }

    #[test]
    fn location_of_a_group_is_the_region_if_none_is_named() {
        let wanted = AcaOptions {
            region: None,
            ensure_group_location: Some("eastus2".to_owned()),
            ..options()
        };
        let settings = Settings::of(&wanted).unwrap();
        assert_eq!(settings.endpoint.host_str(), Some("management.eastus2.azuredevcompute.io"));
        let error = Settings::of(&AcaOptions { region: None, ..options() }).unwrap_err();
        assert_eq!(error.to_string(), "cannot use the region: none is named");
    }

    #[test]
    fn address_must_be_https_and_have_nothing_but_a_host() {
        for wrong in [
            "http://example.org",
            "https://user@example.org",
            "https://example.org/path",
            "https://example.org/?q",
            "example.org",
            "https://",
        ] {
            assert!(address(wrong, "endpoint").is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_that_could_leave_their_place_in_a_path_are_refused() {
        for wrong in ["", "a/b", "a\\b", "..", "a..b", "a\0", "a b", "a%2fb", "a?b", "é"] {
            assert!(segment(wrong, "disk").is_err(), "{wrong:?}");
            let resource_group = Some(wrong.to_owned());
            let wanted = AcaOptions { resource_group, ..options() };
            assert!(Settings::of(&wanted).is_err(), "{wrong:?}");
        }
        let region = Some("evil.example/x".to_owned());
        assert!(Settings::of(&AcaOptions { region, ..options() }).is_err());
    }
}
