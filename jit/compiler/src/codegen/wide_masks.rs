//! Masks of lanes that live on in another block, on processors without mask registers. LLVM keeps such a vector of bits as a vector of
//! narrow integers, which it packs at the end of one block and unpacks in the next: a divergent loop spends a third of its time so. Here
//! they are vectors of integers as wide as what was compared, whose sign bits say which lanes there are, as instructions that choose
//! and test take them; and so is all that they are made of by logic.

use crate::llvm::{Builder, Edit, Function, Instruction, Type, Value};
use inkwell::llvm_sys::LLVMOpcode::*;
use inkwell::llvm_sys::LLVMTypeKind::*;
use std::collections::{HashMap, HashSet};

/// Masks of fewer lanes are few bits.
const LEAST_LANES: u64 = 4;
/// Masks don't fill more vector registers.
const MOST_REGISTERS: u64 = 2;

/// Widens all masks that cross from one block into another, for registers of so many bits.
pub(super) fn widen(edit: Edit, register_bits: u32) {
    for function in edit.defined_functions() {
        let mut masks = Masks::new(edit, function, register_bits);
        for inst in function.instructions() {
            if crosses(inst) {
                masks.twin(*inst);
            }
        }
        masks.finish();
    }
}

/// Whether it is a mask that is used in another block, or comes from several.
fn crosses<'m>(inst: Instruction<'m>) -> bool {
    let leaves = |user: Value<'m>| {
        user.as_instruction().is_some_and(|user| user.block() != inst.block() || user.opcode() == LLVMPHI)
    };
    is_mask(inst.ty()) && (inst.opcode() == LLVMPHI || inst.users().into_iter().any(leaves))
}

fn is_mask(ty: Type) -> bool {
    ty.is_vector() && ty.scalar().integer_width() == 1 && ty.element_count() >= LEAST_LANES
}

/// What makes masks of masks.
fn is_logic(inst: Instruction) -> bool {
    let of_masks = inst.operands().into_iter().filter(|value| value.ty() == inst.ty()).count();
    match inst.opcode() {
        LLVMAnd | LLVMOr | LLVMXor => of_masks == 2,
        LLVMSelect => of_masks >= 2,
        LLVMPHI => true,
        _ => false,
    }
}

/// Bits of the numbers that a comparison compares.
fn compared_bits(inst: Instruction) -> Option<u32> {
    if !matches!(inst.opcode(), LLVMICmp | LLVMFCmp) || !is_mask(inst.ty()) {
        return None;
    }
    let ty = inst.operand(0)?.ty().scalar();
    Some(match ty.kind() {
        LLVMHalfTypeKind | LLVMBFloatTypeKind => 16,
        LLVMFloatTypeKind => 32,
        LLVMIntegerTypeKind => ty.integer_width().clamp(8, 64),
        _ => 64,
    })
}

/// A function's masks.
struct Masks<'e> {
    edit: Edit<'e>,
    register_bits: u64,
    /// Bits of a lane's number, by the lanes: what most of the function's comparisons compare.
    bits: HashMap<u64, u32>,
    /// The wide mask of each that has one.
    twins: HashMap<Value<'e>, Value<'e>>,
    /// Those in the order in which they were found.
    found: Vec<Instruction<'e>>,
}

impl<'e> Masks<'e> {
    fn new(edit: Edit<'e>, function: Function<'e>, register_bits: u32) -> Self {
        let mut counts: HashMap<(u64, u32), u32> = HashMap::new();
        for inst in function.instructions() {
            if let Some(bits) = compared_bits(inst) {
                *counts.entry((inst.ty().element_count(), bits)).or_default() += 1;
            }
        }
        let mut most: HashMap<u64, (u32, u32)> = HashMap::new();
        for ((lanes, bits), count) in counts {
            let best = most.entry(lanes).or_default();
            *best = (*best).max((count, bits));
        }
        let bits = most.into_iter().map(|(lanes, (_, bits))| (lanes, bits)).collect();
        Masks { edit, register_bits: register_bits.into(), bits, twins: HashMap::new(), found: Vec::new() }
    }

