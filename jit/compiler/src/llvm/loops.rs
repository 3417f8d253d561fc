//! The natural loops of a function, and how often they run about.

use super::{Block, Function, Instruction, Value};
use inkwell::llvm_sys::LLVMOpcode;
use std::collections::{HashMap, HashSet};

/// Loops are looked for in functions of at most so many blocks: of each loop all its blocks are visited.
pub(crate) const MAX_BLOCKS: usize = 2000;

/// A loop with one way back.
pub(crate) struct Loop<'m> {
    pub(crate) header: Block<'m>,
    pub(crate) latch: Block<'m>,
    pub(crate) blocks: HashSet<Block<'m>>,
}

/// The largest of the numbers from which and to which a loop counts, if it counts to any: about as many iterations it has. LLVM knows
/// how often it runs, and unrolls it only then; but what counts to a million and uses two elements in turn isn't meant.
pub(crate) fn last_number(found: &Loop) -> Option<u64> {
    let exits = found.blocks.iter().filter_map(|block| block.terminator());
    let exits = exits.filter(|exit| exit.successors().iter().any(|to| !found.blocks.contains(to)));
    let conditions = exits.filter_map(|exit| exit.branch_condition()?.as_instruction());
    let compared = conditions.filter(|condition| condition.opcode() == LLVMOpcode::LLVMICmp);
    let number = |value: Value| value.constant_signed().map(i64::unsigned_abs);
    let end =
        compared.filter_map(|condition| condition.operands().into_iter().filter_map(number).max()).min()?;
    let phis = found.header.instructions().into_iter().filter(|inst| counts(*inst));
    let starts = phis.flat_map(|phi| phi.incoming()).filter(|(_, from)| !found.blocks.contains(from));
    // A constant that has no such number is of more than 64 bits.
    let starts = starts.filter(|(value, _)| value.is_constant_integer());
    Some(starts.map(|(value, _)| number(value).unwrap_or(u64::MAX)).fold(end, u64::max))
}

/// Whether an instruction is a loop's phi that changes by a constant with each iteration. The others may start anywhere.
pub(crate) fn counts<'m>(phi: Instruction<'m>) -> bool {
    let steps = |value: Value<'m>| {
        let Some(next) = value.as_instruction() else { return false };
        matches!(next.opcode(), LLVMOpcode::LLVMAdd | LLVMOpcode::LLVMSub)
            && next.operands().iter().any(|operand| operand.as_instruction() == Some(phi))
            && next.operands().iter().any(|operand| operand.is_constant_integer())
    };
    phi.opcode() == LLVMOpcode::LLVMPHI && phi.incoming().into_iter().any(|(value, _)| steps(value))
}

/// A function's loops with one way back each.
pub(crate) fn loops<'m>(function: Function<'m>) -> Vec<Loop<'m>> {
    let single = |(header, latches, blocks): (Block<'m>, Vec<Block<'m>>, HashSet<Block<'m>>)| match latches[..]
    {
        [latch] => Some(Loop { header, latch, blocks }),
        _ => None,
    };
    natural_loops(function).into_iter().filter_map(single).collect()
}

/// A function's loops, by header: the ways back, which are edges to blocks that a search in depth is still below, and all blocks.
pub(crate) fn natural_loops<'m>(
    function: Function<'m>,
) -> Vec<(Block<'m>, Vec<Block<'m>>, HashSet<Block<'m>>)> {
    let blocks = function.blocks();
    let Some(&entry) = blocks.first() else { return Vec::new() };
    let next = |block: Block<'m>| block.terminator().map_or(Vec::new(), |end| end.successors());
    let mut before: HashMap<Block, Vec<Block>> = HashMap::new();
    for &block in &blocks {
        next(block).into_iter().for_each(|to| before.entry(to).or_default().push(block));
    }
    let mut ways_back: HashMap<Block, Vec<Block>> = HashMap::new();
    let (mut seen, mut below) = (HashSet::from([entry]), HashSet::from([entry]));
    let mut path = vec![(entry, next(entry))];
    while let Some((block, rest)) = path.last_mut() {
        let block = *block;
        match rest.pop() {
            Some(to) if below.contains(&to) => ways_back.entry(to).or_default().push(block),
            Some(to) if seen.insert(to) => {
                below.insert(to);
                path.push((to, next(to)));
            }
            Some(_) => {}
            None => {
                below.remove(&block);
                path.pop();
            }
        }
    }
    let found = |header: &Block<'m>| {
        let latches = ways_back.remove(header)?;
        let blocks = between(*header, &latches, &before);
        Some((*header, latches, blocks))
    };
    blocks.iter().filter_map(found).collect()
}

/// The blocks from which control comes to a latch without coming through the header, and these.
fn between<'m>(
    header: Block<'m>,
    latches: &[Block<'m>],
    before: &HashMap<Block<'m>, Vec<Block<'m>>>,
) -> HashSet<Block<'m>> {
    let mut found = HashSet::from([header]);
    let mut rest = latches.to_vec();
    while let Some(block) = rest.pop() {
        if found.insert(block) {
            rest.extend(before.get(&block).into_iter().flatten().copied());
        }
    }
    found
}

/// Whether none of a function's loops lies in one of them.
pub(crate) fn is_innermost<'m>(found: &Loop<'m>, loops: &[Loop<'m>]) -> bool {
    loops.iter().all(|other| other.header == found.header || !found.blocks.contains(&other.header))
}
