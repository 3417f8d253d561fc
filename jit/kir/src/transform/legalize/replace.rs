//! Legalization: instructions give way to what computes the same.

use super::Illegal;
use crate::builder::{Builder, replace_uses, rewrite};
use crate::{Function, Inst, Value};
use std::collections::HashMap;

/// What is to become of an instruction.
pub(super) enum Outcome {
    /// It stays.
    Keep,
    /// Its result is that value; what computes it has been written.
    Is(Value),
    /// What stands for it has been written; nobody uses its result.
    Done,
}

/// Shows each instruction to `decide`.
pub(super) fn replace(
    function: &mut Function,
    mut decide: impl FnMut(&mut Builder, Inst) -> Result<Outcome, Illegal>,
) -> Result<(), Illegal> {
    let mut replaced: HashMap<Value, Value> = HashMap::new();
    let mut failure = None;
    rewrite(function, |builder, inst| {
        if failure.is_some() {
            return false;
        }
        match decide(builder, inst) {
            Ok(Outcome::Keep) => return false,
            Ok(Outcome::Is(value)) => {
                replaced.extend(builder.function.result(inst).map(|old| (old, value)));
            }
            Ok(Outcome::Done) => {}
            Err(illegal) => failure = Some(illegal),
        }
        true
    });
    if !replaced.is_empty() {
        replace_uses(function, &replaced);
    }
    failure.map_or(Ok(()), Err)
}
