//! Tries whether this host allows the native wall, with and without egress.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_interpreters::Surroundings;
use stockade_provider::{Carried, Destination, Duplex, Error, Gateway, Obstacle, chain};

use crate::error::{StartError, is_of_egress};
use crate::plan::Egress;
use crate::provider::NativeProvider;
use crate::start::HostProcess;
use crate::trial;

/// The result of the trial walls.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// Why no wall can be built.
    pub(crate) unusable: Option<Obstacle>,
    /// Why no wall with egress can be built.
    pub(crate) no_egress: Option<Obstacle>,
}

/// Builds an empty wall with egress to find out whether this host allows it, and if not, one
/// without.
pub(crate) async fn try_out() -> Tried {
    match build(Egress::Gateway).await {
        Ok(()) => Tried { unusable: None, no_egress: None },
        Err(StartError::Refused(refusal)) if is_of_egress(&refusal) => Tried {
            unusable: build(Egress::None).await.err().map(obstacle),
            no_egress: Some(obstacle(StartError::Refused(refusal))),
        },
        Err(error) => Tried { unusable: Some(obstacle(error)), no_egress: None },
    }
}

async fn build(egress: Egress) -> Result<(), StartError> {
    trial::build("{}", |mut request| async move {
        if egress == Egress::Gateway {
            request.gateway = Some(Arc::new(Nowhere));
        }
        let provider = NativeProvider::new(HostProcess::Continues, Surroundings::default());
        provider.start_for_trial(&request).await
    })
    .await
}

/// The gateway of a trial, which starts no program that could connect to it.
#[derive(Debug)]
struct Nowhere;

impl Gateway for Nowhere {
    fn serve(&self, _: Destination, _: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn carries(&self) -> Carried {
        Carried { network: true, tools: false }
    }

    fn most_streams(&self) -> usize {
        0
    }
}

/// Turns the error of a trial into the reason why a wall cannot be used.
pub(crate) fn obstacle(error: StartError) -> Obstacle {
    let error = Error::from(error);
    let remedy = error.remedy().unwrap_or("see `stockade doctor --help`").to_owned();
    Obstacle { reason: chain(&error), remedy }
}
