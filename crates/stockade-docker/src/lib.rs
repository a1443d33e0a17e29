//! The container wall: a container of a Docker engine, with the guest as its first process.
//!
//! ```text
//! DockerOptions ── endpoint ──▶ Engine ── facts ──▶ EngineFacts
//! policy, EngineFacts, image ── plan ──▶ container configuration ── start ──▶ DockerSandbox
//! ```
//! The host talks to the guest over the container's standard input and output, so the container
//! needs no network, published port or mounted socket, and the engine may be remote.

// One test compares a whole configuration, written with one macro.
#![cfg_attr(test, recursion_limit = "256")]

mod abilities;
mod archive;
mod bundles;
mod endpoint;
mod engine;
mod error;
mod events;
mod files;
mod filters;
mod hardened;
mod host;
mod image;
mod image_look;
mod kept;
mod lent;
mod look;
mod options;
mod owner;
mod plan;
mod provider;
mod pull;
mod runtime;
mod sandbox;
mod start;
mod stream;
mod trial;
mod trial_image;
mod volumes;

pub use abilities::reference_abilities;
pub use error::DockerError;
pub use hardened::{HARDENED_BASE, HARDENED_IMAGE, HardenedBuild, HardenedImage};
pub use host::{EngineFacts, EngineLimits};
pub use image::Hardened;
pub use image_look::{ImageLook, ImageWanted, engine_images};
pub use look::EngineLook;
pub use options::DockerOptions;
pub use provider::DockerProvider;
pub use pull::Progress;
pub use runtime::{Runtime, RuntimeChoice, UnknownRuntime};
pub use trial::RuntimeLook;
