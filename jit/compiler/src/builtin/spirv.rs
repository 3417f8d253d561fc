//! The third spelling of builtins: SPIR-V's instructions as calls, as "SPIR-V representation in LLVM IR" has them:
//! `__spirv_AtomicIAdd`, `__spirv_ocl_s_max`, `__spirv_BuiltInGlobalInvocationId`, mangled as C++ functions. Each is defined by
//! what OpenCL C calls the same, with its arguments in that order: a call of a mangled name of the table, which is defined in
//! turn. What SPIR-V has as constants (scopes, memory semantics, group operations) are arguments here, and branches that
//! inlining decides.
//!
//! ```text
//! extended     the instructions of OpenCL.std
//! variable     built-in variables
//! atomic, group, image, numeric, object    core instructions
//! ```

mod atomic;
mod extended;
mod group;
mod image;
mod numeric;
mod object;
#[cfg(test)]
mod tests;
mod variable;

use super::emit::{Emitter, Ir, Lane, Value};
use super::mangle::{self, Spelling};
use super::named::source_name;
use super::types::{Element, Qualifiers, Type};
use super::{Definition, Signature, enqueue};

pub use variable::components;

/// A parameter's type, of which whoever makes names of this spelling knows no sign: what kind of number (`b`, `i`, `f`), of how
/// many bits and components.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Mangled {
    Void,
    Number(char, u32, u32),
    Pointer(u32, Box<Mangled>),
    Named(String),
}

impl Mangled {
    fn ty(&self) -> Type {
        match self {
            Mangled::Void => Type::Void,
            Mangled::Number(kind, bits, count) => {
                let lane = match (kind, bits) {
                    ('f', 16) => Lane::Half,
                    ('f', 32) => Lane::Float,
                    ('f', _) => Lane::Double,
                    (_, bits) => Lane::Int(*bits),
                };
                element(lane, true).map_or(Type::Void, |element| Type::Value(element, *count as u8))
            }
            Mangled::Pointer(space, pointee) => pointer(*space as u8, pointee.ty()),
            Mangled::Named(name) => opaque(name),
        }
    }
}

/// The symbol of the builtin of this name, without `__spirv_`.
pub fn symbol(name: &str, parameters: &[Mangled]) -> String {
    let parameters = parameters.iter().map(Mangled::ty).collect();
    let signature = mangle::Signature { name: format!("{PREFIX}{name}"), parameters };
    mangle::mangle(&signature, Spelling::Spir)
}

/// A type as names have it behind `_R`.
pub fn type_name(ty: &Mangled) -> String {
    match ty {
        Mangled::Pointer(space, _) => format!("ptr{space}"),
        Mangled::Named(_) | Mangled::Void => "ptr".to_string(),
        _ => ty.ty().to_string(),
    }
}

/// What all these names begin with.
const PREFIX: &str = "__spirv_";

/// A sampled image as a value: the image and the sampler's bits.
pub const SAMPLED_IMAGE: &str = "{ ptr addrspace(1), i32 }";

const BOOL: Ir = Ir::scalar(Lane::Int(1));
const INT: Ir = Ir::scalar(Lane::Int(32));
const LONG: Ir = Ir::scalar(Lane::Int(64));
const VOID: Ir = Ir::scalar(Lane::Void);
const POINTER: Ir = Ir::scalar(Lane::Pointer(0));

/// An argument of a call.
#[derive(Clone, Debug)]
struct Argument {
    /// The type that the mangled name gives; of names without types, one that the LLVM type suggests.
    ty: Type,
    /// As LLVM has it. A sampled image, which is no value of the emitter's, is void here.
    value: Value,
}

/// A call that is being defined.
struct Call<'a> {
    /// The instruction, without a prefix and what is said behind it.
    op: &'a str,
    /// What stands behind the name: `Rint4`, `sat`, `rte`.
    postfixes: Vec<&'a str>,
    arguments: &'a [Argument],
    /// `None` for a sampled image.
    result: Option<Ir>,
}

impl Call<'_> {
    fn values(&self) -> Vec<Value> {
        self.arguments.iter().map(|argument| argument.value.clone()).collect()
    }

    fn value(&self, index: usize) -> Option<&Value> {
        self.arguments.get(index).map(|argument| &argument.value)
    }

    /// The result's type where it must be a number, a vector, a pointer or nothing.
    fn ir(&self) -> Option<Ir> {
        self.result
    }
}

