//! The front's last stage: LLVM IR to Kernel IR. Everything that the clean-up leaves is taken, kernels, functions that stay
//! calls and program-scope data alike: nothing behind this stage knows LLVM's own form of the program.

mod call;
mod constant;
mod control;
mod data;
mod instruction;
mod memory;
#[cfg(test)]
mod tests;
mod types;

pub(super) use call::only_computes;
pub(super) use data::{place_in_variable, walked};

use super::CleanModule;
use super::harden::kernel_symbol;
use crate::llvm::{Block, Function as Source, Global, Layout, Symbol, Value, View};
use data::{Data, Place};
use spirula_interface::check::Checks;
use spirula_interface::options::CompileError;
use spirula_interface::program::{ArgumentInfo, ArgumentKind, HiddenKind, KernelSignature};
use spirula_kir as kir;
use spirula_kir::transform::check::{Variable, Variables};
use spirula_kir::{Function, Passing, Promises, Type};
use std::collections::HashMap;
use std::sync::Arc;

/// What the front yields.
#[derive(Debug, Default)]
pub struct Imported {
    /// The kernel that alone was read, if not all were.
    pub only: Option<String>,
    /// What the host is told of each kernel, in the order of the metadata.
    pub kernels: Vec<KernelSignature>,
    /// The program; its kernels are in the same order.
    pub module: kir::Module,
    /// Where its variables lie.
    pub variables: Variables,
    /// About how many instructions more optimized code of each kernel is made of, where this is for baseline code only.
    pub left_out: Vec<u64>,
}

impl Imported {
    /// Whether optimized code is made of the same.
    pub fn is_whole(&self) -> bool {
        self.left_out.iter().all(|&size| size == 0)
    }
}

/// Why a function can't be imported, to stand behind "it ".
type Import<T> = Result<T, String>;

/// Imports a module. Errors: `Failed`, naming the function and what it contains.
pub fn import(clean: CleanModule) -> Result<Imported, CompileError> {
    let CleanModule { module, kernels, checks, left_out } = clean;
    let names = Names::new(module.view(), &kernels);
    let layout = module.view().layout();
    let data = data::lay_out(&names.data, layout)
        .map_err(|what| CompileError::Failed(format!("error: the program can't be compiled: it {what}\n")))?;
    let shared = Shared { layout, functions: &names.functions, data: &data, checks };
    let mut variables = Variables::default();
    let mut result = kir::Module::default();
    for info in &kernels {
        let (body, local) = kernel(module.view(), info, &shared).map_err(|what| {
            CompileError::Failed(format!("error: the kernel `{}` can't be compiled: it {what}\n", info.name))
        })?;
        result.kernels.push(body);
        variables.local.push(local);
    }
    for (source, name) in names.functions_in_order() {
        let body = function(source, &name, &shared).map_err(|what| {
            let source = source.name();
            CompileError::Failed(format!("error: the function `{source}` can't be compiled: it {what}\n"))
        })?;
        result.functions.push(body);
    }
    let Data { constants, block, variables: program, .. } = data;
    variables.program = program;
    (result.constants, result.data) = (constants, block);
    if result.data.addresses.is_linear() {
        kir::transform::pass_frames(&mut result);
    }
    kir::analysis::find_effects(&mut result);
    Ok(Imported { only: None, kernels, module: result, variables, left_out })
}

/// Names that nothing else has (not the C library, not another program) and that can stand in text.
struct Names<'m> {
    functions: HashMap<Source<'m>, Arc<str>>,
    order: Vec<Source<'m>>,
    data: Vec<(Global<'m>, Arc<str>)>,
}

impl<'m> Names<'m> {
    fn new(module: View<'m>, kernels: &[KernelSignature]) -> Self {
        let own: Vec<String> = kernels.iter().map(|kernel| kernel_symbol(&kernel.name)).collect();
        let functions = module.defined_functions().into_iter();
        // A kernel that another one called is inlined there.
        let order: Vec<Source> = functions.filter(|function| !own.contains(&function.name())).collect();
        let data = module.globals().into_iter();
        let data = data.filter(|global| global.ty().address_space() != 3 && global.has_uses());
        let numbered = |kind: &str, index: usize, symbol: Symbol| {
            plain_name(&format!("spirula.{kind}.{index}"), &symbol.name())
        };
        let functions = order.iter().enumerate();
        Names {
            functions: functions.map(|(i, &f)| (f, numbered("function", i, *f))).collect(),
            data: data.enumerate().map(|(i, global)| (global, numbered("data", i, *global))).collect(),
            order,
        }
    }

    fn functions_in_order(&self) -> impl Iterator<Item = (Source<'m>, Arc<str>)> {
        self.order.iter().map(|function| (*function, self.functions[function].clone()))
    }
}

