//! `spirula check`: what `spirula-compiler --check` finds, in its sandbox.

use crate::arguments::Common;
use crate::input::{Input, Kind};
use crate::output::{BAD, GOOD, NOTE, styled};
use crate::{Result, library, output};
use serde::Serialize;
use spirula_service::process::locate;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Serialize)]
struct Checked<'a> {
    file: &'a Path,
    /// Whether it can be built.
    taken: bool,
    findings: Vec<Finding>,
    /// What the rules say that were broken.
    rules: Vec<Rule>,
}

#[derive(Debug, Serialize)]
struct Finding {
    /// `error`, `invalid` or `remark`.
    severity: String,
    text: String,
    /// None of what is no module at all.
    rule: Option<String>,
    /// The specifications' sections.
    section: Option<String>,
    /// Function, instruction, line and number of places, as far as they are known.
    place: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Rule {
    id: String,
    text: String,
}

pub fn run(common: &Common, files: &[PathBuf]) -> Result<bool> {
    let compiler = locate::compiler_of(&library::find(common)?)?;
    let mut all = Vec::new();
    for file in files {
        // Errors of files are told before the compiler begins: it would tell them, too, but in no JSON.
        let input = Input::read(file)?;
        match input.kind {
            Kind::Spir | Kind::SpirV => {}
            Kind::OpenClC => {
                return Err(format!(
                    "{}: is no SPIR binary: `spirula compile` checks sources",
                    file.display()
                )
                .into());
            }
            Kind::Binary => return Err(format!("{}: is a program that was compiled", file.display()).into()),
        }
        all.push(check(&compiler, file)?);
    }
    if common.json {
        output::json(&all)?;
    } else {
        for checked in &all {
            output::text(&text(checked))?;
        }
    }
    Ok(all.iter().all(|checked| checked.taken))
}

fn check<'a>(compiler: &Path, file: &'a Path) -> Result<Checked<'a>> {
    let output = Command::new(compiler).arg("--check").arg(file).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{}: {error}", compiler.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let taken = match output.status.code() {
        Some(0) => true,
        Some(1) => false,
        _ => return Err(format!("{}: the check ended with {}: {said}", file.display(), output.status).into()),
    };
    let (findings, rules) = parse(&said);
    Ok(Checked { file, taken, findings, rules })
}

/// Lines `SEVERITY: TEXT [PLACE; PLACE]` and `note: RULE: TEXT`; others go on with the one before.
fn parse(text: &str) -> (Vec<Finding>, Vec<Rule>) {
    let (mut findings, mut rules) = (Vec::<Finding>::new(), Vec::new());
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("note", rest)) => {
                let (id, text) = rest.split_once(": ").unwrap_or(("", rest));
                rules.push(Rule { id: id.into(), text: text.into() });
            }
            Some((severity @ ("error" | "remark" | "warning"), rest)) => {
                let bracket = rest.strip_suffix(']').and_then(|rest| rest.rsplit_once(" ["));
                let (text, place) = bracket.unwrap_or((rest, ""));
                let mut place = place.split("; ").filter(|part| !part.is_empty()).peekable();
                let cited = place.next().map(|cited| cited.split_once(": ").unwrap_or((cited, "")));
                // SPIR 1.2 may have another section.
                let other = place.next_if(|part| part.starts_with("1.2, ") || *part == "none in 1.2");
                let section = cited
                    .map(|(_, section)| [section].into_iter().chain(other).collect::<Vec<_>>().join("; "));
                findings.push(Finding {
                    severity: severity.into(),
                    text: text.into(),
                    rule: cited.map(|(rule, _)| rule.into()),
                    section,
                    place: place.map(str::to_owned).collect(),
                });
            }
            _ => {
                if let Some(last) = findings.last_mut() {
                    last.text += &format!("\n{line}");
                }
            }
        }
    }
    (findings, rules)
}

fn text(Checked { file, taken, findings, rules }: &Checked) -> String {
    let verdict = if *taken { styled(GOOD, "taken") } else { styled(BAD, "refused") };
    let mut text = format!("{}: {verdict}\n", file.display());
    for Finding { severity, text: what, rule, section, place } in findings {
        let style = if severity == "error" { BAD } else { NOTE };
        let cited = rule.iter().zip(section).map(|(rule, section)| format!("{rule}: {section}"));
        let place: Vec<String> = cited.chain(place.iter().cloned()).collect();
        let place = if place.is_empty() { String::new() } else { format!(" [{}]", place.join("; ")) };
        text += &format!("  {}: {what}{place}\n", styled(style, severity));
    }
    for Rule { id, text: what } in rules {
        text += &format!("  note: {id}: {what}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_compiler_says_is_taken_apart() {
        let (findings, rules) = parse(
            "error: a [b] c [types: SPIR 2.0, 2.1.1; 1.2, 3.4; in k; 3 times]\nmore\nremark: d\nnote: types: No types\n",
        );
        let [first, second] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((&*first.severity, &*first.text), ("error", "a [b] c\nmore"));
        assert_eq!(
            (first.rule.as_deref(), first.section.as_deref()),
            (Some("types"), Some("SPIR 2.0, 2.1.1; 1.2, 3.4"))
        );
        assert_eq!(first.place, ["in k", "3 times"]);
        assert_eq!((&*second.text, &second.rule, second.place.len()), ("d", &None, 0));
        assert_eq!(rules, [Rule { id: "types".into(), text: "No types".into() }]);
    }
}
