//! The Python package: builds its wheel once, installs it into a new virtual environment outside of
//! the source tree, and tests it there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use stockade_testing::engine::IMAGE_FILE;

use super::cargo::test_command;
use crate::cache;
use crate::component::{self, ComponentOptions};
use crate::program::{Finished, executable_of, finish, on_path};
use crate::scratch::Scratch;
use crate::suite::Outcome;
use crate::suites::qemu;

/// What the suite installs, once, into the cache folder of tools.
const TOOLS: [&str; 4] = ["maturin==1.16.0", "pytest==9.2.0", "mypy==2.4.1", "auditwheel==6.8.2"];

/// The frameworks of the recipes in `examples/python`.
const FRAMEWORKS: [&str; 5] = [
    "langchain-core==1.7.2",
    "smolagents==1.26.0",
    "inspect-ai==0.3.285",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
];

/// The package that `agent_sandbox` replaces.
const AGENT_PACKAGE: &str = "agt-sandbox==5.0.0";
/// Where its README is in a folder that [`site`] makes.
pub(super) const README: &str = "agent-readme.md";

/// The recipes that need no framework.
const PLAIN_RECIPES: [&str; 2] =
    ["examples/python/agent_loop.py", "examples/python/openai_tool.py"];

/// Programs for which the types hold too, without anything that the registry has to give.
const EXAMPLES: [&str; 1] = ["examples/quickstart"];

/// The oldest glibc that the wheel may need is that of this tag.
const COMPATIBILITY: &str = "manylinux_2_34";

/// Selects the tests that need neither the registry nor an engine nor a machine.
const ALWAYS: &str = "not recipes and not machine";

/// The user and group `nobody`, which own no files.
const NOBODY: u32 = 65_534;

/// The interpreter that every user may run; the caller's own may be in a closed home.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// Tests the installed wheel, as this user and in part as user 65534.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    check(root, "python", &TOOLS, ALWAYS)
}

/// Tests the recipes with the frameworks that they are for, the packages that `agent_sandbox`
/// replaces, a machine, and everything once more with a container engine.
pub(crate) fn recipes(root: &Path) -> Result<Outcome> {
    let packages: Vec<&str> = TOOLS.iter().chain(&FRAMEWORKS).copied().collect();
    check(root, "python-recipes", &packages, "recipes or not recipes")
}

fn check(root: &Path, name: &str, packages: &[&str], marked: &str) -> Result<Outcome> {
    let Some(python) = on_path(&["python3"]) else {
        return Ok(Outcome::skipped("there is no python3"));
    };
    let tools = match tools(&python, name, packages)? {
        Ok(tools) => tools,
        Err(reason) => return Ok(Outcome::skipped(reason)),
    };
    let scratch = Scratch::new(name)?;
    let place = scratch.path();
    // The profile of the other tests.
    let built = build(root, &tools, &place.join("wheels"), "dev", None)?;
    if !built.success {
        return Ok(Outcome::failed(format!("the wheel cannot be built\n{}", built.output)));
    }
    let audited = audit(&tools, &place.join("wheels"))?;
    if let Some(why) = newer_than(&audited.output, COMPATIBILITY) {
        return Ok(Outcome::failed(format!("{why}\n{}", audited.output)));
    }
    let installed = install(&python, &tools, place)?;
    let tests = place.join("tests");
    copy_folder(&root.join("crates/stockade-python/tests"), &tests)?;
    fs::set_permissions(place, Permissions::from_mode(0o755))?;
    let mut pytest = Command::new(&installed);
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marked]).arg(&tests);
    pytest.current_dir(place).env("STOCKADE_SOURCE", root);
    pytest.env("STOCKADE_AZURE_DOUBLE", azure_double(root)?);
    pytest.env("STOCKADE_WHEELS", place.join("wheels"));
    let engine = match marked == ALWAYS {
        true => Ok(()),
        false => engine_can_start(),
    };
    if engine.is_ok() && marked != ALWAYS {
        pytest.env("STOCKADE_DOCKER", "1").env_remove("DOCKER_HOST");
    }
    let machines = match marked == ALWAYS {
        true => Ok(()),
        false => qemu::images(root)?.map(|images| {
            pytest.env("STOCKADE_MACHINES", images);
        }),
    };
    let tested = finish(pytest)?;
    if !tested.success {
        return Ok(Outcome::failed(tested.output));
    }
    let mut checks = Vec::new();
    if marked != ALWAYS {
        checks.push(types(root, &installed, &["examples/python"])?);
    } else {
        checks.push(types(root, &installed, &PLAIN_RECIPES)?);
        checks.push(types(root, &installed, &EXAMPLES)?);
        checks.push(package_types(&installed, place)?);
        checks.push(stubs(&installed, place)?);
        checks.push(nobody(&installed, &tests)?);
    }
    Ok(match checks.into_iter().find(|checked| !checked.success) {
        Some(checked) => Outcome::failed(checked.output),
        None => {
            let passed = format!("{}, and the types", last_line(&tested.output));
            let without = [("containers", engine.err()), ("machines", machines.err())];
            let without: Vec<String> = without
                .into_iter()
                .filter_map(|(what, reason)| Some(format!("without {what}: {}", reason?)))
                .collect();
            match without.is_empty() {
                true => Outcome::passed(passed),
                // Not a pass: a run that requires the suite must have both.
                false => Outcome::skipped(format!("{passed}; {}", without.join("; "))),
            }
        }
    })
}

