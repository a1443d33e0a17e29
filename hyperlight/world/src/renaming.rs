//! One import of the component, renamed for the micro-VM's runtime.
//!
//! The runtime names a function of the host by package and function, without the interface. Both
//! clocks of WASI have a function `now` in the package `wasi:clocks`, so one of them needs another
//! package. Both names have the same length, so the component's sections keep their sizes.

const FROM: &[u8] = b"wasi:clocks/wall-clock";
const TO: &[u8] = b"wasi:wclock/wall-clock";

/// The component with its wall clock in a package of its own.
#[must_use]
pub fn renamed(component: &[u8]) -> Vec<u8> {
    let mut bytes = component.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(FROM.len()).position(|window| window == FROM) {
        at += found;
        bytes[at..at + TO.len()].copy_from_slice(TO);
        at += TO.len();
    }
    bytes
}
