//! What a run used, as entries of `network_allowlist`.

use std::collections::{BTreeMap, BTreeSet};

use stockade_engine::Learned;
use stockade_policy::{Host, Printable, Protocol};

use super::flags::quoted;

/// The longest path that an entry names in full.
const MAX_PATH_BYTES: usize = 1000;

/// The uses of one host and port.
#[derive(Default)]
struct Uses {
    /// The methods of each path.
    requests: BTreeMap<String, BTreeSet<String>>,
    /// There was a use whose request is unknown, or has a path that no rule can judge.
    has_other: bool,
}

/// Which requests the gate has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Those without TLS, and those to some hosts.
    Some,
    /// Those inside TLS too.
    Everything,
}

/// The lines of a list of entries that allow these uses. A host without a known request gets an
/// entry without conditions. One with others too gets its known requests alone, and a comment: an
/// entry without conditions would allow every request.
pub(super) fn entries(learned: &[Learned], reads: Reads) -> Vec<String> {
    let mut hosts: BTreeMap<(&Host, u16, Protocol), Uses> = BTreeMap::new();
    for Learned { host, port, protocol, request } in learned {
        let uses = hosts.entry((host, *port, *protocol)).or_default();
        match request {
            Some((method, path)) => {
                let methods = uses.requests.entry(pattern(&path.to_string())).or_default();
                methods.insert(method.as_str().to_owned());
            }
            None => uses.has_other = true,
        }
    }
    hosts.into_iter().flat_map(|(place, uses)| of_host(place, uses, reads)).collect()
}

fn of_host(
    (host, port, protocol): (&Host, u16, Protocol),
    uses: Uses,
    reads: Reads,
) -> Vec<String> {
    let is_read = reads == Reads::Everything && protocol == Protocol::Web;
    let name = Printable(&host.to_string()).to_string();
    let host = quoted(&host.to_string());
    let protocol = match protocol {
        Protocol::Web => String::new(),
        other => format!(", protocol: {}", other.as_str()),
    };
    let entry = |more: &str| format!("- {{ host: {host}, ports: [{port}]{protocol}{more} }}");
    let Uses { requests, has_other } = uses;
    if requests.is_empty() {
        let odd = format!(
            "# {name}:{port} got only requests that no rule about paths can allow, so this allows \
             every request:"
        );
        return is_read.then_some(odd).into_iter().chain([entry("")]).collect();
    }
    // Paths with the same methods share an entry.
    let mut by_methods: BTreeMap<BTreeSet<String>, Vec<String>> = BTreeMap::new();
    for (path, methods) in requests {
        by_methods.entry(methods).or_default().push(quoted(&path));
    }
    let of_methods = |(methods, paths): (BTreeSet<String>, Vec<String>)| {
        let methods: Vec<String> = methods.into_iter().collect();
        let (methods, paths) = (methods.join(", "), paths.join(", "));
        entry(&format!(", methods: [{methods}], paths: [{paths}]"))
    };
    let mut lines = Vec::new();
    if has_other {
        lines.extend([
            format!("# {name}:{port} also got requests that no rule about paths can allow: their"),
            "# paths have `;`, an escaped slash or a wrong escape, or were not read. To allow"
                .to_owned(),
            "# them, and every other request to it, write the host without methods and paths:"
                .to_owned(),
            format!("# {}", entry("")),
        ]);
    }
    lines.extend(by_methods.into_iter().map(of_methods));
    lines
}

/// A pattern that matches a path: the path itself, or the deepest directory that fits.
fn pattern(path: &str) -> String {
    if path.len() <= MAX_PATH_BYTES {
        return path.to_owned();
    }
    // Paths are ASCII, so every byte begins a character.
    let fits = path.get(..MAX_PATH_BYTES).unwrap_or_default();
    let directory = fits.rsplit_once('/').map_or("", |(directory, _)| directory);
    format!("{directory}/**")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use stockade_policy::{Method, Policy, UrlPath};

    use super::*;

    fn used(host: &str, request: Option<(&str, &str)>) -> Learned {
        let request = request
            .map(|(method, path)| (Method::parse(method).unwrap(), UrlPath::parse(path).unwrap()));
        let (host, protocol) = (Host::parse(host).unwrap(), Protocol::Web);
        Learned { host, port: 443, protocol, request }
    }

    #[test]
    fn paths_with_the_same_methods_share_an_entry() {
        let all = [
            used("a.example", Some(("GET", "/one"))),
            used("a.example", Some(("GET", "/two"))),
            used("a.example", Some(("POST", "/two"))),
            used("b.example", None),
        ];
        assert_eq!(
            entries(&all, Reads::Some),
            [
                "- { host: \"a.example\", ports: [443], methods: [GET], paths: [\"/one\"] }",
                "- { host: \"a.example\", ports: [443], methods: [GET, POST], paths: [\"/two\"] }",
                "- { host: \"b.example\", ports: [443] }",
            ]
        );
    }

    #[test]
    fn request_that_no_rule_can_judge_leaves_the_known_entries_and_a_comment() {
        let all = [used("a.example", Some(("GET", "/one"))), used("a.example", None)];
        let lines = entries(&all, Reads::Everything);
        let (comments, rest): (Vec<&String>, Vec<&String>) =
            lines.iter().partition(|line| line.starts_with("# "));
        assert_eq!(
            rest,
            ["- { host: \"a.example\", ports: [443], methods: [GET], paths: [\"/one\"] }"]
        );
        assert!(comments[0].starts_with("# a.example:443 also got requests"), "{lines:?}");
        assert_eq!(comments[3], "# - { host: \"a.example\", ports: [443] }");
        let odd = entries(&[used("a.example", None)], Reads::Everything);
        assert!(odd[0].starts_with("# a.example:443 got only requests"), "{odd:?}");
        assert_eq!(odd[1..], ["- { host: \"a.example\", ports: [443] }"]);
        let text: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let text = format!("network_allowlist:\n{text}");
        let policy = Policy::parse_str("learned", &text, Path::new("/")).unwrap();
        let host = Host::parse("a.example").unwrap();
        for (path, allows) in [("/one", true), ("/two", false)] {
            let (method, path) = (Method::parse("GET").unwrap(), UrlPath::parse(path).unwrap());
            let verdict = policy.judge_request(&host, 443, &method, &path);
            assert_eq!(verdict.effect.allows(), allows);
        }
    }

    #[test]
    fn entries_allow_the_same_requests_and_no_others() {
        let long = format!("/deep/{}/{}", "a".repeat(600), "b".repeat(600));
        let all =
            [used("a.example", Some(("GET", "/one"))), used("a.example", Some(("PUT", &long)))];
        let list: Vec<String> =
            entries(&all, Reads::Some).iter().map(|it| format!("  {it}\n")).collect();
        let text = format!("network_allowlist:\n{}", list.concat());
        let policy = Policy::parse_str("learned", &text, Path::new("/")).unwrap();
        let may = |method: &str, path: &str| {
            let (host, method) = (Host::parse("a.example").unwrap(), Method::parse(method));
            policy.judge_request(&host, 443, &method.unwrap(), &UrlPath::parse(path).unwrap())
        };
        assert!(may("GET", "/one").effect.allows() && may("PUT", &long).effect.allows());
        for (method, path) in [("PUT", "/one"), ("GET", "/two"), ("GET", &long), ("PUT", "/deep")] {
            assert!(!may(method, path).effect.allows(), "{method} {path:.40}");
        }
    }
}
