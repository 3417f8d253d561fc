//! The OpenCL C builtins, as the linker sees them: a mangled symbol goes in, the text of its definition comes out.
//! `mangle` reads the symbol, `pattern` and `table` find the overload, the section files (`integer`, `math`, …) and
//! `emit` write its body, which calls LLVM intrinsics, the Rust library in [`LIBRARY_BITCODE`] and the work-item
//! primitives that a later stage lowers.

mod address_space;
mod async_copy;
mod atomic;
mod block;
mod c11_atomic;
mod common;
mod convert;
#[cfg(test)]
mod coverage;
mod dot_product;
pub(crate) mod emit;
pub mod enqueue;
mod geometric;
mod image;
mod integer;
mod mangle;
mod math;
mod memory;
mod named;
mod pattern;
mod pipe;
pub mod printf;
mod relational;
#[cfg(test)]
mod report;
mod shuffle;
pub mod spirv;
mod sub_group;
mod table;
#[cfg(test)]
mod tests;
mod types;
#[cfg(test)]
mod values;
mod work_group;
mod work_item;

pub use c11_atomic::{C11_ORDER, SPIR_ORDER};
pub use mangle::Spelling;
pub use named::source_name;

use emit::{Emitter, Ir, Lane, Value};
use pattern::Overload;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::options::MathOptions;
use std::collections::BTreeSet;
use table::{Call, Effect, How, Row};
use types::{Element, Type};

/// The Rust library (`builtins/`) as LLVM bitcode, compiled by the build script; the second is for processors without fused sums
/// of products.
static LIBRARIES: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/builtins.bc")),
    include_bytes!(concat!(env!("OUT_DIR"), "/builtins-unfused.bc")),
];

/// The library for a processor that fuses sums of products or doesn't.
pub fn library(fuses: bool) -> &'static [u8] {
    LIBRARIES[usize::from(!fuses)]
}

/// A declared function's LLVM types as text, such as ret "<4 x float>", params ["ptr addrspace(1)", "i32"].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The result.
    pub ret: String,
    /// The parameters.
    pub params: Vec<String>,
}

/// A builtin's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Textual IR that defines exactly the symbol.
    pub ir: String,
    /// The `declare` lines of what it calls.
    pub declarations: BTreeSet<String>,
}

