//! A client of `stockade mcp`, and sessions of one test.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
pub(crate) use stockade_testing::{
    Conversation, Scratch, finish, not_run, processes, skipped, wait_for,
};

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// The sessions of one test, in a state directory of its own.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
}

impl Place {
    /// No session yet; `None` if this host cannot build walls.
    pub(crate) fn new() -> Option<Place> {
        let can = stockade_testing::walls_can_be_built(&binary());
        can.then(|| Place { scratch: Scratch::new() })
    }

    /// A command that uses these sessions, not started yet.
    pub(crate) fn command<W: AsRef<OsStr>>(&self, words: &[W]) -> Command {
        let mut command = Command::new(binary());
        self.prepare(command.args(words));
        command
    }

    /// Lets a command use these sessions.
    pub(crate) fn prepare(&self, command: &mut Command) {
        let place = self.scratch.path();
        command.env("STOCKADE_STATE", place.join("state")).current_dir(place);
        command.env("XDG_STATE_HOME", place.join("records"));
        command.env("STOCKADE_STORE", place.join("store"));
    }

    /// A client that has done nothing yet.
    pub(crate) fn connect(&self, words: &[&str]) -> Client {
        let words = [&["mcp"], words].concat();
        Client { server: Conversation::start(self.command(&words)), number: 0 }
    }

    /// A client of revision 2025-11-25.
    pub(crate) fn client(&self, words: &[&str]) -> Client {
        let mut client = self.connect(words);
        let info = json!({ "name": "tests", "version": "1" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let initialized = client.ask("initialize", params);
        assert_eq!(initialized["result"]["protocolVersion"], "2025-11-25", "{initialized}");
        client.tell("notifications/initialized", json!({}));
        client
    }

    /// The names that `stockade ls` prints.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let run = finish(self.command(&["ls", "-q"]));
        run.text().lines().map(str::to_owned).collect()
    }

    /// Waits until `stockade ls` prints no session.
    #[track_caller]
    pub(crate) fn wait_for_no_session(&self) {
        wait_for("all sessions have ended", || self.sessions().is_empty().then_some(()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in self.sessions() {
            finish(self.command(&["rm", "-f", &name]));
        }
    }
}

/// A client with its server.
pub(crate) struct Client {
    pub(crate) server: Conversation,
    number: u64,
}

impl Client {
    /// Sends a request and returns its number.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.number += 1;
        let id = self.number;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.server.say(&message.to_string());
        id
    }

    /// Sends a notification.
    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.server.say(&message.to_string());
    }

    /// The next message of the server.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> Value {
        let line = self.server.hear();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request and returns the answer, which must be the next message.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool, which must succeed, and returns its structured result.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{answer}");
        // The text is the same for clients that do not read structured results.
        let text = result["content"][0]["text"].as_str().expect("it has a text");
        let read: Value = serde_json::from_str(text).expect("the text is JSON");
        assert_eq!(read, result["structuredContent"]);
        read
    }

    /// Calls a tool, which must fail, and returns the message and the remedy.
    #[track_caller]
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> (String, String) {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        let text = result["content"][0]["text"].as_str().expect("it has a text");
        let read: Value = serde_json::from_str(text).expect("the text is JSON");
        let part = |key: &str| {
            let part = read["error"][key].as_str().unwrap_or_default().to_owned();
            assert!(!part.is_empty(), "no {key} in {text}");
            part
        };
        (part("message"), part("remedy"))
    }

    /// Creates a sandbox and returns its id.
    #[track_caller]
    pub(crate) fn create(&mut self, arguments: Value) -> String {
        let view = self.call("create_sandbox", arguments);
        view["sandbox_id"].as_str().expect("it has an id").to_owned()
    }

    /// Runs Python code in a sandbox.
    #[track_caller]
    pub(crate) fn python(&mut self, sandbox: &str, code: &str) -> Value {
        self.call("run_code", json!({ "sandbox_id": sandbox, "code": code }))
    }

    /// Disconnects and waits for the end of the server.
    pub(crate) fn leave(self) -> i32 {
        self.server.end()
    }
}
