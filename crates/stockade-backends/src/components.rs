//! The WebAssembly wall, if it is built in.

use std::sync::Arc;

use stockade_provider::{Obstacle, Provider};

/// The component of the WebAssembly wall on this host, for display.
#[derive(Clone, Debug)]
pub struct ComponentState {
    /// Names and values.
    pub lines: Vec<(String, String)>,
    /// Why it cannot be used, if it cannot.
    pub unusable: Option<Obstacle>,
}

#[cfg(feature = "wasm")]
pub(crate) fn provider() -> Option<Arc<dyn Provider>> {
    Some(Arc::new(stockade_wasm::WasmProvider::new()))
}

/// The WebAssembly wall is not built in.
#[cfg(not(feature = "wasm"))]
pub(crate) fn provider() -> Option<Arc<dyn Provider>> {
    None
}

/// The component; `None` if the WebAssembly wall is not built in.
#[cfg(feature = "wasm")]
pub fn component_state() -> Option<ComponentState> {
    Some(match stockade_wasm::look() {
        Ok(look) => {
            let compiled = match look.is_compiled {
                true => "compiled for this processor",
                false => "the first use compiles it, which takes up to a minute",
            };
            ComponentState {
                lines: vec![
                    ("CPython component".to_owned(), look.path.display().to_string()),
                    (String::new(), format!("{}, {compiled}", look.engine)),
                ],
                unusable: None,
            }
        }
        Err(error) => {
            let obstacle = stockade_wasm::obstacle(&error);
            ComponentState {
                lines: vec![
                    ("CPython component".to_owned(), obstacle.reason.clone()),
                    (String::new(), format!("= {}", obstacle.remedy)),
                ],
                unusable: Some(obstacle),
            }
        }
    })
}

/// The WebAssembly wall is not built in.
#[cfg(not(feature = "wasm"))]
pub fn component_state() -> Option<ComponentState> {
    None
}

/// Sets what shows the user a line about work of this process that takes long, such as compiling
/// the component. It is called on threads that may block.
#[cfg(feature = "wasm")]
pub fn show_progress(show: fn(&str)) {
    stockade_wasm::show_progress(show);
}

/// Without the WebAssembly wall nothing takes long.
#[cfg(not(feature = "wasm"))]
pub fn show_progress(_: fn(&str)) {}
