//! New instructions.

use super::function::Function;
use super::instruction::Instruction;
use super::types::Type;
use super::value::Value;
use inkwell::llvm_sys::LLVMIntPredicate::{LLVMIntEQ, LLVMIntSLT};
use inkwell::llvm_sys::LLVMOpcode::{LLVMFAdd, LLVMFDiv, LLVMFMul, LLVMFSub};
use inkwell::llvm_sys::LLVMTypeKind::*;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::{LLVMBuilderRef, LLVMValueRef};
use std::ffi::{c_char, c_uint};

/// No name, for LLVM.
const UNNAMED: *const c_char = c"".as_ptr();

/// Inserts instructions at a place of a function, and folds constants. Panics where operands don't fit, or are another
/// function's.
pub(crate) struct Builder<'e> {
    raw: LLVMBuilderRef,
    function: Function<'e>,
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `before`, and disposed of once.
        unsafe { LLVMDisposeBuilder(self.raw) };
    }
}

impl<'e> Builder<'e> {
    pub(super) fn before(instruction: Instruction<'e>) -> Self {
        // SAFETY: an instruction in a block; the session keeps it there for 'e.
        let raw = unsafe {
            let raw = LLVMCreateBuilderInContext(instruction.ty().context());
            LLVMPositionBuilderBefore(raw, instruction.raw());
            raw
        };
        Builder { raw, function: instruction.parent_function() }
    }

    /// An operand that may stand here.
    fn operand(&self, value: Value<'e>) -> LLVMValueRef {
        assert!(value.is_usable_in(self.function), "{value} is of another function");
        value.raw()
    }

    /// Two operands of one type with integers in it.
    fn integers(&self, lhs: Value<'e>, rhs: Value<'e>) -> (LLVMValueRef, LLVMValueRef) {
        assert!(lhs.ty() == rhs.ty() && lhs.ty().has_integers(), "{lhs} and {rhs} are no two integers");
        (self.operand(lhs), self.operand(rhs))
    }

