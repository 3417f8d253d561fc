//! LLVM's C API made safe to read: small copyable handles for the values, types, blocks and metadata of a module.
//! Every handle borrows the module that it came from; the passes that change a module are in `edit`.

use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::target::*;
use inkwell::llvm_sys::{LLVMTypeKind, LLVMValueKind};
use inkwell::module::Module;
use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

/// Copies a message that LLVM allocated, and frees it.
pub(crate) fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM's messages are NUL-terminated strings that the caller must dispose of, once.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeMessage(message);
        text
    }
}

/// Copies bytes that LLVM owns.
fn borrowed_text(pointer: *const c_char, length: usize) -> String {
    if pointer.is_null() || length == 0 {
        return String::new();
    }
    // SAFETY: LLVM hands out names and strings as a pointer to `length` live bytes.
    let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Declares a handle to an object that lives as long as its module.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $raw:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) struct $name<'m> {
            raw: $raw,
            module: PhantomData<&'m ()>,
        }

        impl<'m> $name<'m> {
            /// Wraps LLVM's pointer; null is `None`.
            ///
            /// # Safety
            /// The pointer must be null or an object of this kind that lives for `'m`.
            pub(crate) unsafe fn from_raw(raw: $raw) -> Option<Self> {
                (!raw.is_null()).then_some(Self { raw, module: PhantomData })
            }

            /// LLVM's pointer, never null.
            #[allow(dead_code)]
            pub(crate) fn raw(self) -> $raw {
                self.raw
            }
        }
    };
}

handle!(
    /// A value: constant, argument, global, function, instruction or metadata.
    Value,
    LLVMValueRef
);
handle!(
    /// A type.
    Type,
    LLVMTypeRef
);
handle!(
    /// A basic block.
    Block,
    LLVMBasicBlockRef
);

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        // SAFETY: the value is alive; the message is taken over.
        f.write_str(take_message(unsafe { LLVMPrintValueToString(self.raw) }).trim())
    }
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        // SAFETY: the type is alive; the message is taken over.
        f.write_str(&take_message(unsafe { LLVMPrintTypeToString(self.raw) }))
    }
}

impl std::fmt::Debug for Type<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Follows one of LLVM's intrusive lists.
fn chain<'m>(
    first: LLVMValueRef,
    next: unsafe extern "C" fn(LLVMValueRef) -> LLVMValueRef,
) -> Vec<Value<'m>> {
    let mut list = Vec::new();
    let mut current = first;
    // SAFETY: `first` is null or an element of the list that `next` walks; the list isn't changed meanwhile.
    while let Some(value) = unsafe { Value::from_raw(current) } {
        list.push(value);
        // SAFETY: as above.
        current = unsafe { next(current) };
    }
    list
}

/// All functions, declared and defined.
pub(crate) fn functions<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    // SAFETY: the module is alive; its functions live as long unless a pass of `edit` removes them.
    chain(unsafe { LLVMGetFirstFunction(module.as_mut_ptr()) }, LLVMGetNextFunction)
}

/// All functions that have a body.
pub(crate) fn defined_functions<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    functions(module).into_iter().filter(|f| !f.is_declaration()).collect()
}

/// All global variables.
pub(crate) fn globals<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    // SAFETY: as in `functions`.
    chain(unsafe { LLVMGetFirstGlobal(module.as_mut_ptr()) }, LLVMGetNextGlobal)
}

/// All aliases and ifuncs.
pub(crate) fn indirect_symbols<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    // SAFETY: as in `functions`.
    unsafe {
        let mut list = chain(LLVMGetFirstGlobalAlias(module.as_mut_ptr()), LLVMGetNextGlobalAlias);
        list.extend(chain(LLVMGetFirstGlobalIFunc(module.as_mut_ptr()), LLVMGetNextGlobalIFunc));
        list
    }
}

/// The function of this name.
pub(crate) fn function_named<'m>(module: &'m Module<'_>, name: &str) -> Option<Value<'m>> {
    // SAFETY: the name is passed with its length; the result is null or a function of the module.
    unsafe {
        Value::from_raw(LLVMGetNamedFunctionWithLength(module.as_mut_ptr(), name.as_ptr().cast(), name.len()))
    }
}

/// The module-level assembly text.
pub(crate) fn module_assembly(module: &Module<'_>) -> String {
    let mut length = 0;
    // SAFETY: the module is alive; the text belongs to it and has `length` bytes.
    let pointer = unsafe { LLVMGetModuleInlineAsm(module.as_mut_ptr(), &mut length) };
    borrowed_text(pointer, length)
}

