//! A conformance program's fate, from its result file and what it printed.

use crate::verdict::Verdict;
use serde::Deserialize;
use spirula_tests::supervise;
use std::collections::HashMap;
use std::process::ExitStatus;

/// The file that `CL_CONFORMANCE_RESULTS_FILENAME` names.
#[derive(Deserialize)]
struct ResultFile {
    results: HashMap<String, String>,
}

/// The fate of a sub-test. `status` is none if it took too long.
pub fn of(name: &str, status: Option<ExitStatus>, results: Option<&str>, text: &str) -> Verdict {
    let Some(status) = status else { return Verdict::Failed("timed out".to_string()) };
    let file = results.and_then(|json| serde_json::from_str::<ResultFile>(json).ok());
    match file.as_ref().and_then(|file| file.results.get(name)).map(String::as_str) {
        Some("pass") if status.success() => Verdict::Passed,
        Some("skip") => Verdict::Skipped(reason_to_skip(text)),
        Some("fail") => Verdict::Failed(reason(text)),
        _ => Verdict::Failed(format!("{}: {}", supervise::describe(status), reason(text))),
    }
}

/// The fate of each binary of a sub-suite of test_spir, which writes no result file and calls skipped tests passed:
/// "NAME...", then what happened.
pub fn of_spir(suite: &str, status: Option<ExitStatus>, text: &str) -> Vec<(String, Verdict)> {
    let mut verdicts = Vec::new();
    let mut current: Option<(&str, Vec<&str>)> = None;
    for line in text.lines().map(str::trim) {
        let name = current.as_ref().map(|(name, _)| *name).unwrap_or_default();
        let verdict = if line.strip_prefix(name).is_some_and(|rest| rest.trim() == "passed.") {
            Some(Verdict::Passed)
        } else if line.contains("Skipped.") {
            let why = line.split_once("Skipped.").map_or("", |(_, why)| why.trim());
            Some(Verdict::Skipped(why.trim_matches(['(', ')', '.', ' ']).to_string()))
        } else if line.strip_prefix(name).is_some_and(|rest| rest.trim() == "FAILED") {
            let said = current.as_ref().map(|(_, said)| said.join(" ")).unwrap_or_default();
            Some(Verdict::Failed(shorten(&said)))
        } else {
            None
        };
        match (verdict, &mut current) {
            (Some(verdict), Some(_)) => {
                verdicts.push((name.to_string(), verdict));
                current = None;
            }
            (None, _) if line.ends_with("...") && !line.contains(' ') => {
                // Some failures, of a build for one, are not announced.
                if let Some((name, said)) = current.take() {
                    verdicts.push((name.to_string(), Verdict::Failed(shorten(&said.join(" ")))));
                }
                current = Some((line.trim_end_matches('.'), Vec::new()));
            }
            // test_spir announces a test that it skips for all of a suite on the same line.
            (Some(verdict @ Verdict::Skipped(_)), None) => {
                let name = line.split_once("...").map_or(line, |(name, _)| name);
                verdicts.push((name.to_string(), verdict));
            }
            (None, Some((_, said))) if !line.is_empty() => said.push(line),
            _ => {}
        }
    }
    let how = status.map_or("timed out".to_string(), supervise::describe);
    if let Some((name, said)) = current {
        verdicts.push((name.to_string(), Verdict::Failed(shorten(&format!("{how}: {}", said.join(" "))))));
    }
    let ended = text.contains("test suites.");
    if !ended || verdicts.is_empty() {
        verdicts.push((format!("{suite}, the rest"), Verdict::Failed(how)));
    }
    verdicts
}

/// The first line that sounds like a reason.
fn reason(text: &str) -> String {
    let sounds = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["error", "fail", "invalid", "unable", "mismatch"].iter().any(|word| line.contains(word))
    };
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    shorten(lines().find(sounds).or_else(|| lines().next_back()).unwrap_or("it said nothing"))
}

fn reason_to_skip(text: &str) -> String {
    let sounds = |line: &&str| {
        let line = line.to_ascii_lowercase();
        ["skip", "not supported", "unsupported", "does not support"].iter().any(|word| line.contains(word))
    };
    shorten(text.lines().map(str::trim).find(sounds).unwrap_or("no reason given"))
}

fn shorten(text: &str) -> String {
    const MOST: usize = 300;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn ended(code: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn the_result_file_decides() {
        let file =
            |fate: &str| format!("{{\"cmd\": \"x\", \"args\": \"\", \"results\": {{\"t\": \"{fate}\"}}}}");
        assert_eq!(of("t", ended(0), Some(&file("pass")), "all well"), Verdict::Passed);
        let skipped = of("t", ended(0), Some(&file("skip")), "a\ncl_khr_x not supported\n");
        assert_eq!(skipped, Verdict::Skipped("cl_khr_x not supported".into()));
        let failed = of("t", ended(1), Some(&file("fail")), "start\nERROR: 1 != 2\nFAILED");
        assert_eq!(failed, Verdict::Failed("ERROR: 1 != 2".into()));
    }

    #[test]
    fn without_a_result_file_it_failed() {
        let crashed = Some(ExitStatus::from_raw(11));
        assert_eq!(of("t", crashed, None, "one\ntwo"), Verdict::Failed("killed by signal 11: two".into()));
        assert_eq!(of("t", None, None, ""), Verdict::Failed("timed out".into()));
        assert!(matches!(of("t", ended(0), None, ""), Verdict::Failed(_)));
    }

    #[test]
    fn the_spir_program_is_read_line_by_line() {
        let text = "Running tests:\na.x...\nkernel 'k' passed.\na.x passed.\nb...\nSkipped. (Cannot run: cl_khr_fp16 ).\n\
                    c...\nerror: no\nd...\nkernel 'k' failed.\nd FAILED\nFAILED 1 of 1 test suites.\n";
        let verdicts = of_spir("s", ended(1), text);
        let fates: Vec<(&str, &Verdict)> = verdicts.iter().map(|(n, v)| (n.as_str(), v)).collect();
        let failed = |why: &str| Verdict::Failed(why.into());
        let skipped = Verdict::Skipped("Cannot run: cl_khr_fp16".into());
        let (no, k) = (failed("error: no"), failed("kernel 'k' failed."));
        assert_eq!(fates, [("a.x", &Verdict::Passed), ("b", &skipped), ("c", &no), ("d", &k)]);
    }

    #[test]
    fn a_spir_program_that_dies_costs_its_suite() {
        let verdicts = of_spir("s", Some(ExitStatus::from_raw(11)), "a...\na passed.\nb...\n");
        assert_eq!(verdicts[0], ("a".into(), Verdict::Passed));
        assert_eq!(verdicts[1], ("b".into(), Verdict::Failed("killed by signal 11: ".into())));
        assert_eq!(verdicts[2].0, "s, the rest");
    }
}
