//! Step 7 of the front: a kernel's LLVM IR to Kernel IR. Everything that the clean-up leaves is taken; what remains LLVM
//! (functions that stay calls, and program-scope data) is handed on as a module of its own.

mod call;
mod constant;
mod control;
mod instruction;
mod memory;
#[cfg(test)]
mod tests;
mod types;

use super::CleanModule;
use super::harden::kernel_symbol;
use crate::llvm::{self, Block, Layout, Module, Symbol, Value};
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::targets::TargetMachine;
use spirula_interface::options::CompileError;
use spirula_interface::program::{ArgumentInfo, ArgumentKind, KernelInfo};
use spirula_kir as kir;
use spirula_kir::{Function, Passing, Type};
use std::collections::{BTreeSet, HashMap, HashSet};

/// What the front yields.
#[derive(Debug)]
pub struct Imported<'s> {
    /// Each kernel with its body, in the order of the metadata.
    pub kernels: Vec<(KernelInfo, Function)>,
    /// What the bodies refer to by `Call` and `GlobalAddress`, under those names, externally visible; address spaces
    /// as in SPIR.
    pub rest: Module<'s>,
}

/// Why a kernel can't be imported, to stand behind "it ".
type Import<T> = Result<T, String>;

/// Takes the kernels out of a module. Errors: `Failed`, naming the kernel and what it contains.
pub fn import<'s>(clean: CleanModule<'s>, machine: &TargetMachine) -> Result<Imported<'s>, CompileError> {
    let CleanModule { mut module, kernels } = clean;
    rename_rest(&mut module);
    let mut imported = Vec::new();
    let mut used = BTreeSet::new();
    for info in kernels {
        let body = kernel(&module, &info, &mut used).map_err(|what| {
            CompileError::Failed(format!("error: the kernel `{}` can't be compiled: it {what}\n", info.name))
        })?;
        imported.push((info, body));
    }
    keep_rest(&mut module, imported.iter().map(|(info, _)| info.name.as_str()), &used);
    llvm::run_passes(&mut module, "globaldce", machine).map_err(|error| {
        CompileError::Failed(format!("error: LLVM can't simplify the program: {error}\n"))
    })?;
    Ok(Imported { kernels: imported, rest: module })
}

/// Gives what stays LLVM a name that nothing else has (not the C library, not another program) and that can stand in text.
fn rename_rest(module: &mut Module) {
    module.edit(|edit| {
        for (index, function) in edit.defined_functions().into_iter().enumerate() {
            if function.linkage() == LLVMLinkage::LLVMInternalLinkage {
                edit.set_name(*function, &renamed(*function, &format!("spirula.function.{index}")));
            }
        }
        for (index, global) in edit.globals().into_iter().enumerate() {
            edit.set_name(*global, &renamed(*global, &format!("spirula.data.{index}")));
        }
    });
}

/// The new name goes before the old one, if that has plain characters only: SPIR's may be any bytes.
fn renamed(symbol: Symbol, name: &str) -> String {
    let old = symbol.name();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
    let suffix = if !old.is_empty() && old.chars().all(is_plain) { format!(".{old}") } else { String::new() };
    format!("{name}{suffix}")
}

/// Removes the kernels' bodies, and makes visible what they use.
fn keep_rest<'n>(module: &mut Module, kernels: impl Iterator<Item = &'n str>, used: &BTreeSet<String>) {
    // A kernel that another one called is inlined there, so that nothing but metadata refers to it.
    let doomed: HashSet<String> = kernels.map(kernel_symbol).collect();
    module.edit(|edit| {
        for symbol in edit.symbols().filter(|symbol| used.contains(&symbol.name())) {
            edit.set_linkage(symbol, LLVMLinkage::LLVMExternalLinkage);
        }
        for function in edit.functions().into_iter().filter(|function| doomed.contains(&function.name())) {
            edit.erase_function(function);
        }
    });
}

fn kernel(module: &Module, info: &KernelInfo, used: &mut BTreeSet<String>) -> Import<Function> {
    let source = module
        .view()
        .function_named(&kernel_symbol(&info.name))
        .filter(|function| !function.is_declaration())
        .ok_or("has no body")?;
    let mut importer = Importer {
        function: Function::new(&info.name),
        layout: module.view().layout(),
        values: HashMap::new(),
        blocks: HashMap::new(),
        local: HashMap::new(),
        printf_buffer: None,
        used,
        at: kir::Block(0),
    };
    importer.function.required_work_group_size = info.required_work_group_size;
    for (parameter, argument) in source.parameters().into_iter().zip(&info.arguments) {
        importer.parameter(*parameter, argument)?;
    }
    if let Some(printf) = &info.printf {
        let ty = Type::pointer(kir::AddressSpace::Global);
        importer.printf_buffer = Some(importer.function.add_param(ty, printf.buffer_offset, Passing::Direct));
    }
    importer.body(source)?;
    Ok(importer.function)
}

/// One kernel on its way.
struct Importer<'m, 'u> {
    function: Function,
    layout: Layout<'m>,
    values: HashMap<Value<'m>, kir::Value>,
    /// The block that each LLVM block begins as; a barrier splits it.
    blocks: HashMap<Block<'m>, kir::Block>,
    /// Offsets of the local variables.
    local: HashMap<Value<'m>, u64>,
    /// The parameter behind the kernel's own.
    printf_buffer: Option<kir::Value>,
    /// Names of the functions and variables that are referred to.
    used: &'u mut BTreeSet<String>,
    /// Where instructions go.
    at: kir::Block,
}

impl<'m> Importer<'m, '_> {
    fn parameter(&mut self, parameter: Value<'m>, argument: &ArgumentInfo) -> Import<()> {
        let ty = types::import(parameter.ty())?;
        let passing = match argument.kind {
            ArgumentKind::Local => Passing::LocalOffset,
            ArgumentKind::Value { .. } if ty.address_space().is_some() => Passing::ByAddress,
            _ => Passing::Direct,
        };
        let value = self.function.add_param(ty, argument.offset, passing);
        self.values.insert(parameter, value);
        Ok(())
    }

    /// The value of an operand; constants become values here, constant expressions instructions.
    fn value(&mut self, value: Value<'m>) -> Import<kir::Value> {
        match self.values.get(&value) {
            Some(&known) => Ok(known),
            None => self.constant(value),
        }
    }

    /// An operand by its number.
    fn operand(&mut self, user: Value<'m>, index: u32) -> Import<kir::Value> {
        let operand =
            user.operand(index).ok_or_else(|| format!("contains the malformed instruction `{user}`"))?;
        self.value(operand)
    }

    fn push(&mut self, ty: Type, op: kir::Op) -> kir::Value {
        self.function.push(self.at, ty, op)
    }

    fn effect(&mut self, op: kir::Op) {
        self.function.push_effect(self.at, op);
    }
}

/// What an instruction contains that Kernel IR has no word for.
fn unsupported<T>(value: impl std::fmt::Display) -> Import<T> {
    Err(format!("contains `{value}`, which is not supported"))
}
