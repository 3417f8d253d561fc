//! Two reports side by side: what got worse, what got better, what came and went.

use crate::results::{Outcome, Results};
use crate::verdict::Verdict;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// What changed from one run to another.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    /// Passed before; does not now.
    worse: Vec<String>,
    /// Did not pass before; does now.
    better: Vec<String>,
    /// Are in the first run only.
    gone: Vec<String>,
    /// Are in the second run only.
    new: Vec<String>,
}

/// Prints the changes; success if nothing got worse and nothing is gone.
pub fn print(before: &Results, after: &Results) -> ExitCode {
    let changes = changes(&before.outcomes, &after.outcomes);
    for (title, list) in [
        ("worse", &changes.worse),
        ("better", &changes.better),
        ("gone", &changes.gone),
        ("new", &changes.new),
    ] {
        list.iter().for_each(|line| println!("{title:7} {line}"));
    }
    println!("\nbefore  {} in {:.0} s", before.count(), before.seconds);
    println!("after   {} in {:.0} s", after.count(), after.seconds);
    println!("{} worse, {} better, {} gone", changes.worse.len(), changes.better.len(), changes.gone.len());
    if changes.worse.is_empty() && changes.gone.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn changes(before: &[Outcome], after: &[Outcome]) -> Changes {
    let index = |outcomes: &[Outcome]| -> BTreeMap<String, Verdict> {
        outcomes.iter().map(|o| (format!("{}/{}", o.suite, o.test), o.verdict.clone())).collect()
    };
    let (before, mut after) = (index(before), index(after));
    let mut changes = Changes::default();
    for (name, old) in before {
        match (old, after.remove(&name)) {
            (_, None) => changes.gone.push(name),
            (Verdict::Passed, Some(Verdict::Failed(why))) => changes.worse.push(format!("{name}: {why}")),
            (Verdict::Passed, Some(Verdict::Skipped(why))) => {
                changes.worse.push(format!("{name}: skipped, {why}"));
            }
            (Verdict::Skipped(_), Some(Verdict::Failed(why))) => {
                changes.worse.push(format!("{name}: was skipped, {why}"));
            }
            (Verdict::Failed(_) | Verdict::Skipped(_), Some(Verdict::Passed)) => changes.better.push(name),
            _ => {}
        }
    }
    changes.new = after.into_keys().collect();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_named() {
        let run = |tests: &[(&str, Verdict)]| -> Vec<Outcome> {
            let outcome = |(test, verdict): &(&str, Verdict)| Outcome {
                suite: "s".into(),
                test: test.to_string(),
                verdict: verdict.clone(),
                seconds: 0.0,
            };
            tests.iter().map(outcome).collect()
        };
        let (passed, failed) = (Verdict::Passed, Verdict::Failed("why".into()));
        let before = run(&[
            ("a", passed.clone()),
            ("b", failed.clone()),
            ("c", passed.clone()),
            ("d", failed.clone()),
        ]);
        let after = run(&[("a", failed.clone()), ("b", passed.clone()), ("d", failed), ("e", passed)]);
        let found = changes(&before, &after);
        assert_eq!(found.worse, ["s/a: why"]);
        assert_eq!(
            (found.better, found.gone, found.new),
            (vec!["s/b".into()], vec!["s/c".into()], vec!["s/e".into()])
        );
    }
}
