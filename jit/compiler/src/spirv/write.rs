//! The text of a module: types, variables, functions, and what LLVM's metadata says of it.

use super::constants::{Constant, Constants};
use super::function::{self, Lines};
use super::memory::aligned;
use super::module::{Function, Module};
use super::stream::Instruction;
use super::types::{Type, Types, address_space};
use super::{Id, Result, kernels, refuse, spirv, support};
use crate::llvm::quoted;
use spirv::{Decoration, ExecutionMode, FunctionControl, FunctionParameterAttribute, Op, StorageClass};
use std::collections::{BTreeMap, HashMap, HashSet};

/// SPIR-V's number of a linkage that is imported.
const IMPORT: u32 = 1;
/// One of which several modules may have a definition.
const LINK_ONCE_ODR: u32 = 2;

/// What all functions see.
pub struct Globals<'m> {
    pub module: &'m Module<'m>,
    pub types: Types,
    pub constants: Constants,
    /// Functions: LLVM's name with `@`, and the type.
    pub functions: HashMap<Id, (String, Id)>,
    /// What stands before each of a function's parameters.
    pub parameter_attributes: HashMap<Id, Vec<String>>,
    /// Built-in variables: the name, and the type of what they hold.
    pub built_in: HashMap<Id, (String, Id)>,
    /// Whether products and sums may be one operation.
    pub contracts: bool,
    /// Text of the variables.
    variables: String,
}

/// Metadata numbers that are taken: see [`metadata`].
const FIRST_FREE_NODE: u32 = 16;

/// A module's text.
pub fn module(module: &Module) -> Result<String> {
    let mut globals = globals(module)?;
    name_functions(&mut globals)?;
    let mut declarations = BTreeMap::new();
    let mut text = String::new();
    let mut instructions = module.functions.iter().flat_map(|function| &function.body);
    let has_lines = instructions.any(|i| i.op == Op::Line || module.line(i).is_some());
    let mut lines = Lines::from(FIRST_FREE_NODE);
    for function in &module.functions {
        let lines = has_lines.then_some(&mut lines);
        text += &write_function(&globals, function, &mut declarations, lines)?;
    }
    for (id, _) in &module.entry_points {
        if !module.functions.iter().any(|function| function.head.result == *id) {
            return refuse("it has an entry point that is no function");
        }
    }
    let pointers = if module.addresses.is_linear() { "-p:32:32" } else { "" };
    let header = format!(
        "target datalayout = \"e{pointers}-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024\"\n\
         target triple = \"{}-unknown-unknown\"\n",
        module.addresses.spir()
    );
    let declared: Vec<&str> = declarations.values().map(String::as_str).collect();
    Ok(format!(
        "{header}{}{}{text}{}\n{}{}",
        globals.types.definitions,
        globals.variables,
        declared.join("\n"),
        metadata(module, has_lines),
        lines.text,
    ))
}

/// What is said of the whole module.
fn metadata(module: &Module, has_lines: bool) -> String {
    // 3 is OpenCL C; other languages' modules may use all that there is.
    let version = match module.source {
        Some((3, version)) if (100_000..400_000).contains(&version) => {
            [version / 100_000, version / 1000 % 100]
        }
        _ => [2, 0],
    };
    let version = if [[1, 0], [1, 1], [1, 2], [2, 0], [3, 0]].contains(&version) { version } else { [2, 0] };
    let mut text = format!(
        "!opencl.ocl.version = !{{!0}}\n!opencl.spir.version = !{{!1}}\n!0 = !{{i32 {}, i32 {}}}\n!1 = !{{i32 2, i32 0}}\n",
        version[0], version[1]
    );
    if has_lines {
        text += concat!(
            "!llvm.dbg.cu = !{!2}\n!llvm.module.flags = !{!5}\n",
            "!2 = distinct !DICompileUnit(language: DW_LANG_C99, file: !3, emissionKind: LineTablesOnly)\n",
            "!3 = !DIFile(filename: \"module.spv\", directory: \"\")\n",
            "!4 = !DISubroutineType(types: !6)\n!5 = !{i32 2, !\"Debug Info Version\", i32 3}\n!6 = !{}\n",
        );
    }
    text
}

/// A symbol as LLVM writes it.
pub fn symbol(name: &str) -> String {
    format!("@{}", quoted(name))
}

