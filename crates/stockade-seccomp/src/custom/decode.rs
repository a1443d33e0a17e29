//! Converts JSON to a profile.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};

use super::super::{Action, Condition, Syscall, Width, syscall};
use super::action::{action, unknown};
use super::json::{LONGEST_WORD, Members, Text, shown};
use super::{CustomProfile, ProfileError, Selector, SyscallEntry, words};

const PROFILE_KEYS: [&str; 7] = [
    "defaultAction",
    "defaultErrnoRet",
    "defaultErrno",
    "architectures",
    "archMap",
    "flags",
    "syscalls",
];
const ENTRY_KEYS: [&str; 9] =
    ["names", "name", "action", "errnoRet", "errno", "args", "comment", "includes", "excludes"];
const ARGUMENT_KEYS: [&str; 6] = ["index", "value", "valueTwo", "op", "val", "val2"];
const SELECTOR_KEYS: [&str; 3] = ["caps", "arches", "minKernel"];

/// A profile with more unknown names is not for this kind of kernel.
const MOST_NOTES: usize = 100;

/// Reads a whole profile.
pub(super) fn profile(text: &str) -> Result<CustomProfile, ProfileError> {
    let (text, object) = Text::object(text)?;
    let members = text.members(&object, &PROFILE_KEYS)?;
    let word = members.need("defaultAction", object.range)?;
    let default = action(text, word, members, ["defaultErrnoRet", "defaultErrno"])?;
    let mut reader = Reader { text, default, notes: Vec::new() };
    let architectures = reader.architectures(members)?;
    reader.flags(members)?;
    let mut entries = Vec::new();
    if let Some(list) = members.get("syscalls") {
        for element in text.list(list)? {
            entries.push(reader.entry(as_object(text, element)?)?);
        }
    }
    Ok(CustomProfile { default, architectures, entries, notes: reader.notes })
}

struct Reader<'t> {
    text: Text<'t>,
    default: Action,
    notes: Vec<String>,
}

impl<'t> Reader<'t> {
    fn architectures(&self, members: Members<'_, 't>) -> Result<Vec<String>, ProfileError> {
        let text = self.text;
        members.either("architectures", "archMap")?;
        let (plain, map) = (members.get("architectures"), members.get("archMap"));
        let mut found = Vec::new();
        for value in plain.map_or(Ok(&[][..]), |list| text.list(list))? {
            found.push(self.architecture(value)?);
        }
        for element in map.map_or(Ok(&[][..]), |list| text.list(list))? {
            let object = as_object(text, element)?;
            let members = text.members(object, &["architecture", "subArchitectures"])?;
            found.push(self.architecture(members.need("architecture", object.range)?)?);
            if let Some(list) = members.get("subArchitectures") {
                for value in text.list(list)? {
                    // Checks other calling conventions too, which every profile then kills.
                    self.architecture(value)?;
                }
            }
        }
        Ok(found)
    }

    fn architecture(&self, value: &Value<'t>) -> Result<String, ProfileError> {
        let word = self.text.string(value)?;
        if words::is_architecture(word) {
            return Ok(word.to_owned());
        }
        let problem = format!("the architecture {} is not known", shown(word));
        Err(self.text.error(value.range(), problem, "write one such as SCMP_ARCH_X86_64"))
    }

    /// Flags of seccomp(2). Only TSYNC, which covers every thread, is accepted: the filter is
    /// installed before there is a second thread.
    fn flags(&self, members: Members<'_, 't>) -> Result<(), ProfileError> {
        for value in members.get("flags").map_or(Ok(&[][..]), |list| self.text.list(list))? {
            let word = self.text.string(value)?;
            if word != words::EVERY_THREAD {
                let problem = format!("the flag {} is not honoured", shown(word));
                return Err(self.text.error(value.range(), problem, "remove it"));
            }
        }
        Ok(())
    }

    fn entry(&mut self, object: &Object<'t>) -> Result<SyscallEntry, ProfileError> {
        let text = self.text;
        let members = text.members(object, &ENTRY_KEYS)?;
        let word = members.need("action", object.range)?;
        let action = action(text, word, members, ["errnoRet", "errno"])?;
        if let Some(comment) = members.get("comment") {
            text.string(comment)?;
        }
        let conditions = match members.get("args") {
            Some(list) => self.conditions(text.list(list)?)?,
            None => Vec::new(),
        };
        let includes = self.selector(members.get("includes"))?;
        let excludes = self.selector(members.get("excludes"))?;
        let syscalls = self.names(members, object.range, action)?;
        Ok(SyscallEntry { syscalls, action, conditions, includes, excludes })
    }