    /// The type of a wide mask, unless it would be too long.
    fn wide_type(&self, ty: Type<'e>) -> Option<Type<'e>> {
        let lanes = ty.element_count();
        // Numbers that fill a register each are compared with others that fill two, and masks of those are made for these.
        let most = if lanes <= 4 { 64 } else { 32 };
        let bits = self.bits.get(&lanes).copied().unwrap_or(32).min(most);
        (u64::from(bits) * lanes <= MOST_REGISTERS * self.register_bits)
            .then(|| self.edit.integer_type(bits).vector(lanes as u32))
    }

    /// The wide mask of one, where that is made. A phi gets its values at the end.
    fn twin(&mut self, mask: Value<'e>) -> Option<Value<'e>> {
        if let Some(&twin) = self.twins.get(&mask) {
            return Some(twin);
        }
        let inst = mask.as_instruction()?;
        let ty = self.wide_type(inst.ty())?;
        let twin = match inst.opcode() {
            LLVMPHI => self.edit.before(inst).phi(ty),
            _ if is_logic(inst) => {
                let operands: Vec<Value> =
                    inst.operands().into_iter().map(|value| self.wide(value, inst)).collect();
                logic(&self.edit.after(inst)?, inst, &operands)
            }
            _ => self.edit.after(inst)?.sign_extend(mask, ty),
        };
        self.twins.insert(mask, twin);
        self.found.push(inst);
        Some(twin)
    }

    /// An operand of logic as that of wide logic.
    fn wide(&mut self, operand: Value<'e>, user: Instruction<'e>) -> Value<'e> {
        if operand.ty() != user.ty() {
            return operand;
        }
        let ty = self.wide_type(operand.ty());
        match (self.twin(operand), ty) {
            (Some(twin), _) => twin,
            (None, Some(ty)) => self.edit.before(user).sign_extend(operand, ty),
            (None, None) => operand,
        }
    }

    /// Gives phis their values, and has whoever uses masks ask for the wide ones' sign bits.
    fn finish(mut self) {
        // What phis are made of may be found on the way.
        let mut at = 0;
        while let Some(&inst) = self.found.get(at) {
            at += 1;
            if inst.opcode() == LLVMPHI {
                self.fill(inst);
            }
        }
        for &inst in &self.found {
            self.narrow_again(inst);
        }
        self.erase();
    }

    /// Erases what nobody uses any more but what is erased as well: phis that use each other would all be left.
    fn erase(&self) {
        let mut unused: HashSet<Value> =
            self.found.iter().filter(|inst| is_logic(**inst)).map(|inst| **inst).collect();
        loop {
            let is_used = |mask: &Value<'e>| mask.users().iter().any(|user| !unused.contains(user));
            let used: Vec<Value> = unused.iter().copied().filter(is_used).collect();
            if used.is_empty() {
                break;
            }
            used.iter().for_each(|mask| {
                unused.remove(mask);
            });
        }
        for &inst in self.found.iter().filter(|inst| unused.contains(&***inst)) {
            let nothing = self.edit.null(inst.ty());
            let own = (0..inst.operand_count())
                .filter(|&index| inst.operand(index).is_some_and(|value| value.ty() == inst.ty()));
            own.for_each(|index| self.edit.set_operand(inst, index, nothing));
            self.edit.erase_instruction(inst);
        }
    }

    fn fill(&mut self, inst: Instruction<'e>) {
        let Some(phi) = self.twins.get(&inst).and_then(|twin| twin.as_instruction()) else { return };
        // By all edges from a block comes the same.
        let mut known = HashMap::new();
        for (value, from) in inst.incoming() {
            let Some(end) = from.terminator() else { continue };
            let wide = *known.entry(from).or_insert_with(|| match self.twin(value) {
                Some(twin) => twin,
                None => self.edit.before(end).sign_extend(value, phi.ty()),
            });
            self.edit.add_incoming(phi, wide, from);
        }
    }

    /// Who uses a mask in another block, or one that is made by logic, uses what the sign bits say.
    fn narrow_again(&self, mask: Instruction<'e>) {
        let Some(&twin) = self.twins.get(&mask) else { return };
        let stays = |user: Instruction<'e>| {
            let is_wide = self.twins.contains_key(&user) && is_logic(user);
            is_wide
                || user.opcode() == LLVMPHI
                || (user.block() == mask.block() && !is_logic(mask))
                || twin == *user
        };
        let users = mask.users().into_iter().filter_map(|user| user.as_instruction());
        let mut narrow: HashMap<_, Value> = HashMap::new();
        for user in users.filter(|user| !stays(*user)).collect::<Vec<_>>() {
            let block = user.block();
            let asked = match narrow.get(&block) {
                Some(&asked) => asked,
                None => {
                    let own = twin
                        .as_instruction()
                        .filter(|twin| twin.block() == block && twin.opcode() != LLVMPHI);
                    let builder = match own {
                        Some(twin) => self.edit.after(twin),
                        None => block
                            .instructions()
                            .into_iter()
                            .find(|inst| inst.opcode() != LLVMPHI)
                            .map(|first| self.edit.before(first)),
                    };
                    let Some(builder) = builder else { continue };
                    let asked = builder.is_negative(twin);
                    narrow.insert(block, asked);
                    asked
                }
            };
            self.edit.replace_in(&[*user], *mask, asked);
        }
    }
}