fn globals<'m>(module: &'m Module<'m>) -> Result<Globals<'m>> {
    let forbids = [ExecutionMode::ContractionOff as u32, ExecutionMode::FPFastMathDefault as u32];
    let contracts = !module.modes.iter().any(|(_, mode, _)| forbids.contains(mode));
    let mut globals = Globals {
        module,
        types: Types::default(),
        constants: Constants::default(),
        functions: HashMap::new(),
        parameter_attributes: HashMap::new(),
        built_in: HashMap::new(),
        contracts,
        variables: String::new(),
    };
    for instruction in &module.globals {
        let op = format!("{:?}", instruction.op);
        match instruction.op {
            Op::Variable | Op::UntypedVariableKHR => variable(&mut globals, instruction)?,
            Op::TypeForwardPointer => globals.types.declare(instruction)?,
            _ if op.starts_with("Type") => globals.types.define(module, &globals.constants, instruction)?,
            _ => globals.constants.define(&globals.types, instruction)?,
        }
    }
    Ok(globals)
}

fn variable(globals: &mut Globals, instruction: &Instruction) -> Result<()> {
    let id = instruction.result;
    let module = globals.module;
    let (class, pointee, initializer) = match instruction.op {
        Op::Variable => {
            (instruction.word(0)?, globals.types.pointee(instruction.ty)?, instruction.operands.get(1))
        }
        _ => (instruction.word(0)?, instruction.word(1)?, instruction.operands.get(2)),
    };
    let is_input = class == StorageClass::Input as u32;
    let built_in = module.decoration(id, Decoration::BuiltIn).and_then(|list| list.first());
    if let Some(&number) = built_in {
        let Some(name) = spirv::BuiltIn::from_u32(number) else {
            return refuse(format!("the built-in variable {number} isn't known"));
        };
        globals.built_in.insert(id, (format!("{name:?}"), pointee));
        return Ok(());
    }
    if is_input {
        return refuse("it has an input that is no built-in variable");
    }
    let space = address_space(class)?;
    if globals.types.space(instruction.ty)? != space || space == 0 || space == 4 {
        return refuse("a variable outside of functions is of a storage class that it can't have");
    }
    let ty = globals.types.text(pointee)?.to_string();
    let linkage = module.linkage(id);
    let name = linkage.as_ref().map_or_else(|| format!("spirv.{id}"), |(name, _)| name.clone());
    let is_constant = space == 2 || module.has(id, Decoration::Constant);
    let kind = if is_constant { "constant" } else { "global" };
    let align = match module.decoration(id, Decoration::Alignment).and_then(|list| list.first()) {
        Some(&alignment) => aligned(alignment)?,
        None => String::new(),
    };
    let initial = match initializer {
        Some(&initializer) => {
            let (given, _) = globals.constants.expect(initializer)?;
            if globals.types.text(given)? != ty {
                return refuse("a variable's initializer is of another type");
            }
            globals.constants.text(initializer).unwrap_or_default().to_string()
        }
        None if space == 3 => "undef".to_string(),
        None => "zeroinitializer".to_string(),
    };
    let head = match &linkage {
        Some((_, IMPORT)) => "external ".to_string(),
        Some((_, LINK_ONCE_ODR)) => "linkonce_odr ".to_string(),
        Some(_) if space != 3 => String::new(),
        _ => "internal ".to_string(),
    };
    let initial = if head == "external " { String::new() } else { format!(" {initial}") };
    let symbol = symbol(&name);
    globals.variables += &format!("{symbol} = {head}addrspace({space}) {kind} {ty}{initial}{align}\n");
    // An address is a constant.
    globals.constants.insert(&globals.types, id, instruction.ty, Constant::Text(symbol.into()))
}

/// Names of all functions, before any is called. A kernel has the name of its entry point, which hides what a function is
/// exported as that it calls.
fn name_functions(globals: &mut Globals) -> Result<()> {
    let module = globals.module;
    let entries: HashMap<Id, &str> =
        module.entry_points.iter().rev().map(|(id, name)| (*id, name.as_str())).collect();
    let taken: HashSet<&str> = module.entry_points.iter().map(|(_, name)| name.as_str()).collect();
    for Function { head, .. } in &module.functions {
        let id = head.result;
        let ty = head.word(1)?;
        let Type::Function(returned, _) = globals.types.get(ty)? else {
            return refuse("a function's type is none");
        };
        if globals.types.text(*returned)? != globals.types.text(head.ty)? {
            return refuse("a function yields another type than its type says");
        }
        let name = match (entries.get(&id), module.linkage(id)) {
            (Some(name), _) => name.to_string(),
            (None, Some((name, _))) if !taken.contains(name.as_str()) => name,
            _ => format!("spirv.{id}"),
        };
        globals.functions.insert(id, (symbol(&name), ty));
    }
    for function in &module.functions {
        let attributes = function.parameters.iter().map(|parameter| attributes(globals, parameter));
        let attributes = attributes.collect::<Result<_>>()?;
        globals.parameter_attributes.insert(function.head.result, attributes);
    }
    Ok(())
}

