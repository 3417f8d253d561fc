//! Clean-up: short loops over neighbouring elements, as over a pixel's channels or a vector's components, are
//! unrolled. One iteration's elements lie apart for a pack's work-items; those of all iterations follow on each other, and are loaded
//! and stored together (widening's `adjacent`).

use super::array_loops::{self, FACTORS, SUMS};
use super::private_arrays::unroll_marked;
use crate::llvm::loops::{self, Loop, MAX_BLOCKS};
use crate::llvm::{Block, Function, Instruction, LlvmError, Module, Value};
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::targets::TargetMachine;
use std::collections::{HashMap, HashSet};

/// As many elements as the largest vectors have.
const MAX_ITERATIONS: u64 = 16;
/// What all iterations of a loop may come to, in instructions.
const MAX_UNROLLED: u64 = 320;

/// Unrolls such loops of all functions.
pub(super) fn unroll(module: &mut Module, machine: &TargetMachine) -> Result<(), LlvmError> {
    let found = module.edit(|edit| {
        let latches: Vec<Instruction> = edit.defined_functions().into_iter().flat_map(short_loops).collect();
        latches.iter().for_each(|&latch| edit.unroll_fully(latch));
        latches.len()
    });
    if found > 0 { unroll_marked(module, machine, |_| false) } else { Ok(()) }
}

/// The branches back of a function's innermost loops of few iterations that go along neighbouring elements, and nowhere else.
fn short_loops<'m>(function: Function<'m>) -> Vec<Instruction<'m>> {
    let is_address = |inst: &Instruction<'m>| inst.opcode() == LLVMOpcode::LLVMGetElementPtr;
    if function.blocks().len() > MAX_BLOCKS || !function.instructions().iter().any(is_address) {
        return Vec::new();
    }
    let loops = loops::loops(function);
    let short = loops.iter().filter(|found| is_short(found) && loops::is_innermost(found, &loops));
    let short: Vec<&Loop> = short.collect();
    let headers: HashSet<Block> = short.iter().map(|found| found.header).collect();
    let (mut neighbours, mut others) = (HashSet::new(), HashSet::new());
    // By how much the loop's count is multiplied, and how many addresses are made of it so.
    let mut groups: HashMap<(Block, u64), u64> = HashMap::new();
    for address in function.instructions().into_iter().filter(is_address) {
        let indices = &address.operands()[1..];
        let last = indices.last().map_or(&[][..], std::slice::from_ref);
        let near = array_loops::counted_by(last, &[SUMS], &headers);
        let all = array_loops::counted_by(indices, &[SUMS, FACTORS], &headers);
        for header in all.into_iter().filter(|header| !near.contains(header)) {
            match last.first().and_then(|&index| multiple_of(index, header)) {
                Some(factor) => {
                    *groups.entry((header, factor)).or_default() += 1 + behind(address);
                }
                None => _ = others.insert(header),
            }
        }
        neighbours.extend(near);
    }
    // As many elements in an iteration as it goes on by are neighbours, too.
    for ((header, factor), count) in groups {
        let of = if count >= factor { &mut neighbours } else { &mut others };
        of.insert(header);
    }
    let along = &neighbours - &others;
    let wanted = short.iter().filter(|found| along.contains(&found.header));
    let latches = wanted.filter_map(|found| found.latch.terminator());
    latches.filter(|latch| !latch.has_loop_hint("llvm.loop.unroll.disable")).collect()
}

/// Addresses a constant distance behind one.
fn behind(address: Instruction) -> u64 {
    let users = address.users().into_iter().filter_map(|user| user.as_instruction());
    let addresses = users.filter(|user| user.opcode() == LLVMOpcode::LLVMGetElementPtr);
    addresses.filter(|user| user.operands()[1..].iter().all(|index| index.is_constant())).count() as u64
}

