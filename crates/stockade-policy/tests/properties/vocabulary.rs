//! Random policies over few words, so that they often concern the same things, and every question
//! over those words.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};
use stockade_policy::{
    Access, Context, GuestPath, Host, Method, Moment, Policy, UrlPath, Verdict, parse_host_port,
};

pub(crate) const PLACES: [&str; 9] = [
    "/data",
    "/data/x",
    "/data/x/y",
    "/opt/a",
    "/workspace/m",
    "/etc/ssl",
    "/etc/ssl/certs",
    "/usr/share/z",
    "/tmp/t",
];
const PATHS: [&str; 20] = [
    "/data",
    "/data/file",
    "/data/x",
    "/data/x/file",
    "/data/x/y/file",
    "/data2",
    "/opt",
    "/opt/a/b",
    "/workspace",
    "/workspace/file",
    "/workspace/m/file",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/ssl/certs/one",
    "/usr/share/z",
    "/usr/bin/python3",
    "/tmp/t/file",
    "/proc/self/status",
    "/proc/1/root/etc",
    "/input/file",
];
const PATTERNS: [&str; 10] = [
    "api.github.com",
    "*.github.com",
    "github.com",
    "*.api.github.com",
    "example.org",
    "*.example.org",
    "8.8.8.8",
    "10.0.0.5",
    "[2001:4860::1]",
    "*.google.internal",
];
const BLOCKED: [&str; 8] = [
    "api.github.com",
    "*.github.com",
    "example.org",
    "8.8.8.0/24",
    "10.0.0.0/8",
    "8.8.8.8",
    "2001:4860::/32",
    "0.0.0.0/0",
];
pub(crate) const HOSTS: [&str; 13] = [
    "api.github.com",
    "v1.api.github.com",
    "github.com",
    "www.github.com",
    "example.org",
    "a.b.example.org",
    "example.com",
    "8.8.8.8",
    "10.0.0.5",
    "10.0.0.6",
    "[2001:4860::1]",
    "metadata.google.internal",
    "169.254.169.254",
];
const ADDRESSES: [&str; 6] =
    ["8.8.8.8", "9.9.9.9", "10.0.0.5", "169.254.169.254", "2001:4860::1", "::ffff:8.8.8.8"];
const PORTS: [u16; 3] = [80, 443, 8080];
const METHODS: [&str; 3] = ["GET", "POST", "DELETE"];
const URL_PATTERNS: [&str; 7] =
    ["/", "/repos", "/repos/*", "/repos/**", "/**", "/repos/*/issues", "/v*"];
const URL_PATHS: [&str; 7] =
    ["/", "/repos", "/repos/", "/repos/a", "/repos/a/issues", "/v1", "/v1/x"];
const TOOLS: [&str; 3] = ["search", "fetch", "send"];
/// The queries of tool calls; `None` is a call with unknown arguments.
const QUERIES: [Option<&str>; 3] = [None, Some("cs.CL"), Some("secret plans")];
const COMMANDS: [&str; 4] = ["ls", "/usr/bin/ls", "cat", "/opt/run"];
const PROGRAMS: [&str; 6] = ["ls", "/usr/bin/ls", "cat", "/tmp/ls", "/opt/run", "run"];
const CODES: [&str; 3] = ["print(1)", "import os", "x = 1"];

/// 2026-03-08 07:30 UTC, a Sunday.
pub(crate) const SUNDAY: i64 = 1_772_955_000;

