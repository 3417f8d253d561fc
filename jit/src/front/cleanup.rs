//! Step 6 of the front: LLVM inlines, promotes memory to values and simplifies, so that Kernel IR gets plain code. No
//! pass here changes loops: what a work-item's loop becomes is decided over Kernel IR.

use super::call_graph::CallGraph;
use super::harden::kernel_symbol;
use super::llvm_access::{self as access, Value};
use super::llvm_edit as edit;
use super::{CleanModule, LinkedModule};
use crate::api::CompileError;
use crate::llvm;
use crate::program::KernelInfo;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use std::collections::HashSet;

/// In order: what must be inlined, before anything looks at calls; private memory to values, so that the inliner sees
/// true sizes; the inliner by cost; then values to a fixed point of sorts.
const PASSES: &str = "always-inline,globaldce,\
    function(sroa<modify-cfg>,early-cse,simplifycfg,instcombine<no-verify-fixpoint>),\
    cgscc(inline),globaldce,\
    function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,\
    sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,adce,simplifycfg),\
    globaldce";

/// The passes of `-cl-opt-disable`: only what Kernel IR needs.
const FEWEST_PASSES: &str = "always-inline,globaldce,function(sroa<modify-cfg>)";

/// Simplifies a linked module. Errors: `Failed` if a function that must be inlined couldn't be.
pub fn clean_up<'s>(
    linked: LinkedModule<'s>,
    machine: &TargetMachine,
    optimize: bool,
) -> Result<CleanModule<'s>, CompileError> {
    let LinkedModule { module, kernels } = linked;
    mark(&module);
    let passes = if optimize { PASSES } else { FEWEST_PASSES };
    llvm::run_passes(&module, passes, machine).map_err(|error| {
        CompileError::Failed(format!("error: LLVM can't simplify the program: {error}\n"))
    })?;
    all_inlined(&module, &kernels)?;
    Ok(CleanModule { module, kernels })
}

/// Functions that work only as a part of their kernel: they ask for a work-item's place, synchronize, or name local
/// memory, which each kernel lays out for itself.
fn bound_to_kernels<'m>(module: &'m Module) -> HashSet<Value<'m>> {
    let primitives = access::functions(module).into_iter().filter(|f| f.name().starts_with("spirula."));
    let primitives = primitives.filter(|f| f.is_declaration());
    let local = access::globals(module).into_iter().filter(|global| global.ty().address_space() == 3);
    let targets: Vec<Value> = primitives.chain(local.flat_map(access::using_functions)).collect();
    CallGraph::new(module).reaching(targets)
}

fn mark(module: &Module) {
    for function in bound_to_kernels(module).into_iter().filter(|f| !f.is_declaration()) {
        edit::drop_function_attribute(function, "noinline");
        edit::drop_function_attribute(function, "optnone");
        edit::add_attributes(function, &["alwaysinline"]);
    }
}

fn all_inlined(module: &Module, kernels: &[KernelInfo]) -> Result<(), CompileError> {
    let own: HashSet<String> = kernels.iter().map(|kernel| kernel_symbol(&kernel.name)).collect();
    let left: Vec<String> = bound_to_kernels(module)
        .into_iter()
        .filter(|function| !function.is_declaration())
        .map(Value::name)
        .filter(|name| !own.contains(name))
        .map(|name| format!("error: the function `{name}` can't be inlined, but uses work-item functions\n"))
        .collect();
    if left.is_empty() { Ok(()) } else { Err(CompileError::Failed(left.concat())) }
}