/// By what constant the count of a loop is multiplied in an index that is a sum of that and of what has nothing to do with it.
fn multiple_of<'m>(index: Value<'m>, header: Block<'m>) -> Option<u64> {
    let mut index = index.as_instruction()?;
    loop {
        let operands = index.operands();
        let constant = || operands.get(1)?.constant_signed();
        let is_count = || {
            let headers = HashSet::from([header]);
            !array_loops::counted_by(&operands[..1], &[SUMS], &headers).is_empty()
        };
        match index.opcode() {
            LLVMOpcode::LLVMShl if is_count() => return 1_u64.checked_shl(constant()?.try_into().ok()?),
            LLVMOpcode::LLVMMul if is_count() => return constant()?.try_into().ok(),
            opcode if SUMS.contains(&opcode) && (operands.len() == 1 || constant().is_some()) => {
                index = operands[0].as_instruction()?;
            }
            _ => return None,
        }
    }
}

fn is_short(found: &Loop) -> bool {
    let size: u64 = found.blocks.iter().map(|block| block.instructions().len() as u64).sum();
    loops::last_number(found).is_some_and(|count| count <= MAX_ITERATIONS && count * size <= MAX_UNROLLED)
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::tests::cleaned;

    /// A kernel that goes over `count` neighbouring bytes, or over what `step` makes of the count.
    fn channels(count: u32, step: &str, hint: &str) -> String {
        format!(
            "define void @spirula.kernel.k(ptr addrspace(1) %p, i64 %n) {{
              br label %h
            h:\n %i = phi i64 [ 0, %0 ], [ %j, %b ]\n %c = icmp ult i64 %i, {count}\n br i1 %c, label %b, label %e
            b:\n {step}\n %q = getelementptr i8, ptr addrspace(1) %p, i64 %k\n %x = load i8, ptr addrspace(1) %q
              %y = xor i8 %x, -1\n store i8 %y, ptr addrspace(1) %q\n %j = add i64 %i, 1\n br label %h{hint}
            e:\n ret void\n}}\n!0 = distinct !{{!0, !1}}\n!1 = !{{!\"llvm.loop.unroll.disable\"}}
            !2 = distinct !{{!2, !3}}\n!3 = !{{!\"llvm.loop.unroll.count\", i32 2}}"
        )
    }

    const BESIDE: &str = "%k = add i64 %n, %i";

    #[test]
    fn few_neighbours_are_met_at_once() {
        for count in [2, 3, 16] {
            for hint in ["", ", !llvm.loop !2"] {
                let text = cleaned(&channels(count, BESIDE, hint), true);
                assert!(!text.contains("phi"), "{text}");
                assert_eq!(text.matches("store i8").count(), count as usize, "{text}");
            }
        }
    }

    /// A kernel that goes over four groups of `count` neighbouring bytes each, of which the first is at four times the count.
    fn groups(count: u32) -> String {
        let others = (1..count).map(|n| {
            format!(
                "%q{n} = getelementptr i8, ptr addrspace(1) %q, i64 {n}\n %x{n} = load i8, ptr addrspace(1) %q{n}
                 %y{n} = xor i8 %x{n}, %x\n store i8 %y{n}, ptr addrspace(1) %q{n}\n"
            )
        });
        let others: String = others.collect();
        channels(4, "%k = shl i64 %i, 2", "").replace("%y = xor", &format!("{others} %y = xor"))
    }

    #[test]
    fn groups_of_neighbours_are_met_at_once() {
        let text = cleaned(&groups(4), true);
        assert!(!text.contains("phi") && text.matches("store i8").count() == 16, "{text}");
        let text = cleaned(&groups(3), true);
        assert!(text.contains("phi") && text.matches("store i8").count() == 3, "{text}");
    }

    #[test]
    fn other_loops_stay() {
        for text in [
            channels(17, BESIDE, ""),
            channels(3, BESIDE, ", !llvm.loop !0"),
            channels(3, "%k = add i64 %n, 7", ""),
            channels(3, "%m = mul i64 %i, %n\n %k = add i64 %m, %n", ""),
        ] {
            let text = cleaned(&text, true);
            assert!(text.contains("phi") && text.matches("store i8").count() == 1, "{text}");
        }
    }
}
