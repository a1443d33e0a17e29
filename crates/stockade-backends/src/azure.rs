//! The managed wall: its options, its self-test, and what dead owners left there.

use std::fmt;
use std::sync::Arc;

pub use stockade_aca::{AcaError, SelfTest, Token, TokenSource};
use stockade_aca::{AcaOptions, AcaProvider};
use stockade_provider::{Error, Provider, chain};

pub use stockade_aca::Secret;

/// Which sandbox group to use; what is not chosen here comes from the environment.
#[derive(Clone, Debug, Default)]
pub struct AzureChoice {
    /// The resource group.
    pub resource_group: Option<String>,
    /// The sandbox group.
    pub sandbox_group: Option<String>,
    /// The subscription.
    pub subscription_id: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The address of the data plane.
    pub endpoint: Option<String>,
    /// The public disk image.
    pub disk: Option<String>,
    /// Where to create a missing sandbox group.
    pub ensure_group_location: Option<String>,
    /// More labels for sandboxes.
    pub labels: Vec<(String, String)>,
    /// A source of tokens that the caller brings.
    pub token_source: Option<Arc<dyn TokenSource>>,
}

impl AzureChoice {
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(AcaProvider::new(self.options()))
    }

    /// The choice, completed from the environment. A region that is chosen here is not replaced by
    /// another one of the environment, but an endpoint of the environment replaces the region's.
    fn options(&self) -> AcaOptions {
        let found = AcaOptions::from_variables(|name| std::env::var_os(name));
        let or = |chosen: &Option<String>, found: Option<String>| chosen.clone().or(found);
        AcaOptions {
            resource_group: or(&self.resource_group, found.resource_group),
            sandbox_group: or(&self.sandbox_group, found.sandbox_group),
            subscription_id: or(&self.subscription_id, found.subscription_id),
            region: or(&self.region, found.region),
            endpoint: or(&self.endpoint, found.endpoint),
            disk: or(&self.disk, found.disk),
            ensure_group_location: or(&self.ensure_group_location, found.ensure_group_location),
            labels: self.labels.clone(),
            token_source: self.token_source.clone(),
            ..found
        }
    }

    /// Creates a sandbox, runs a program in it and deletes it.
    pub async fn self_test(&self) -> SelfTest {
        SelfTest::run(&self.options()).await
    }

    /// Whether a sandbox group is named at all.
    pub fn is_configured(&self) -> bool {
        let options = self.options();
        options.resource_group.is_some() && options.sandbox_group.is_some()
    }

    /// Deletes the sandboxes that dead processes of this user left. Returns their ids.
    pub async fn sweep(&self) -> Result<Vec<String>, SweepError> {
        stockade_aca::sweep(&self.options()).await.map_err(|error| {
            let error = Error::from(error);
            SweepError { message: chain(&error), remedy: error.remedy().map(str::to_owned) }
        })
    }
}

/// Sandboxes that earlier Stockade processes left in Azure could not be deleted.
#[derive(Debug)]
pub struct SweepError {
    /// Why not.
    pub message: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl fmt::Display for SweepError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for SweepError {}
