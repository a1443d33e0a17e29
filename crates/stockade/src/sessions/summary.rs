//! What Stockade prints about a program of a session, from its report as JSON.

use serde_json::Value;
use stockade_policy::is_harmless;

/// The lines for a person, without their prefix; empty for a program that exited.
pub(crate) fn lines(report: &Value) -> Vec<String> {
    let mut lines: Vec<String> = outcome(report).into_iter().collect();
    for limit in list(&report["limits_hit"]) {
        lines.push(limit_hit(&word(limit), report));
    }
    if report["outcome"] != "denied" {
        lines.extend(list(&report["denials"]).map(denial));
    }
    for audit in list(&report["audits"]) {
        lines.push(format!("recorded {}: {}", word(&audit["target"]), word(&audit["why"])));
    }
    lines
}

fn outcome(report: &Value) -> Option<String> {
    Some(match report["outcome"].as_str()? {
        "exited" => return None,
        "signaled" => format!("killed by {}", word(&report["signal"]["name"])),
        "timed_out" => {
            let milliseconds = report["duration_ms"].as_f64().unwrap_or(0.0);
            format!("timed out after {:.1}s; the session and its files remain", milliseconds / 1e3)
        }
        "out_of_memory" => "out of memory".to_owned(),
        "limit_exceeded" => format!("ended by Stockade (limit {})", word(&report["limit"])),
        "denied" => list(&report["denials"]).next().map(denial).unwrap_or_default(),
        "not_started" => {
            let not_started = &report["not_started"];
            let program = word(&not_started["program"]);
            match not_started["refused_call"].as_str() {
                Some(call) => {
                    format!("cannot start {program}: the policy's seccomp profile refuses {call}")
                }
                None => format!("cannot start {program}: {}", word(&not_started["error"])),
            }
        }
        "trapped" => format!("stopped by its runtime: {}", word(&report["trap"])),
        "cancelled" => "cancelled".to_owned(),
        "engine_lost" => "the session was lost: its supervisor or first process is gone".to_owned(),
        other => format!("ended: {}", plain(other)),
    })
}

fn limit_hit(limit: &str, report: &Value) -> String {
    if limit != "max_output_bytes" {
        return format!("something was refused (limit {limit})");
    }
    let sum = |kind: &str| -> u64 {
        let count = |stream: &str| report["output"][stream][kind].as_u64().unwrap_or(0);
        count("stdout") + count("stderr")
    };
    let (kept, dropped) = (sum("kept_bytes"), sum("dropped_bytes"));
    format!("output kept {kept} bytes and dropped {dropped} (limit {limit})")
}

fn denial(denial: &Value) -> String {
    let part = |key: &str| word(&denial[key]);
    let (target, why, rule) = (part("target"), part("why"), part("rule"));
    format!("denied {target}: {why}; decided by {rule}; to allow it: {}", part("how_to_allow"))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text that a program may have chosen, without line ends: it cannot forge a line of Stockade.
fn word(value: &Value) -> String {
    plain(value.as_str().unwrap_or_default())
}

/// A text without line ends and other characters that move text.
pub(crate) fn plain(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match is_harmless(character) {
            true => line.push(character),
            false => line.extend(character.escape_unicode()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn exited_program_needs_no_line() {
        assert_eq!(lines(&json!({ "outcome": "exited", "exit_code": 3 })), [""; 0]);
    }

    #[test]
    fn every_other_outcome_has_one_line() {
        let denial = json!({ "target": "a\nb", "why": "w", "rule": "r", "how_to_allow": "h" });
        let cases = [
            (json!({ "outcome": "timed_out", "duration_ms": 1500 }), "timed out after 1.5s"),
            (json!({ "outcome": "cancelled" }), "cancelled"),
            (json!({ "outcome": "engine_lost" }), "the session was lost"),
            (
                json!({ "outcome": "denied", "denials": [denial] }),
                "denied a\\u{a}b: w; decided by r; to allow it: h",
            ),
            (
                json!({ "outcome": "not_started", "not_started": { "program": "x", "error": "e" } }),
                "cannot start x: e",
            ),
        ];
        for (report, expected) in cases {
            let found = lines(&report);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(expected), "{found:?}");
        }
    }

    #[test]
    fn dropped_output_is_counted() {
        let counts = json!({ "kept_bytes": 2, "dropped_bytes": 3 });
        let output = json!({ "stdout": counts, "stderr": counts });
        let report =
            json!({ "outcome": "exited", "limits_hit": ["max_output_bytes"], "output": output });
        let expected = "output kept 4 bytes and dropped 6 (limit max_output_bytes)";
        assert_eq!(lines(&report), [expected]);
    }
}
