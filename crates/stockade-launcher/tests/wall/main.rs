//! Walls built from plans on the real kernel, checked from inside and outside.

mod egress;
mod faults;
mod posture;
mod support;
mod tools;
