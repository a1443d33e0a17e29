//! `stockade audit show`.

use std::path::Path;

use stockade_record::{Event, Reader};

use crate::render::{self, Output};

use super::{find, text, unreadable};

pub(super) fn run(
    session: Option<&str>,
    named: Option<&Path>,
    output: Output,
) -> anyhow::Result<u8> {
    let mut reader = Reader::open(&find(session, named)?).map_err(|error| unreadable(&error))?;
    let mut events: Vec<Event> = Vec::new();
    while let Some(event) = reader.next().map_err(|error| unreadable(&error))? {
        match output {
            Output::Json => events.push(event),
            Output::Text => render::text(&text::event(&event))?,
        }
    }
    match output {
        Output::Json => render::json(&events)?,
        Output::Text if reader.is_complete() => {}
        Output::Text => render::talk("the session has no end: it runs, or Stockade was killed"),
    }
    Ok(0)
}