/// What stands behind a parameter's type.
fn attributes(globals: &Globals, parameter: &Instruction) -> Result<String> {
    let module = globals.module;
    let mut list = Vec::new();
    for attribute in module.decorations(parameter.result, Decoration::FuncParamAttr) {
        let Some(attribute) =
            attribute.first().and_then(|&number| FunctionParameterAttribute::from_u32(number))
        else {
            continue;
        };
        let is_by_value = attribute == FunctionParameterAttribute::ByVal;
        if is_by_value || attribute == FunctionParameterAttribute::Sret {
            let ty = globals.types.text(globals.types.pointee(parameter.ty)?)?;
            list.push(format!("{}({ty})", if is_by_value { "byval" } else { "sret" }));
            let alignment = module.decoration(parameter.result, Decoration::Alignment);
            if let Some(&alignment) = alignment.and_then(|list| list.first()) {
                list.push(aligned(alignment)?.trim_start_matches(", ").to_string());
            }
        }
    }
    Ok(list.join(" "))
}

/// A function with all names that it has as an entry point.
fn write_function(
    globals: &Globals,
    function: &Function,
    declarations: &mut BTreeMap<String, String>,
    mut lines: Option<&mut Lines>,
) -> Result<String> {
    let module = globals.module;
    let id = function.head.result;
    let Some((own, ty)) = globals.functions.get(&id) else { return refuse("a function has no name") };
    let Type::Function(_, types) = globals.types.get(*ty)? else {
        return refuse("a function's type is none");
    };
    if types.len() != function.parameters.len() {
        return refuse("a function has another number of parameters than its type says");
    }
    let mut parameters = Vec::new();
    let attributes = globals.parameter_attributes.get(&id).map(Vec::as_slice).unwrap_or_default();
    for ((parameter, &ty), attributes) in function.parameters.iter().zip(types).zip(attributes) {
        if parameter.ty != ty {
            return refuse("a function has a parameter of another type than its type says");
        }
        parameters.push(format!("{} {attributes} %v{}", globals.types.text(ty)?, parameter.result));
    }
    let returned = globals.types.text(function.head.ty)?;
    let parameters = parameters.join(", ");
    let linkage = module.linkage(id);
    if function.body.iter().all(|instruction| instruction.op != Op::Label) {
        let Some((_, IMPORT)) = linkage else { return refuse("a function has no body, and isn't imported") };
        let types: Vec<&str> = types.iter().map(|&ty| globals.types.text(ty)).collect::<Result<_>>()?;
        return Ok(format!("declare spir_func {returned} {own}({})\n", types.join(", ")));
    }
    let control = FunctionControl::from_bits_truncate(function.head.word(0)?);
    let inlining = if control.contains(FunctionControl::INLINE) {
        " alwaysinline"
    } else if control.contains(FunctionControl::DONT_INLINE) {
        " noinline"
    } else {
        ""
    };
    let mut text = String::new();
    let names: Vec<&str> =
        module.entry_points.iter().filter(|(entry, _)| *entry == id).map(|(_, name)| name.as_str()).collect();
    // A generic pointer is a block's captures: a kernel that only kernels can launch, which name the function.
    let is_block = types.iter().any(|&ty| matches!(globals.types.get(ty), Ok(Type::Pointer(4, _))));
    let is_kernel = !names.is_empty() && !is_block;
    let symbols: Vec<String> =
        if is_kernel { names.iter().map(|name| symbol(name)).collect() } else { vec![own.clone()] };
    for name in symbols {
        let scope = match &mut lines {
            Some(lines) => subprogram(lines, &name),
            None => String::new(),
        };
        let body = function::body(globals, function, declarations, lines.as_deref_mut())?;
        let (head, kernel) = match (is_kernel, &linkage) {
            (true, _) => ("spir_kernel".to_string(), kernels::metadata(globals, function)?),
            (_, Some((_, LINK_ONCE_ODR))) => ("linkonce_odr spir_func".to_string(), String::new()),
            (_, Some(_)) if !own.starts_with("@\"spirv.") => ("spir_func".to_string(), String::new()),
            _ => ("internal spir_func".to_string(), String::new()),
        };
        text +=
            &format!("define {head} {returned} {name}({parameters}){inlining}{kernel}{scope} {{\n{body}}}\n");
    }
    Ok(text)
}

/// The metadata of a function that has locations.
fn subprogram(lines: &mut Lines, name: &str) -> String {
    let name = support::short(name.trim_start_matches("@\"").trim_end_matches('"'));
    let number = lines.node(&format!(
        "distinct !DISubprogram(name: \"{name}\", scope: !3, file: !3, type: !4, unit: !2, spFlags: DISPFlagDefinition)"
    ));
    lines.subprogram = number;
    format!(" !dbg !{number}")
}
