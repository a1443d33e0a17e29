//! An image's settings for its own program.

use stockade_policy::check_variable;

use crate::model::{Configuration, RunSettings};

/// The longest value of a variable, as for variables of a caller.
const MOST_VALUE: usize = 32 << 10;
/// The most variables that are taken from an image.
const MOST_VARIABLES: usize = 256;

/// An image's settings for its own program. Nothing else of its configuration is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// The words before the arguments.
    pub entrypoint: Vec<String>,
    /// The arguments if the caller gives none.
    pub command: Vec<String>,
    /// Variables as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Where its program starts.
    pub working_directory: Option<String>,
    /// The user that it requests. Nothing uses it before [`crate::own_user_in`] accepted it.
    pub user: Option<String>,
    /// When it was made, in seconds since 1970.
    pub created: Option<i64>,
}

/// The image's own program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProgram {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Where it starts; `None` is the workspace.
    pub working_directory: Option<String>,
}

/// A variable of the image that no program gets, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// The variables of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// Names and values.
    pub kept: Vec<(String, String)>,
    /// The others.
    pub dropped: Vec<Dropped>,
}

impl ImageConfig {
    pub(crate) fn of(configuration: &Configuration) -> ImageConfig {
        let settings = configuration.config.clone().unwrap_or_default();
        let RunSettings { entrypoint, cmd, env, working_dir, user } = settings;
        ImageConfig {
            entrypoint: entrypoint.unwrap_or_default(),
            command: cmd.unwrap_or_default(),
            environment: env.unwrap_or_default(),
            working_directory: working_dir.filter(|place| !place.is_empty()),
            user: user.filter(|user| !user.is_empty()),
            created: configuration.created.as_deref().and_then(seconds),
        }
    }

    /// ENTRYPOINT with the arguments, or with CMD if there are none. `None` if the image names no
    /// program.
    pub fn own_program(&self, arguments: &[String]) -> Option<OwnProgram> {
        let arguments = if arguments.is_empty() { &self.command } else { arguments };
        let argv = [self.entrypoint.as_slice(), arguments].concat();
        let place = self.working_directory.clone();
        let working_directory = place.filter(|place| place.starts_with('/') && place != "/");
        (!argv.is_empty()).then_some(OwnProgram { argv, working_directory })
    }

    /// The variables that a program may get. Those that change what a loader or an interpreter
    /// runs, look like credentials or belong to the network gate are dropped.
    pub fn variables(&self) -> Variables {
        let mut variables = Variables::default();
        for variable in &self.environment {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            let why = match check_variable(name) {
                Err(error) => Some(error.to_string()),
                Ok(()) if value.contains('\0') || value.len() > MOST_VALUE => {
                    Some(format!("the value of `{name}` is too long or has a NUL byte"))
                }
                Ok(()) if variables.kept.len() >= MOST_VARIABLES => {
                    Some(format!("the image has more than {MOST_VARIABLES} variables"))
                }
                Ok(()) => None,
            };
            match why {
                Some(why) => {
                    variables.dropped.push(Dropped { name: name.to_owned(), why });
                }
                None => {
                    variables.kept.retain(|(own, _)| own != name);
                    variables.kept.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        variables
    }

    /// The search path of the image.
    pub fn search_path(&self) -> Option<String> {
        let mut kept = self.variables().kept.into_iter();
        kept.find(|(name, value)| name == "PATH" && !value.is_empty()).map(|(_, value)| value)
    }
}

/// A time in seconds since 1970.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn own_program_is_the_entrypoint_with_arguments_or_the_command() {
        let image = ImageConfig {
            entrypoint: words(&["python3", "/agent.py"]),
            command: words(&["--help"]),
            working_directory: Some("/app".to_owned()),
            ..ImageConfig::default()
        };
        let argv = |image: &ImageConfig, arguments: &[&str]| {
            image.own_program(&words(arguments)).map(|program| program.argv)
        };
        assert_eq!(argv(&image, &[]), Some(words(&["python3", "/agent.py", "--help"])));
        assert_eq!(argv(&image, &["a", "b"]), Some(words(&["python3", "/agent.py", "a", "b"])));
        let plain = ImageConfig { command: words(&["sh"]), ..ImageConfig::default() };
        assert_eq!(argv(&plain, &[]), Some(words(&["sh"])));
        assert_eq!(argv(&ImageConfig::default(), &[]), None);
        let place = image.own_program(&[]).unwrap().working_directory;
        assert_eq!(place.as_deref(), Some("/app"));
    }

    #[test]
    fn dangerous_variables_of_an_image_are_dropped_with_the_reason() {
        let image = ImageConfig {
            environment: words(&[
                "PATH=/opt/bin:/bin",
                "LD_PRELOAD=/evil.so",
                "ld_library_path=/evil",
                "PYTHONSTARTUP=/evil.py",
                "HTTPS_PROXY=http://evil.test",
                "API_TOKEN=x",
                "1X=y",
                "NUL=a\0b",
                "A=1",
                "A=2",
            ]),
            ..ImageConfig::default()
        };
        let variables = image.variables();
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(variables.kept, [own("PATH", "/opt/bin:/bin"), own("A", "2")]);
        let names: Vec<&str> = variables.dropped.iter().map(|it| it.name.as_str()).collect();
        let expected = [
            "LD_PRELOAD",
            "ld_library_path",
            "PYTHONSTARTUP",
            "HTTPS_PROXY",
            "API_TOKEN",
            "1X",
            "NUL",
        ];
        assert_eq!(names, expected);
        assert!(variables.dropped[0].why.contains("loader"), "{:?}", variables.dropped[0]);
        assert_eq!(image.search_path().as_deref(), Some("/opt/bin:/bin"));
    }
}
