//! The general handle of a value, and what may be asked of any: its type, name, operands, users, and a constant's bits.

use super::types::Type;
use super::{Function, Instruction, take_message};
use inkwell::llvm_sys::LLVMTypeKind::*;
use inkwell::llvm_sys::LLVMValueKind::{self, *};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use std::marker::PhantomData;

/// Ties a handle to one borrow of its module, and to no shorter or longer one.
pub(super) type Brand<'m> = PhantomData<fn(&'m ()) -> &'m ()>;

/// Declares a handle to an object that lives as long as a borrow of its module.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) struct $name<'m> {
            raw: $raw,
            brand: $crate::llvm::value::Brand<'m>,
        }

        impl<'m> $name<'m> {
            /// Wraps LLVM's pointer; null is `None`.
            ///
            /// # Safety
            /// The pointer is null or to an object of this kind, which the module (or context) behind `'m` keeps alive for `'m`.
            pub(super) unsafe fn from_raw(raw: $raw) -> Option<Self> {
                (!raw.is_null()).then_some(Self { raw, brand: std::marker::PhantomData })
            }

            /// Wraps what LLVM never lets be null.
            ///
            /// # Safety
            /// As for `from_raw`.
            pub(super) unsafe fn present(raw: $raw) -> Self {
                // SAFETY: stated above.
                unsafe { Self::from_raw(raw) }.unwrap_or_else(|| unreachable!("LLVM yielded nothing"))
            }

            /// LLVM's pointer, never null.
            pub(super) fn raw(self) -> $raw {
                self.raw
            }
        }
    };
}
pub(super) use handle;

/// Declares a handle to a subclass, which does what its base does. Only its own file can make one: by a checked cast.
macro_rules! narrower {
    ($(#[$doc:meta])* $name:ident: $base:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) struct $name<'m>($base<'m>);

        impl<'m> std::ops::Deref for $name<'m> {
            type Target = $base<'m>;

            fn deref(&self) -> &$base<'m> {
                &self.0
            }
        }

        impl std::fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}
pub(super) use narrower;

handle!(
    /// Any value: constant, parameter, symbol, instruction, block, or metadata as an operand.
    Value,
    LLVMValueRef
);

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        // SAFETY: the value is alive, and the message is ours.
        f.write_str(unsafe { take_message(LLVMPrintValueToString(self.raw)) }.trim())
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Follows one of LLVM's intrusive lists.
///
/// # Safety
/// `first` is null or the head of a list that `next` walks, of values that may be handles for `'m`.
pub(super) unsafe fn list<'m>(
    first: LLVMValueRef,
    next: unsafe extern "C" fn(LLVMValueRef) -> LLVMValueRef,
) -> Vec<Value<'m>> {
    let mut list = Vec::new();
    let mut current = first;
    // SAFETY: null or an element of the list, which does not change meanwhile.
    while let Some(value) = unsafe { Value::from_raw(current) } {
        list.push(value);
        // SAFETY: as above.
        current = unsafe { next(current) };
    }
    list
}

impl<'m> Value<'m> {
    pub(crate) fn kind(self) -> LLVMValueKind {
        // SAFETY: any value has a kind.
        unsafe { LLVMGetValueKind(self.raw) }
    }

