//! The rules: one line each, which `docs/check.md` lists. What a later stage finds out is here too.

/// What becomes of a module that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// It is not for this device: `CL_INVALID_BINARY`.
    Invalid,
    /// It fails to build.
    Error,
    /// It is taken: what is meant is plain, and producers write it.
    Remark,
}

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its name in findings.
    pub id: &'static str,
    /// The section of SPIR 2.0 that says so, and of 1.2 if that has another number.
    pub section: &'static str,
    pub severity: Severity,
    /// What it says.
    pub text: &'static str,
}

impl Rule {
    /// As findings cite it.
    pub(crate) fn cited(&self) -> String {
        format!("{}: SPIR {}", self.id, self.section)
    }
}

macro_rules! rules {
    ($($name:ident $severity:ident $id:literal $section:literal $text:literal;)*) => {
        $(pub(crate) static $name: Rule =
            Rule { id: $id, section: $section, severity: Severity::$severity, text: $text };)*
        /// All of them, in the order of the specification.
        #[cfg(test)]
        pub(crate) static ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    READABLE Invalid "bitcode" "2.0, 1.1" "The binary is LLVM's bitcode, undamaged, and well-formed by LLVM's own rules";
    TYPES Error "types" "2.0, 2.1.1" "No types but SPIR's: no other floats, no integers of more than 128 bits, no vectors of unknown length";
    INTEGER_WIDTH Remark "integer-width" "2.0, 2.1.1" "Integers have 1, 8, 16, 32 or 64 bits";
    VECTOR_LENGTH Remark "vector-length" "2.0, 2.1.2" "Vectors have 2, 3, 4, 8 or 16 elements";
    BOOL_VECTORS Remark "bool-vectors" "2.0, 2.1.2" "Vectors of i1 are compared into, extended, taken apart and combined bit by bit, and nothing else";
    OPAQUE_TYPES Remark "opaque-types" "2.0, 2.1.3" "Types with the names of images, events, queues, pipes and blocks are opaque";
    SAMPLER_VALUE Remark "sampler-value" "2.0, 2.1.3.1" "A sampler's bits are those of table 4";
    NDRANGE Remark "ndrange" "2.0, 2.1.3.6; none in 1.2" "`opencl.ndrange_t` is `{ i32, [3 x i64], [3 x i64], [3 x i64] }`";
    BLOCK_SIZES Remark "block-sizes" "2.0, 2.1.3.7; none in 1.2" "Size and alignment of what a block captures are constants";
    BLOCK_CONTEXT Remark "block-context" "2.0, 2.1.3.7; none in 1.2" "What a block captures lies in private memory that `alloca` made, or is null";
    BLOCK_INVOKE Remark "block-invoke" "2.0, 2.1.3.7; none in 1.2" "What `spir_get_block_invoke` returns is called, and used for nothing else";
    BLOCK_ARGUMENT Remark "block-argument" "2.0, 2.1.3.7; none in 1.2" "What `spir_get_block_context` returns is passed to the block's function, and used for nothing else";
    VARIABLE_ALIGNMENT Remark "variable-alignment" "2.0, 2.1.4" "Variables are aligned to their type's natural alignment or more";
    ACCESS_ALIGNMENT Remark "access-alignment" "2.0, 2.1.4" "Loads and stores are aligned to their type's natural alignment or more";
    ADDRESS_SPACE Error "address-space" "2.0, 2.2" "Address spaces are 0 to 4";
    GENERIC_SPACE Remark "generic-space" "2.0, 2.2; none in 1.2" "A module of SPIR 1.2 has no generic pointers";
    SPACE_CAST Remark "space-cast" "2.0, 2.2" "Pointers are cast between the generic address space and the private, local and global ones, and between no others";
    PRIVATE_VARIABLE Remark "private-variable" "2.0, 2.2" "Variables of a module are in the global, constant or local address space";
    CONSTANT_VARIABLE Remark "constant-variable" "2.0, 2.2" "Variables in the constant address space are constants";
    GLOBAL_VARIABLE Remark "global-variable" "2.0, 2.2; none in 1.2" "A module of SPIR 1.2 has no variables in the global address space";
    LOCAL_NAME Remark "local-name" "2.0, 2.2" "A local variable has the name of its function, a period, and its own";
    LOCAL_INITIALIZER Remark "local-initializer" "2.0, 2.2" "A local variable has no value at first";
    KERNEL_LOCAL Remark "kernel-local" "2.0, 2.2" "A kernel that is called by another has no local variables";
    KERNEL_ENTRY Error "kernel-entry" "2.0, 2.3" "Each entry of `opencl.kernels` begins with a function of the module";
    KERNEL_UNLISTED Remark "kernel-unlisted" "2.0, 2.3" "Each kernel has an entry in `opencl.kernels`, and one only";
    KERNEL Error "kernel" "2.0, 2.3 and 2.4" "Kernels return nothing, take what the host can pass, and have the metadata of as many arguments as they have";
    WORK_GROUP_SIZE Error "work-group-size" "2.0, 2.3.1.1" "Required and hinted work-group sizes are three integers, of at least 1";
    KERNEL_ATTRIBUTE Remark "kernel-attribute" "2.0, 2.3.1" "Only kernels have work-group sizes and hints of types";
    VECTOR_HINT Remark "vector-hint" "2.0, 2.3.1.2" "A hint of a type is an `undef` of it, and whether it is signed";
    ARGUMENT_INFO Remark "argument-info" "2.0, 2.4" "Each kernel says of its arguments: address space, access, type, base type and qualifiers";
    ARGUMENT_SPACE Remark "argument-space" "2.0, 2.4" "`kernel_arg_addr_space` is 0 to 3, and that of the parameter's type";
    ARGUMENT_ACCESS Remark "argument-access" "2.0, 2.4" "`kernel_arg_access_qual` is `read_only`, `write_only`, `read_write` or `none`";
    ARGUMENT_TYPE Remark "argument-type" "2.0, 2.4" "`kernel_arg_type` and `kernel_arg_base_type` are names without white space";
    ARGUMENT_QUALIFIER Remark "argument-qualifier" "2.0, 2.4" "`kernel_arg_type_qual` is of `const`, `restrict`, `volatile` and `pipe`; `kernel_arg_optional_qual` is `nosvm` or `none`";
    UNROLL_HINT Remark "unroll-hint" "2.0, 2.7.3; none in 1.2" "`opencl.loop.unroll_hint` has an i32 factor";
    COMPILER_OPTIONS Remark "compiler-options" "2.0, 2.8" "`opencl.compiler.options` is one list of OpenCL's options, `opencl.compiler.ext.options` one of strings";
    CONTRACTION Remark "contraction" "2.0, 2.9.1" "`opencl.enable.FP_CONTRACT` holds nothing";
    MANGLED_NAME Remark "mangled-name" "2.0, 2.10.1 and A" "A declared function whose name begins with `_Z` has a name that is mangled as the appendix says";
    FENCE_FLAGS Remark "fence-flags" "2.0, 2.10.2" "Fence flags are a constant of bits 1, 2 and 4";
    MEMORY_ORDER Remark "memory-order" "2.0, 2.10.3; none in 1.2" "Memory orders are constants of 0 to 4 (today's clang: to 5)";
    MEMORY_SCOPE Remark "memory-scope" "2.0, 2.10.4; none in 1.2" "Memory scopes are constants of 0 to 4";
    PRINTF_FORMAT Remark "printf-format" "2.0, 2.10.5" "The format of `printf` is in the constant address space";
    PRINTF_FLOAT Remark "printf-float" "2.0, 2.10.5" "Scalar float and half arguments of `printf` are converted to double";
    ENQUEUE_FLAGS Remark "enqueue-flags" "2.0, 2.10.6.2; none in 1.2" "Flags of `enqueue_kernel` are a constant of 0 to 2";
    PIPE_PACKET Remark "pipe-packet" "2.0, 2.10.7; none in 1.2" "Functions of pipes end with constants of a packet's size and alignment";
    FEATURES Error "features" "2.0, 2.11.1" "Optional core features are `cl_images` and `cl_doubles`, of which the device has both";
    FEATURE_UNDECLARED Remark "feature-undeclared" "2.0, 2.11.1" "A module that uses doubles or images says so";
    EXTENSIONS Error "extensions" "2.0, 2.11.2" "Extensions that a module uses are there";
    EXTENSION_NAMES Remark "extension-names" "2.0, 2.11.2" "There is no `cl_khr_fp64`; who uses `cl_khr_3d_image_writes` uses `cl_images`";
    SPIR_VERSION Invalid "spir-version" "2.0, 2.12" "`opencl.spir.version` is two i32, and a version that is known";
    LANGUAGE_VERSION Invalid "language-version" "2.0, 2.13" "`opencl.ocl.version` is two i32, and a version that is known";
    VERSION_COUNT Remark "version-count" "2.0, 2.12 and 2.13" "A module has one version of each";
    RECURSION Error "recursion" "2.0, 2.15 (OpenCL C 6.9.i)" "Functions don't call themselves, directly or through others";
    FUNCTION_POINTER Error "function-pointer" "2.0, 2.15 (OpenCL C 6.9.a)" "No address of a function is taken but of a block's, and nothing else is called through a pointer";
    SIGNATURE Error "signature" "2.0, 2.15" "Functions are called with the types that they have";
    VARIADIC Remark "variadic" "2.0, 2.15 (OpenCL C 6.9.e)" "No function but `printf` takes any number of arguments";
    VARIABLE_LENGTH Remark "variable-length" "2.0, 2.15 (OpenCL C 6.9.d)" "Private arrays have constant lengths";
    TRIPLE Invalid "triple" "2.0, 3.1" "The triple is `spir64-unknown-unknown`, or `spir-unknown-unknown` for a device of 32 bits";
    DATA_LAYOUT Invalid "data-layout" "2.0, 3.2" "The data layout is that of spir64, or of spir for a device of 32 bits";
    IDENTIFIER Remark "identifier" "2.0, 3.3; none in 1.2" "Names begin with a letter, `$`, `.` or `_`, and digits may follow";
    RESERVED_NAME Remark "reserved-name" "2.0, 3.3; none in 1.2" "No name begins with `spir.` or `opencl.`";
    INSTRUCTION Error "instruction" "2.0, 3.4; 1.2, 3.3" "No `indirectbr`, no exceptions, no `va_arg`";
    NEWER_INSTRUCTION Remark "newer-instruction" "2.0, 3.4; 1.2, 3.3" "No instructions that LLVM 3.4 didn't have";
    EXACT_SHIFT Remark "exact-shift" "2.0, 3.4; 1.2, 3.3" "Shifts to the right are not `exact`";
    SHIFT_AMOUNT Remark "shift-amount" "2.0, 3.4; 1.2, 3.3" "A constant to shift by is less than the number of bits";
    VECTOR_CONVERSION Remark "vector-conversion" "2.0, 3.4; 1.2, 3.3" "Numbers are converted one by one, not in vectors";
    UNKNOWN_INTRINSIC Error "unknown-intrinsic" "2.0, 3.5; 1.2, 3.4" "No intrinsics but those that are known to be harmless";
    INTRINSIC Remark "intrinsic" "2.0, 3.5; 1.2, 3.4" "No intrinsics but `llvm.memcpy` and `llvm.memset`";
    AGGREGATE Remark "aggregate" "2.0, 3.6; 1.2, 3.5" "Structures and arrays are passed and returned through pointers";
    PROMOTION Remark "promotion" "2.0, 3.6; 1.2, 3.5" "Integers that are shorter than an int are extended when they are passed or returned";
    LINKAGE Error "linkage" "2.0, 3.7; 1.2, 3.6" "Linkage is private, internal, available_externally, common or external";
    GLOBAL_CONSTRUCTOR Error "global-constructor" "2.0, 3.7; 1.2, 3.6" "Nothing runs before or after kernels";
    ALIAS Error "alias" "2.0, 3.7; 1.2, 3.6" "There are no aliases, of what is defined or elsewhere";
    IFUNC Error "ifunc" "2.0, 3.7; 1.2, 3.6" "There are no functions that are chosen at run time";
    THREAD_LOCAL Error "thread-local" "2.0, 3.7; 1.2, 3.6" "No variable is of a thread";
    SECTION Error "section" "2.0, 3.7; 1.2, 3.6" "Nothing has a section of its own";
    COMDAT Remark "comdat" "2.0, 3.7; 1.2, 3.6" "Nothing is in a comdat";
    CALLING_CONVENTION Remark "calling-convention" "2.0, 3.8; 1.2, 3.7" "Kernels are `spir_kernel`, other functions `spir_func`";
    CALL_CONVENTION Remark "call-convention" "2.0, 3.8; 1.2, 3.7" "A call has the convention of what it calls";
    VISIBILITY Remark "visibility" "2.0, 3.9; 1.2, 3.8" "Visibility is the default one";
    PARAMETER_ATTRIBUTE Remark "parameter-attribute" "2.0, 3.10; 1.2, 3.9" "Parameters have no attributes but those of table 17";
    GARBAGE_COLLECTOR Remark "garbage-collector" "2.0, 3.11; 1.2, 3.10" "No function names a garbage collector";
    PREFIX_DATA Remark "prefix-data" "2.0, 3.12; none in 1.2" "No function has data before its code";
    PERSONALITY Error "personality" "2.0, 3.4; 1.2, 3.3" "No function has a personality";
    NO_UNWIND Remark "nounwind" "2.0, 3.14; 1.2, > 3.10" "Functions are `nounwind`";
    FUNCTION_ATTRIBUTE Remark "function-attribute" "2.0, 3.14; 1.2, > 3.10" "Functions have no attributes but those of table 18";
    ASSEMBLY Error "assembly" "2.0, 3.15; 1.2, > 3.10" "There is no assembly, of the module or inline";
    ATOMIC Error "atomic" "2.0, 3.18 and 3.19; 1.2, > 3.10" "No fence, no atomic instruction, no atomic load or store: builtins are for that";
    POISON Remark "poison" "2.0, 3.21; none in 1.2" "Nothing is poison";
    SIZE Error "size" "none: this device" "Variables, values and copies are not larger than what there is";
    ALIGNMENT Error "alignment" "none: this device" "Alignments are not larger than a page can be";
}
