//! Several runs side by side, test by test, as one HTML file that needs no network: what each ICD made of each test, and where they
//! differ.

use crate::results::{Outcome, Results};
use crate::verdict::{Count, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The page's style.
const STYLE: &str = include_str!("html/style.css");
/// What filters the page's rows.
const SCRIPT: &str = include_str!("html/script.js");

/// A run under the name that the page has for it.
pub struct Run {
    pub name: String,
    pub results: Results,
}

/// A test's row: what each run made of it, in their order; None for those that don't have it.
type Row<'r> = Vec<Option<&'r Outcome>>;

/// The page.
pub fn page(runs: &[Run]) -> String {
    let suites = suites(runs);
    let differing = suites.values().flat_map(BTreeMap::values).filter(|row| differs(row)).count();
    let tests: usize = suites.values().map(BTreeMap::len).sum();
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>OpenCL conformance: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>OpenCL conformance</h1>\n\
         <p>{tests} tests; {differing} of them ended differently.</p>\n<div class=\"runs\">\n",
        escaped(&runs.iter().map(|run| &*run.name).collect::<Vec<_>>().join(", ")),
    );
    runs.iter().for_each(|run| card(&mut text, run));
    text += "</div>\n<form class=\"filters\">\n";
    for (value, label) in [
        ("all", "all"),
        ("differ", "that differ"),
        ("failed", "that failed somewhere"),
        ("skipped", "skipped somewhere"),
    ] {
        let checked = if value == "all" { " checked" } else { "" };
        let _ = writeln!(
            text,
            "<label><input type=\"radio\" name=\"show\" value=\"{value}\"{checked}> {label}</label>"
        );
    }
    text += "<input type=\"search\" name=\"words\" placeholder=\"name of a test, or words of a reason\" aria-label=\"search\">\n\
             <span id=\"shown\"></span>\n</form>\n";
    for (suite, rows) in &suites {
        section(&mut text, runs, suite, rows);
    }
    let _ = write!(text, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    text
}

/// All tests by suite and name.
fn suites(runs: &[Run]) -> BTreeMap<&str, BTreeMap<&str, Row<'_>>> {
    let mut suites: BTreeMap<&str, BTreeMap<&str, Row>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for outcome in &run.results.outcomes {
            let rows = suites.entry(&outcome.suite).or_default();
            let row = rows.entry(&outcome.test).or_insert_with(|| vec![None; runs.len()]);
            row[number] = Some(outcome);
        }
    }
    suites
}

/// Whether those that ran it made different things of it.
fn differs(row: &Row) -> bool {
    let mut kinds = row.iter().flatten().map(|outcome| word(&outcome.verdict));
    let first = kinds.next();
    kinds.any(|kind| Some(kind) != first)
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed(_) => "failed",
        Verdict::Skipped(_) => "skipped",
    }
}

/// A run's sums.
fn card(text: &mut String, Run { name, results }: &Run) {
    let count = results.count();
    let _ = writeln!(
        text,
        "<section class=\"run\"><h2>{}</h2><p class=\"path\">{}</p>{}<p>{count}</p><p>khronos-cts {}, {:.0} s</p></section>",
        escaped(name),
        escaped(&results.icd),
        bar(count),
        escaped(&results.command),
        results.seconds
    );
}

/// How many passed, failed and were skipped, as lengths.
fn bar(Count { passed, failed, skipped }: Count) -> String {
    let parts = [("passed", passed), ("failed", failed), ("skipped", skipped)];
    let parts = parts.iter().filter(|(_, count)| *count > 0);
    let parts = parts.map(|(kind, count)| {
        format!("<span class=\"{kind}\" style=\"flex:{count}\" title=\"{count} {kind}\"></span>")
    });
    format!("<div class=\"bar\">{}</div>", parts.collect::<String>())
}

/// A suite's tests.
fn section(text: &mut String, runs: &[Run], suite: &str, rows: &BTreeMap<&str, Row>) {
    let interesting = rows.values().any(differs);
    let open = if interesting { " open" } else { "" };
    let _ = write!(text, "<details{open}><summary><b>{}</b> <span class=\"sums\">", escaped(suite));
    for number in 0..runs.len() {
        let verdicts = rows.values().filter_map(|row| row[number]).map(|outcome| &outcome.verdict);
        text.push_str(&bar(Count::of(verdicts)));
    }
    *text += "</span></summary>\n<table>\n<thead><tr><th>test</th>";
    runs.iter().for_each(|run| *text += &format!("<th>{}</th>", escaped(&run.name)));
    *text += "</tr></thead>\n<tbody>\n";
    for (test, row) in rows {
        let mut kinds: Vec<&str> = row.iter().flatten().map(|outcome| word(&outcome.verdict)).collect();
        kinds.extend(differs(row).then_some("differ"));
        kinds.sort_unstable();
        kinds.dedup();
        let _ =
            write!(text, "<tr data-kinds=\"{}\"><td class=\"name\">{}</td>", kinds.join(" "), escaped(test));
        row.iter().for_each(|outcome| cell(text, *outcome));
        *text += "</tr>\n";
    }
    *text += "</tbody>\n</table>\n</details>\n";
}

fn cell(text: &mut String, outcome: Option<&Outcome>) {
    let Some(Outcome { verdict, seconds, .. }) = outcome else {
        *text += "<td class=\"absent\">not run</td>";
        return;
    };
    let reason = match verdict {
        Verdict::Passed => String::new(),
        Verdict::Failed(why) | Verdict::Skipped(why) => format!("<div class=\"why\">{}</div>", escaped(why)),
    };
    let kind = word(verdict);
    let _ =
        write!(text, "<td class=\"{kind}\">{kind} <span class=\"time\">{seconds:.1} s</span>{reason}</td>");
}

/// As text in HTML, also within quotes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, tests: &[(&str, Verdict)]) -> Run {
        let outcome = |(test, verdict): &(&str, Verdict)| Outcome {
            suite: "s".into(),
            test: (*test).into(),
            verdict: verdict.clone(),
            seconds: 1.0,
        };
        let outcomes = tests.iter().map(outcome).collect();
        let results = Results {
            command: "run".into(),
            icd: format!("/{name}.so"),
            against: None,
            seconds: 2.0,
            outcomes,
        };
        Run { name: name.into(), results }
    }

    #[test]
    fn each_test_is_a_row_and_differences_are_marked() {
        let failed = || Verdict::Failed("<b>why</b>".into());
        let page = page(&[
            run("one", &[("same", Verdict::Passed), ("other", Verdict::Passed), ("alone", failed())]),
            run("two", &[("same", Verdict::Passed), ("other", failed())]),
        ]);
        assert!(page.contains("3 tests; 1 of them ended differently."), "{page}");
        let row = |test: &str| page.lines().find(|line| line.contains(&format!(">{test}</td>"))).unwrap();
        assert!(row("same").starts_with("<tr data-kinds=\"passed\">"));
        assert!(row("other").starts_with("<tr data-kinds=\"differ failed passed\">"));
        assert!(row("other").contains("&lt;b&gt;why&lt;/b&gt;") && !page.contains("<b>why"));
        assert!(row("alone").starts_with("<tr data-kinds=\"failed\">") && row("alone").contains("not run"));
        assert!(page.contains("<summary><b>s</b>") && page.contains("<details open>"));
    }

    #[test]
    fn the_page_asks_for_nothing_from_elsewhere() {
        let page = page(&[run("one", &[("a", Verdict::Skipped("none".into()))])]);
        for word in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