    /// Wraps what LLVM has just built.
    ///
    /// # Safety
    /// A value of this function's module.
    unsafe fn built(&self, raw: LLVMValueRef) -> Value<'e> {
        // SAFETY: stated above; it lives as long as the session.
        unsafe { Value::present(raw) }
    }

    pub(crate) fn and(&self, lhs: Value<'e>, rhs: Value<'e>) -> Value<'e> {
        let (lhs, rhs) = self.integers(lhs, rhs);
        // SAFETY: two integers of one type.
        unsafe { self.built(LLVMBuildAnd(self.raw, lhs, rhs, UNNAMED)) }
    }

    pub(crate) fn or(&self, lhs: Value<'e>, rhs: Value<'e>) -> Value<'e> {
        let (lhs, rhs) = self.integers(lhs, rhs);
        // SAFETY: two integers of one type.
        unsafe { self.built(LLVMBuildOr(self.raw, lhs, rhs, UNNAMED)) }
    }

    pub(crate) fn xor(&self, lhs: Value<'e>, rhs: Value<'e>) -> Value<'e> {
        let (lhs, rhs) = self.integers(lhs, rhs);
        // SAFETY: two integers of one type.
        unsafe { self.built(LLVMBuildXor(self.raw, lhs, rhs, UNNAMED)) }
    }

    /// Modulo two to the power of their width.
    pub(crate) fn add(&self, lhs: Value<'e>, rhs: Value<'e>) -> Value<'e> {
        let (lhs, rhs) = self.integers(lhs, rhs);
        // SAFETY: two integers of one type.
        unsafe { self.built(LLVMBuildAdd(self.raw, lhs, rhs, UNNAMED)) }
    }

    /// Modulo two to the power of their width.
    pub(crate) fn multiply(&self, lhs: Value<'e>, rhs: Value<'e>) -> Value<'e> {
        let (lhs, rhs) = self.integers(lhs, rhs);
        // SAFETY: two integers of one type.
        unsafe { self.built(LLVMBuildMul(self.raw, lhs, rhs, UNNAMED)) }
    }

    /// Modulo two to the power of their width.
    pub(crate) fn subtract(&self, lhs: Value<'e>, rhs: Value<'e>) -> Value<'e> {
        let (lhs, rhs) = self.integers(lhs, rhs);
        // SAFETY: two integers of one type.
        unsafe { self.built(LLVMBuildSub(self.raw, lhs, rhs, UNNAMED)) }
    }

    /// Whether two integers are equal.
    pub(crate) fn equal(&self, lhs: Value<'e>, rhs: Value<'e>) -> Value<'e> {
        let (lhs, rhs) = self.integers(lhs, rhs);
        // SAFETY: two integers of one type.
        unsafe { self.built(LLVMBuildICmp(self.raw, LLVMIntEQ, lhs, rhs, UNNAMED)) }
    }

    /// Whether an integer is less than zero.
    pub(crate) fn is_negative(&self, value: Value<'e>) -> Value<'e> {
        assert!(value.ty().has_integers(), "{value} has no sign");
        // SAFETY: two integers of one type.
        unsafe {
            let zero = LLVMConstNull(value.ty().raw());
            self.built(LLVMBuildICmp(self.raw, LLVMIntSLT, self.operand(value), zero, UNNAMED))
        }
    }

    /// The same number in more bits, or in as many lanes.
    pub(crate) fn sign_extend(&self, value: Value<'e>, to: Type<'e>) -> Value<'e> {
        let from = value.ty();
        let fits = from.has_integers() && to.has_integers() && from.is_vector() == to.is_vector();
        let fits = fits && (!to.is_vector() || from.element_count() == to.element_count());
        assert!(fits && from.scalar().integer_width() < to.scalar().integer_width(), "{value} as {to}");
        // SAFETY: an integer, or as many, and a type of more bits.
        unsafe { self.built(LLVMBuildSExt(self.raw, self.operand(value), to.raw(), UNNAMED)) }
    }

    /// A phi that has no values yet; [`Edit::add_incoming`](super::Edit::add_incoming) gives it one for each block before its own.
    pub(crate) fn phi(&self, ty: Type<'e>) -> Value<'e> {
        assert!(ty.is_sized(), "nothing of type {ty} comes from other blocks");
        // SAFETY: a type that registers can hold.
        unsafe { self.built(LLVMBuildPhi(self.raw, ty.raw(), UNNAMED)) }
    }

    /// The condition is a bit, or a vector of as many as the others have lanes.
    pub(crate) fn select(&self, condition: Value<'e>, then: Value<'e>, otherwise: Value<'e>) -> Value<'e> {
        let (bits, ty) = (condition.ty(), then.ty());
        let fits = !bits.is_vector() || (ty.is_vector() && bits.element_count() == ty.element_count());
        assert!(bits.scalar().integer_width() == 1 && fits, "{condition} can't choose a {ty}");
        assert!(otherwise.ty() == ty, "{then} and {otherwise} are no two of one type");
        let [condition, then, otherwise] = [condition, then, otherwise].map(|value| self.operand(value));
        // SAFETY: a condition that fits two values of one type.
        unsafe { self.built(LLVMBuildSelect(self.raw, condition, then, otherwise, UNNAMED)) }
    }

    /// A vector's lanes and zeros behind them, up to that many floats. LLVM doesn't look at what is made of the zeros: it would leave out those
    /// whose results nobody asks for.
    pub(crate) fn with_zeros(&self, vector: Value<'e>, lanes: u32) -> Value<'e> {
        let count = vector.ty().element_count() as u32;
        let is_of_floats = vector.ty().is_vector() && vector.ty().scalar().kind() == LLVMFloatTypeKind;
        assert!(is_of_floats && count <= lanes, "{vector} is no vector of up to {lanes} floats");
        // SAFETY: two vectors of one type, and places within them; the fence takes floats.
        unsafe {
            let zeros = LLVMConstNull(vector.ty().raw());
            let filled = self.shuffled((vector, zeros), (0..lanes).map(|lane| lane.min(count)));
            if filled.is_constant() {
                return filled;
            }
            let fence = self.call_overloaded("llvm.arithmetic.fence", filled.ty(), &mut [filled.raw()]);
            self.built(fence)
        }
    }

    /// A vector's first lanes.
    pub(crate) fn first_lanes(&self, vector: Value<'e>, lanes: u32) -> Value<'e> {
        assert!(vector.ty().element_count() >= lanes.into(), "{vector} has fewer than {lanes} lanes");
        // SAFETY: two vectors of one type, and places within them.
        unsafe { self.shuffled((vector, LLVMGetPoison(vector.ty().raw())), 0..lanes) }
    }

    /// # Safety
    /// Two vectors of one type, and places within them.
    unsafe fn shuffled(
        &self,
        (first, second): (Value<'e>, LLVMValueRef),
        places: impl Iterator<Item = u32>,
    ) -> Value<'e> {
        // SAFETY: see above; places are constants of 32 bits.
        unsafe {
            let word = LLVMInt32TypeInContext(first.ty().context());
            let mut places: Vec<LLVMValueRef> =
                places.map(|place| LLVMConstInt(word, place.into(), 0)).collect();
            let places = LLVMConstVector(places.as_mut_ptr(), places.len() as c_uint);
            self.built(LLVMBuildShuffleVector(self.raw, self.operand(first), second, places, UNNAMED))
        }
    }

    /// What an operation of floats makes of operands of another type, all of the same, with the same permissions. Panics for what is neither
    /// arithmetic nor an intrinsic.
    pub(crate) fn likewise(&self, operation: Instruction<'e>, operands: &[Value<'e>]) -> Value<'e> {
        let call = operation.as_call();
        let count = call.map_or(operation.operand_count() as usize, |call| call.arguments().len());
        assert!(count > 0 && operands.len() == count, "{operation} of {} operands", operands.len());
        let ty = operands[0].ty();
        let fit = ty.scalar().kind() == LLVMFloatTypeKind && operands.iter().all(|value| value.ty() == ty);
        assert!(fit, "{operation} of several types");
        let mut raw: Vec<LLVMValueRef> = operands.iter().map(|value| self.operand(*value)).collect();
        let name = operation.called_function().map(|function| function.name());
        let intrinsic = name.as_deref().and_then(|name| name.rsplit_once('.')).map(|(name, _)| name);
        // SAFETY: as many operands as the operation has, of one type of floats, which all of these take.
        let made = unsafe {
            match (operation.opcode(), &raw[..]) {
                (code @ (LLVMFAdd | LLVMFSub | LLVMFMul | LLVMFDiv), &[x, y]) => {
                    LLVMBuildBinOp(self.raw, code, x, y, UNNAMED)
                }
                _ => match intrinsic {
                    Some(name @ ("llvm.fma" | "llvm.fmuladd" | "llvm.sqrt")) => {
                        self.call_overloaded(name, ty, &mut raw)
                    }
                    _ => panic!("{operation} is no arithmetic"),
                },
            }
        };
        // SAFETY: made just now; constants have no permissions.
        unsafe {
            if !LLVMIsAInstruction(made).is_null() {
                LLVMSetFastMathFlags(made, LLVMGetFastMathFlags(operation.raw()));
            }
            self.built(made)
        }
    }

    pub(crate) fn freeze(&self, value: Value<'e>) -> Value<'e> {
        let no_register = [
            LLVMVoidTypeKind,
            LLVMLabelTypeKind,
            LLVMMetadataTypeKind,
            LLVMTokenTypeKind,
            LLVMFunctionTypeKind,
        ];
        assert!(!no_register.contains(&value.ty().kind()), "{value} can't be frozen");
        // SAFETY: a value that a register can hold.
        unsafe { self.built(LLVMBuildFreeze(self.raw, self.operand(value), UNNAMED)) }
    }

    /// The same address, which code generation takes for one that it knows nothing of, and all before it for what it is.
    pub(crate) fn same_address(&self, address: Value<'e>) -> Value<'e> {
        assert!(address.ty().is_pointer(), "{address} is no address");
        // SAFETY: there is one for each type of pointers, which takes one.
        unsafe {
            let raw = self.operand(address);
            self.built(self.call_overloaded("llvm.strip.invariant.group", address.ty(), &mut [raw]))
        }
    }

    /// Private memory for a value of a sized type. The alignment is a power of two.
    pub(crate) fn alloca(&self, ty: Type<'e>, alignment: u32) -> Value<'e> {
        assert!(ty.is_sized() && alignment.is_power_of_two(), "no memory of type {ty} at {alignment} bytes");
        // SAFETY: a sized type, and a power of two.
        unsafe {
            let slot = LLVMBuildAlloca(self.raw, ty.raw(), UNNAMED);
            LLVMSetAlignment(slot, alignment);
            self.built(slot)
        }
    }

    /// Writes a value to a place in memory.
    pub(crate) fn store(&self, value: Value<'e>, to: Value<'e>) {
        assert!(value.ty().is_sized() && to.ty().is_pointer(), "{value} can't be stored at {to}");
        // SAFETY: a value that memory can hold, and a pointer.
        unsafe { LLVMBuildStore(self.raw, self.operand(value), self.operand(to)) };
    }

    /// Calls a function with arguments of its parameters' types.
    pub(crate) fn call(&self, function: Function<'e>, arguments: &[Value<'e>]) -> Value<'e> {
        let ty = function.value_type();
        let types: Vec<Type> = arguments.iter().map(|argument| argument.ty()).collect();
        assert!(types == ty.parameter_types(), "{} does not take {types:?}", function.name());
        let mut raw: Vec<LLVMValueRef> = arguments.iter().map(|argument| self.operand(*argument)).collect();
        // SAFETY: the function's own type, and arguments of its parameters' types.
        unsafe {
            let count = raw.len() as c_uint;
            self.built(LLVMBuildCall2(self.raw, ty.raw(), function.raw(), raw.as_mut_ptr(), count, UNNAMED))
        }
    }

    /// Ends the program.
    pub(crate) fn trap(&self) {
        // SAFETY: it takes nothing.
        unsafe { self.call_intrinsic("llvm.trap", &mut []) }
    }

    /// A use of a value that becomes no code.
    pub(crate) fn fake_use(&self, value: Value<'e>) {
        // SAFETY: it takes anything.
        unsafe { self.call_intrinsic("llvm.fake.use", &mut [self.operand(value)]) }
    }

    /// Calls an intrinsic without types of its own.
    ///
    /// # Safety
    /// It takes such operands.
    unsafe fn call_intrinsic(&self, name: &str, operands: &mut [LLVMValueRef]) {
        // SAFETY: the intrinsic is declared in the function's module; for its operands see above.
        unsafe {
            let module = LLVMGetGlobalParent(self.function.raw());
            let number = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
            let intrinsic = LLVMGetIntrinsicDeclaration(module, number, std::ptr::null_mut(), 0);
            let ty = LLVMGlobalGetValueType(intrinsic);
            LLVMBuildCall2(self.raw, ty, intrinsic, operands.as_mut_ptr(), operands.len() as c_uint, UNNAMED);
        }
    }

    /// Calls an intrinsic of which there is one for each type.
    ///
    /// # Safety
    /// There is one for this type, which takes such operands.
    unsafe fn call_overloaded(
        &self,
        name: &str,
        ty: Type<'e>,
        operands: &mut [LLVMValueRef],
    ) -> LLVMValueRef {
        // SAFETY: the intrinsic is declared in the function's module; for its type and operands see above.
        unsafe {
            let module = LLVMGetGlobalParent(self.function.raw());
            let number = LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len());
            let intrinsic = LLVMGetIntrinsicDeclaration(module, number, [ty.raw()].as_mut_ptr(), 1);
            let signature = LLVMGlobalGetValueType(intrinsic);
            let count = operands.len() as c_uint;
            LLVMBuildCall2(self.raw, signature, intrinsic, operands.as_mut_ptr(), count, UNNAMED)
        }
    }

    /// Copies bytes between two places of the same alignment, a power of two.
    pub(crate) fn copy_memory(&self, to: Value<'e>, from: Value<'e>, alignment: u32, bytes: u64) {
        assert!(to.ty().is_pointer() && from.ty().is_pointer(), "{to} and {from} are no two places");
        assert!(alignment.is_power_of_two(), "no place is aligned to {alignment} bytes");
        // SAFETY: two pointers and a power of two.
        unsafe {
            let size = LLVMConstInt(LLVMInt64TypeInContext(to.ty().context()), bytes, 0);
            LLVMBuildMemCpy(self.raw, self.operand(to), alignment, self.operand(from), alignment, size);
        }
    }
}
