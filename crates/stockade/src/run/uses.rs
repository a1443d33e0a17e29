//! What a run used, as entries of `network_allowlist`.

use std::collections::{BTreeMap, BTreeSet};

use stockade_engine::Learned;
use stockade_policy::{Host, Protocol};

use super::flags::quoted;

/// The longest path that an entry names in full.
const MAX_PATH_BYTES: usize = 1000;

/// The uses of one host and port: the methods of each path.
type Requests = BTreeMap<String, BTreeSet<String>>;

/// The entries that allow these uses. A use without a known request needs an entry without
/// conditions.
pub(super) fn entries(learned: &[Learned]) -> Vec<String> {
    let mut hosts: BTreeMap<(&Host, u16, Protocol), Option<Requests>> = BTreeMap::new();
    for Learned { host, port, protocol, request } in learned {
        let known = hosts.entry((host, *port, *protocol)).or_insert_with(|| Some(Requests::new()));
        match (request, known.as_mut()) {
            (Some((method, path)), Some(requests)) => {
                let methods = requests.entry(pattern(&path.to_string())).or_default();
                methods.insert(method.as_str().to_owned());
            }
            (None, _) => *known = None,
            (Some(_), None) => {}
        }
    }
    hosts.into_iter().flat_map(|(place, requests)| of_host(place, requests)).collect()
}

fn of_host(
    (host, port, protocol): (&Host, u16, Protocol),
    requests: Option<Requests>,
) -> Vec<String> {
    let host = quoted(&host.to_string());
    let protocol = match protocol {
        Protocol::Web => String::new(),
        other => format!(", protocol: {}", other.as_str()),
    };
    let entry = |more: &str| format!("{{ host: {host}, ports: [{port}]{protocol}{more} }}");
    let Some(requests) = requests else { return vec![entry("")] };
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
    by_methods.into_iter().map(of_methods).collect()
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
            used("b.example", Some(("GET", "/one"))),
            used("b.example", None),
        ];
        assert_eq!(
            entries(&all),
            [
                "{ host: \"a.example\", ports: [443], methods: [GET], paths: [\"/one\"] }",
                "{ host: \"a.example\", ports: [443], methods: [GET, POST], paths: [\"/two\"] }",
                "{ host: \"b.example\", ports: [443] }",
            ]
        );
    }

    #[test]
    fn entries_allow_the_same_requests_and_no_others() {
        let long = format!("/deep/{}/{}", "a".repeat(600), "b".repeat(600));
        let all =
            [used("a.example", Some(("GET", "/one"))), used("a.example", Some(("PUT", &long)))];
        let list: Vec<String> = entries(&all).iter().map(|it| format!("  - {it}\n")).collect();
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
