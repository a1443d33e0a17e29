//! Names that tools of the host execute later, or that people misread.

use icu_normalizer::ComposingNormalizer;

/// Directories whose whole content is executed or configures what is.
const DIRECTORIES: &[(&str, &str)] = &[
    (".git", "git runs hooks and reads commands from its configuration"),
    (".githooks", "git may run it as a hook"),
    (".husky", "git may run it as a hook"),
    (".hg", "Mercurial runs hooks from its configuration"),
    (".svn", "Subversion reads its working copy from it"),
    (".vscode", "an editor runs its tasks and settings"),
    (".idea", "an editor runs its tasks and settings"),
    (".zed", "an editor runs its tasks and settings"),
    (".devcontainer", "an editor builds and runs it"),
    (".circleci", "a CI service runs it"),
    (".buildkite", "a CI service runs it"),
    (".woodpecker", "a CI service runs it"),
    (".yarn", PACKAGE),
    (".mvn", BUILD),
    (".cargo", "cargo takes commands from its configuration"),
    (".direnv", "direnv runs it"),
    (".claude", "an agent on the host takes commands from it"),
    (".cursor", "an agent on the host takes commands from it"),
    (".ssh", "ssh takes commands and keys from it"),
];

/// Files that are executed by their names.
const FILES: &[(&str, &str)] = &[
    (".bashrc", SHELL),
    (".bash_profile", SHELL),
    (".bash_login", SHELL),
    (".bash_logout", SHELL),
    (".bash_aliases", SHELL),
    (".profile", SHELL),
    (".zshrc", SHELL),
    (".zshenv", SHELL),
    (".zprofile", SHELL),
    (".zlogin", SHELL),
    (".zlogout", SHELL),
    ("config.fish", SHELL),
    (".kshrc", SHELL),
    (".cshrc", SHELL),
    (".tcshrc", SHELL),
    (".login", SHELL),
    (".inputrc", SHELL),
    (".tmux.conf", "tmux runs it when it starts"),
    (".envrc", "direnv runs it"),
    (".env", "tools take variables from it"),
    (".gitattributes", "git may run filters that it names"),
    (".gitmodules", "git takes addresses of submodules from it"),
    (".gitconfig", "git runs commands from its configuration"),
    (".git-blame-ignore-revs", "git reads it"),
    (".pre-commit-config.yaml", "git may run it as a hook"),
    (".vimrc", EDITOR),
    (".exrc", EDITOR),
    (".nvimrc", EDITOR),
    (".nvim.lua", EDITOR),
    (".emacs", EDITOR),
    (".dir-locals.el", EDITOR),
    (".mcp.json", "an agent on the host starts its servers"),
    ("package.json", PACKAGE),
    (".npmrc", PACKAGE),
    (".pnpmfile.cjs", PACKAGE),
    (".pnp.cjs", PACKAGE),
    (".pnp.loader.mjs", PACKAGE),
    ("deno.json", PACKAGE),
    ("deno.jsonc", PACKAGE),
    (".yarnrc", PACKAGE),
    (".yarnrc.yml", PACKAGE),
    ("setup.py", PACKAGE),
    ("setup.cfg", PACKAGE),
    ("pyproject.toml", PACKAGE),
    ("tox.ini", PACKAGE),
    ("noxfile.py", PACKAGE),
    ("conftest.py", "pytest runs it"),
    ("pytest.ini", "pytest takes plugins from it"),
    ("sitecustomize.py", "every Python runs it"),
    ("usercustomize.py", "every Python runs it"),
    (".pypirc", PACKAGE),
    ("cargo.toml", PACKAGE),
    ("build.rs", PACKAGE),
    ("gemfile", PACKAGE),
    ("rakefile", BUILD),
    ("composer.json", PACKAGE),
    ("build.gradle", BUILD),
    ("build.gradle.kts", BUILD),
    ("settings.gradle", BUILD),
    ("pom.xml", BUILD),
    ("gradlew", BUILD),
    ("gradlew.bat", BUILD),
    ("gradle-wrapper.jar", BUILD),
    ("gradle-wrapper.properties", BUILD),
    ("mvnw", BUILD),
    ("mvnw.cmd", BUILD),
    ("build.sbt", BUILD),
    ("makefile", BUILD),
    ("gnumakefile", BUILD),
    ("cmakelists.txt", BUILD),
    ("justfile", BUILD),
    ("meson.build", BUILD),
    ("dockerfile", BUILD),
    ("containerfile", BUILD),
    ("compose.yaml", BUILD),
    ("compose.yml", BUILD),
    ("compose.override.yaml", BUILD),
    ("compose.override.yml", BUILD),
    (".gitlab-ci.yml", CI),
    (".travis.yml", CI),
    (".drone.yml", CI),
    ("azure-pipelines.yml", CI),
    ("bitbucket-pipelines.yml", CI),
    ("jenkinsfile", CI),
    (".eslintrc.js", BUILD),
    (".eslintrc.cjs", BUILD),
    (".mise.toml", "mise runs its tasks and hooks"),
    ("mise.toml", "mise runs its tasks and hooks"),
    (".tool-versions", "asdf and mise choose programs by it"),
    ("rust-toolchain.toml", "rustup chooses programs by it"),
    ("rust-toolchain", "rustup chooses programs by it"),
    (".rprofile", "every R runs it"),
    (".gdbinit", "a debugger runs it"),
    (".lldbinit", "a debugger runs it"),
    (".ghci", "GHCi runs it"),
    ("vagrantfile", BUILD),
    (".bazelrc", BUILD),
    ("build.bazel", BUILD),
    ("build", BUILD),
    ("workspace", BUILD),
    ("configure", BUILD),
    ("agents.md", AGENT),
    ("claude.md", AGENT),
    ("appveyor.yml", CI),
    (".appveyor.yml", CI),
    ("cloudbuild.yaml", CI),
    ("cloudbuild.yml", CI),
    ("cloudbuild.json", CI),
];