/// The definition of a symbol of this spelling; `None` if it is none, or not with these types.
pub fn find(symbol: &str, declared: &Signature) -> Option<Definition> {
    let name = source_name(symbol).strip_prefix(PREFIX)?;
    if let Some(dimensions) = name.strip_prefix("BuildNDRange_") {
        let dimensions = ["1D", "2D", "3D"].iter().position(|known| *known == dimensions)?;
        return enqueue::spirv_range_call(symbol, dimensions as i128 + 1, &declared.params);
    }
    let arguments = arguments(symbol, declared)?;
    let is_extended = name.starts_with("ocl_");
    let (op, postfixes) = match name.strip_prefix("ocl_") {
        // One underscore or two, as translators and the document have it; no instruction is called so.
        Some(name) => match name.split_once("_R") {
            Some((op, postfixes)) => (op.trim_end_matches('_'), postfixes),
            None => name.split_once("__").unwrap_or((name, "")),
        },
        None => name.split_once('_').unwrap_or((name, "")),
    };
    let postfixes = postfixes.split('_').filter(|postfix| !postfix.is_empty()).collect();
    let result = Ir::parse(&declared.ret);
    let call = Call { op, postfixes, arguments: &arguments, result };
    let mut emitter = Emitter::default();
    let e = &mut emitter;
    e.label("entry");
    if result.is_none() && declared.ret != SAMPLED_IMAGE {
        return None;
    }
    let value = match op.strip_prefix("BuiltIn") {
        Some(variable) => variable::read(e, variable, &call),
        None if is_extended => extended::call(e, &call),
        None => core(e, &call),
    }?;
    if result.is_some_and(|result| value.ir != result) {
        return None;
    }
    let (body, declarations) = emitter.finish();
    let convergent = if is_barrier(symbol) { " convergent" } else { "" };
    let parameters: Vec<String> =
        declared.params.iter().enumerate().map(|(i, ty)| format!("{ty} %a{i}")).collect();
    let returned = match declared.ret.as_str() {
        "void" => "void".to_string(),
        ty => format!("{ty} {}", value.text),
    };
    let ir = format!(
        "define linkonce_odr spir_func {} @{symbol}({}) alwaysinline{convergent} nounwind {{\n{body}  ret {returned}\n}}\n",
        declared.ret,
        parameters.join(", "),
    );
    Some(Definition { ir, declarations })
}

fn core(e: &mut Emitter, call: &Call) -> Option<Value> {
    const FAMILIES: [fn(&mut Emitter, &Call) -> Option<Value>; 5] =
        [atomic::call, group::call, image::call, numeric::call, object::call];
    FAMILIES.iter().find_map(|family| family(e, call))
}

/// Whether calls of the symbol synchronize work-items.
pub fn is_barrier(symbol: &str) -> bool {
    source_name(symbol).strip_prefix(PREFIX).is_some_and(|name| {
        name.starts_with("ControlBarrier") || name.starts_with("Group") || name.starts_with("SubgroupShuffle")
    })
}

/// What is passed, by the mangled name if it says as much as the declaration, else by the declaration.
fn arguments(symbol: &str, declared: &Signature) -> Option<Vec<Argument>> {
    let named = mangle::parse(symbol).map(|signature| signature.parameters);
    let named = named.filter(|types| types.len() == declared.params.len());
    let passed = declared.params.iter().enumerate().map(|(index, text)| {
        let given = named.as_ref().map(|types| types[index].clone());
        if text == SAMPLED_IMAGE {
            let value = Value { ir: VOID, text: format!("%a{index}") };
            return Some(Argument { ty: given?, value });
        }
        let ir = Ir::parse(text)?;
        let value = Value { ir, text: format!("%a{index}") };
        Some(Argument { ty: given.unwrap_or_else(|| suggested(ir)), value })
    });
    passed.collect()
}

/// A type of these bits.
fn suggested(ir: Ir) -> Type {
    match ir.lane {
        Lane::Pointer(space) => pointer(space, Type::scalar(Element::Char)),
        Lane::Void => Type::Void,
        _ => element(ir.lane, true).map_or(Type::Void, |element| Type::Value(element, ir.width)),
    }
}

