//! Clean-up: which loops are to be unrolled though they are long, because what they count says which element of a private array is
//! meant. The tiles of a matrix product in registers are such arrays: as values they are vectors of lanes, in memory they are
//! loaded and stored in each iteration. Compilers for GPUs allow such loops ten times the size of others, too.
//!
//! A source's `#pragma unroll N` doesn't say otherwise: of a loop that tests before each iteration, and once more at its end, LLVM
//! unrolls N iterations of N + 1 and keeps the loop, and then every index is a variable again.

use super::inlining::Sizes;
use crate::llvm::loops::{self, MAX_BLOCKS};
use crate::llvm::{Block, Edit, Function, Instruction, Type, Value};
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::LLVMTypeKind::{LLVMArrayTypeKind, LLVMStructTypeKind, LLVMVectorTypeKind};
use std::collections::{HashMap, HashSet};

/// What all iterations of a loop over an array of so many elements may come to, in instructions.
pub(super) const MAX_UNROLLED: u64 = 4000;
/// The same for baseline code, which is to be there soon.
const MAX_UNROLLED_QUICKLY: u64 = 1000;
/// The same of a loop whose source asks for some unrolling: what LLVM allows then.
const MAX_WANTED: u64 = 16_000;
/// What all such loops of a function may come to together.
const MAX_TOGETHER: u64 = 20_000;
/// Values of larger arrays would be in memory again.
const MAX_ELEMENTS: u64 = 128;
/// An index is looked through for what is counted so many operations deep.
const MAX_DEPTH: u32 = 6;
/// Tells LLVM to unroll such loops of a function. Yields the instructions that are not there only because it's to be done
/// quickly.
pub(super) fn mark<'e>(edit: Edit<'e>, function: Function<'e>, sizes: &mut Sizes<'e>, is_quick: bool) -> u64 {
    if function.blocks().len() > MAX_BLOCKS {
        return 0;
    }
    let loops = loops::loops(function);
    let headers: HashSet<Block> = loops.iter().map(|found| found.header).collect();
    let mut elements = HashMap::new();
    for inst in function.instructions() {
        let Some((count, index)) = indexed(inst) else { continue };
        for header in counted_by(&index, &[SUMS, FACTORS], &headers) {
            let most = elements.entry(header).or_insert(0);
            *most = count.max(*most);
        }
    }
    let (mut together, mut left_out) = (0_u64, 0);
    for found in &loops {
        let (Some(&count), Some(latch)) = (elements.get(&found.header), found.latch.terminator()) else {
            continue;
        };
        // What has one of these hints, LLVM unrolls, or doesn't, by itself.
        if ["llvm.loop.unroll.full", "llvm.loop.unroll.disable"].iter().any(|hint| latch.has_loop_hint(hint))
        {
            continue;
        }
        let Some(last) = loops::last_number(found) else { continue };
        let instructions = found.blocks.iter().flat_map(|block| block.instructions());
        let size = instructions.map(|inst| 1 + inst.called_function().map_or(0, |callee| sizes.of(callee)));
        let size = size.fold(0_u64, |sum, size| sum.saturating_add(size as u64));
        // (What counts further than to the array's end takes steps.)
        let iterations = if (count..=2 * count).contains(&last) { count } else { last };
        let most = if latch.has_loop_hint("llvm.loop.unroll.") { MAX_WANTED } else { MAX_UNROLLED };
        let unrolled = size.saturating_mul(iterations);
        if count <= MAX_ELEMENTS && unrolled <= most && together.saturating_add(unrolled) <= MAX_TOGETHER {
            together += unrolled;
            if is_quick && unrolled > MAX_UNROLLED_QUICKLY {
                left_out += unrolled;
            } else {
                edit.unroll_fully(latch);
            }
        }
    }
    left_out
}

/// The elements of the private array, structure or vector that an instruction addresses by what isn't constant, and the indices.
pub(super) fn indexed<'m>(inst: Instruction<'m>) -> Option<(u64, Vec<Value<'m>>)> {
    if inst.opcode() != LLVMOpcode::LLVMGetElementPtr {
        return None;
    }
    let operands = inst.operands();
    let (&(mut base), indices) = operands.split_first()?;
    let indices: Vec<Value> = indices.iter().copied().filter(|index| !index.is_constant()).collect();
    if indices.is_empty() {
        return None;
    }
    loop {
        let inst = base.as_instruction()?;
        if let Some(ty) = inst.allocated_type() {
            return Some((elements(ty), indices)).filter(|&(count, _)| count > 1);
        }
        match inst.opcode() {
            LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMAddrSpaceCast => base = inst.operand(0)?,
            _ => return None,
        }
    }
}

/// By what indices an instruction loads from a table that never changes: in an order of its own, which a permutation's is, each number of
/// a loop is a constant all the same once it is unrolled.
fn looked_up<'m>(inst: Instruction<'m>) -> Option<Vec<Value<'m>>> {
    if inst.opcode() != LLVMOpcode::LLVMLoad {
        return None;
    }
    let mut indices = Vec::new();
    let mut address = inst.operand(0)?;
    while let Some(inst) = address.as_instruction() {
        if inst.opcode() != LLVMOpcode::LLVMGetElementPtr {
            return None;
        }
        let operands = inst.operands();
        let (&base, rest) = operands.split_first()?;
        indices.extend(rest.iter().filter(|index| !index.is_constant()));
        address = base;
    }
    address.as_global()?.constant_initializer().map(|_| indices)
}

/// The scalars of a type.
fn elements(ty: Type) -> u64 {
    match ty.kind() {
        LLVMArrayTypeKind => {
            ty.element_count().saturating_mul(ty.element().map_or(1, |element| elements(element)))
        }
        LLVMVectorTypeKind => ty.element_count(),
        LLVMStructTypeKind => ty.members().into_iter().fold(0, |sum, ty| elements(ty).saturating_add(sum)),
        _ => 1,
    }
}

/// What keeps the distance of neighbours.
pub(super) const SUMS: &[LLVMOpcode] = &[
    LLVMOpcode::LLVMAdd,
    LLVMOpcode::LLVMSub,
    LLVMOpcode::LLVMOr,
    LLVMOpcode::LLVMSExt,
    LLVMOpcode::LLVMZExt,
    LLVMOpcode::LLVMTrunc,
];
/// What else an index is looked through for what is counted.
pub(super) const FACTORS: &[LLVMOpcode] =
    &[LLVMOpcode::LLVMMul, LLVMOpcode::LLVMShl, LLVMOpcode::LLVMAnd, LLVMOpcode::LLVMXor];

/// Those headers of loops whose counters indices are made of by these operations.
pub(super) fn counted_by<'m>(
    indices: &[Value<'m>],
    operations: &[&[LLVMOpcode]],
    headers: &HashSet<Block<'m>>,
) -> Vec<Block<'m>> {
    let mut found = Vec::new();
    let mut rest: Vec<(Value, u32)> = indices.iter().map(|&index| (index, 0)).collect();
    while let Some((value, depth)) = rest.pop() {
        let Some(inst) = value.as_instruction() else { continue };
        let opcode = inst.opcode();
        if let Some(indices) = looked_up(inst) {
            rest.extend(indices.into_iter().map(|index| (index, depth + 1)));
            continue;
        }
        if opcode == LLVMOpcode::LLVMPHI && headers.contains(&inst.block()) {
            found.push(inst.block());
        } else if depth < MAX_DEPTH && operations.iter().any(|some| some.contains(&opcode)) {
            rest.extend(inst.operands().into_iter().map(|operand| (operand, depth + 1)));
        }
    }
    found
}
