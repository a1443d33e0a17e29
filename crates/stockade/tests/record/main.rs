//! The record of `stockade run`, and `stockade audit`.

mod changes;
mod deaths;
mod following;
mod full;
mod places;
mod questions;
mod support;
