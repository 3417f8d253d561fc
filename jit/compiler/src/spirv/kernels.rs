//! What is said of a kernel: sizes that it requires or hints at, and its arguments as queries name them.

use super::module::Function;
use super::types::Type;
use super::write::Globals;
use super::{Id, Result, refuse, spirv};
use crate::llvm::quoted;
use spirv::{Decoration, ExecutionMode, FunctionParameterAttribute};

/// Nesting of pointers in a type's name.
const MAX_DEPTH: u32 = 8;

/// The attachments of a kernel's definition.
pub fn metadata(globals: &Globals, function: &Function) -> Result<String> {
    let id = function.head.result;
    let mut text = sizes(globals, id)?;
    let [types, qualifiers] = ["kernel_arg_type", "kernel_arg_type_qual"].map(|list| said(globals, id, list));
    let mut lists: [Vec<String>; 6] = Default::default();
    for (index, parameter) in function.parameters.iter().enumerate() {
        let of = |list: &Option<Vec<String>>| list.as_ref().and_then(|list| list.get(index)).cloned();
        let ty = globals.types.get(parameter.ty)?;
        let base = type_name(globals, parameter.ty, 0);
        let by_value = has_attribute(globals, parameter.result, FunctionParameterAttribute::ByVal);
        let base = if by_value { base.trim_end_matches('*').to_string() } else { base };
        let space = match ty {
            Type::Pointer(space, _) if !by_value => *space,
            Type::Image(_) | Type::Pipe => 1,
            _ => 0,
        };
        let access = match ty {
            Type::Image(image) => ["read_only", "write_only", "read_write"][image.access.min(2) as usize],
            Type::Pipe => pipe_access(globals, parameter.ty),
            _ => "none",
        };
        let mut words = vec![of(&qualifiers).unwrap_or_else(|| qualifiers_of(globals, parameter.result, ty))];
        if matches!(ty, Type::Pipe) && !words[0].contains("pipe") {
            words.insert(0, "pipe".into());
        }
        lists[0].push(format!("i32 {space}"));
        lists[1].push(string(access));
        lists[2].push(string(&of(&types).unwrap_or_else(|| base.clone())));
        lists[3].push(string(&base));
        lists[4].push(string(words.join(" ").trim()));
        lists[5].extend(globals.module.names.get(&parameter.result).map(|name| string(name)));
    }
    let names = ["addr_space", "access_qual", "type", "base_type", "type_qual", "name"];
    for (name, list) in names.iter().zip(&lists) {
        // Names are those of the source or none.
        if list.len() == function.parameters.len() {
            text += &format!(" !kernel_arg_{name} !{{{}}}", list.join(", "));
        }
    }
    Ok(text)
}

fn string(text: &str) -> String {
    format!("!{}", quoted(text))
}

/// What translators keep of a kernel's arguments in a string: `kernel_arg_type.NAME.int*,float,`.
fn said(globals: &Globals, function: Id, list: &str) -> Option<Vec<String>> {
    let module = globals.module;
    let name = &module.entry_points.iter().find(|(id, _)| *id == function)?.1;
    let prefix = format!("{list}.{name}.");
    let mut texts: Vec<&str> =
        module.strings.values().filter_map(|text| text.strip_prefix(&prefix)).collect();
    texts.sort_unstable();
    let text = texts.first()?;
    Some(text.split_terminator(',').map(str::to_string).collect())
}

fn has_attribute(globals: &Globals, parameter: Id, attribute: FunctionParameterAttribute) -> bool {
    let mut list = globals.module.decorations(parameter, Decoration::FuncParamAttr);
    list.any(|operands| operands.first() == Some(&(attribute as u32)))
}

fn qualifiers_of(globals: &Globals, parameter: Id, ty: &Type) -> String {
    let has = |decoration| globals.module.has(parameter, decoration);
    let mut words = Vec::new();
    if matches!(ty, Type::Pointer(..)) {
        let is_read_only = has_attribute(globals, parameter, FunctionParameterAttribute::NoWrite);
        words.extend((is_read_only || has(Decoration::Constant)).then_some("const"));
        let is_alone = has_attribute(globals, parameter, FunctionParameterAttribute::NoAlias);
        words.extend((is_alone || has(Decoration::Restrict)).then_some("restrict"));
        words.extend(has(Decoration::Volatile).then_some("volatile"));
    }
    words.join(" ")
}

