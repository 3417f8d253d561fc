//! Linked LLVM IR to an object file: everything but the kernels' entries becomes internal, then passes and code for this CPU.

mod counted_shifts;
mod index_sums;
mod masked_accesses;
mod masked_logic;
mod shared_bases;
mod short_vectors;
mod wide_masks;

use crate::llvm::{self, Edit, FileType, LlvmError, Module, Session};
use inkwell::llvm_sys::LLVMLinkage::*;
use inkwell::llvm_sys::LLVMOpcode;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::target::Target;
use std::collections::HashSet;

/// Why no object came out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CodegenError {
    /// The IR that reached code generation is wrong: a bug of ours.
    #[error("internal error: invalid code was generated: {0}")]
    Invalid(LlvmError),
    /// An entry is missing: a bug of ours.
    #[error("internal error: no code was generated for {0}")]
    Missing(String),
    /// LLVM gave up.
    #[error("LLVM can't generate code: {0}")]
    Llvm(#[from] LlvmError),
}

/// What pays of `default<O3>`, in its order: work-group functions are one loop nest each, come simplified and call little.
/// Loops are simplified until conditions that do not change in them can be decided in front of them, and those of
/// fixed length are unrolled. Loops of unknown length stay as they are: their iterations overlap in the processor
/// anyway, and unrolled they took a third of a build.
const PASSES: &str = "always-inline,globaldce,cgscc(inline),globaldce,function(\
    simplifycfg,sroa<modify-cfg>,early-cse,instcombine<no-verify-fixpoint>,\
    simplifycfg,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
    loop-mssa(loop-instsimplify,loop-simplifycfg,licm<no-allowspeculation>,loop-rotate,licm,\
        simple-loop-unswitch<nontrivial;trivial>),\
    simplifycfg,instcombine<no-verify-fixpoint>,\
    loop(loop-idiom,indvars,extra-simple-loop-unswitch-passes,loop-deletion,loop-unroll-full),\
    sroa<modify-cfg>,gvn,bdce,instcombine<no-verify-fixpoint>,dse,loop-mssa(licm),\
    simplifycfg<hoist-common-insts;sink-common-insts>,\
    loop(loop-rotate,loop-deletion),loop-vectorize,instcombine<no-verify-fixpoint>,\
    slp-vectorizer,vector-combine,loop-unroll<O3;no-runtime>,instcombine<no-verify-fixpoint>,\
    loop-mssa(licm),simplifycfg<switch-to-lookup>),globaldce";

/// Of [`PASSES`], what looks for scalars that make vectors: half of the passes' time in a long block, and for nothing where vectors are.
const VECTORS_OF_SCALARS: &str = "slp-vectorizer,";

/// Those of [`PASSES`] that take time in proportion to the code. Of the others, those of loops look at whole functions for each loop.
const LINEAR_PASSES: &str = "always-inline,globaldce,cgscc(inline),globaldce,function(\
    simplifycfg,sroa<modify-cfg>,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,\
    loop-mssa(loop-rotate,licm),gvn,bdce,dse,instcombine<no-verify-fixpoint>,\
    slp-vectorizer,vector-combine,instcombine<no-verify-fixpoint>,\
    simplifycfg<hoist-common-insts;sink-common-insts;switch-to-lookup>),globaldce";

/// What is done for the speed of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Nothing, as `-cl-opt-disable` wants it.
    None,
    /// What takes time in proportion to the code.
    Linear,
    /// What pays in functions that have not very many loops, and are made of vectors.
    Vectors,
    /// What pays in functions that have not very many loops.
    Full,
}