/// The element of a lane; of an integer, the one with this sign.
fn element(lane: Lane, signed: bool) -> Option<Element> {
    match lane {
        Lane::Int(1) => Some(Element::Bool),
        Lane::Int(bits) => Element::integer(bits, signed),
        Lane::Half => Some(Element::Half),
        Lane::Float => Some(Element::Float),
        Lane::Double => Some(Element::Double),
        Lane::Pointer(_) | Lane::Void => None,
    }
}

/// The OpenCL C type of a number or a vector, with this sign if it is of integers.
fn number(ir: Ir, signed: bool) -> Option<Type> {
    Some(Type::Value(element(ir.lane, signed)?, ir.width))
}

fn pointer(space: u8, pointee: Type) -> Type {
    Type::Pointer(Qualifiers { space, constant: false, volatile: false }, Box::new(pointee))
}

fn opaque(name: &str) -> Type {
    Type::Named(name.to_string())
}

/// Calls a builtin of the table.
fn forward(e: &mut Emitter, name: &str, result: Ir, arguments: &[(Type, Value)]) -> Value {
    let parameters = arguments.iter().map(|(ty, _)| ty.clone()).collect();
    let signature = mangle::Signature { name: name.to_string(), parameters };
    let values: Vec<Value> = arguments.iter().map(|(_, value)| value.clone()).collect();
    e.call(&mangle::mangle(&signature, Spelling::Spir), result, &values, "")
}

/// An integer in another width. What is none stays as it is, which no builtin takes.
fn resized(e: &mut Emitter, value: &Value, lane: Lane) -> Value {
    if !matches!((value.ir.lane, lane), (Lane::Int(_), Lane::Int(_))) {
        return value.clone();
    }
    let op = if value.ir.lane.bits() > lane.bits() { "trunc" } else { "zext" };
    e.cast(op, value, lane)
}

/// One value or another by what an integer is. The last way is for all others.
fn by_number(
    e: &mut Emitter,
    selector: &Value,
    numbers: &[i128],
    mut write: impl FnMut(&mut Emitter, usize) -> Option<Value>,
) -> Option<Value> {
    let labels: Vec<String> = (0..=numbers.len()).map(|_| e.fresh()).collect();
    let done = e.fresh();
    let cases: String = std::iter::zip(numbers, &labels)
        .map(|(number, label)| format!(" {} {number}, label %{label}", selector.ir))
        .collect();
    e.effect(&format!("switch {selector}, label %{} [{cases} ]", labels[numbers.len()]));
    let mut incoming = Vec::new();
    for (way, label) in labels.iter().enumerate() {
        e.label(label);
        let value = write(e, way)?;
        let last = e.fresh();
        e.effect(&format!("br label %{last}"));
        e.label(&last);
        e.effect(&format!("br label %{done}"));
        incoming.push((value, last));
    }
    e.label(&done);
    let ir = incoming[0].0.ir;
    if incoming.iter().any(|(value, _)| value.ir != ir) {
        return None;
    }
    if ir == VOID {
        return Some(incoming.swap_remove(0).0);
    }
    let list: Vec<String> =
        incoming.iter().map(|(value, label)| format!("[ {}, %{label} ]", value.text)).collect();
    Some(e.value(ir, &format!("phi {ir} {}", list.join(", "))))
}

/// Whether an `int` is not zero, as SPIR-V's booleans.
fn is_true(e: &mut Emitter, value: &Value) -> Value {
    let zero = e.int(value.ir, 0);
    e.compare("icmp ne", value, &zero)
}

/// A boolean as OpenCL C's `int`. One that is an integer already stays so.
fn as_int(e: &mut Emitter, value: &Value) -> Value {
    match value.ir.lane {
        Lane::Int(32) => value.clone(),
        _ => resized(e, value, INT.lane),
    }
}

/// OpenCL C's `int` as a call's result: a boolean, or what the call was declared with.
fn as_result(e: &mut Emitter, value: &Value, result: Ir) -> Value {
    if result.lane == Lane::Int(1) { is_true(e, value) } else { resized(e, value, result.lane) }
}