fn pipe_access(globals: &Globals, ty: Id) -> &'static str {
    let instruction = globals.module.globals.iter().find(|instruction| instruction.result == ty);
    match instruction.and_then(|instruction| instruction.word(0).ok()) {
        Some(1) => "write_only",
        _ => "read_only",
    }
}

/// A type as OpenCL C may have written it: signs are gone.
fn type_name(globals: &Globals, ty: Id, depth: u32) -> String {
    let Ok(known) = globals.types.get(ty) else { return "void".into() };
    match known {
        Type::Bool => "bool".into(),
        Type::Int(8) => "char".into(),
        Type::Int(16) => "short".into(),
        Type::Int(32) => "int".into(),
        Type::Int(_) => "long".into(),
        Type::Float(16) => "half".into(),
        Type::Float(32) => "float".into(),
        Type::Float(_) => "double".into(),
        Type::Vector(element, count) => format!("{}{count}", type_name(globals, *element, depth + 1)),
        Type::Pointer(_, Some(pointee)) if depth < MAX_DEPTH => {
            format!("{}*", type_name(globals, *pointee, depth + 1))
        }
        Type::Pointer(..) => "void*".into(),
        Type::Image(image) => image.name().unwrap_or("void").into(),
        Type::Sampler => "sampler_t".into(),
        Type::Queue => "queue_t".into(),
        Type::Event => "event_t".into(),
        Type::DeviceEvent => "clk_event_t".into(),
        Type::ReserveId => "reserve_id_t".into(),
        Type::Struct(_) | Type::Opaque | Type::Array(..) | Type::Pipe => {
            let name = globals.module.names.get(&ty).map_or("", String::as_str);
            let name = name.trim_start_matches("struct.");
            if name.is_empty() { "struct".into() } else { name.to_string() }
        }
        Type::Void | Type::Function(..) | Type::SampledImage(_) | Type::PipeStorage => "void".into(),
    }
}

/// Sizes of work-groups, and the hint of a vector type.
fn sizes(globals: &Globals, id: Id) -> Result<String> {
    let module = globals.module;
    let mut text = String::new();
    let modes = [
        (ExecutionMode::LocalSize, ExecutionMode::LocalSizeId, "reqd_work_group_size"),
        (ExecutionMode::LocalSizeHint, ExecutionMode::LocalSizeHintId, "work_group_size_hint"),
    ];
    for (literal, by_id, name) in modes {
        let sizes = match (module.mode(id, literal), module.mode(id, by_id)) {
            (Some(sizes), _) => sizes.iter().map(|&size| u64::from(size)).collect(),
            (None, Some(ids)) => {
                ids.iter().map(|&id| globals.constants.unsigned(id)).collect::<Result<Vec<u64>>>()?
            }
            _ => continue,
        };
        let [x, y, z] = sizes[..] else { return refuse(format!("{name} of a kernel is not three sizes")) };
        text += &format!(" !{name} !{{i32 {x}, i32 {y}, i32 {z}}}");
    }
    if let Some(&[size]) = module.mode(id, ExecutionMode::SubgroupSize) {
        text += &format!(" !intel_reqd_sub_group_size !{{i32 {size}}}");
    }
    if let Some(&[hint]) = module.mode(id, ExecutionMode::VecTypeHint) {
        // The type of the components, and in the upper half their number.
        let (count, kind) = (hint >> 16, hint & 0xFFFF);
        const KINDS: [&str; 7] = ["i8", "i16", "i32", "i64", "half", "float", "double"];
        if let Some(kind) = KINDS.get(kind as usize) {
            let ty = if count > 1 { format!("<{count} x {kind}>") } else { (*kind).to_string() };
            text += &format!(" !vec_type_hint !{{{ty} undef, i32 1}}");
        }
    }
    Ok(text)
}