/// Generates the object of a module whose `entries` are the functions to call from outside. `observe` sees the module before it
/// becomes code.
pub fn generate<'s>(
    session: &'s Session,
    module: &mut Module<'s>,
    entries: &[String],
    target: &Target,
    (effort, addresses): (Effort, AddressBits),
    observe: impl FnOnce(&Module),
) -> Result<Vec<u8>, CodegenError> {
    let machine = llvm::machine(target, effort != Effort::None)?;
    // SPIR's triple and layout end here: from now on the module is one of the host's.
    llvm::set_target(module, &machine, AddressBits::Bits64);
    internalize(module, entries)?;
    keep_loops_as_loops(module);
    if addresses.is_linear() {
        keep_branches_as_branches(module);
    }
    llvm::verify(module).map_err(CodegenError::Invalid)?;
    if matches!(effort, Effort::Vectors | Effort::Full) {
        module.edit(index_sums::widen);
        module.edit(counted_shifts::unroll);
    }
    let passes = match effort {
        Effort::None => "default<O0>",
        Effort::Linear => LINEAR_PASSES,
        Effort::Vectors => &PASSES.replace(VECTORS_OF_SCALARS, ""),
        Effort::Full => PASSES,
    };
    llvm::run_passes(module, passes, &machine)?;
    // (What bounds an address is no longer seen in machine code where it is a step of lanes.)
    if effort != Effort::None && !addresses.is_linear() {
        masked_accesses::lower(session, module, target, &machine)?;
    }
    if addresses.is_linear() {
        module.edit(trap_where_nothing_leads);
    }
    module.edit(masked_logic::keep_apart);
    if effort != Effort::None {
        module.edit(short_vectors::fill);
        module.edit(shared_bases::hide);
    }
    let facts = target.facts();
    if effort != Effort::None && !facts.avx512 {
        module.edit(|edit| wide_masks::widen(edit, facts.vector_bits));
    }
    observe(module);
    let object = llvm::emit(module, &machine, FileType::Object)?;
    match session.take_errors() {
        errors if errors.is_empty() => {}
        errors => return Err(LlvmError(errors).into()),
    }
    Ok(object)
}

/// The assembly of a module, as text, that [`generate`] has shown.
pub fn assembly(text: &str, target: &Target, effort: Effort) -> Result<String, CodegenError> {
    let session = Session::new();
    let mut module = llvm::parse_text(&session, text)?;
    let machine = llvm::machine(target, effort != Effort::None)?;
    let bytes = llvm::emit(&mut module, &machine, FileType::Assembly)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Only the entries stay visible, so that what is inlined everywhere or never used vanishes.
fn internalize(module: &mut Module, entries: &[String]) -> Result<(), CodegenError> {
    let mut missing: HashSet<&str> = entries.iter().map(String::as_str).collect();
    module.edit(|edit| {
        for function in edit.defined_functions() {
            let is_entry = missing.remove(function.name().as_str());
            edit.set_linkage(*function, if is_entry { LLVMExternalLinkage } else { LLVMInternalLinkage });
        }
        for global in edit.globals().into_iter().filter(|global| !global.is_declaration()) {
            // `llvm.used` and its like have a linkage of their own that says what they are.
            if global.linkage() != LLVMAppendingLinkage {
                edit.set_linkage(*global, LLVMInternalLinkage);
            }
        }
    });
    match missing.into_iter().next() {
        Some(name) => Err(CodegenError::Missing(name.to_owned())),
        None => Ok(()),
    }
}

/// C functions that LLVM likes to call instead of a loop, or of comparisons in a row, and that no kernel can be given.
const NOT_PROVIDED: [&str; 4] = ["strlen", "wcslen", "memcmp", "bcmp"];

/// Keeps LLVM from turning the kernels' own code into calls of C's library. `memcpy` and `memset` are welcome.
fn keep_loops_as_loops(module: &mut Module) {
    let attributes = NOT_PROVIDED.map(|name| format!("no-builtin-{name}"));
    module.edit(|edit| {
        for function in edit.defined_functions() {
            attributes.iter().for_each(|attribute| edit.add_string_attribute(function, attribute, ""));
        }
    });
}

/// Keeps LLVM from reading tables, of code or of values, by numbers that it takes for being within them: those of a kernel that
/// breaks its promises would lead out of its linear memory.
fn keep_branches_as_branches(module: &mut Module) {
    module.edit(|edit| {
        for function in edit.defined_functions() {
            edit.add_string_attribute(function, "no-jump-tables", "true");
        }
    });
}

/// Makes what LLVM takes for impossible a trap: else it would run into whatever lies behind.
fn trap_where_nothing_leads(edit: Edit) {
    let instructions = edit.defined_functions().into_iter().flat_map(|function| function.instructions());
    for instruction in instructions.filter(|i| i.opcode() == LLVMOpcode::LLVMUnreachable) {
        edit.before(instruction).trap();
    }
}
