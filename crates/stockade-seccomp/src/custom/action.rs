//! Actions, and their error numbers.

use jsonc_parser::ast::Value;
use jsonc_parser::common::{Range, Ranged};

use super::super::Action;
use super::json::{Members, Text, closest, shown};
use super::{ProfileError, words};

/// An action with its error number, given as a number, as a name, or as both.
pub(super) fn action<'t>(
    text: Text<'t>,
    value: &Value<'t>,
    members: Members<'_, 't>,
    [number_key, name_key]: [&str; 2],
) -> Result<Action, ProfileError> {
    let word = text.string(value)?;
    if words::SUPERVISED.contains(&word) {
        let problem = format!("`{word}` leaves the answer to a supervisor, which does not exist");
        return Err(text.error(value.range(), problem, "write SCMP_ACT_ERRNO"));
    }
    let number = members.get(number_key).map(|value| errno_number(text, value)).transpose()?;
    let name = members.get(name_key).map(|value| errno_name(text, value)).transpose()?;
    if let (Some((number, _)), Some((name, range))) = (number, name)
        && number != name
    {
        let problem = format!("`{name_key}` is {name}, but `{number_key}` is {number}");
        return Err(text.error(range, problem, "let them agree, or keep one"));
    }
    let found = number.or(name);
    let errno = found.map_or(words::DEFAULT_ERRNO, |(errno, _)| errno);
    let action = words::action(word, errno)
        .ok_or_else(|| unknown(text, value.range(), "the action", word, &words::ACTIONS))?;
    match (action, found) {
        (Action::Errno(_) | Action::Trap(_), _) | (_, None) => Ok(action),
        (_, Some((_, range))) => {
            let problem = format!("{word} has no error number");
            Err(text.error(range, problem, "remove the error number"))
        }
    }
}

/// The error for an unknown word.
pub(super) fn unknown(
    text: Text<'_>,
    range: Range,
    what: &str,
    word: &str,
    known: &[&str],
) -> ProfileError {
    let problem = format!("{what} {} is not known", shown(word));
    let remedy = match closest(word, known) {
        Some(close) => format!("did you mean {close}?"),
        None => format!("write one of {}", known.join(", ")),
    };
    text.error(range, problem, remedy)
}

fn errno_number<'t>(text: Text<'t>, value: &Value<'t>) -> Result<(u16, Range), ProfileError> {
    let number = text.number(value)?;
    match u16::try_from(number) {
        Ok(errno @ 1..=Action::HIGHEST_ERRNO) => Ok((errno, value.range())),
        _ => {
            let problem = format!("{number} is not an error number");
            let remedy = format!("write one from 1 to {}", Action::HIGHEST_ERRNO);
            Err(text.error(value.range(), problem, remedy))
        }
    }
}

fn errno_name<'t>(text: Text<'t>, value: &Value<'t>) -> Result<(u16, Range), ProfileError> {
    let name = text.string(value)?;
    words::errno(name).map(|errno| (errno, value.range())).ok_or_else(|| {
        let problem = format!("the error {} is not known here", shown(name));
        text.error(value.range(), problem, "write its number")
    })
}