/// A question to a policy.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Path(&'static str, Access),
    Host(&'static str, u16),
    Request(&'static str, u16, &'static str, &'static str),
    Address(&'static str, u16, &'static str),
    Command(&'static str, Asker),
    Tool(&'static str, Option<&'static str>, Asker),
    Code(&'static str, Asker),
}

/// The caller; an index into [`Asker::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asker {
    pub(crate) agent: Option<&'static str>,
    pub(crate) level: Option<Level>,
    pub(crate) now: Option<i64>,
}

/// A field of the caller's context, of one type or another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Level {
    Number(i64),
    Text(&'static str),
}

impl Asker {
    pub(crate) const ALL: [Asker; 4] = [
        Asker { agent: None, level: None, now: None },
        Asker { agent: Some("a1"), level: Some(Level::Number(2)), now: Some(SUNDAY) },
        Asker { agent: Some("a2"), level: Some(Level::Text("high")), now: Some(SUNDAY + 43_200) },
        Asker { agent: None, level: Some(Level::Number(7)), now: Some(SUNDAY + 86_400) },
    ];

    fn context(self) -> Context {
        let mut context = Context::default();
        context.agent_id = self.agent.map(str::to_owned);
        context.now = self.now.map(|unix_seconds| Moment { unix_seconds });
        match self.level {
            Some(Level::Number(level)) => context.insert("level", json!(level)).unwrap(),
            Some(Level::Text(level)) => context.insert("level", json!(level)).unwrap(),
            None => {}
        }
        context
    }
}

impl Question {
    /// Every question.
    pub(crate) fn all() -> Vec<Question> {
        let mut all = Vec::new();
        for path in PATHS {
            all.extend([Access::Read, Access::Write].map(|access| Question::Path(path, access)));
        }
        for host in HOSTS {
            all.extend(PORTS.map(|port| Question::Host(host, port)));
            for port in [80, 443] {
                all.extend(ADDRESSES.map(|address| Question::Address(host, port, address)));
            }
        }
        for host in &HOSTS[..9] {
            for method in METHODS {
                all.extend(URL_PATHS.map(|path| Question::Request(host, 443, method, path)));
            }
        }
        for asker in Asker::ALL {
            all.extend(PROGRAMS.map(|program| Question::Command(program, asker)));
            for query in QUERIES {
                all.extend(TOOLS.map(|tool| Question::Tool(tool, query, asker)));
            }
            all.extend(CODES.map(|code| Question::Code(code, asker)));
        }
        all
    }

    /// The kind, for counting.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Question::Path(_, Access::Read) => "read",
            Question::Path(_, Access::Write) => "write",
            Question::Host(..) => "host",
            Question::Request(..) => "request",
            Question::Address(..) => "address",
            Question::Command(..) => "command",
            Question::Tool(..) => "tool",
            Question::Code(..) => "code",
        }
    }

    pub(crate) fn ask(&self, policy: &Policy) -> Verdict {
        match *self {
            Question::Path(path, access) => {
                policy.judge_path(&GuestPath::parse(path).unwrap(), access)
            }
            Question::Host(host, port) => policy.judge_host(&Host::parse(host).unwrap(), port),
            Question::Request(host, port, method, path) => policy.judge_request(
                &Host::parse(host).unwrap(),
                port,
                &Method::parse(method).unwrap(),
                &UrlPath::parse(path).unwrap(),
            ),
            Question::Address(host, port, address) => policy.judge_address(
                &parse_host_port(host).unwrap().0,
                port,
                address.parse::<IpAddr>().unwrap(),
            ),
            Question::Command(program, asker) => {
                policy.judge_command(&[program.to_owned(), "-l".to_owned()], &asker.context())
            }
            Question::Tool(tool, query, asker) => {
                let arguments = query.map(|query| json!({ "query": query }));
                policy.judge_tool(tool, arguments.as_ref(), &asker.context())
            }
            Question::Code(code, asker) => policy.judge_code(code, "python", &asker.context()),
        }
    }
}

/// A random policy as JSON.
pub(crate) fn policies() -> impl Strategy<Value = Value> {
    let parts = (
        option::of(select(vec![
            "reduced",
            "process",
            "container",
            "user-kernel",
            "translated-vm",
            "vm",
        ])),
        defaults(),
        limits(),
        filesystem(),
        network(),
        programs(),
        vec(rule(), 0..4),
        select(vec!["one", "two", "three: \u{202e}\"#"]),
    );
    parts.prop_map(|(isolation, defaults, limits, filesystem, network, programs, rules, name)| {
        let mut top = Map::new();
        top.insert("name".to_owned(), json!(name));
        top.insert("isolation".to_owned(), json!(isolation));
        top.insert("defaults".to_owned(), defaults);
        top.insert("limits".to_owned(), limits);
        top.insert("filesystem".to_owned(), filesystem);
        for section in [network, programs] {
            top.extend(section.as_object().unwrap().clone());
        }
        top.insert("rules".to_owned(), Value::Array(rules));
        top.retain(|_, value| !value.is_null() && *value != json!([]));
        Value::Object(top)
    })
}