    fn names(
        &mut self,
        members: Members<'_, 't>,
        object: Range,
        action: Action,
    ) -> Result<Vec<Syscall>, ProfileError> {
        members.either("names", "name")?;
        let values = match (members.get("names"), members.get("name")) {
            (Some(list), _) => self.text.list(list)?,
            (None, Some(one)) => std::slice::from_ref(one),
            (None, None) => {
                let problem = "this rule needs either `names` or `name`";
                return Err(self.text.error(object, problem, "write a list `names`"));
            }
        };
        if values.is_empty() {
            let problem = "this rule names no call";
            return Err(self.text.error(object, problem, "add a name or remove the rule"));
        }
        let mut syscalls = Vec::new();
        for value in values {
            syscalls.extend(self.name(value, action)?);
        }
        Ok(syscalls)
    }

    /// Parses the name of a call, ignoring calls of other architectures. An unknown name is an error
    /// if the rule denies and the profile's default allows, since ignoring it would deny nothing;
    /// otherwise the call stays refused, and a note reports it.
    fn name(&mut self, value: &Value<'t>, action: Action) -> Result<Option<Syscall>, ProfileError> {
        let name = self.text.string(value)?;
        let found = Syscall::named(name);
        if found.is_some() || syscall::is_foreign(name) {
            return Ok(found);
        }
        let close = if name.len() > LONGEST_WORD { None } else { syscall::closest(name) };
        let remedy = match close {
            Some(close) => format!("did you mean `{close}`?"),
            None => "write the name as the kernel does".to_owned(),
        };
        let problem = format!("no system call is called {}", shown(name));
        let error = self.text.error(value.range(), problem, remedy);
        if (!action.allows() && self.default.allows()) || self.notes.len() >= MOST_NOTES {
            return Err(error);
        }
        self.notes.push(format!("{error} (it stays refused)"));
        Ok(None)
    }

    fn conditions(&self, values: &[Value<'t>]) -> Result<Vec<Condition>, ProfileError> {
        let mut conditions: Vec<Condition> = Vec::new();
        for value in values {
            let condition = self.condition(as_object(self.text, value)?)?;
            // Engines interpret this as "either", users as "both".
            if conditions.iter().any(|one| one.argument == condition.argument) {
                let problem = format!("argument {} is compared twice", condition.argument);
                let remedy = "write one rule for each comparison; each then matches by itself";
                return Err(self.text.error(value.range(), problem, remedy));
            }
            conditions.push(condition);
        }
        Ok(conditions)
    }

    fn condition(&self, object: &Object<'t>) -> Result<Condition, ProfileError> {
        let text = self.text;
        let members = text.members(object, &ARGUMENT_KEYS)?;
        let index = members.need("index", object.range)?;
        let argument = match text.number(index)? {
            argument @ 0..=5 => argument as u8,
            other => {
                let problem = format!("a call has no argument {other}");
                return Err(text.error(index.range(), problem, "write a number from 0 to 5"));
            }
        };
        let value = match members.either("value", "val")? {
            Some(value) => text.number(value)?,
            None => text.number(members.need("value", object.range)?)?,
        };
        let second =
            members.either("valueTwo", "val2")?.map_or(Ok(0), |value| text.number(value))?;
        let operator = members.need("op", object.range)?;
        let word = text.string(operator)?;
        let comparison = words::comparison(word, value, second).ok_or_else(|| {
            unknown(text, operator.range(), "the comparison", word, &words::OPERATORS)
        })?;
        Ok(Condition { argument, width: Width::Whole, comparison })
    }

    fn selector(&self, value: Option<&Value<'t>>) -> Result<Selector, ProfileError> {
        let (text, mut selector) = (self.text, Selector::default());
        let Some(value) = value else { return Ok(selector) };
        let members = text.members(as_object(text, value)?, &SELECTOR_KEYS)?;
        for value in members.get("caps").map_or(Ok(&[][..]), |list| text.list(list))? {
            if !text.string(value)?.starts_with("CAP_") {
                let problem = "this is not the name of a capability";
                return Err(text.error(value.range(), problem, "write one such as CAP_SYS_ADMIN"));
            }
            selector.has_capabilities = true;
        }
        for value in members.get("arches").map_or(Ok(&[][..]), |list| text.list(list))? {
            let word = text.string(value)?;
            if !words::is_container_architecture(word) {
                let problem = format!("the architecture {} is not known", shown(word));
                return Err(text.error(value.range(), problem, "write one such as amd64 or arm64"));
            }
            selector.architectures.push(word.to_owned());
        }
        if let Some(value) = members.get("minKernel") {
            let version = version(text.string(value)?).ok_or_else(|| {
                text.error(value.range(), "this is not a kernel version", "write one such as 5.15")
            })?;
            selector.kernel = Some(version);
        }
        Ok(selector)
    }
}

fn as_object<'o, 't>(text: Text<'t>, value: &'o Value<'t>) -> Result<&'o Object<'t>, ProfileError> {
    match value {
        Value::Object(object) => Ok(object),
        other => Err(text.wanted("an object", other)),
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
