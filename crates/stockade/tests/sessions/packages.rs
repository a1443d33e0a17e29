//! Contexts with the real packages that people use in them, from a virtual environment.

use serde_json::{Value, json};

use crate::support::{Sessions, finish_with, skipped};

#[path = "../with-packages/environment.rs"]
mod environment;

/// A session whose interpreter is that of the virtual environment.
fn session() -> Option<Sessions> {
    let sessions = Sessions::new()?;
    match environment::environment() {
        Ok(folder) => {
            let python = folder.join("bin/python3");
            sessions.text(&["create", "--name", "one", "--python", python.to_str()?]);
            Some(sessions)
        }
        Err(why) => {
            skipped("clients", why);
            None
        }
    }
}

#[track_caller]
fn results(sessions: &Sessions, code: &str) -> Vec<Value> {
    let words = ["--json", "code", "--context", "a", "one", "-"];
    let report = finish_with(sessions.command(&words), code.as_bytes()).json();
    assert_eq!(report["error"], Value::Null, "{}", report["error"]);
    report["results"].as_array().expect("a call has results").clone()
}

#[test]
fn pandas_table_comes_back_as_html_and_as_data() {
    let Some(sessions) = session() else { return };
    let code = "import pandas as pd\n\
                df = pd.DataFrame({'city': ['Bern', 'Oslo'], 'people': [134.0, None],\n    \
                'since': pd.to_datetime(['1191-01-01', None])})\ndf";
    let found = results(&sessions, code);
    let [table] = &found[..] else { panic!("one value: {found:?}") };
    let html = table["html"].as_str().unwrap();
    assert!(html.contains("<table") && html.contains("<td>Oslo</td>"), "{html}");
    assert!(table["text"].as_str().unwrap().contains("Bern"), "{table}");
    let data = json!({
        "city": ["Bern", "Oslo"], "people": [134.0, null], "since": ["1191-01-01T00:00:00", null],
    });
    assert_eq!((&table["data"], &table["is_main_result"]), (&data, &json!(true)));
}

#[test]
fn matplotlib_figure_comes_back_as_png_without_show() {
    let Some(sessions) = session() else { return };
    let code = "import matplotlib.pyplot as plt\n\
                plt.plot([1, 2, 3], [4, 5, 6], label='growth')\nplt.title('T')\nplt.xlabel('time (s)')\nNone";
    let found = results(&sessions, code);
    let [figure] = &found[..] else { panic!("one value: {found:?}") };
    // The eight bytes at the start of every PNG file.
    assert!(figure["png"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{figure}");
    assert_eq!(figure["is_main_result"], false);
    let chart = &figure["chart"];
    assert_eq!(
        (&chart["type"], &chart["title"], &chart["x_unit"]),
        (&json!("line"), &json!("T"), &json!("s"))
    );
    let line = json!([{ "label": "growth", "points": [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]] }]);
    assert_eq!(chart["elements"], line);
    // The figure is closed: the next call shows nothing.
    assert_eq!(results(&sessions, "plt.get_fignums()")[0]["text"], "[]");
    let shown = results(&sessions, "plt.plot([1, 2])\nplt.show()\nprint('after')\nNone");
    assert_eq!(shown.len(), 1, "show() shows it once: {shown:?}");
}

#[test]
fn charts_of_every_kind_come_back_as_their_values() {
    let Some(sessions) = session() else { return };
    let chart = |code: &str| {
        let found = results(&sessions, &format!("import matplotlib.pyplot as plt\n{code}\nNone"));
        found[0]["chart"].clone()
    };
    let bars = chart("plt.bar(['a', 'b'], [1, 2])");
    assert_eq!((&bars["type"], &bars["elements"][1]["value"]), (&json!("bar"), &json!(2)));
    assert_eq!(bars["elements"][0]["label"], "a");
    let dots = chart("plt.scatter([1, 2], [3, 4])");
    assert_eq!(
        (&dots["type"], &dots["elements"][0]["points"]),
        (&json!("scatter"), &json!([[1.0, 3.0], [2.0, 4.0]]))
    );
    let pie = chart("plt.pie([1, 3], labels=['p', 'q'])");
    assert_eq!(pie["elements"][0], json!({ "label": "p", "angle": 90.0, "radius": 1 }));
    let boxes = chart("plt.boxplot([[1, 2, 3, 4, 100], [2, 3, 4]])");
    assert_eq!(boxes["type"], "box_and_whisker");
    assert_eq!(
        (&boxes["elements"][0]["median"], &boxes["elements"][0]["outliers"]),
        (&json!(3.0), &json!([100.0]))
    );
    let both = chart("f, (l, r) = plt.subplots(1, 2); l.plot([1]); r.bar(['a'], [1])");
    assert_eq!(
        (&both["type"], &both["elements"][1]["type"]),
        (&json!("superchart"), &json!("bar"))
    );
    let unknown = chart("plt.imshow([[1, 2]])");
    assert_eq!(unknown["type"], "unknown");
}
