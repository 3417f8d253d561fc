//! Changing a module: the edits that the stages need, and no others. [`super`] says why they are safe.

use super::Module;
use super::builder::Builder;
use super::function::{Block, Function};
use super::instruction::{Call, Instruction, LOOP_HINTS};
use super::symbol::{Global, Symbol};
use super::types::Type;
use super::value::Value;
use super::view::View;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{CStr, c_uint};
use std::ops::Deref;

/// A session of changes to one module, whose contents it shows as well. What it adds, moves and renames leaves every handle
/// valid; what it erases goes when it ends.
#[derive(Clone, Copy)]
pub(crate) struct Edit<'e> {
    view: View<'e>,
    erased: &'e Erased,
}

/// What is to go.
#[derive(Default)]
struct Erased {
    instructions: RefCell<Vec<LLVMValueRef>>,
    functions: RefCell<Vec<LLVMValueRef>>,
    globals: RefCell<Vec<LLVMValueRef>>,
}

impl<'e> Deref for Edit<'e> {
    type Target = View<'e>;

    fn deref(&self) -> &View<'e> {
        &self.view
    }
}

impl Module<'_> {
    /// Changes the module. No handle leaves the session, or comes into it: any lifetime must do for `change`.
    pub(crate) fn edit<R>(&mut self, change: impl for<'e> FnOnce(Edit<'e>) -> R) -> R {
        let erased = Erased::default();
        // SAFETY: the module is borrowed for longer than the session, which frees nothing.
        let view = unsafe { View::new(self.raw()) };
        let result = change(Edit { view, erased: &erased });
        // SAFETY: the session is over; its handles were the only ones, and it noted what was of this module.
        unsafe { erased.sweep() };
        result
    }
}

impl Erased {
    /// Deletes what nothing uses by now, instructions first.
    ///
    /// # Safety
    /// What is listed is alive, and there is no handle to anything of its module.
    unsafe fn sweep(self) {
        let lists: [(_, unsafe extern "C" fn(LLVMValueRef)); 3] = [
            (self.instructions, LLVMInstructionEraseFromParent),
            (self.functions, LLVMDeleteFunction),
            (self.globals, LLVMDeleteGlobal),
        ];
        for (list, delete) in lists {
            let mut seen = HashSet::new();
            for value in list.into_inner().into_iter().filter(|&value| seen.insert(value)) {
                // SAFETY: of the list's kind, alive, since none is deleted twice or with what was listed before, and unused.
                unsafe {
                    if LLVMGetFirstUse(value).is_null() {
                        delete(value);
                    }
                }
            }
        }
    }
}

/// Erasing.
impl<'e> Edit<'e> {
    /// Removes an instruction at the session's end, unless something uses it then.
    pub(crate) fn erase_instruction(self, instruction: Instruction<'e>) {
        self.erased.instructions.borrow_mut().push(instruction.raw());
    }

    /// Removes a function at the session's end, unless something uses it then.
    pub(crate) fn erase_function(self, function: Function<'e>) {
        self.erased.functions.borrow_mut().push(function.raw());
    }

    /// Removes a global variable at the session's end, unless something uses it then.
    pub(crate) fn erase_global(self, global: Global<'e>) {
        self.erased.globals.borrow_mut().push(global.raw());
    }
}

/// Symbols and metadata.
impl<'e> Edit<'e> {
    pub(crate) fn set_linkage(self, symbol: Symbol<'e>, linkage: LLVMLinkage) {
        // SAFETY: a symbol.
        unsafe { LLVMSetLinkage(symbol.raw(), linkage) };
    }

    /// Renames; LLVM adds a number if the name is taken.
    pub(crate) fn set_name(self, symbol: Symbol<'e>, name: &str) {
        // SAFETY: the name is passed with its length.
        unsafe { LLVMSetValueName2(symbol.raw(), name.as_ptr().cast(), name.len()) };
    }

    /// Adds a node without operands to the module's named metadata.
    pub(crate) fn add_empty_node(self, name: &CStr) {
        // SAFETY: the node is of the module's own context.
        unsafe {
            let node = LLVMMDNodeInContext2(self.context(), std::ptr::null_mut(), 0);
            let value = LLVMMetadataAsValue(self.context(), node);
            LLVMAddNamedMetadataOperand(self.raw(), name.as_ptr(), value);
        }
    }
}

