//! `stockade export` and `stockade import`.

use stockade_store::{Reference, export as write, import as read};
use stockade_supervisor::checkpoint_view;

use super::look::Look;
use super::place::{self, problem};
use crate::args::{ExportArgs, StateImportArgs};
use crate::render::{self, Output};

pub(crate) fn export(args: &ExportArgs, output: Output) -> anyhow::Result<u8> {
    let look = Look::at(&args.source)?;
    write(&look.store, &look.checkpoint, &args.file).map_err(|error| problem(&error))?;
    match output {
        Output::Json => render::json(&checkpoint_view(&look.checkpoint))?,
        Output::Text => render::text(&format!("{}\n", args.file.display()))?,
    }
    Ok(0)
}

pub(crate) fn import(args: &StateImportArgs, output: Output) -> anyhow::Result<u8> {
    let name = args.name.as_deref().map(str::parse::<Reference>).transpose();
    let name = name.map_err(|error| problem(&error))?;
    let store = place::open()?;
    let checkpoint = read(&store, &args.file, name.as_ref()).map_err(|error| problem(&error))?;
    let view = checkpoint_view(&checkpoint);
    match output {
        Output::Json => render::json(&view)?,
        Output::Text => render::text(&format!("{}\n", view.reference))?,
    }
    Ok(0)
}