/// The operands of a named metadata node such as `opencl.kernels`; empty if there's none.
pub(crate) fn named_metadata<'m>(module: &'m Module<'_>, name: &CStr) -> Vec<Value<'m>> {
    // SAFETY: LLVM fills as many entries as it counts; nodes live as long as the context.
    unsafe {
        let count = LLVMGetNamedMetadataNumOperands(module.as_mut_ptr(), name.as_ptr()) as usize;
        let mut operands = vec![std::ptr::null_mut(); count];
        LLVMGetNamedMetadataOperands(module.as_mut_ptr(), name.as_ptr(), operands.as_mut_ptr());
        operands.into_iter().filter_map(|raw| Value::from_raw(raw)).collect()
    }
}

/// Whether there is a named metadata node, with operands or without.
pub(crate) fn has_named_metadata(module: &Module<'_>, name: &str) -> bool {
    // SAFETY: LLVM reads as many bytes as the length says.
    unsafe { !LLVMGetNamedMetadata(module.as_mut_ptr(), name.as_ptr().cast(), name.len()).is_null() }
}

/// What the module's data layout says of its types.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'m> {
    raw: LLVMTargetDataRef,
    module: PhantomData<&'m ()>,
}

/// The layout of a module.
pub(crate) fn layout<'m>(module: &'m Module<'_>) -> Layout<'m> {
    // SAFETY: the layout is a part of the living module.
    Layout { raw: unsafe { LLVMGetModuleDataLayout(module.as_mut_ptr()) }, module: PhantomData }
}

impl<'m> Layout<'m> {
    /// Bytes from one element of an array to the next. The type must be sized.
    pub(crate) fn size(self, ty: Type<'m>) -> u64 {
        // SAFETY: both are alive, and callers ask for sized types only (`Type::is_sized`).
        unsafe { LLVMABISizeOfType(self.raw, ty.raw) }
    }

    /// The natural alignment in bytes. The type must be sized.
    pub(crate) fn alignment(self, ty: Type<'m>) -> u32 {
        // SAFETY: as in `size`.
        unsafe { LLVMABIAlignmentOfType(self.raw, ty.raw) }
    }

    /// The byte offset of a structure's member.
    pub(crate) fn member_offset(self, structure: Type<'m>, index: u32) -> u64 {
        // SAFETY: as in `size`; the index is one of the structure's (callers take it from a verified GEP or the list).
        unsafe { LLVMOffsetOfElement(self.raw, structure.raw, index) }
    }

    /// Bits of a pointer.
    pub(crate) fn pointer_bytes(self, address_space: u32) -> u32 {
        // SAFETY: the layout is alive.
        unsafe { LLVMPointerSizeForAS(self.raw, address_space) }
    }

    /// True if the least significant byte comes first.
    pub(crate) fn is_little_endian(self) -> bool {
        // SAFETY: the layout is alive.
        unsafe { LLVMByteOrder(self.raw) == LLVMByteOrdering::LLVMLittleEndian }
    }
}

impl<'m> Type<'m> {
    pub(crate) fn kind(self) -> LLVMTypeKind {
        // SAFETY: the type is alive (so for all methods here).
        unsafe { LLVMGetTypeKind(self.raw) }
    }

    pub(crate) fn is_sized(self) -> bool {
        // SAFETY: see `kind`.
        unsafe { LLVMTypeIsSized(self.raw) != 0 }
    }

    pub(crate) fn is_pointer(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMPointerTypeKind
    }

    pub(crate) fn is_integer(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMIntegerTypeKind
    }

    pub(crate) fn is_vector(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMVectorTypeKind
    }

    pub(crate) fn is_void(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMVoidTypeKind
    }

    /// The bits of an integer type, 0 of another.
    pub(crate) fn integer_width(self) -> u32 {
        // SAFETY: see `kind`; only asked of integer types.
        if self.is_integer() { unsafe { LLVMGetIntTypeWidth(self.raw) } } else { 0 }
    }

    /// A pointer's address space, 0 of another type.
    pub(crate) fn address_space(self) -> u32 {
        // SAFETY: see `kind`; only asked of pointer types.
        if self.is_pointer() { unsafe { LLVMGetPointerAddressSpace(self.raw) } } else { 0 }
    }

