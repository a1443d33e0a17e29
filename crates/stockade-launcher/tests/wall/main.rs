//! Walls built from plans on the real kernel, checked from inside and outside.

mod faults;
mod posture;
mod support;
mod tools;
mod way_out;