/// What stands in for Azure.
fn azure_double(root: &Path) -> Result<PathBuf> {
    let mut build = test_command(root);
    // Its own tests have the executable built.
    build.args(["--quiet", "--no-run", "--message-format=json", "--test", "executable"]);
    let built = finish(build)?;
    ensure!(built.success, "the double of Azure does not build\n{}", built.output);
    executable_of(&built.output, "stockade-azure-double", "stockade-azure-double")
}

/// A virtual environment with the tools, from the cache. The inner error is why it cannot be made.
fn tools(python: &Path, name: &str, packages: &[&str]) -> Result<Result<PathBuf, String>> {
    let folder = cache::tool_folder(&format!("{name}-{}", packages.join("-").replace("==", "-")))?;
    let interpreter = folder.join("bin/python3");
    if folder.join("complete").is_file() {
        return Ok(Ok(interpreter));
    }
    let mut make = Command::new(python);
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    let made = finish(make)?;
    if !made.success {
        return Ok(Err(format!("python3 cannot make a virtual environment: {}", made.output)));
    }
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    let installed = finish(install)?;
    if !installed.success {
        return Ok(Err(format!("pip cannot install the tools: {}", last_line(&installed.output))));
    }
    fs::write(folder.join("complete"), "")?;
    Ok(Ok(interpreter))
}

/// Why no wheel can be built here, if so.
pub(super) fn no_wheel() -> Result<Option<String>> {
    match on_path(&["python3"]) {
        Some(python) => Ok(tools(&python, "python", &TOOLS)?.err()),
        None => Ok(Some("there is no python3".to_owned())),
    }
}

/// Builds the wheel of a release into a folder.
pub(crate) fn wheel(root: &Path, out: &Path, profile: &str) -> Result<()> {
    let python = on_path(&["python3"]).context("the wheel needs python3")?;
    let tools = tools(&python, "python", &TOOLS)?.map_err(anyhow::Error::msg)?;
    let component = component::build(root, &ComponentOptions::python())?;
    let built = build(root, &tools, out, profile, Some(&component))?;
    ensure!(built.success, "the wheel cannot be built: {}", built.output);
    Ok(())
}

/// Installs the wheel with the walls that run the component, and what tests it, into a folder for
/// `PYTHONPATH`. With a folder of one's own no interpreter has to be the same.
pub(super) fn site(root: &Path, place: &Path) -> Result<Result<PathBuf, String>> {
    let Some(python) = on_path(&["python3"]) else {
        return Ok(Err("there is no python3".to_owned()));
    };
    let tools = match tools(&python, "python", &TOOLS)? {
        Ok(tools) => tools,
        Err(reason) => return Ok(Err(reason)),
    };
    let component = component::build(root, &ComponentOptions::python())?;
    let (wheels, site) = (place.join("wheels"), place.join("site"));
    let built = build(root, &tools, &wheels, "dev", Some(&component))?;
    ensure!(built.success, "the wheel cannot be built: {}", built.output);
    let wheel = fs::read_dir(&wheels)?.next().context("maturin made no wheel")??.path();
    let mut install = Command::new(&tools);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
    install.arg(&site).arg(wheel).arg(TOOLS[1]);
    let installed = finish(install)?;
    ensure!(installed.success, "the wheel cannot be installed: {}", installed.output);
    readme(&tools, place, &site.join(README))?;
    Ok(Ok(site))
}