    /// A vector's element type; the type itself if it is no vector.
    pub(crate) fn scalar(self) -> Type<'m> {
        if self.is_vector() { self.element().unwrap_or(self) } else { self }
    }

    /// The element type of an array or vector.
    pub(crate) fn element(self) -> Option<Type<'m>> {
        use LLVMTypeKind::*;
        match self.kind() {
            // SAFETY: arrays and vectors have an element type.
            LLVMArrayTypeKind | LLVMVectorTypeKind => unsafe { Type::from_raw(LLVMGetElementType(self.raw)) },
            _ => None,
        }
    }

    /// The elements of an array or vector, the members of a structure; 0 of another type.
    pub(crate) fn element_count(self) -> u64 {
        use LLVMTypeKind::*;
        // SAFETY: each question is asked of the kind that it's for.
        unsafe {
            match self.kind() {
                LLVMArrayTypeKind => LLVMGetArrayLength2(self.raw),
                LLVMVectorTypeKind => u64::from(LLVMGetVectorSize(self.raw)),
                LLVMStructTypeKind => u64::from(LLVMCountStructElementTypes(self.raw)),
                _ => 0,
            }
        }
    }

    /// The members of a structure; empty for another type.
    pub(crate) fn members(self) -> Vec<Type<'m>> {
        if self.kind() != LLVMTypeKind::LLVMStructTypeKind {
            return Vec::new();
        }
        let mut raw = vec![std::ptr::null_mut(); self.element_count() as usize];
        // SAFETY: LLVM writes one entry for each counted member.
        unsafe { LLVMGetStructElementTypes(self.raw, raw.as_mut_ptr()) };
        // SAFETY: members live as long as their structure.
        raw.into_iter().filter_map(|raw| unsafe { Type::from_raw(raw) }).collect()
    }

    /// True of a structure without padding.
    pub(crate) fn is_packed(self) -> bool {
        // SAFETY: asked of a structure.
        self.kind() == LLVMTypeKind::LLVMStructTypeKind && unsafe { LLVMIsPackedStruct(self.raw) != 0 }
    }

    /// The parameter types of a function type.
    pub(crate) fn parameter_types(self) -> Vec<Type<'m>> {
        if self.kind() != LLVMTypeKind::LLVMFunctionTypeKind {
            return Vec::new();
        }
        // SAFETY: LLVM writes one entry for each counted parameter.
        unsafe {
            let mut raw = vec![std::ptr::null_mut(); LLVMCountParamTypes(self.raw) as usize];
            LLVMGetParamTypes(self.raw, raw.as_mut_ptr());
            raw.into_iter().filter_map(|raw| Type::from_raw(raw)).collect()
        }
    }

    /// The return type of a function type.
    pub(crate) fn return_type(self) -> Option<Type<'m>> {
        if self.kind() != LLVMTypeKind::LLVMFunctionTypeKind {
            return None;
        }
        // SAFETY: asked of a function type.
        unsafe { Type::from_raw(LLVMGetReturnType(self.raw)) }
    }

    /// True of a function type with `...`.
    pub(crate) fn is_variadic(self) -> bool {
        // SAFETY: asked of a function type.
        self.kind() == LLVMTypeKind::LLVMFunctionTypeKind && unsafe { LLVMIsFunctionVarArg(self.raw) != 0 }
    }

    /// The name of a `target("...")` type.
    pub(crate) fn target_type_name(self) -> Option<String> {
        if self.kind() != LLVMTypeKind::LLVMTargetExtTypeKind {
            return None;
        }
        // SAFETY: asked of a target type; its name is NUL-terminated and lives with it.
        Some(unsafe { CStr::from_ptr(LLVMGetTargetExtTypeName(self.raw)) }.to_string_lossy().into_owned())
    }
}

impl<'m> Block<'m> {
    /// The instructions in order.
    pub(crate) fn instructions(self) -> Vec<Value<'m>> {
        // SAFETY: the block is alive; see `chain`.
        chain(unsafe { LLVMGetFirstInstruction(self.raw) }, LLVMGetNextInstruction)
    }

    /// The last instruction, which ends the block.
    pub(crate) fn terminator(self) -> Option<Value<'m>> {
        // SAFETY: the block is alive; a malformed one yields null.
        unsafe { Value::from_raw(LLVMGetBasicBlockTerminator(self.raw)) }
    }
}

impl<'m> Value<'m> {
    pub(crate) fn kind(self) -> LLVMValueKind {
        // SAFETY: the value is alive (so for all methods here).
        unsafe { LLVMGetValueKind(self.raw) }
    }