    pub(crate) fn ty(self) -> Type<'m> {
        // SAFETY: any value has a type, which lives as long as the context.
        unsafe { Type::present(LLVMTypeOf(self.raw)) }
    }

    pub(crate) fn name(self) -> String {
        let mut length = 0;
        // SAFETY: the name belongs to the value and has `length` bytes.
        unsafe {
            let pointer = LLVMGetValueName2(self.raw, &mut length);
            super::copy_text(pointer, length)
        }
    }

    pub(crate) fn is_constant(self) -> bool {
        // SAFETY: may be asked of any value.
        unsafe { LLVMIsConstant(self.raw) != 0 }
    }

    /// True of a zero, null pointer or all-zero aggregate.
    pub(crate) fn is_null(self) -> bool {
        // SAFETY: may be asked of any value.
        self.is_constant() && unsafe { LLVMIsNull(self.raw) != 0 }
    }

    /// True of `undef` and `poison`.
    pub(crate) fn is_undefined(self) -> bool {
        // SAFETY: may be asked of any value.
        unsafe { LLVMIsUndef(self.raw) != 0 }
    }

    pub(crate) fn is_poison(self) -> bool {
        // SAFETY: may be asked of any value.
        unsafe { LLVMIsPoison(self.raw) != 0 }
    }

    /// File and line of an instruction, function or variable, as debug information has them.
    pub(crate) fn source_line(self) -> Option<(String, u32)> {
        let kinds = [LLVMInstructionValueKind, LLVMFunctionValueKind, LLVMGlobalVariableValueKind];
        if !kinds.contains(&self.kind()) {
            return None;
        }
        let mut length = 0;
        // SAFETY: one of the kinds that have a location; the name belongs to the context and has `length` bytes.
        unsafe {
            let line = LLVMGetDebugLocLine(self.raw);
            let name = LLVMGetDebugLocFilename(self.raw, &mut length);
            (line > 0).then(|| (super::copy_text(name, length as usize), line))
        }
    }

    pub(crate) fn is_constant_integer(self) -> bool {
        self.kind() == LLVMConstantIntValueKind
    }

    /// A constant integer of up to 64 bits.
    fn is_short_integer(self) -> bool {
        self.is_constant_integer() && (1..=64).contains(&self.ty().integer_width())
    }

    /// The bits of a constant integer of up to 64 bits, zero-extended.
    pub(crate) fn constant_bits(self) -> Option<u64> {
        // SAFETY: a constant integer that fits.
        self.is_short_integer().then(|| unsafe { LLVMConstIntGetZExtValue(self.raw) })
    }

    /// The value of a constant integer of up to 64 bits, sign-extended.
    pub(crate) fn constant_signed(self) -> Option<i64> {
        // SAFETY: a constant integer that fits.
        self.is_short_integer().then(|| unsafe { LLVMConstIntGetSExtValue(self.raw) })
    }

    /// The bits of a constant integer of any width up to 128.
    pub(crate) fn wide_bits(self) -> Option<u128> {
        if let Some(bits) = self.constant_bits() {
            return Some(u128::from(bits));
        }
        let width = self.ty().integer_width();
        if !self.is_constant_integer() || width > 128 {
            return None;
        }
        // The C API has no way to wide constants but their text, "i128 -5".
        let text = self.to_string();
        let number = text.rsplit(' ').next()?;
        let bits = match number.strip_prefix('-') {
            Some(digits) => digits.parse::<u128>().ok()?.wrapping_neg(),
            None => number.parse().ok()?,
        };
        Some(if width < 128 { bits & ((1 << width) - 1) } else { bits })
    }

    /// The bits of a constant float of up to 64 bits, in its own format.
    pub(crate) fn float_bits(self) -> Option<u64> {
        if self.kind() != LLVMConstantFPValueKind {
            return None;
        }
        let bits = match self.ty().kind() {
            LLVMHalfTypeKind => 16,
            LLVMFloatTypeKind => 32,
            LLVMDoubleTypeKind => 64,
            _ => return None,
        };
        // SAFETY: a constant float's bits are a constant integer of its width, which LLVM folds at once.
        let bits = unsafe {
            let integer = LLVMIntTypeInContext(LLVMGetTypeContext(self.ty().raw()), bits);
            Value::present(LLVMConstBitCast(self.raw, integer))
        };
        bits.constant_bits()
    }

    /// The bytes of a constant array or vector of numbers, as they lie in memory.
    pub(crate) fn raw_data(self) -> Option<Vec<u8>> {
        use LLVMValueKind::*;
        if !matches!(self.kind(), LLVMConstantDataArrayValueKind | LLVMConstantDataVectorValueKind) {
            return None;
        }
        let mut size = 0_usize;
        // SAFETY: asked of such constants. LLVM takes the address of a size, though llvm-sys 221 declares a number; the
        // bytes belong to the constant.
        unsafe {
            let data = LLVMGetRawDataValues(self.raw(), &raw mut size as usize);
            Some(std::slice::from_raw_parts(data.cast::<u8>(), size).to_vec())
        }
    }

    /// An element of a constant vector, array or structure.
    pub(crate) fn aggregate_element(self, index: u32) -> Option<Value<'m>> {
        if !self.is_constant() || u64::from(index) >= self.ty().element_count() {
            return None;
        }
        // SAFETY: a constant, within its bounds; null if it is an expression.
        unsafe { Value::from_raw(LLVMGetAggregateElement(self.raw, index)) }
    }

    /// How many operands it has; none if it is no user of values.
    pub(crate) fn operand_count(self) -> u32 {
        match self.kind() {
            LLVMArgumentValueKind
            | LLVMBasicBlockValueKind
            | LLVMMetadataAsValueValueKind
            | LLVMInlineAsmValueKind => 0,
            // SAFETY: all other kinds are users.
            _ => unsafe { LLVMGetNumOperands(self.raw).max(0) as u32 },
        }
    }

    /// An operand; `None` beyond the last one.
    pub(crate) fn operand(self, index: u32) -> Option<Value<'m>> {
        if index >= self.operand_count() {
            return None;
        }
        // SAFETY: a user, and within its bounds; an absent operand is null.
        unsafe { Value::from_raw(LLVMGetOperand(self.raw, index)) }
    }

    pub(crate) fn operands(self) -> Vec<Value<'m>> {
        (0..self.operand_count()).filter_map(|i| self.operand(i)).collect()
    }

    /// Whether its users are all of its module: constants without symbols are shared by all modules of a context.
    fn is_of_one_module(self) -> bool {
        matches!(
            self.kind(),
            LLVMArgumentValueKind
                | LLVMInstructionValueKind
                | LLVMFunctionValueKind
                | LLVMGlobalVariableValueKind
                | LLVMGlobalAliasValueKind
                | LLVMGlobalIFuncValueKind
        )
    }

    /// The values that use a parameter, instruction or symbol, one entry for each use; of other values none is told.
    pub(crate) fn users(self) -> Vec<Value<'m>> {
        // SAFETY: a value of one module, so all of its users are of that module too.
        if self.is_of_one_module() { unsafe { self.all_users() } } else { Vec::new() }
    }

    /// # Safety
    /// All users are of the module behind `'m`.
    unsafe fn all_users(self) -> Vec<Value<'m>> {
        let mut users = Vec::new();
        // SAFETY: LLVM's list of uses, which does not change meanwhile; a use has a user.
        unsafe {
            let mut current = LLVMGetFirstUse(self.raw);
            while !current.is_null() {
                users.push(Value::present(LLVMGetUser(current)));
                current = LLVMGetNextUse(current);
            }
        }
        users
    }

    /// Whether anything uses a parameter, instruction or symbol.
    pub(crate) fn has_uses(self) -> bool {
        // SAFETY: such values have a list of uses.
        self.is_of_one_module() && unsafe { !LLVMGetFirstUse(self.raw).is_null() }
    }

    /// The functions whose instructions use a parameter, instruction or symbol, directly or through constants.
    pub(crate) fn using_functions(self) -> Vec<Function<'m>> {
        let mut seen = std::collections::HashSet::new();
        let mut functions = Vec::new();
        let mut open = self.users();
        while let Some(user) = open.pop() {
            if let Some(function) = user.as_instruction().map(Instruction::parent_function) {
                if !functions.contains(&function) {
                    functions.push(function);
                }
            } else if seen.insert(user) {
                // SAFETY: it uses a value of one module, directly or not, so that it is of that module, and its users are.
                open.extend(unsafe { user.all_users() });
            }
        }
        functions
    }
}
