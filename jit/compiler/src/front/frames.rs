//! Clean-up: which functions can't stay calls for what they keep in memory. They run on stacks that aren't ours, of which nobody knows how
//! much is left, where a kernel's own variables have memory of the launch.

use super::limits;
use crate::llvm::{Function, Instruction, Layout};
use inkwell::llvm_sys::LLVMOpcode;
use std::collections::HashMap;

/// Bytes of private variables that a function which stays a call may have.
const MAX_FRAME: u64 = 1024;
/// In programs that would be far too large, bytes of all calls together that wait for each other.
const MAX_STACK: u64 = 32 << 10;

/// What a call takes.
#[derive(Clone, Copy, Default)]
struct Stack {
    /// For itself, and for what is inlined into it.
    own: u64,
    /// For the calls that stay in it, along the deepest chain.
    below: u64,
}

/// The frames of a module's functions.
pub(super) struct Frames<'m> {
    layout: Layout<'m>,
    /// Whether the program is so large that functions with larger frames stay calls, too.
    is_huge: bool,
    stacks: HashMap<Function<'m>, Stack>,
}

impl<'m> Frames<'m> {
    pub fn new(layout: Layout<'m>, is_huge: bool) -> Self {
        Frames { layout, is_huge, stacks: HashMap::new() }
    }

    /// Whether it must be inlined for its frame. `inlined` says what is inlined for other reasons.
    pub fn are_too_large(
        &mut self,
        function: Function<'m>,
        inlined: &mut dyn FnMut(Function<'m>) -> bool,
    ) -> bool {
        if !self.is_huge {
            return frame(function, self.layout) > MAX_FRAME;
        }
        let Stack { own, below } = self.stack(function, inlined);
        own.saturating_add(below) > MAX_STACK
    }

    fn stack(&mut self, function: Function<'m>, inlined: &mut dyn FnMut(Function<'m>) -> bool) -> Stack {
        if let Some(&known) = self.stacks.get(&function) {
            return known;
        }
        self.stacks.insert(function, Stack::default()); // In a cycle, which only the library could have.
        let mut stack = Stack { own: frame(function, self.layout), below: 0 };
        for callee in function.instructions().into_iter().filter_map(Instruction::called_function) {
            let of_callee = self.stack(callee, inlined);
            let whole = of_callee.own.saturating_add(of_callee.below);
            if inlined(callee) || whole > MAX_STACK {
                stack.own = stack.own.saturating_add(of_callee.own);
                stack.below = stack.below.max(of_callee.below);
            } else {
                stack.below = stack.below.max(whole);
            }
        }
        self.stacks.insert(function, stack);
        stack
    }
}

/// Bytes of what stays in memory of a function's own variables.
fn frame<'m>(function: Function<'m>, layout: Layout<'m>) -> u64 {
    let bytes = |alloca: Instruction<'m>| {
        let Some(ty) = alloca.allocated_type().filter(|ty| ty.is_sized()) else { return 0 };
        let count = alloca.operand(0).and_then(|count| count.constant_bits()).unwrap_or(u64::MAX);
        limits::bytes(layout, ty).unwrap_or(u64::MAX).saturating_mul(count)
    };
    let variables = function.instructions().into_iter().filter(|inst| inst.allocated_type().is_some());
    let kept = variables.filter(|variable| !becomes_values(*variable));
    kept.map(bytes).fold(0_u64, u64::saturating_add)
}

/// Whether a variable is no part of a frame in the end: it is only ever read and written as a whole. Code without optimization keeps
/// all that it computes in such ones, whose sum says nothing.
fn becomes_values<'m>(alloca: Instruction<'m>) -> bool {
    let is_access = |user: Instruction<'m>| match user.opcode() {
        LLVMOpcode::LLVMLoad => !user.is_volatile(),
        LLVMOpcode::LLVMStore => !user.is_volatile() && user.operand(0) != Some(*alloca),
        LLVMOpcode::LLVMCall => {
            user.called_function().is_some_and(|f| f.name().starts_with("llvm.lifetime."))
        }
        _ => false,
    };
    alloca.users().into_iter().all(|user| user.as_instruction().is_some_and(is_access))
}