/// Instructions.
impl<'e> Edit<'e> {
    /// Inserts before an instruction.
    pub(crate) fn before(self, instruction: Instruction<'e>) -> Builder<'e> {
        Builder::before(instruction)
    }

    /// Inserts after an instruction; `None` after one that ends its block.
    pub(crate) fn after(self, instruction: Instruction<'e>) -> Option<Builder<'e>> {
        instruction.next().map(Builder::before)
    }

    /// Replaces an operand. Panics if there is none of that number, or if the value doesn't fit its place.
    pub(crate) fn set_operand(self, user: Instruction<'e>, index: u32, value: Value<'e>) {
        let fits = user.operand(index).is_some_and(|old| old.ty() == value.ty());
        assert!(fits && value.is_usable_in(user.parent_function()), "{value} as operand {index} of {user}");
        // SAFETY: within bounds, and a value of the operand's type that is known where the instruction is.
        unsafe { LLVMSetOperand(user.raw(), index, value.raw()) };
    }

    /// Gives a phi the value that comes from a block. Panics if it is not of the phi's type, or another function's.
    pub(crate) fn add_incoming(self, phi: Instruction<'e>, value: Value<'e>, from: Block<'e>) {
        let function = phi.parent_function();
        let fits =
            phi.opcode() == LLVMOpcode::LLVMPHI && value.ty() == phi.ty() && value.is_usable_in(function);
        assert!(fits && from.function() == function, "{value} from another block for {phi}");
        // SAFETY: a phi, and a value of its type with a block of its function.
        unsafe { LLVMAddIncoming(phi.raw(), [value.raw()].as_mut_ptr(), [from.raw()].as_mut_ptr(), 1) };
    }

    /// Zero in all parts of a type.
    pub(crate) fn null(self, ty: Type<'e>) -> Value<'e> {
        assert!(ty.is_sized(), "no zero of type {ty}");
        // SAFETY: a type that has values; constants live as long as the context.
        unsafe { Value::present(LLVMConstNull(ty.raw())) }
    }

    /// These users of one value use another instead, of the same type.
    pub(crate) fn replace_in(self, users: &[Value<'e>], old: Value<'e>, new: Value<'e>) {
        for user in users.iter().filter_map(|user| user.as_instruction()) {
            for index in (0..user.operand_count()).filter(|&index| user.operand(index) == Some(old)) {
                self.set_operand(user, index, new);
            }
        }
    }

    /// Makes null of a function's address wherever it is used, but for calling it. Constants that contained it are gone then.
    pub(crate) fn forget_addresses(self, function: Function<'e>) {
        let users = function.users();
        let calls: Vec<Call> = users
            .iter()
            .filter_map(|user| user.as_call())
            .filter(|call| call.called_function() == Some(function))
            .collect();
        // SAFETY: null is a pointer as the function is, and usable everywhere; the callee is a call's last operand, and was
        // this function. The handles above are to instructions, which stay.
        unsafe {
            LLVMReplaceAllUsesWith(function.raw(), LLVMConstNull(LLVMTypeOf(function.raw())));
            for call in calls {
                let last = LLVMGetNumOperands(call.raw()) - 1;
                LLVMSetOperand(call.raw(), last as c_uint, function.raw());
            }
        }
    }

    /// Adds fast-math permissions (LLVM's bits), if the instruction takes them.
    pub(crate) fn add_fast_math(self, instruction: Instruction<'e>, flags: u32) {
        // SAFETY: done only if LLVM says that the instruction has such flags.
        unsafe {
            if LLVMCanValueUseFastMathFlags(instruction.raw()) != 0 {
                LLVMSetFastMathFlags(instruction.raw(), LLVMGetFastMathFlags(instruction.raw()) | flags);
            }
        }
    }

    /// Has the loop that a branch leads back to the start of unrolled whole, if the number of its iterations is known, whatever
    /// its length, and whatever part of it its source asks for.
    pub(crate) fn unroll_fully(self, latch: Instruction<'e>) {
        const FULL: &str = "llvm.loop.unroll.full";
        // SAFETY: a branch, and nodes of its context; texts are passed with their lengths. A loop's node has itself as its first
        // operand: what holds the place is replaced, which disposes of it.
        unsafe {
            let context = self.context();
            let text = LLVMMDStringInContext2(context, FULL.as_ptr().cast(), FULL.len());
            let hint = LLVMMDNodeInContext2(context, [text].as_mut_ptr(), 1);
            let place = LLVMTemporaryMDNode(context, std::ptr::null_mut(), 0);
            let node = LLVMMDNodeInContext2(context, [place, hint].as_mut_ptr(), 2);
            LLVMMetadataReplaceAllUsesWith(place, node);
            let id =
                LLVMGetMDKindIDInContext(context, LOOP_HINTS.as_ptr().cast(), LOOP_HINTS.len() as c_uint);
            LLVMSetMetadata(latch.raw(), id, LLVMMetadataAsValue(context, node));
        }
    }

    /// Removes metadata attached to an instruction.
    pub(crate) fn drop_attachments(self, instruction: Instruction<'e>, kinds: &[&str]) {
        // SAFETY: an instruction; each kind is passed with its length, and null removes what is attached.
        unsafe {
            if LLVMHasMetadata(instruction.raw()) == 0 {
                return;
            }
            for kind in kinds {
                let (name, length) = (kind.as_ptr().cast(), kind.len() as c_uint);
                let id = LLVMGetMDKindIDInContext(self.context(), name, length);
                LLVMSetMetadata(instruction.raw(), id, std::ptr::null_mut());
            }
        }
    }
}

impl<'e> Value<'e> {
    /// Whether an instruction of the function may have it as an operand: parameters, instructions and blocks are known to
    /// their own function only.
    pub(super) fn is_usable_in(self, function: Function<'e>) -> bool {
        if let Some(instruction) = self.as_instruction() {
            return instruction.parent_function() == function;
        }
        if let Some(parameter) = self.as_parameter() {
            return parameter.function() == function;
        }
        self.is_constant()
    }
}

#[cfg(test)]
mod tests {
    use crate::llvm::{Session, parse_text, print_text, verify};

    const TEXT: &str = "declare i32 @g(i32)
        @unused = internal global i32 0
        define i32 @f(i32 %x) {\n %y = call i32 @g(i32 %x)\n %z = add i32 %y, 1\n ret i32 %z\n}
        define i32 @h(i32 %w) {\n ret i32 %w\n}";

    #[test]
    fn what_is_erased_goes_when_the_session_ends() {
        let session = Session::new();
        let mut module = parse_text(&session, TEXT).unwrap();
        module.edit(|edit| {
            let g = edit.function_named("g").unwrap();
            let call = g.users()[0].as_call().unwrap();
            edit.replace_in(&call.users(), **call, call.arguments()[0]);
            edit.erase_function(g);
            edit.erase_function(g);
            edit.erase_instruction(*call);
            edit.globals().into_iter().for_each(|global| edit.erase_global(global));
            assert_eq!((g.name().as_str(), call.called_function()), ("g", Some(g)), "still there");
        });
        let text = print_text(&module);
        assert!(
            text.contains("add i32 %x, 1") && !text.contains("@g") && !text.contains("@unused"),
            "{text}"
        );
        verify(&module).unwrap();
    }

    #[test]
    fn what_is_used_is_not_erased() {
        let session = Session::new();
        let mut module = parse_text(&session, TEXT).unwrap();
        module.edit(|edit| {
            let g = edit.function_named("g").unwrap();
            edit.erase_function(g);
            edit.erase_instruction(g.users()[0].as_instruction().unwrap());
        });
        assert!(print_text(&module).contains("call i32 @g"));
        verify(&module).unwrap();
    }

    #[test]
    #[should_panic(expected = "as operand 0")]
    fn a_value_of_another_function_is_no_operand() {
        let session = Session::new();
        let mut module = parse_text(&session, TEXT).unwrap();
        module.edit(|edit| {
            let [f, h] = ["f", "h"].map(|name| edit.function_named(name).unwrap());
            edit.set_operand(f.instructions()[1], 0, *h.parameters()[0]);
        });
    }
}
