//! Whether this host lets the native wall be built, and whether with a way out.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_provider::{
    Carried, Destination, Duplex, Error, Gateway, Obstacle, SandboxRequest, chain,
};

use crate::error::{StartError, is_of_way_out};
use crate::plan::WayOut;
use crate::provider::NativeProvider;
use crate::start::User;
use crate::trial;

/// What came of walls around nothing.
#[derive(Debug)]
pub(crate) struct Tried {
    /// Why none can be built.
    pub(crate) unusable: Option<Obstacle>,
    /// Why none with a way out can.
    pub(crate) no_way_out: Option<Obstacle>,
}

/// Builds a wall around nothing with a way out, to see whether this host lets it, and where it does
/// not let that one without.
pub(crate) fn try_out() -> Tried {
    let start = |way_out| {
        move |mut request: SandboxRequest| -> BoxFuture<'static, Result<(), StartError>> {
            if way_out == WayOut::Gateway {
                request.gateway = Some(Arc::new(Nowhere));
            }
            let provider = NativeProvider::new(User::Stays);
            Box::pin(async move { provider.start_for_trial(&request).await })
        }
    };
    match trial::build("{}", start(WayOut::Gateway)) {
        Ok(()) => Tried { unusable: None, no_way_out: None },
        Err(StartError::Refused(refusal)) if is_of_way_out(&refusal) => Tried {
            unusable: trial::build("{}", start(WayOut::None)).err().map(obstacle),
            no_way_out: Some(obstacle(StartError::Refused(refusal))),
        },
        Err(error) => Tried { unusable: Some(obstacle(error)), no_way_out: None },
    }
}

/// The gateway of a trial, in which nothing is started that could open anything.
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

/// An error of a trial as the reason why a wall cannot be used.
pub(crate) fn obstacle(error: StartError) -> Obstacle {
    let error = Error::from(error);
    let remedy = error.remedy().unwrap_or("see `stockade doctor --help`").to_owned();
    Obstacle { reason: chain(&error), remedy }
}