/// The same logic of wide masks. What is chosen lane by lane is chosen by bits.
fn logic<'e>(builder: &Builder<'e>, inst: Instruction<'e>, operands: &[Value<'e>]) -> Value<'e> {
    match (inst.opcode(), operands) {
        (LLVMAnd, &[a, b]) => builder.and(a, b),
        (LLVMOr, &[a, b]) => builder.or(a, b),
        (LLVMXor, &[a, b]) => builder.xor(a, b),
        (_, &[condition, then, otherwise]) if condition.ty() == then.ty() => {
            // What is not chosen may be anything.
            let [then, otherwise] = [then, otherwise]
                .map(|value| if value.is_constant() { value } else { builder.freeze(value) });
            let chosen = builder.and(condition, then);
            if otherwise.is_null() {
                return chosen;
            }
            // Where the condition is not, of what is otherwise.
            let both = builder.and(condition, otherwise);
            let rest = builder.xor(otherwise, both);
            builder.or(chosen, rest)
        }
        (_, &[condition, then, otherwise]) => builder.select(condition, then, otherwise),
        _ => unreachable!("asked for logic only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::{self, Session};

    fn widened(text: &str) -> String {
        let session = Session::new();
        let mut module = llvm::parse_text(&session, text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        module.edit(|edit| widen(edit, 256));
        let text = llvm::print_text(&module);
        llvm::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
        text
    }

    /// A divergent loop over eight lanes, whose mask is asked for behind a branch.
    const LOOP: &str = "define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b) {
entry:
  br label %loop
loop:
  %mask = phi <8 x i1> [ splat (i1 true), %entry ], [ %again, %latch ]
  %sum = phi <8 x i32> [ zeroinitializer, %entry ], [ %next, %latch ]
  %less = icmp ult <8 x i32> %sum, %a
  %active = and <8 x i1> %mask, %less
  %bits = bitcast <8 x i1> %active to i8
  %none = icmp eq i8 %bits, 0
  br i1 %none, label %latch, label %work
work:
  %more = add <8 x i32> %sum, %b
  %chosen = select <8 x i1> %active, <8 x i32> %more, <8 x i32> %sum
  br label %latch
latch:
  %again = phi <8 x i1> [ %active, %work ], [ zeroinitializer, %loop ]
  %next = phi <8 x i32> [ %chosen, %work ], [ %sum, %loop ]
  %left = bitcast <8 x i1> %again to i8
  %end = icmp eq i8 %left, 0
  br i1 %end, label %done, label %loop
done:
  ret <8 x i32> %next
}
";

    #[test]
    fn masks_cross_blocks_as_numbers() {
        let text = widened(LOOP);
        assert!(!text.contains("phi <8 x i1>"), "{text}");
        assert_eq!(text.matches("phi <8 x i32>").count(), 4, "{text}");
        // And so does what is made of them.
        assert!(
            text.contains("sext <8 x i1> %less to <8 x i32>") && !text.contains("and <8 x i1>"),
            "{text}"
        );
        assert_eq!(text.matches("icmp slt <8 x i32>").count(), 3, "{text}");
    }

    #[test]
    fn masks_are_as_wide_as_what_was_compared() {
        let doubles = LOOP.replace(
            "%less = icmp ult <8 x i32> %sum, %a",
            "%x = sitofp <8 x i32> %sum to <8 x double>\n  %less = fcmp olt <8 x double> %x, zeroinitializer",
        );
        let four = doubles.replace("8 x ", "4 x ").replace("to i8", "to i4").replace("eq i8", "eq i4");
        assert!(widened(&four).contains("phi <4 x i64>"));
        assert!(!widened(&doubles).contains("phi <8 x i64>"), "two registers");
        let bytes = LOOP
            .replace("8 x i32", "32 x i8")
            .replace("8 x i1", "32 x i1")
            .replace("to i8", "to i32")
            .replace("eq i8", "eq i32");
        assert!(!widened(&bytes).contains("phi <32 x i1>"));
        // More than two registers.
        let many = LOOP
            .replace("8 x i32", "32 x i32")
            .replace("8 x i1", "32 x i1")
            .replace("to i8", "to i32")
            .replace("eq i8", "eq i32");
        assert!(widened(&many).contains("phi <32 x i1>"));
    }

    #[test]
    fn masks_within_a_block_are_left_alone() {
        let text = "define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b) {
  %less = icmp ult <8 x i32> %b, %a
  %least = select <8 x i1> %less, <8 x i32> %b, <8 x i32> %a
  ret <8 x i32> %least
}
";
        assert!(!widened(text).contains("sext"));
    }

    /// A block may come before another by several edges, and masks may change places.
    #[test]
    fn phis_take_values_from_every_edge() {
        let text = "define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b, i32 %n) {
entry:
  %first = icmp ult <8 x i32> %a, %b
  %second = icmp ult <8 x i32> %b, %a
  br label %loop
loop:
  %p = phi <8 x i1> [ %first, %entry ], [ %q, %loop ], [ %q, %loop ]
  %q = phi <8 x i1> [ %second, %entry ], [ %p, %loop ], [ %p, %loop ]
  switch i32 %n, label %done [ i32 1, label %loop i32 2, label %loop ]
done:
  %chosen = select <8 x i1> %p, <8 x i32> %a, <8 x i32> %b
  ret <8 x i32> %chosen
}
";
        let text = widened(text);
        assert!(!text.contains("phi <8 x i1>"), "{text}");
    }
}
