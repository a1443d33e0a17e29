//! `stockade port`.

use serde_json::json;
use stockade_api::{PortParams, PortView, Reply, Request};

use super::client;
use super::table::table;
use crate::args::PortArgs;
use crate::render::{self, Output};

pub(crate) fn port(args: &PortArgs, output: Output) -> anyhow::Result<u8> {
    let params = match args.port {
        None => PortParams::List,
        Some(port) if args.close => PortParams::Close { port },
        Some(port) => PortParams::Open { port, listen: args.listen.clone() },
    };
    let session = args.session.as_str();
    let reply = client::runtime()?.block_on(client::ask(session, Request::Port(params)))?;
    let views = match reply {
        Reply::Ports(views) => views,
        Reply::Done => {
            if output == Output::Json {
                render::json(&json!({ "port": args.port }))?;
            }
            return Ok(0);
        }
        _ => return Err(client::confused(session).into()),
    };
    match (output, args.port) {
        (Output::Json, Some(_)) => render::json(&views.first())?,
        (Output::Json, None) => render::json(&views)?,
        (Output::Text, Some(_)) => {
            views.iter().try_for_each(|view| render::text(&format!("{}\n", view.address)))?;
        }
        (Output::Text, None) => {
            let heads = ["PORT", "ADDRESS", "OPEN", "CONNECTIONS", "REFUSED"];
            let mut rows = vec![heads.map(str::to_owned).to_vec()];
            rows.extend(views.iter().map(row));
            render::text(&table(&rows))?;
        }
    }
    Ok(0)
}

fn row(view: &PortView) -> Vec<String> {
    vec![
        view.port.to_string(),
        view.address.clone(),
        view.open.to_string(),
        view.connections.to_string(),
        view.refused.to_string(),
    ]
}
