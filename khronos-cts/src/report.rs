//! What a run found, for people: a line for each suite, the failures by reason, and the totals; on the terminal and as
//! Markdown.

use crate::results::{Outcome, Results};
use crate::verdict::{Count, Verdict};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

/// Prints the report, its closing line last; success if something passed and nothing failed.
pub fn print(results: &Results, examples: usize) -> ExitCode {
    for (suite, outcomes) in results.suites() {
        let count = Count::of(outcomes.iter().map(|o| &o.verdict));
        let Count { passed, failed, skipped } = count;
        let seconds: f64 = outcomes.iter().map(|o| o.seconds).sum();
        println!("{suite:28} {passed:5} passed {failed:5} failed {skipped:5} skipped {seconds:8.1} s");
    }
    let failed = by_reason(&results.outcomes, |verdict| match verdict {
        Verdict::Failed(why) => Some(why),
        _ => None,
    });
    for (title, reasons) in [("failed", failed), ("skipped", skipped(results))] {
        for (reason, names) in reasons {
            println!("\n{:5} {title}: {reason}\n      {}", names.len(), some_of(&names, examples));
        }
    }
    let count = results.count();
    println!("\n{count}");
    if count.failed == 0 && count.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The report as a Markdown document.
pub fn markdown(results: &Results) -> String {
    let mut text = format!("# khronos-cts {}\n\n- ICD: `{}`\n", results.command, results.icd);
    if let Some(against) = &results.against {
        let _ = writeln!(text, "- compared with: `{against}`");
    }
    let _ = writeln!(text, "- time: {:.0} s\n- {}\n", results.seconds, results.count());
    text += "| suite | passed | failed | skipped | seconds |\n|---|---:|---:|---:|---:|\n";
    for (suite, outcomes) in results.suites() {
        let Count { passed, failed, skipped } = Count::of(outcomes.iter().map(|o| &o.verdict));
        let seconds: f64 = outcomes.iter().map(|o| o.seconds).sum();
        let _ = writeln!(text, "| {suite} | {passed} | {failed} | {skipped} | {seconds:.1} |");
    }
    let failures = results.outcomes.iter().filter_map(|o| match &o.verdict {
        Verdict::Failed(why) => Some((o, why)),
        _ => None,
    });
    for (index, (outcome, why)) in failures.enumerate() {
        if index == 0 {
            text += "\n## Failures\n\n";
        }
        let _ = writeln!(text, "- `{}/{}`: {}", outcome.suite, outcome.test, why.replace('`', "'"));
    }
    for (index, (reason, names)) in skipped(results).iter().enumerate() {
        if index == 0 {
            text += "\n## Skipped\n\n";
        }
        let _ = writeln!(text, "- {}: {}", reason.replace('`', "'"), names.join(", "));
    }
    text
}

/// The reasons to skip tests, with these.
fn skipped(results: &Results) -> Vec<(&str, Vec<String>)> {
    by_reason(&results.outcomes, |verdict| match verdict {
        Verdict::Skipped(why) => Some(why),
        _ => None,
    })
}

fn some_of(names: &[String], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(" ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The reasons that `reason` finds, the most frequent first, with the tests that they hold for.
fn by_reason(outcomes: &[Outcome], reason: impl Fn(&Verdict) -> Option<&String>) -> Vec<(&str, Vec<String>)> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(why) = reason(&outcome.verdict) {
            let cause = why.split("; the kernel `").next().unwrap_or(why); // what is missing, whoever needs it
            reasons.entry(cause).or_default().push(format!("{}/{}", outcome.suite, outcome.test));
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let outcome =
            |test: &str, verdict| Outcome { suite: "s".into(), test: test.into(), verdict, seconds: 1.0 };
        let failed = |why: &str| Verdict::Failed(why.into());
        let outcomes = vec![
            outcome("a", failed("rare")),
            outcome("b", failed("`f` is not defined; the kernel `b` needs it")),
            outcome("c", failed("`f` is not defined; the kernel `c` needs it")),
            outcome("d", Verdict::Passed),
            outcome("e", Verdict::Skipped("x".into())),
        ];
        Results { command: "spir".into(), icd: "lib.so".into(), against: None, seconds: 5.0, outcomes }
    }

    #[test]
    fn failures_are_grouped_and_counted() {
        let results = results();
        let failed = |v: &Verdict| matches!(v, Verdict::Failed(_));
        let reasons = by_reason(&results.outcomes, |v| match v {
            Verdict::Failed(why) if failed(v) => Some(why),
            _ => None,
        });
        let reasons: Vec<_> = reasons.into_iter().map(|(r, e)| (r, e.len())).collect();
        assert_eq!(reasons, [("`f` is not defined", 2), ("rare", 1)]);
        assert_eq!(results.count().to_string(), "1 passed, 3 failed, 1 skipped");
    }

    #[test]
    fn markdown_has_the_table_and_what_did_not_pass() {
        let text = markdown(&results());
        assert!(text.contains("| s | 1 | 3 | 1 | 5.0 |"), "{text}");
        assert!(text.contains("- `s/a`: rare"), "{text}");
        assert!(text.contains("## Skipped\n\n- x: s/e\n"), "{text}");
        assert!(!text.contains("compared with"), "{text}");
    }
}