    pub(crate) fn ty(self) -> Type<'m> {
        // SAFETY: every value has a type.
        Type { raw: unsafe { LLVMTypeOf(self.raw) }, module: PhantomData }
    }

    pub(crate) fn name(self) -> String {
        let mut length = 0;
        // SAFETY: the name belongs to the value and has `length` bytes.
        let pointer = unsafe { LLVMGetValueName2(self.raw, &mut length) };
        borrowed_text(pointer, length)
    }

    pub(crate) fn is_function(self) -> bool {
        self.kind() == LLVMValueKind::LLVMFunctionValueKind
    }

    pub(crate) fn is_global_variable(self) -> bool {
        self.kind() == LLVMValueKind::LLVMGlobalVariableValueKind
    }

    pub(crate) fn is_instruction(self) -> bool {
        self.kind() == LLVMValueKind::LLVMInstructionValueKind
    }

    pub(crate) fn is_constant_integer(self) -> bool {
        self.kind() == LLVMValueKind::LLVMConstantIntValueKind
    }

    pub(crate) fn is_constant(self) -> bool {
        // SAFETY: see `kind`.
        unsafe { LLVMIsConstant(self.raw) != 0 }
    }

    /// True of a zero, null pointer or all-zero aggregate.
    pub(crate) fn is_null(self) -> bool {
        // SAFETY: see `kind`.
        self.is_constant() && unsafe { LLVMIsNull(self.raw) != 0 }
    }

    /// The bits of a constant integer of up to 64 bits, zero-extended.
    pub(crate) fn constant_bits(self) -> Option<u64> {
        let narrow = self.is_constant_integer() && self.ty().integer_width() <= 64;
        // SAFETY: asked of constant integers that fit.
        narrow.then(|| unsafe { LLVMConstIntGetZExtValue(self.raw) })
    }

    /// The value of a constant integer of up to 64 bits, sign-extended.
    pub(crate) fn constant_signed(self) -> Option<i64> {
        let narrow = self.is_constant_integer() && self.ty().integer_width() <= 64;
        // SAFETY: asked of constant integers that fit.
        narrow.then(|| unsafe { LLVMConstIntGetSExtValue(self.raw) })
    }

    /// An element of a constant vector, array or structure.
    pub(crate) fn aggregate_element(self, index: u32) -> Option<Value<'m>> {
        if !self.is_constant() || u64::from(index) >= self.ty().element_count() {
            return None;
        }
        // SAFETY: asked of constants within their bounds; null if the constant is an expression.
        unsafe { Value::from_raw(LLVMGetAggregateElement(self.raw, index)) }
    }

    pub(crate) fn operand_count(self) -> u32 {
        use LLVMValueKind::*;
        match self.kind() {
            LLVMArgumentValueKind
            | LLVMBasicBlockValueKind
            | LLVMMetadataAsValueValueKind
            | LLVMInlineAsmValueKind => 0,
            // SAFETY: the other kinds are users.
            _ => unsafe { LLVMGetNumOperands(self.raw).max(0) as u32 },
        }
    }

    /// An operand; `None` beyond the last one.
    pub(crate) fn operand(self, index: u32) -> Option<Value<'m>> {
        if index >= self.operand_count() {
            return None;
        }
        // SAFETY: the index is within bounds; an absent operand is null.
        unsafe { Value::from_raw(LLVMGetOperand(self.raw, index)) }
    }

    pub(crate) fn operands(self) -> Vec<Value<'m>> {
        (0..self.operand_count()).filter_map(|i| self.operand(i)).collect()
    }

    /// The values that use this one; one entry for each use.
    pub(crate) fn users(self) -> Vec<Value<'m>> {
        let mut list = Vec::new();
        // SAFETY: the use list isn't changed during the walk; users are values of the same module.
        unsafe {
            let mut current = LLVMGetFirstUse(self.raw);
            while !current.is_null() {
                list.extend(Value::from_raw(LLVMGetUser(current)));
                current = LLVMGetNextUse(current);
            }
        }
        list
    }

    pub(crate) fn has_uses(self) -> bool {
        // SAFETY: see `kind`.
        unsafe { !LLVMGetFirstUse(self.raw).is_null() }
    }
}

/// Of metadata.
impl<'m> Value<'m> {
    /// The operands of a metadata node; `None` if this is no node. An absent operand is `None` within.
    pub(crate) fn node_operands(self) -> Option<Vec<Option<Value<'m>>>> {
        // SAFETY: LLVM writes one entry for each counted operand of a node.
        unsafe {
            if LLVMIsAMDNode(self.raw).is_null() {
                return None;
            }
            let mut raw = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(self.raw) as usize];
            LLVMGetMDNodeOperands(self.raw, raw.as_mut_ptr());
            Some(raw.into_iter().map(|raw| Value::from_raw(raw)).collect())
        }
    }

    /// The text of a metadata string.
    pub(crate) fn metadata_string(self) -> Option<String> {
        let mut length = 0;
        // SAFETY: LLVM yields null for anything but a string, whose bytes live with the context.
        unsafe {
            if LLVMIsAMDString(self.raw).is_null() {
                return None;
            }
            let pointer = LLVMGetMDString(self.raw, &mut length);
            Some(borrowed_text(pointer, length as usize))
        }
    }
}

/// The functions whose instructions use a value, directly or through constants.
pub(crate) fn using_functions<'m>(value: Value<'m>) -> Vec<Value<'m>> {
    let mut seen = std::collections::HashSet::new();
    let mut functions = Vec::new();
    let mut open = vec![value];
    while let Some(current) = open.pop() {
        for user in current.users() {
            if let Some(function) = user.parent_function() {
                if !functions.contains(&function) {
                    functions.push(function);
                }
            } else if seen.insert(user) {
                open.push(user);
            }
        }
    }
    functions
}