#[cfg(test)]
impl Definition {
    /// Fails the test if LLVM does not take it.
    fn must_be_valid(&self) {
        let declarations: String = self.declarations.iter().map(|line| line.clone() + "\n").collect();
        let session = crate::llvm::Session::new();
        let text = declarations + &self.ir;
        let module = crate::llvm::parse_text(&session, &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        crate::llvm::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
}

/// What a symbol turns out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A builtin.
    Definition(Definition),
    /// A builtin, but declared with other types than it has.
    WrongSignature {
        /// The types it has, as a `declare` line.
        expected: String,
    },
    /// No builtin that we have.
    Unknown,
}

/// Defines the builtin that `symbol` names; of functions that a program may have less accurate, a quicker one. A `size_t` is as
/// wide as a pointer.
pub fn resolve(symbol: &str, declared: &Signature, math: MathOptions, addresses: AddressBits) -> Resolution {
    // Where it has 32 bits, other builtins call those of 64.
    let may_be_short = addresses == AddressBits::Bits32;
    let has_sizes = |(_, overload, parameters): &(&Row, Overload, Vec<Type>)| {
        let mut pairs = overload.sizes.iter().zip(parameters);
        pairs.all(|(is_size, ty)| may_be_short || !is_size || *ty == Type::scalar(Element::ULong))
    };
    let Some((row, overload, parameters)) = find(symbol).filter(has_sizes) else {
        if let Some(definition) = spirv::find(symbol, declared) {
            return Resolution::Definition(definition);
        }
        return match named::find(symbol, declared, addresses) {
            Some(named::Found::Definition(definition)) => Resolution::Definition(definition),
            Some(named::Found::Other(expected)) => Resolution::WrongSignature { expected },
            None => Resolution::Unknown,
        };
    };
    let is_short = may_be_short && overload.yields_size && declared.ret == "i32";
    let result = if is_short { Ir::scalar(Lane::Int(32)) } else { Ir::of(&overload.result) };
    let wanted: Vec<Ir> = parameters.iter().map(Ir::of).collect();
    let given: Option<Vec<Ir>> = declared.params.iter().map(|text| Ir::parse(text)).collect();
    let fits = Ir::parse(&declared.ret).is_some_and(|ret| same(ret, result))
        && given.as_ref().is_some_and(|given| {
            let pairs = || given.iter().zip(&wanted).zip(&parameters);
            given.len() == wanted.len()
                && pairs().all(|((a, b), ty)| same(*a, *b) || is_pointer_to_bits(*a, ty))
        });
    match given {
        Some(given) if fits => Resolution::Definition(define(
            symbol,
            row,
            (&overload, &parameters),
            (&given, &wanted),
            declared,
            math,
        )),
        _ => Resolution::WrongSignature { expected: declaration(symbol, result, &wanted) },
    }
}

/// Whether types agree; producers differ in the address spaces of opaque objects.
fn same(a: Ir, b: Ir) -> bool {
    a == b || matches!((a.lane, b.lane), (Lane::Pointer(_), Lane::Pointer(_)))
}

/// Whether it is a sampler as clang 3.9 to 16 passes it: its bits, as a pointer.
fn is_pointer_to_bits(given: Ir, wanted: &Type) -> bool {
    matches!(given.lane, Lane::Pointer(_)) && matches!(wanted, Type::Named(name) if name == "ocl_sampler")
}

fn declaration(symbol: &str, result: Ir, parameters: &[Ir]) -> String {
    let parameters: Vec<String> = parameters.iter().map(Ir::to_string).collect();
    format!("declare {result} @{symbol}({})", parameters.join(", "))
}

/// The row and overload that a symbol names.
fn find(symbol: &str) -> Option<(&'static Row, Overload, Vec<Type>)> {
    let mangle::Signature { name, parameters } =
        address_space::of_clang(symbol).or_else(|| mangle::parse(symbol))?;
    table::rows_of(&name).iter().find_map(|row| {
        let overload = pattern::select(&row.pattern, row.generic, &parameters)?;
        Some((row, overload, parameters.clone()))
    })
}

fn define(
    symbol: &str,
    row: &Row,
    (overload, parameters): (&Overload, &[Type]),
    (given, wanted): (&[Ir], &[Ir]),
    declared: &Signature,
    math: MathOptions,
) -> Definition {
    let mut emitter = Emitter::default();
    let binding = overload.binding;
    let arguments: Vec<Value> = given
        .iter()
        .zip(wanted)
        .zip(&overload.widened)
        .enumerate()
        .map(|(index, ((&ir, wanted), &widened))| {
            let mut value = Value { ir, text: format!("%a{index}") };
            if !same(ir, *wanted) {
                value = emitter.cast("ptrtoint", &value, wanted.lane);
            }
            if overload.sizes[index] {
                value = emitter.cast("zext", &value, Lane::Int(64));
            }
            if widened { emitter.splat(&value, binding.width) } else { value }
        })
        .collect();
    let result = Ir::of(&overload.result);
    let call = Call {
        arguments: &arguments,
        parameters,
        element: binding.element,
        width: binding.width,
        result,
        math,
    };
    let value = match &row.how {
        How::Intrinsic(name) => emitter.intrinsic(name, &arguments),
        How::Library(name) => emitter.library(&call.library_function(name), result.lane, &arguments),
        How::Power(name) => emitter.power(&call.library_function(name), result.lane, &arguments),
        How::Expand(expansion) => expansion(&mut emitter, &call),
    };
    let value = match Ir::parse(&declared.ret) {
        Some(declared) if overload.yields_size => emitter.cast("trunc", &value, declared.lane),
        _ => value,
    };
    let (body, declarations) = emitter.finish();
    let convergent = if row.effect == Effect::Barrier { " convergent" } else { "" };
    let parameters: Vec<String> =
        declared.params.iter().enumerate().map(|(i, ty)| format!("{ty} %a{i}")).collect();
    let ir = format!(
        "define linkonce_odr spir_func {} @{symbol}({}) alwaysinline{convergent} nounwind {{\n{body}  ret {}\n}}\n",
        declared.ret,
        parameters.join(", "),
        if result.lane == Lane::Void { "void".to_string() } else { value.to_string() },
    );
    Definition { ir, declarations }
}

/// A definition of a symbol that computes fused sums of products by the library, lane by lane; None if the types are others than
/// those of `llvm.fma` in float or double.
pub fn fused(symbol: &str, declared: &Signature) -> Option<Definition> {
    let ir = Ir::parse(&declared.ret).filter(|ir| matches!(ir.lane, Lane::Float | Lane::Double))?;
    let mut emitter = Emitter::default();
    let arguments: Vec<Value> = (0..3).map(|index| Value { ir, text: format!("%a{index}") }).collect();
    let name = if ir.lane == Lane::Float { "fma_f32" } else { "fma_f64" };
    let value = emitter.library(name, ir.lane, &arguments);
    let (body, declarations) = emitter.finish();
    let head = format!("define linkonce_odr {ir} @{symbol}({ir} %a0, {ir} %a1, {ir} %a2)");
    Some(Definition {
        ir: format!("{head} alwaysinline nounwind {{\n{body}  ret {value}\n}}\n"),
        declarations,
    })
}

/// Every symbol that the table provides, sorted: for reports and tests.
pub fn symbols(spelling: Spelling) -> BTreeSet<String> {
    let overloads = move |row: &'static Row| {
        pattern::overloads(&row.pattern, row.generic).into_iter().map(move |parameters| {
            let signature = mangle::Signature { name: row.name.to_string(), parameters };
            mangle::mangle(&signature, spelling)
        })
    };
    table::all().flat_map(overloads).collect()
}

/// A mangled name as OpenCL C writes it, such as `nowhere_to_be_found(int)`; None if it is no mangled name.
pub fn demangle(symbol: &str) -> Option<String> {
    let (name, types) = parameters(symbol)?;
    Some(format!("{name}({})", types.join(", ")))
}

/// The name and the parameters' types, as OpenCL C writes them, of a mangled name; None if it is no mangled name.
pub fn parameters(symbol: &str) -> Option<(String, Vec<String>)> {
    let mangle::Signature { name, parameters } = mangle::parse(symbol)?;
    Some((name, parameters.iter().map(Type::to_string).collect()))
}

/// Whether calls of `symbol` synchronize a work-group: they must be marked convergent before any pass runs.
pub fn is_barrier(symbol: &str) -> bool {
    find(symbol).is_some_and(|(row, ..)| row.effect == Effect::Barrier)
        || named::is_barrier(symbol)
        || spirv::is_barrier(symbol)
}

/// Whether `symbol` is pure (`memory(none)`), whatever the module's stale attributes say.
pub fn is_pure(symbol: &str) -> bool {
    find(symbol).is_some_and(|(row, ..)| row.effect == Effect::Pure)
}
