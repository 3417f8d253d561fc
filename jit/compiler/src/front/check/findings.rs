//! Findings: which rule is broken, by what, and where.

use super::rules::{Rule, Severity};
use crate::llvm::{Instruction, Symbol, Value};
use spirula_interface::options::CompileError;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Findings that a log lists; a hostile module may have any number.
const MAX_LISTED: usize = 20;
/// Findings that are told apart; the others are counted.
const MAX_KEPT: usize = 200;

/// A rule that is broken.
#[derive(Debug)]
struct Finding {
    rule: &'static Rule,
    text: String,
    /// The first place.
    place: Option<String>,
    /// How many places.
    count: u64,
}

/// All findings about a module.
pub(super) struct Findings {
    list: Vec<Finding>,
    known: HashMap<(&'static str, String), usize>,
    /// Broken errors' rules that are not kept.
    more: usize,
    wants_remarks: bool,
}

impl Findings {
    pub(super) fn new(wants_remarks: bool) -> Self {
        Findings { list: Vec::new(), known: HashMap::new(), more: 0, wants_remarks }
    }

    /// Whether rules are looked at that a module may break.
    pub(super) fn wants_remarks(&self) -> bool {
        self.wants_remarks
    }

    /// About the module.
    pub(super) fn add(&mut self, rule: &'static Rule, text: impl Into<String>) {
        self.insert(rule, text.into(), || None);
    }

    /// About a function or variable.
    pub(super) fn about(&mut self, rule: &'static Rule, symbol: Symbol, text: impl Into<String>) {
        self.insert(rule, text.into(), || line(*symbol));
    }

    /// About an instruction.
    pub(super) fn at(&mut self, rule: &'static Rule, instruction: Instruction, text: impl Into<String>) {
        self.insert(rule, text.into(), || Some(place(instruction)));
    }

    fn insert(&mut self, rule: &'static Rule, text: String, place: impl FnOnce() -> Option<String>) {
        if rule.severity == Severity::Remark && !self.wants_remarks {
            return;
        }
        let next = self.list.len();
        match self.known.entry((rule.id, text)) {
            Entry::Occupied(known) => self.list[*known.get()].count += 1,
            Entry::Vacant(_) if next == MAX_KEPT => {
                self.more += usize::from(rule.severity != Severity::Remark)
            }
            Entry::Vacant(new) => {
                let text = new.key().1.clone();
                new.insert(next);
                self.list.push(Finding { rule, text, place: place(), count: 1 });
            }
        }
    }

    /// The remarks, a line each, and what all the rules say that were broken.
    pub(super) fn remarks(&self) -> String {
        let remarks = self.lines(Severity::Remark).map(|line| format!("remark: {line}\n"));
        let rules: BTreeMap<&str, &Rule> =
            self.list.iter().map(|finding| (finding.rule.id, finding.rule)).collect();
        let notes = rules.values().map(|rule| format!("note: {}: {}\n", rule.id, rule.text));
        remarks.chain(notes).collect()
    }

    fn lines(&self, severity: Severity) -> impl Iterator<Item = String> {
        self.list.iter().filter(move |finding| finding.rule.severity == severity).map(Finding::line)
    }

    /// `Failed` with the errors, if there are any.
    pub(super) fn result(&self) -> Result<(), CompileError> {
        let lines: Vec<String> = self.lines(Severity::Error).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let mut log: String = lines.iter().take(MAX_LISTED).map(|line| format!("error: {line}\n")).collect();
        let more = lines.len().saturating_sub(MAX_LISTED) + self.more;
        if more > 0 {
            log.push_str(&format!("{more} more findings\n"));
        }
        Err(CompileError::Failed(log))
    }
}

impl Finding {
    fn line(&self) -> String {
        let Finding { rule, text, place, count } = self;
        let place = place.as_ref().map(|place| format!("; {place}")).unwrap_or_default();
        let times = if *count > 1 { format!("; {count} times") } else { String::new() };
        format!("{text} [{}{place}{times}]", rule.cited())
    }
}

/// "line 7 of k.cl", if debug information says so.
fn line(value: Value) -> Option<String> {
    let (file, line) = value.source_line()?;
    Some(if file.is_empty() { format!("line {line}") } else { format!("line {line} of {file}") })
}

/// Which instruction it is: not its text, which can be of any length.
fn place(instruction: Instruction) -> String {
    let opcode = format!("{:?}", instruction.opcode());
    let opcode = opcode.trim_start_matches("LLVM").to_lowercase();
    let name = instruction.name();
    let name = if name.is_empty() { String::new() } else { format!("`%{name}`, ") };
    let block = instruction.block();
    let position = block.instructions().iter().position(|other| *other == instruction).unwrap_or(0) + 1;
    let number =
        instruction.parent_function().blocks().iter().position(|other| *other == block).unwrap_or(0) + 1;
    let line = line(*instruction).map(|line| format!(", {line}")).unwrap_or_default();
    format!("{name}{opcode}, instruction {position} of block {number}{line}")
}
