//! The languages whose host interpreters can be used.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A language that the user's own interpreter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// CPython or PyPy.
    Python,
    /// GNU bash.
    Bash,
    /// Node.js.
    JavaScript,
}

/// The value of `--language` is not a known language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no language is called {word:?}; known are python, bash and javascript")]
pub struct UnknownLanguage {
    /// The value.
    pub word: String,
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 3] = [Language::Python, Language::Bash, Language::JavaScript];

    /// The language of a script by its file extension, if it is known.
    pub fn of_script(script: &Path) -> Option<Language> {
        match script.extension()?.to_str()? {
            "py" => Some(Language::Python),
            "sh" | "bash" => Some(Language::Bash),
            "js" | "mjs" | "cjs" => Some(Language::JavaScript),
            _ => None,
        }
    }

    /// The names of its interpreters, in order of preference.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["python3", "python"],
            Language::Bash => &["bash"],
            Language::JavaScript => &["node", "nodejs"],
        }
    }

    /// Whether an executable with this name can be an interpreter of the language. A shim that is
    /// an executable has another name.
    pub fn owns(self, executable: &str) -> bool {
        let beginnings: &[&str] = match self {
            Language::Python => &["python", "pypy"],
            Language::Bash => &["bash"],
            Language::JavaScript => &["node"],
        };
        beginnings.iter().any(|beginning| executable.starts_with(beginning))
    }
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Language::Python => "python",
            Language::Bash => "bash",
            Language::JavaScript => "javascript",
        })
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(word: &str) -> Result<Language, UnknownLanguage> {
        match word {
            "python" | "python3" | "py" => Ok(Language::Python),
            "bash" | "sh" | "shell" => Ok(Language::Bash),
            "javascript" | "js" | "node" => Ok(Language::JavaScript),
            _ => Err(UnknownLanguage { word: word.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_extension_determines_the_language() {
        let language = |name| Language::of_script(Path::new(name));
        assert_eq!(language("a/b.py"), Some(Language::Python));
        assert_eq!(language("run.sh"), Some(Language::Bash));
        assert_eq!(language("run.bash"), Some(Language::Bash));
        for name in ["a.js", "a.mjs", "a.cjs"] {
            assert_eq!(language(name), Some(Language::JavaScript), "{name}");
        }
        for name in ["a", ".py", "a.PY", "a.py.txt", "a.ts", "py"] {
            assert_eq!(language(name), None, "{name}");
        }
    }

    #[test]
    fn every_language_parses_from_its_display_name() {
        for language in Language::ALL {
            assert_eq!(language.to_string().parse(), Ok(language));
        }
    }

    #[test]
    fn unknown_word_is_refused() {
        let error = "Python ".parse::<Language>().unwrap_err();
        assert_eq!(error, UnknownLanguage { word: "Python ".to_owned() });
    }
}