/// The new name goes before the old one, if that has plain characters only: SPIR's may be any bytes.
fn plain_name(new: &str, old: &str) -> Arc<str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
    let suffix = if !old.is_empty() && old.chars().all(is_plain) { format!(".{old}") } else { String::new() };
    format!("{new}{suffix}").into()
}

/// What the import of every function needs.
struct Shared<'m, 's> {
    layout: Layout<'m>,
    functions: &'s HashMap<Source<'m>, Arc<str>>,
    data: &'s Data<'m>,
    /// What is to be looked for in kernels.
    checks: Checks,
}

fn kernel<'m>(
    module: View<'m>,
    info: &KernelSignature,
    shared: &Shared<'m, '_>,
) -> Import<(Function, Vec<Variable>)> {
    let source = module
        .function_named(&kernel_symbol(&info.name))
        .filter(|function| !function.is_declaration())
        .ok_or("has no body")?;
    let mut importer = Importer::new(Function::new(&info.name), shared);
    importer.function.required_work_group_size = info.required_work_group_size;
    importer.function.remainder_groups = info.remainder_groups;
    importer.function.required_sub_group_size = info.required_sub_group_size;
    for (parameter, argument) in source.parameters().into_iter().zip(&info.arguments) {
        importer.parameter(*parameter, argument)?;
    }
    for hidden in &info.hidden {
        let ty = Type::pointer(kir::AddressSpace::Global);
        let value = importer.function.add_param(ty, hidden.offset, Passing::Direct);
        match hidden.kind {
            HiddenKind::PrintfBuffer => importer.printf_buffer = Some(value),
            HiddenKind::Parent => importer.parent = Some(value),
            // The checks are written when all is there.
            HiddenKind::Checks => {}
        }
    }
    if let (Some(offset), Some(captures)) = (info.block, source.parameters().last()) {
        let value = importer.function.add_param(types::import(captures.ty())?, offset, Passing::ByAddress);
        importer.values.insert(**captures, value);
    }
    importer.body(source)?;
    Ok((importer.function, importer.local_variables))
}

/// A function that stays a call.
fn function<'m>(source: Source<'m>, name: &str, shared: &Shared<'m, '_>) -> Import<Function> {
    let ty = source.value_type();
    let result = ty.return_type().filter(|ty| !ty.is_void()).map(types::import).transpose()?;
    if ty.is_variadic() {
        return Err("takes any number of arguments".into());
    }
    let mut function = Function::callable(name, result);
    function.attributes.noinline = source.has_attribute("noinline");
    function.attributes.cold = source.has_attribute("cold");
    let mut importer = Importer::new(function, shared);
    for (number, parameter) in source.parameters().into_iter().enumerate() {
        let ty = types::import(parameter.ty())?;
        let promises =
            if ty.address_space().is_some() { promises(source, number as u32) } else { Promises::default() };
        let value = importer.function.add_argument(ty, promises);
        importer.values.insert(*parameter, value);
    }
    importer.body(source)?;
    Ok(importer.function)
}

/// What is known of a pointer that a function is given.
fn promises(function: Source, parameter: u32) -> Promises {
    let given = |attribute| function.parameter_integer_attribute(parameter, attribute);
    let align = given("align").and_then(|align| u32::try_from(align).ok()).unwrap_or(0);
    Promises {
        noalias: given("noalias").is_some(),
        nonnull: given("nonnull").is_some(),
        readonly: given("readonly").is_some() || given("readnone").is_some(),
        // LLVM's number for capturing nothing.
        nocapture: given("captures") == Some(0),
        align: if align <= spirula_interface::program::MAX_ALIGNMENT { align } else { 0 },
    }
}

/// One function on its way.
struct Importer<'m, 's> {
    function: Function,
    shared: &'s Shared<'m, 's>,
    values: HashMap<Value<'m>, kir::Value>,
    /// The block that each LLVM block begins as; a barrier splits it.
    blocks: HashMap<Block<'m>, kir::Block>,
    /// Offsets of the local variables.
    local: HashMap<Value<'m>, u64>,
    local_variables: Vec<Variable>,
    /// Parameters behind the kernel's own.
    printf_buffer: Option<kir::Value>,
    parent: Option<kir::Value>,
    /// Where instructions go.
    at: kir::Block,
}

impl<'m, 's> Importer<'m, 's> {
    fn new(function: Function, shared: &'s Shared<'m, 's>) -> Self {
        Importer {
            function,
            shared,
            values: HashMap::new(),
            blocks: HashMap::new(),
            local: HashMap::new(),
            local_variables: Vec::new(),
            printf_buffer: None,
            parent: None,
            at: kir::Block(0),
        }
    }

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
