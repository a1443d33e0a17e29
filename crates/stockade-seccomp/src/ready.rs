//! The precompiled built-in profile: compiling it would take a twentieth of a whole start.
//!
//! Each file contains the instructions in the kernel's format, eight bytes each, little endian. A
//! test compiles the profile and compares; `STOCKADE_BLESS=1` makes it write the files instead.

use stockade_sys::Instruction;

use super::compile::Program;
use super::{Architecture, ExecutableMemfd, Options, Tracing};

/// The compiled built-in profile for the options, if it is precompiled.
pub fn ready(options: Options, architecture: Architecture) -> Option<Program> {
    let bytes: &[u8] = match (options, architecture) {
        (Options { tracing: Tracing::Allowed, .. }, _) => return None,
        (Options { executable_memfd: ExecutableMemfd::Allowed, .. }, Architecture::X86_64) => {
            include_bytes!("ready/x86_64.bpf")
        }
        (Options { executable_memfd: ExecutableMemfd::Refused, .. }, Architecture::X86_64) => {
            include_bytes!("ready/x86_64-commands.bpf")
        }
        (Options { executable_memfd: ExecutableMemfd::Allowed, .. }, Architecture::Aarch64) => {
            include_bytes!("ready/aarch64.bpf")
        }
        (Options { executable_memfd: ExecutableMemfd::Refused, .. }, Architecture::Aarch64) => {
            include_bytes!("ready/aarch64-commands.bpf")
        }
    };
    Some(Program::of(bytes.as_chunks().0.iter().map(instruction).collect()))
}

fn instruction(bytes: &[u8; 8]) -> Instruction {
    let [code_low, code_high, jt, jf, k @ ..] = *bytes;
    let code = u16::from_le_bytes([code_low, code_high]);
    Instruction { code, jt, jf, k: u32::from_le_bytes(k) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{built_in, compile};

    #[test]
    fn every_file_equals_the_compiler_output() {
        for architecture in Architecture::ALL {
            for executable_memfd in [ExecutableMemfd::Allowed, ExecutableMemfd::Refused] {
                let options = Options { executable_memfd, tracing: Tracing::Refused };
                let compiled = compile(&built_in(options), architecture).unwrap();
                if std::env::var_os("STOCKADE_BLESS").is_some() {
                    write(options, architecture, &compiled);
                } else {
                    assert_eq!(ready(options, architecture).unwrap(), compiled, "{options:?}");
                }
            }
        }
    }

    fn write(options: Options, architecture: Architecture, program: &Program) {
        let name = match architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        };
        let end = match options.executable_memfd {
            ExecutableMemfd::Allowed => "",
            ExecutableMemfd::Refused => "-commands",
        };
        let mut bytes = Vec::new();
        for Instruction { code, jt, jf, k } in program.instructions() {
            bytes.extend(code.to_le_bytes());
            bytes.extend([*jt, *jf]);
            bytes.extend(k.to_le_bytes());
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ready");
        std::fs::write(folder.join(format!("{name}{end}.bpf")), bytes).unwrap();
    }
}
