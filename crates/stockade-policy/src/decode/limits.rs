//! `defaults` and `limits`.

use std::collections::BTreeMap;

use stockade_text::{Table, TextSpan};

use crate::limits::{LIMITS, Limit, Limits};
use crate::source::Sourced;

use super::keys;
use super::values::Decoder;

impl Decoder<'_, '_> {
    /// The mapping under `key`, or an empty one.
    pub(super) fn section<'n>(
        &mut self,
        table: &Table<'n>,
        key: &str,
        known: &[&str],
    ) -> Table<'n> {
        let place = table.key_place(key);
        match table.get(key) {
            Some(node) => self.table(node, key, known).unwrap_or_else(|| Table::empty(place)),
            None => Table::empty(place),
        }
    }

    pub(super) fn limits(&mut self, table: &Table<'_>) -> Limits {
        let defaults = self.section(table, "defaults", keys::DEFAULTS);
        let limits = self.section(table, "limits", keys::LIMITS);
        let mut explicit = BTreeMap::new();
        let mut places = BTreeMap::new();
        for spec in &LIMITS {
            let section = if spec.section == "defaults" { &defaults } else { &limits };
            let Some(node) = section.get_non_null(spec.key) else { continue };
            let path = spec.path();
            let Some(held) = self.number(node, &path, spec.unit.scale()) else { continue };
            if held < spec.min || held > spec.max {
                let message = format!("{path} is out of bounds");
                self.mistake(node.place, message, format!("write {}", spec.bounds()));
                continue;
            }
            places.insert(spec.limit, node.place);
            explicit.insert(spec.limit, self.sourced(held, node));
        }
        self.foreign_budgets(&defaults);
        let otherwise = Sourced::built_in(false, "limits may be approximate by default");
        let exact = limits.get("exact").and_then(|node| {
            self.boolean(node, "limits.exact").map(|value| self.sourced(value, node))
        });
        let checked = Limits::with_defaults(
            |limit| explicit.get(&limit).cloned(),
            exact.unwrap_or(otherwise),
        );
        self.consistent(&checked, &places);
        checked
    }

    /// Refuses contradicting limits instead of resolving them silently.
    fn consistent(&mut self, limits: &Limits, places: &BTreeMap<Limit, TextSpan>) {
        let value = |limit| limits.value(limit).unwrap_or(u64::MAX);
        if let Some(place) = places.get(&Limit::Disk)
            && value(Limit::Disk) > value(Limit::Memory)
        {
            let (disk, memory) = (value(Limit::Disk), value(Limit::Memory));
            let message = format!(
                "limits.max_disk_mb ({disk}) is more than defaults.max_memory_mb ({memory}): \
                 writable files live in memory and count as memory"
            );
            let remedy =
                format!("raise defaults.max_memory_mb to at least {disk}, or lower max_disk_mb");
            self.mistake(*place, message, remedy);
        }
        if let Some(place) = places.get(&Limit::Lifetime)
            && value(Limit::Timeout) > value(Limit::Lifetime)
        {
            let message = "a session would end before one execution may: \
                           limits.max_lifetime_seconds is less than defaults.timeout_seconds";
            self.mistake(*place, message, "raise max_lifetime_seconds, or lower timeout_seconds");
        }
    }

    /// Budgets of a governance document that a sandbox cannot enforce.
    fn foreign_budgets(&mut self, defaults: &Table<'_>) {
        let fixed = [("max_tokens", 4096 * 1000), ("confidence_threshold", 800)];
        for (key, accepted) in fixed {
            let Some(node) = defaults.get(key) else { continue };
            let path = format!("defaults.{key}");
            let Some(held) = self.number(node, &path, 1000) else { continue };
            if held != accepted {
                let message = format!("`{path}` is not enforced by a sandbox");
                self.mistake(
                    node.place,
                    message,
                    "remove it, and enforce it where the model is called",
                );
            }
        }
    }
}
