//! Derives the world of the micro-VM's runtime from the CPython component, so that the two cannot
//! differ: `stockade-hyperlight-world COMPONENT WORLD`. The runtime's bindings are generated from
//! the world at its build.

use std::error::Error;
use std::{env, fs};

use wit_parser::{Resolve, WorldItem};

mod renaming;

/// The exported instance that only the component's builder uses.
const OF_THE_BUILDER: &str = "exports";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [component, world] = words.as_slice() else {
        return Err("usage: stockade-hyperlight-world COMPONENT WORLD".into());
    };
    let bytes = renaming::renamed(&fs::read(component)?);
    let decoded = wit_component::decode(&bytes)?;
    let (mut resolve, package) = (decoded.resolve().clone(), decoded.package());
    drop_builders_export(&mut resolve);
    fs::write(world, wit_component::encode(&resolve, package)?)?;
    Ok(())
}

/// The runtime's bindings are for what a host calls.
fn drop_builders_export(resolve: &mut Resolve) {
    for (_, world) in resolve.worlds.iter_mut() {
        world.exports.retain(|key, item| {
            !matches!((key, item), (wit_parser::WorldKey::Name(name), WorldItem::Interface { .. })
                if name == OF_THE_BUILDER)
        });
    }
}