/// Places the README of the package that `agent_sandbox` replaces: a machine without network runs
/// its quick start.
fn readme(tools: &Path, place: &Path, readme: &Path) -> Result<()> {
    let (wheels, unpacked) = (place.join("agent"), place.join("agent-unpacked"));
    let mut download = Command::new(tools);
    download.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    download.arg("--dest").arg(&wheels).arg(AGENT_PACKAGE);
    let downloaded = finish(download)?;
    ensure!(downloaded.success, "cannot get {AGENT_PACKAGE}: {}", downloaded.output);
    let wheel = fs::read_dir(&wheels)?.next().context("pip got no wheel")??.path();
    let mut unpack = Command::new(tools);
    unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked);
    let finished = finish(unpack)?;
    ensure!(finished.success, "cannot unpack {AGENT_PACKAGE}: {}", finished.output);
    let mut entries = fs::read_dir(&unpacked)?.flatten().map(|entry| entry.path());
    let metadata = entries.find(|path| path.extension().is_some_and(|end| end == "dist-info"));
    let metadata = metadata.context("the wheel has no metadata")?.join("METADATA");
    fs::copy(&metadata, readme).with_context(|| format!("cannot copy {}", metadata.display()))?;
    Ok(())
}

/// Builds the wheel, and refuses one for a newer glibc. With a component it has the WebAssembly
/// wall, as released wheels do.
fn build(
    root: &Path,
    tools: &Path,
    wheels: &Path,
    profile: &str,
    component: Option<&Path>,
) -> Result<Finished> {
    let mut build = Command::new(tools);
    build.args(["-m", "maturin", "build", "--quiet", "--profile", profile, "--strip", "--locked"]);
    build.args(["--compatibility", COMPATIBILITY, "--out"]).arg(wheels).current_dir(root);
    if let Some(component) = component {
        build.args(["--features", "hyperlight"]).env(component::EMBEDDED, component);
    }
    finish(build)
}

/// What auditwheel finds in the wheel: the symbols that it needs decide the platform tag.
fn audit(tools: &Path, wheels: &Path) -> Result<Finished> {
    let mut entries = fs::read_dir(wheels)?.filter_map(Result::ok);
    let wheel = entries.next().context("maturin made no wheel")?.path();
    let mut audit = Command::new(tools);
    audit.args(["-m", "auditwheel", "show"]).arg(wheel);
    finish(audit)
}

