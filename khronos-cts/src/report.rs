//! What a run found: a line for each suite, the failures by reason, and the totals.

use crate::build::Verdict;
use crate::suite::Entry;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Passed, failed and skipped programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Count {
    fn of<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Count {
        let mut count = Count::default();
        for verdict in verdicts {
            match verdict {
                Verdict::Passed => count.passed += 1,
                Verdict::Failed(_) => count.failed += 1,
                Verdict::Skipped(_) => count.skipped += 1,
            }
        }
        count
    }
}

/// Prints the report; success if something ran and nothing failed.
pub fn print(verdicts: &[(Entry, Verdict)], examples: usize) -> ExitCode {
    for chunk in verdicts.chunk_by(|a, b| a.0.suite == b.0.suite) {
        let count = Count::of(chunk.iter().map(|(_, v)| v));
        println!(
            "{:28} {:5} passed {:5} failed {:5} skipped",
            chunk[0].0.suite, count.passed, count.failed, count.skipped
        );
    }
    for (reason, names) in by_reason(verdicts) {
        let more = if names.len() > examples {
            format!(" and {} more", names.len() - examples)
        } else {
            String::new()
        };
        let shown: Vec<String> = names.iter().take(examples).map(|e| e.name()).collect();
        println!("\n{:5} {reason}\n      {}{more}", names.len(), shown.join(" "));
    }
    let count = Count::of(verdicts.iter().map(|(_, v)| v));
    println!("\n{} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    if count.failed == 0 && count.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The failures' reasons, the most frequent first.
fn by_reason(verdicts: &[(Entry, Verdict)]) -> Vec<(&str, Vec<&Entry>)> {
    let mut reasons: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for (entry, verdict) in verdicts {
        if let Verdict::Failed(why) = verdict {
            let cause = why.split("; the kernel `").next().unwrap_or(why); // what is missing, whoever needs it
            reasons.entry(cause).or_default().push(entry);
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, entries)| std::cmp::Reverse(entries.len()));
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_grouped_and_counted() {
        let entry = |name: &str| Entry { suite: "s".into(), path: format!("s/{name}.bc64") };
        let failed = |why: &str| Verdict::Failed(why.into());
        let verdicts = [
            (entry("a"), failed("rare")),
            (entry("b"), failed("`f` is not defined; the kernel `b` needs it")),
            (entry("c"), failed("`f` is not defined; the kernel `c` needs it")),
            (entry("d"), Verdict::Passed),
            (entry("e"), Verdict::Skipped("x".into())),
        ];
        let reasons: Vec<_> = by_reason(&verdicts).into_iter().map(|(r, e)| (r, e.len())).collect();
        assert_eq!(reasons, [("`f` is not defined", 2), ("rare", 1)]);
        let count = Count::of(verdicts.iter().map(|(_, v)| v));
        assert_eq!(count, Count { passed: 1, failed: 3, skipped: 1 });
    }
}