/// Files that are executed whatever follows these beginnings.
const BEGINNINGS: &[(&str, &str)] = &[
    ("lefthook.", HOOK),
    (".lefthook.", HOOK),
    ("lefthook-local.", HOOK),
    (".lefthook-local.", HOOK),
    ("eslint.config.", BUILD),
    ("vite.config.", BUILD),
    ("vitest.config.", BUILD),
    ("webpack.config.", BUILD),
    ("rollup.config.", BUILD),
    ("babel.config.", BUILD),
    ("jest.config.", BUILD),
    ("next.config.", BUILD),
    ("taskfile.", BUILD),
    ("gulpfile.", BUILD),
    ("gruntfile.", BUILD),
    ("makefile.", BUILD),
    ("dockerfile.", BUILD),
    ("docker-compose.", BUILD),
    ("jenkinsfile.", CI),
    (".cirrus.", CI),
    (".woodpecker.", CI),
];

/// Files that are executed by what their names end with.
const ENDINGS: &[(&str, &str)] = &[
    (".pth", "every Python runs it"),
    (".mk", BUILD),
    (".dockerfile", BUILD),
    (".code-workspace", EDITOR),
    (".sln", EDITOR),
];

const HOOK: &str = "git may run it as a hook";
const SHELL: &str = "a shell runs it when it starts";
const EDITOR: &str = "an editor runs it";
const PACKAGE: &str = "a package manager runs its scripts";
const BUILD: &str = "a build tool runs it";
const CI: &str = "a CI service runs it";
const AGENT: &str = "an agent on the host takes instructions from it";