/// Why a wheel needs a newer glibc than a tag allows, from what `auditwheel show` prints.
fn newer_than(audited: &str, most: &str) -> Option<String> {
    let minor = |tag: &str| {
        let rest = tag.split("manylinux_2_").nth(1)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    // Without the line breaks, which may be anywhere in the sentence.
    let text = audited.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = text.split("the following platform tag:").nth(1).and_then(minor);
    match (found, minor(most)) {
        (Some(found), Some(most)) if found <= most => None,
        (Some(found), _) => Some(format!("the wheel needs manylinux_2_{found}, newer than {most}")),
        (None, _) => Some("auditwheel names no platform of the wheel".to_owned()),
    }
}

/// A new virtual environment with the wheel; the tools are visible in it.
fn install(python: &Path, tools: &Path, place: &Path) -> Result<PathBuf> {
    let folder = place.join("installed");
    let mut make = Command::new(python);
    make.args(["-m", "venv"]).arg(&folder);
    let made = finish(make)?;
    ensure!(made.success, "python3 cannot make a virtual environment: {}", made.output);
    let interpreter = folder.join("bin/python3");
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--no-index", "--find-links"]).arg(place.join("wheels")).arg("stockade");
    let installed = finish(install)?;
    ensure!(installed.success, "pip cannot install the wheel: {}", installed.output);
    let of_tools = tools.parent().and_then(Path::parent).context("the tools have no folder")?;
    let link = packages(&folder)?.join("tools.pth");
    fs::write(link, format!("{}\n", packages(of_tools)?.display()))?;
    Ok(interpreter)
}

/// Where the packages of a virtual environment are.
fn packages(folder: &Path) -> Result<PathBuf> {
    let mut found = fs::read_dir(folder.join("lib"))?.filter_map(Result::ok);
    let version = found.find(|entry| entry.file_name().to_string_lossy().starts_with("python"));
    Ok(version.context("a virtual environment has no library")?.path().join("site-packages"))
}

/// Recipes pass `mypy --strict`.
fn types(root: &Path, installed: &Path, recipes: &[&str]) -> Result<Finished> {
    let mut mypy = Command::new(installed);
    mypy.args(["-m", "mypy", "--strict", "--no-incremental", "--explicit-package-bases"]);
    mypy.args(recipes).current_dir(root);
    finish(mypy)
}

/// The packages that ship `py.typed` pass `mypy --strict`.
fn package_types(installed: &Path, place: &Path) -> Result<Finished> {
    let mut mypy = Command::new(installed);
    mypy.args(["-m", "mypy", "--strict", "--no-incremental"]);
    mypy.args(["-p", "stockade", "-p", "agent_sandbox"]).current_dir(place);
    finish(mypy)
}

/// Whether the tests can start a container engine. The error is why they cannot.
fn engine_can_start() -> std::result::Result<(), String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
    if !is_root {
        return Err("only root can start an engine".to_owned());
    }
    if let Some(missing) =
        ["dockerd", "docker", "containerd", "runc"].iter().find(|name| on_path(&[name]).is_none())
    {
        return Err(format!("{missing} is not installed"));
    }
    let image = cache::folder().map(|folder| folder.join("docker").join(IMAGE_FILE));
    match image.is_ok_and(|image| image.exists()) {
        true => Ok(()),
        false => Err("the suite docker has not made its image".to_owned()),
    }
}

/// The stubs describe the extension module, and the types of the package what is there at run time.
fn stubs(installed: &Path, place: &Path) -> Result<Finished> {
    // The list of exported names takes those of the errors from their module, which types cannot
    // follow.
    let allowed = place.join("stubtest.txt");
    fs::write(&allowed, "stockade.__all__\n")?;
    let mut stubtest = Command::new(installed);
    stubtest.args(["-m", "mypy.stubtest", "stockade", "--allowlist"]).arg(&allowed);
    stubtest.current_dir(place);
    finish(stubtest)
}

/// The package as an unprivileged user; an ordinary user has run all tests already.
fn nobody(installed: &Path, tests: &Path) -> Result<Finished> {
    let is_root = fs::metadata("/proc/self").context("cannot tell who runs this")?.uid() == 0;
    if !is_root {
        return Ok(Finished { success: true, output: String::new() });
    }
    let folder = installed.parent().and_then(Path::parent).context("there is no folder")?;
    let home = Scratch::new("python-nobody")?;
    chown(home.path(), Some(NOBODY), Some(NOBODY))?;
    let mut python = Command::new(SYSTEM_PYTHON);
    python.arg(tests.join("unprivileged.py")).env_clear().env("PATH", "/usr/bin:/bin");
    python.env("HOME", home.path()).env("PYTHONPATH", packages(folder)?);
    python.current_dir(home.path()).uid(NOBODY).gid(NOBODY);
    finish(python)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

fn last_line(output: &str) -> &str {
    output.trim_end().lines().last().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheel_for_a_newer_glibc_is_refused() {
        let shown = |tag: &str| {
            format!("stockade.whl is consistent with the\nfollowing platform tag:\n\"{tag}\".\n")
        };
        assert_eq!(newer_than(&shown("manylinux_2_34_x86_64"), COMPATIBILITY), None);
        assert_eq!(newer_than(&shown("manylinux_2_17_x86_64"), COMPATIBILITY), None);
        let newer = "the wheel needs manylinux_2_36, newer than manylinux_2_34".to_owned();
        assert_eq!(newer_than(&shown("manylinux_2_36_x86_64"), COMPATIBILITY), Some(newer));
        assert!(newer_than(&shown("linux_x86_64"), COMPATIBILITY).is_some());
    }
}
