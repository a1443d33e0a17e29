//! Embeds the component in a released build: `STOCKADE_COMPONENT` names its file then.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=STOCKADE_COMPONENT");
    let output = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let mut packed = Vec::new();
    if let Some(path) = env::var_os("STOCKADE_COMPONENT") {
        println!("cargo::rerun-if-changed={}", path.display());
        let mut encoder = DeflateEncoder::new(&mut packed, Compression::best());
        encoder.write_all(&fs::read(path)?)?;
        encoder.finish()?;
    }
    fs::write(output.join("component.deflate"), packed)?;
    Ok(())
}
