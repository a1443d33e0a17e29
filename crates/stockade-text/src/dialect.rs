//! What differs between the languages whose texts are read here.

/// One language that is written in YAML.
#[derive(Debug)]
pub struct Dialect {
    /// What one text is called, such as `policy`.
    pub name: &'static str,
    /// What the language is called, such as `the policy language`.
    pub language: &'static str,
    /// What to write instead of nothing.
    pub when_empty: &'static str,
    /// Deepest nesting.
    pub max_depth: usize,
    /// What to do about deeper nesting.
    pub when_too_deep: &'static str,
    /// Most values, counted after aliases are expanded, so that an alias bomb ends there.
    pub max_nodes: usize,
    /// Whether a value may stand for another.
    pub aliases: Aliases,
    /// The mappings a key can stand in, with the name messages give them.
    pub sections: &'static [(&'static str, &'static [&'static str])],
    /// Words people write for keys that are called otherwise.
    pub other_words: &'static [(&'static str, &'static str)],
}

/// What becomes of anchors and aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aliases {
    /// An alias stands for its value.
    Expanded,
    /// They are refused.
    Refused,
}

/// The language of the tests.
#[cfg(test)]
pub(crate) const PLAIN: Dialect = Dialect {
    name: "policy",
    language: "the policy language",
    when_empty: "write something",
    max_depth: 24,
    when_too_deep: "write less",
    max_nodes: 50_000,
    aliases: Aliases::Expanded,
    sections: &[],
    other_words: &[],
};
