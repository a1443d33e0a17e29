//! The differences between the YAML languages that this crate reads.

/// One language that is written in YAML.
#[derive(Debug)]
pub struct Dialect {
    /// The name of a text, such as `policy`.
    pub name: &'static str,
    /// The name of the language, such as `the policy language`.
    pub language: &'static str,
    /// The remedy for an empty text.
    pub when_empty: &'static str,
    /// Deepest nesting.
    pub max_depth: usize,
    /// The remedy for deeper nesting.
    pub when_too_deep: &'static str,
    /// The most values, counted after expanding aliases, which stops an alias bomb.
    pub max_nodes: usize,
    /// Whether aliases are accepted.
    pub aliases: Aliases,
    /// The mappings of the language, with their names in messages.
    pub sections: &'static [(&'static str, &'static [&'static str])],
    /// Common words for keys that have another name here.
    pub other_words: &'static [(&'static str, &'static str)],
    /// The key of a secret's source, whose value may be the secret itself by mistake, and how a
    /// source begins. Quoted lines show any other value of that key as `…`.
    pub hidden: Option<(&'static str, &'static [&'static str])>,
}

/// How anchors and aliases are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aliases {
    /// An alias is replaced by its value.
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
    hidden: Some(("from", &["env:", "file:"])),
};
