//! `--allow` and `--secret`: requests and secrets in one word, as entries of a policy.

use stockade_policy::check_name;

use crate::Problem;

use super::flags::quoted;

/// The protocol in which the gate reads nothing, as a URL and the policy write it.
const TCP: &str = "tcp";

/// The requests that one `--allow` names.
pub(super) struct Requests<'f> {
    methods: Vec<&'f str>,
    protocol: &'static str,
    host: &'f str,
    port: &'f str,
    path: Option<&'f str>,
}

impl Requests<'_> {
    /// Parses `GET,HEAD https://host:port/path`, or `tcp://host:port` for any bytes.
    pub(super) fn parse(said: &str) -> Result<Requests<'_>, Problem> {
        let wrong = |why: &str| {
            let message = format!("--allow {said}: {why}");
            Problem::new(message, "write it such as --allow 'GET https://api.example.org/repos/**'")
        };
        let words: Vec<&str> = said.split_whitespace().collect();
        let (methods, url) = match words[..] {
            [url] => ("", url),
            [methods, url] => (methods, url),
            _ => return Err(wrong("it is not methods and a URL")),
        };
        let (protocol, usual, rest) = match url.split_once("://") {
            Some(("https", rest)) => ("tls", "443", rest),
            Some(("http", rest)) => ("http", "80", rest),
            Some((TCP, rest)) => (TCP, "", rest),
            _ => return Err(wrong("the URL does not begin with https://, http:// or tcp://")),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..])),
            None => (rest, None),
        };
        // An address of IPv6 is in brackets, and has colons of its own.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (authority, usual),
        };
        if host.is_empty() || port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong("the URL has no host, or a port that is not a number"));
        }
        if protocol == TCP && (!methods.is_empty() || path.is_some()) {
            return Err(wrong("of any bytes over TCP the gate sees neither methods nor paths"));
        }
        let methods = methods.split(',').filter(|method| !method.is_empty()).collect();
        Ok(Requests { methods, protocol, host, port, path })
    }

    /// The entry of `network_allowlist`.
    pub(super) fn entry(&self) -> String {
        let Requests { methods, protocol, host, port, path } = self;
        let mut entry = format!("{{ host: {}, ports: [{port}], protocol: {protocol}", quoted(host));
        if !methods.is_empty() {
            let methods: Vec<String> = methods.iter().map(|method| quoted(method)).collect();
            entry.push_str(&format!(", methods: [{}]", methods.join(", ")));
        }
        if let Some(path) = path {
            entry.push_str(&format!(", paths: [{}]", quoted(path)));
        }
        let inspect = if *protocol == TCP { "" } else { ", inspect: true" };
        entry + inspect + " }"
    }
}

/// The entry of `secrets` for `NAME=SOURCE@HOST`.
pub(super) fn secret(said: &str) -> Result<String, Problem> {
    let parts = said.split_once('=').and_then(|(name, rest)| {
        let (source, hosts) = rest.rsplit_once('@')?;
        // A value can have `=` too; then the name and an empty source are its parts.
        let is_named = check_name(name).is_ok() && !source.trim_matches('=').is_empty();
        is_named.then_some((name, source, hosts))
    });
    let Some((name, source, hosts)) = parts else {
        // What was written may be a value, so it is not repeated.
        let message = "--secret is not NAME=SOURCE@HOST";
        let remedy = "write it such as --secret API_KEY=env:API_KEY@api.example.org";
        return Err(Problem::new(message, remedy));
    };
    let hosts: Vec<String> = hosts.split(',').map(quoted).collect();
    let (name, source, hosts) = (quoted(name), quoted(source), hosts.join(", "));
    Ok(format!("{{ name: {name}, from: {source}, hosts: [{hosts}] }}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_an_entry_with_methods_and_paths() {
        for (said, entry) in [
            (
                "GET https://api.example.org/repos/**",
                "{ host: \"api.example.org\", ports: [443], protocol: tls, methods: [\"GET\"], \
                 paths: [\"/repos/**\"], inspect: true }",
            ),
            (
                "GET,HEAD http://a.test:8080",
                "{ host: \"a.test\", ports: [8080], protocol: http, methods: [\"GET\", \
                 \"HEAD\"], inspect: true }",
            ),
            (
                "https://127.0.0.1:8443/",
                "{ host: \"127.0.0.1\", ports: [8443], protocol: tls, paths: [\"/\"], \
                 inspect: true }",
            ),
            ("tcp://127.0.0.1:5432", "{ host: \"127.0.0.1\", ports: [5432], protocol: tcp }"),
        ] {
            assert_eq!(Requests::parse(said).map(|read| read.entry()).unwrap(), entry);
        }
        for wrong in [
            "",
            "GET",
            "GET ftp://a/",
            "a b c",
            "https://:1/",
            "https://a:x/",
            "tcp://a",
            "tcp://a:1/",
            "GET tcp://a:1",
        ] {
            let problem = Requests::parse(wrong).err().unwrap();
            assert!(problem.message.starts_with("--allow "), "{problem}");
        }
    }

    #[test]
    fn secret_names_a_source_and_hosts_and_a_value_is_not_repeated() {
        let entry = secret("KEY=file:/a@b/key@api.example.org,b.test").unwrap();
        let expected = "{ name: \"KEY\", from: \"file:/a@b/key\", \
                        hosts: [\"api.example.org\", \"b.test\"] }";
        assert_eq!(entry, expected);
        for said in ["sk-value", "sk-value==@h.test", "sk-value=x@h.test", "skvalue=@h.test"] {
            let problem = secret(said).unwrap_err();
            assert!(!problem.message.contains("value"), "{problem}");
        }
    }
}