/// Why a path of the host needs consent; `None` if nothing is known against it.
pub fn flag(path: &[u8]) -> Option<&'static str> {
    let names: Vec<String> = path.split(|byte| *byte == b'/').map(fold).collect();
    for name in &names {
        if let Some((_, reason)) = DIRECTORIES.iter().find(|(known, _)| known == name) {
            return Some(reason);
        }
        // The short name of `.git` on file systems of Windows.
        if name.starts_with("git~") {
            return Some("it may be another name of .git");
        }
    }
    if names
        .array_windows()
        .any(|[one, other]| one == ".github" && matches!(other.as_str(), "workflows" | "actions"))
    {
        return Some(CI);
    }
    let of_person =
        |[one, other]: &[String; 2]| one == ".config" && matches!(other.as_str(), "git" | "fish");
    if names.array_windows().any(of_person) {
        return Some("git or a shell takes commands from it");
    }
    let last = names.last()?;
    if let Some((_, reason)) = FILES.iter().find(|(known, _)| known == last) {
        return Some(reason);
    }
    let begins = BEGINNINGS.iter().find(|(start, _)| last.starts_with(start));
    let ends = || ENDINGS.iter().find(|(end, _)| last.ends_with(end));
    if let Some((_, reason)) = begins.or_else(ends) {
        return Some(reason);
    }
    let has_control = |name: &[u8]| {
        let text = String::from_utf8_lossy(name);
        text.chars().any(|c| c.is_control() || is_invisible(c))
    };
    match has_control(path) {
        true => Some("its name has characters that cannot be seen"),
        false => None,
    }
}

/// A name as file systems compare it that ignore case and Unicode forms.
pub(crate) fn fold(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    let composed = ComposingNormalizer::new_nfkc().normalize(&visible).into_owned();
    let lower: String = composed.to_lowercase();
    // Windows ignores these at the end of a name.
    lower.trim_end_matches(['.', ' ']).to_owned()
}

/// Characters without a form of their own, which some file systems ignore.
fn is_invisible(character: char) -> bool {
    matches!(
        u32::from(character),
        0xAD | 0x34F | 0x61C | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F
            | 0xFE00..=0xFE0F | 0xFEFF | 0xE0000..=0xE0FFF
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_execute_is_flagged_in_every_spelling() {
        for path in [
            ".git/hooks/pre-commit",
            "sub/.git/config",
            ".GIT/config",
            ".g\u{200c}it/config",
            ".git./config",
            "GIT~1/config",
            "\u{ff0e}git/config",
            ".github/workflows/x.yml",
            "a/package.json",
            "Makefile",
            ".vscode/tasks.json",
            ".bashrc",
            "lib/x.pth",
            "docker-compose.yml",
            "docker-compose.yaml",
            "docker-compose.override.yml",
            "compose.yaml",
            "compose.yml",
            "Taskfile.yml",
            "Taskfile.yaml",
            "Taskfile.dist.yaml",
            "config.fish",
            ".config/fish/functions/ls.fish",
            ".config/git/config",
            ".zlogout",
            "lefthook.yml",
            ".lefthook.yml",
            "lefthook-local.toml",
            ".yarn/releases/yarn.cjs",
            ".pnp.cjs",
            "gulpfile.js",
            "Gulpfile.babel.ts",
            "gradlew",
            "gradlew.bat",
            "gradle/wrapper/gradle-wrapper.properties",
            "mvnw",
            ".mvn/jvm.config",
            ".woodpecker.yml",
            ".woodpecker/build.yaml",
            ".cirrus.yml",
            "appveyor.yml",
            "cloudbuild.yaml",
            "rules.mk",
            "Dockerfile.dev",
            "a\nb",
            "a\u{202e}b",
        ] {
            assert!(flag(path.as_bytes()).is_some(), "{path:?}");
        }
        for path in [
            "README.md",
            "src/main.rs",
            "git/hooks",
            ".github/README.md",
            "päckage.txt",
            "compose.py",
            "taskfile",
            "yarn/x",
            "config/git",
            "docs/lefthook",
        ] {
            assert_eq!(flag(path.as_bytes()), None, "{path:?}");
        }
    }

    #[test]
    fn twins_have_one_form() {
        for (one, other) in [("Readme", "README"), ("e\u{301}", "\u{e9}"), ("a", "a.")] {
            assert_eq!(fold(one.as_bytes()), fold(other.as_bytes()));
        }
        assert_ne!(fold(b"a"), fold(b"b"));
    }
}