fn without_nulls(value: Value) -> Value {
    let Value::Object(mut map) = value else { return value };
    map.retain(|_, value| !value.is_null());
    Value::Object(map)
}

fn defaults() -> impl Strategy<Value = Value> {
    let action = option::of(select(vec!["allow", "allow", "audit", "deny", "block"]));
    let network = option::of(select(vec!["allow", "deny"]));
    let numbers = (
        option::of(select(vec![0.01, 0.5, 1.0, 2.125])),
        option::of(select(vec![64, 512, 2048])),
        option::of(select(vec![json!(0.5), json!(60), json!(5000)])),
        option::of(0..20),
    );
    (action, network, numbers).prop_map(|(action, network, (cpu, memory, timeout, calls))| {
        without_nulls(json!({
            "action": action, "network_default": network, "max_cpu": cpu,
            "max_memory_mb": memory, "timeout_seconds": timeout, "max_tool_calls": calls,
        }))
    })
}

fn limits() -> impl Strategy<Value = Value> {
    let parts = (
        option::of(1..500),
        option::of(1..64),
        option::of(any::<bool>()),
        option::of(select(vec![json!(1), json!(2.5)])),
        option::of(select(vec![6000, 7000])),
        option::of(select(vec![json!(0.5), json!(30), json!(60)])),
        option::of(1..100),
    );
    parts.prop_map(|(pids, disk, exact, cpu_time, lifetime, tool_time, tool_rate)| {
        without_nulls(json!({
            "max_pids": pids, "max_disk_mb": disk, "exact": exact, "max_cpu_seconds": cpu_time,
            "max_lifetime_seconds": lifetime, "max_tool_seconds": tool_time,
            "max_tool_calls_per_second": tool_rate,
        }))
    })
}

/// A policy's clause about one place.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PlaceClause {
    Nothing,
    Mounted(&'static str, bool),
    Hidden,
}

fn filesystem() -> impl Strategy<Value = Value> {
    let clause = prop_oneof![
        4 => Just(PlaceClause::Nothing),
        2 => Just(PlaceClause::Mounted("read", true)),
        2 => Just(PlaceClause::Mounted("write", true)),
        1 => Just(PlaceClause::Mounted("read", false)),
        2 => Just(PlaceClause::Hidden),
    ];
    let workspace = prop_oneof![
        3 => Just(Value::Null),
        1 => Just(json!({ "mode": "scratch" })),
        1 => Just(json!({ "mode": "nothing" })),
        2 => (select(vec!["overlay", "read", "write"]), select(vec![".", "/srv/w"]))
            .prop_map(|(mode, host)| json!({ "host": host, "mode": mode })),
    ];
    (vec(clause, PLACES.len()), workspace).prop_map(|(clause, workspace)| {
        let mut section = json!({ "read": [], "write": [], "hide": [], "workspace": workspace });
        for (place, clause) in PLACES.iter().zip(clause) {
            let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
            match clause {
                PlaceClause::Nothing => {}
                PlaceClause::Hidden => push(&mut section["hide"], json!(place)),
                PlaceClause::Mounted(list, aligned) => {
                    let tree = if aligned { "/srv/files" } else { "/srv/others" };
                    let mount = json!({ "host": format!("{tree}{place}"), "guest": place });
                    push(&mut section[list], mount);
                }
            }
        }
        without_nulls(section)
    })
}

