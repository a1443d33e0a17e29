//! Sandboxes with their files, and short forms of the operations.

use std::sync::{Arc, OnceLock};

use stockade_backends::{ContainerChoice, HostProcess, Surroundings, providers};
use stockade_provider::{
    EntryProgram, Execution, FileBytes, FileEntry, FileError, FileErrorKind, FilePart, FilePath,
    FileWriteMode, FileWriting, Files, ProcessEnd, Program, Provider, Sandbox, SandboxRequest,
    chain,
};
pub(crate) use stockade_testing::sandbox::runtime;
use stockade_testing::skipped;
use tokio::io::AsyncReadExt;

/// One sandbox, its files, and programs in it.
pub(crate) struct Inside {
    sandbox: Box<dyn Sandbox>,
    pub(crate) files: Arc<dyn Files>,
}

pub(crate) fn path(text: &str) -> FilePath {
    FilePath::try_from(text).expect("the path is valid")
}

/// Content in memory as a stream.
pub(crate) fn bytes(content: &[u8]) -> FileBytes {
    Box::new(std::io::Cursor::new(content.to_vec()))
}

/// The wall under test: `STOCKADE_TEST_PROVIDER`, else the native one. `STOCKADE_TEST_RUNTIME` names
/// the runtime of containers.
fn wall() -> Arc<dyn Provider> {
    let name = std::env::var("STOCKADE_TEST_PROVIDER").unwrap_or_else(|_| "native".to_owned());
    let path = Some("/usr/local/bin:/usr/bin:/bin".into());
    let surroundings = Surroundings { path, ..Surroundings::default() };
    let runtime = std::env::var("STOCKADE_TEST_RUNTIME").ok();
    let containers = ContainerChoice { runtime, ..ContainerChoice::default() };
    let all = providers(HostProcess::Continues, &surroundings, &containers);
    let found = all.into_iter().find(|provider| provider.name().as_str() == name);
    found.unwrap_or_else(|| panic!("there is no wall {name}"))
}

pub(crate) fn request(policy: &str) -> SandboxRequest {
    let entry = EntryProgram::Program("sh".to_owned());
    SandboxRequest { entry, ..stockade_testing::sandbox::request(policy, None) }
}

impl Inside {
    pub(crate) async fn new() -> Inside {
        Inside::under("{}").await
    }

    pub(crate) async fn under(policy: &str) -> Inside {
        Inside::of(&request(policy)).await
    }

    pub(crate) async fn of(request: &SandboxRequest) -> Inside {
        let created = wall().create(request).await;
        let sandbox = created.unwrap_or_else(|error| panic!("{}", chain(&error)));
        let files = sandbox.files().expect("the wall has files");
        Inside { sandbox, files }
    }

    /// Starts a shell command.
    pub(crate) async fn start(&self, script: &str) -> stockade_provider::Running {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        self.run(Program::Command { argv }).await
    }

    pub(crate) async fn run(&self, program: Program) -> stockade_provider::Running {
        let program = Execution::new(program);
        self.sandbox.start(program).await.expect("the program starts")
    }

    /// Runs a shell command that must succeed; returns its output.
    pub(crate) async fn shell(&self, script: &str) -> String {
        let mut running = self.start(script).await;
        let (mut out, mut err) = (String::new(), String::new());
        running.stdout.read_to_string(&mut out).await.expect("the output is text");
        running.stderr.read_to_string(&mut err).await.expect("the errors are text");
        let end = running.end.await.expect("the sandbox reports the end");
        assert_eq!(end, ProcessEnd::Exited { code: 0 }, "{script}: {out}{err}");
        out
    }

    pub(crate) async fn write(&self, name: &str, content: &[u8]) -> Result<u64, FileError> {
        let how = FileWriting { mode: FileWriteMode::Replace, executable: false };
        self.files.write(&path(name), how, bytes(content)).await
    }

    pub(crate) async fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        self.read_part(&path(name), FilePart::default()).await
    }

    pub(crate) async fn read_part(
        &self,
        path: &FilePath,
        part: FilePart,
    ) -> Result<Vec<u8>, FileError> {
        let mut stream = self.files.read(path, part).await?;
        let mut content = Vec::new();
        let read = stream.read_to_end(&mut content).await;
        read.map_err(|error| error.downcast::<FileError>().expect("a file error"))?;
        Ok(content)
    }

    /// The entries of a directory, sorted by path.
    pub(crate) async fn list(&self, name: &str, depth: u32) -> Result<Vec<FileEntry>, FileError> {
        let mut entries = self.files.list(&path(name), depth, 100_000).await?;
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(entries)
    }
}

/// The kind of a failure.
pub(crate) fn kind<T>(result: Result<T, FileError>) -> FileErrorKind {
    result.err().expect("it fails").kind
}

/// Whether this host allows a wall. If not, the tests print why they do not run, or fail if
/// `STOCKADE_REQUIRE` requires them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let built = runtime().block_on(async { wall().create(&request("{}")).await });
        built.err().map(|error| chain(&error))
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}
