//! A program and its outcome, as the component's function takes and returns them.

use stockade_wasm::bindings::{Outcome, Program, Uncaught};

use crate::values::{Malformed, Reader, Writer};

pub(crate) fn encode(program: &Program) -> Vec<u8> {
    let head = Writer::new().bytes(&program.code).string(&program.name);
    let arguments = head.length(program.arguments.len());
    let arguments = program.arguments.iter().fold(arguments, |it, word| it.string(word));
    let variables = arguments.length(program.environment.len());
    let variables = program
        .environment
        .iter()
        .fold(variables, |it, variable| it.string(&variable.name).string(&variable.value));
    variables.string(&program.working_directory).u8(u8::from(program.tools)).finish()
}

pub(crate) fn outcome(bytes: &[u8]) -> Result<Outcome, Malformed> {
    let mut reader = Reader::new(bytes);
    let outcome = match reader.u32()? {
        0 => Outcome::Finished,
        1 => Outcome::Exited(reader.u32()?.cast_signed()),
        2 => Outcome::Raised(Uncaught { kind: reader.string()?, message: reader.string()? }),
        _ => return Err(Malformed),
    };
    reader.end()?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_read_strictly() {
        assert!(matches!(outcome(&[0; 4]), Ok(Outcome::Finished)));
        let exited = [1u32.to_le_bytes(), (-2i32).to_le_bytes()].concat();
        assert!(matches!(outcome(&exited), Ok(Outcome::Exited(-2))));
        assert!(outcome(&[0; 5]).is_err() && outcome(&[3, 0, 0, 0]).is_err());
    }
}