fn network() -> impl Strategy<Value = Value> {
    let short =
        (select(PATTERNS.to_vec()), option::of(select(PORTS.to_vec()))).prop_map(|(host, port)| {
            port.map_or_else(|| json!(host), |port| json!(format!("{host}:{port}")))
        });
    let long = (
        select(PATTERNS.to_vec()),
        option::of(subsequence(PORTS.to_vec(), 1..=3)),
        option::of(subsequence(METHODS.to_vec(), 1..=3)),
        option::of(subsequence(URL_PATTERNS.to_vec(), 1..=3)),
        option::of(select(vec!["tls", "http"])),
    );
    let long = long.prop_map(|(host, ports, methods, paths, protocol)| {
        without_nulls(json!({
            "host": host, "ports": ports, "methods": methods, "paths": paths,
            "protocol": protocol,
        }))
    });
    let blocked = prop_oneof![3 => Just(Vec::new()), 1 => subsequence(BLOCKED.to_vec(), 1..=2)];
    let secret =
        (subsequence(PATTERNS[..6].to_vec(), 1..=3), any::<bool>()).prop_map(|(hosts, bearer)| {
            let format = if bearer { "Bearer {}" } else { "{}" };
            json!({ "name": "KEY", "from": "env:KEY", "hosts": hosts, "format": format })
        });
    let parts = (
        vec(prop_oneof![short, long], 0..6),
        option::of(subsequence(PORTS.to_vec(), 0..=3)),
        blocked,
        option::of(secret),
    );
    parts.prop_map(|(allowed, ports, blocked, secret)| {
        let secrets: Vec<Value> = secret.into_iter().collect();
        without_nulls(json!({
            "network_allowlist": allowed, "network_ports": ports,
            "network_blocklist": blocked, "secrets": secrets,
        }))
    })
}

fn programs() -> impl Strategy<Value = Value> {
    let parts = (
        subsequence(TOOLS.to_vec(), 0..=3),
        option::of(select(vec!["omit", "record"])),
        option::of(subsequence(COMMANDS.to_vec(), 0..=4)),
        subsequence(vec!["LANG", "TZ"], 0..=2),
        select(vec!["C", "no", "1", "a: b\n"]),
        option::of(subsequence(vec!["../profiles/a.json", "/opt/profiles/b.json"], 1..=2)),
    );
    parts.prop_map(|(tools, arguments, commands, names, value, seccomp)| {
        let environment: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!(value))).collect();
        without_nulls(json!({
            "tool_allowlist": tools, "tool_arguments": arguments,
            "command_allowlist": commands,
            "environment": environment, "seccomp": seccomp,
        }))
    })
}

fn rule() -> impl Strategy<Value = Value> {
    let condition = select(vec![
        json!({ "field": "code", "operator": "contains", "value": "import" }),
        json!({ "field": "code", "operator": "matches", "value": "^print" }),
        json!({ "field": "code", "operator": "ne", "value": "x = 1" }),
        json!({ "field": "command", "operator": "contains", "value": "ls" }),
        json!({ "field": "tool_name", "operator": "in", "value": ["search", "send"] }),
        json!({ "field": "tool_name", "operator": "not_in", "value": ["search"] }),
        json!({ "field": "arguments", "operator": "contains", "value": "secret" }),
        json!({ "field": "arguments.query", "operator": "ne", "value": "cs.CL" }),
        json!({ "field": "arguments.query", "operator": "in", "value": ["cs.CL"] }),
        json!({ "field": "arguments.other", "operator": "not_in", "value": ["x"] }),
        json!({ "field": "action", "operator": "eq", "value": "execute_code" }),
        json!({ "field": "language", "operator": "eq", "value": "python" }),
        json!({ "field": "agent_id", "operator": "ne", "value": "a1" }),
        json!({ "field": "level", "operator": "gt", "value": 2 }),
        json!({ "field": "level", "operator": "lte", "value": 2.0 }),
        json!({ "field": "level", "operator": "eq", "value": "high" }),
        json!({ "field": "absent", "operator": "not_in", "value": [1, 2] }),
    ]);
    let time = prop_oneof![
        4 => Just(Value::Null),
        1 => Just(json!({ "type": "time_window", "start_time": "07:00", "end_time": "08:00" })),
        1 => Just(json!({ "type": "time_window", "start_time": "19:00", "end_time": "07:30" })),
        1 => Just(json!({ "type": "day_of_week", "days_of_week": [6, 7] })),
    ];
    let action = select(vec!["allow", "audit", "deny", "block"]);
    (condition, time, action, -1..2_i64).prop_map(|(condition, time, action, priority)| {
        without_nulls(json!({
            "name": "r", "condition": condition, "dynamic_condition": time, "action": action,
            "priority": priority, "message": "for \"you\"\u{7}",
        }))
    })
}
