//! Builtins, step 4: the table. Each row is an OpenCL C builtin: name, overloads, how it is provided. The rows stand
//! beside the expansions they name, a file for each section of the specification; lookup, tests and reports come
//! from their sum. The accuracy of a library function is in `spirula_builtins::accuracy`.

use super::emit::{Emitter, Ir, Lane, Value};
use super::pattern::Generic;
use super::types::{Element, Type};
use super::{
    address_space, async_copy, atomic, block, c11_atomic, common, convert, dot_product, geometric, image,
    integer, math, memory, relational, shuffle, sub_group, work_group, work_item,
};
use spirula_interface::options::MathOptions;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// An overload that is being expanded.
pub struct Call<'a> {
    /// The arguments; those whose pattern is `E` are widened to `T`'s width.
    pub arguments: &'a [Value],
    /// Their types.
    pub parameters: &'a [Type],
    /// `T`'s element.
    pub element: Element,
    /// `T`'s width.
    pub width: u8,
    /// The result's type.
    pub result: Ir,
    /// What the program's options permit.
    pub math: MathOptions,
}

/// Writes a builtin's body; yields the result.
type Expansion = dyn Fn(&mut Emitter, &Call) -> Value + Send + Sync;

/// How a builtin is provided.
pub enum How {
    /// `llvm.NAME.TYPE` on whole vectors.
    Intrinsic(&'static str),
    /// `spirula_NAME_TYPE` of the Rust library, lane by lane.
    Library(&'static str),
    /// `spirula_NAME_TYPE`, or `spirula_known_NAME_TYPE` if the second argument is a constant of the program.
    Power(&'static str),
    /// LLVM IR written by a function.
    Expand(Box<Expansion>),
}

/// What a call may do besides computing its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing.
    Pure,
    /// It accesses memory.
    Memory,
    /// It waits for the work-group.
    Barrier,
}

/// A builtin.
pub struct Row {
    /// The name in OpenCL C.
    pub name: Cow<'static, str>,
    /// What `T` ranges over.
    pub generic: Generic,
    /// The overloads; see [`super::pattern`].
    pub pattern: Cow<'static, str>,
    /// How it is provided.
    pub how: How,
    /// What it does besides.
    pub effect: Effect,
}

/// The table under construction.
#[derive(Default)]
pub struct Rows(Vec<Row>);

const WIDTHS: &[u8] = &[1, 2, 3, 4, 8, 16];
/// Every type of a number.
pub const NUMBERS: [Element; 11] = {
    use Element::*;
    [Char, UChar, Short, UShort, Int, UInt, Long, ULong, Half, Float, Double]
};

const fn generic(elements: &'static [Element], widths: &'static [u8]) -> Generic {
    Generic { elements, widths }
}

/// No `T`.
pub const FIXED: Generic = generic(&[], &[1]);
/// `gentypeh`, `gentypef` and `gentyped`.
pub const FLOATS: Generic = generic(&Element::FLOATS, WIDTHS);
/// `gentypef` and `gentyped`.
pub const WIDE_FLOATS: Generic = generic(&[Element::Float, Element::Double], WIDTHS);
/// `gentypeh`.
pub const HALVES: Generic = generic(&[Element::Half], WIDTHS);
/// `gentypef`.
pub const SINGLE: Generic = generic(&[Element::Float], WIDTHS);
/// `igentype` and `ugentype` of every size.
pub const INTEGERS: Generic = generic(&Element::INTEGERS, WIDTHS);
/// Signed integers.
pub const SIGNED: Generic = generic(&[Element::Char, Element::Short, Element::Int, Element::Long], WIDTHS);
/// Integers that have one of double the size.
pub const NARROW: Generic = {
    use Element::*;
    generic(&[Char, UChar, Short, UShort, Int, UInt], WIDTHS)
};
/// int and uint.
pub const INT32: Generic = generic(&[Element::Int, Element::UInt], WIDTHS);
/// Everything.
pub const ANY: Generic = generic(&NUMBERS, WIDTHS);
/// Every scalar.
pub const SCALARS: Generic = generic(&NUMBERS, &[1]);

impl Rows {
    fn push(&mut self, names: &str, generic: Generic, pattern: Cow<'static, str>, how: impl Fn() -> How) {
        for name in names.split_whitespace() {
            let effect = if pattern.contains(['*', '@']) { Effect::Memory } else { Effect::Pure };
            let name = name.to_string().into();
            self.0.push(Row { name, generic, pattern: pattern.clone(), how: how(), effect });
        }
    }

    /// Builtins (names separated by spaces) that are an LLVM intrinsic.
    pub fn intrinsic(
        &mut self,
        names: &str,
        generic: Generic,
        pattern: &'static str,
        intrinsic: &'static str,
    ) {
        self.push(names, generic, pattern.into(), || How::Intrinsic(intrinsic));
    }

    /// Builtins that are a library function.
    pub fn library(&mut self, names: &str, generic: Generic, pattern: &'static str, function: &'static str) {
        self.push(names, generic, pattern.into(), || How::Library(function));
    }

    /// Builtins that are one of two library functions, by whether the second argument is a constant.
    pub fn power(&mut self, names: &str, generic: Generic, pattern: &'static str, function: &'static str) {
        self.push(names, generic, pattern.into(), || How::Power(function));
    }

    /// Builtins that are expanded.
    pub fn expand(
        &mut self,
        names: &str,
        generic: Generic,
        pattern: impl Into<Cow<'static, str>>,
        expansion: impl Fn(&mut Emitter, &Call) -> Value + Send + Sync + Clone + 'static,
    ) {
        self.push(names, generic, pattern.into(), || How::Expand(Box::new(expansion.clone())));
    }

    /// Builtins that are expanded, and computed in float for half: each of a formula's steps would add an error of its own.
    pub fn formula(
        &mut self,
        names: &str,
        generic: Generic,
        pattern: impl Into<Cow<'static, str>>,
        expansion: impl Fn(&mut Emitter, &Call) -> Value + Send + Sync + Clone + 'static,
    ) {
        self.expand(names, generic, pattern, move |e, call| match call.element {
            Element::Half => in_float(e, call, &expansion),
            _ => expansion(e, call),
        });
    }

    /// Says of the rows of these names that calls do more than their patterns show.
    pub fn mark(&mut self, names: &str, effect: Effect) {
        for name in names.split_whitespace() {
            self.0.iter_mut().filter(|row| row.name == name).for_each(|row| row.effect = effect);
        }
    }
}

/// A call in half as one in float, whose result is rounded.
fn in_float(e: &mut Emitter, call: &Call, expansion: impl Fn(&mut Emitter, &Call) -> Value) -> Value {
    let arguments: Vec<Value> = call.arguments.iter().map(|argument| e.half_to_float(argument)).collect();
    let result = if call.result.lane == Lane::Half { call.result.with(Lane::Float) } else { call.result };
    let value = expansion(e, &Call { arguments: &arguments, element: Element::Float, result, ..*call });
    e.cast("fptrunc", &value, call.result.lane)
}

impl Call<'_> {
    /// The type of `T`.
    pub fn generic(&self) -> Ir {
        Ir { lane: self.element.into(), width: self.width }
    }

    /// The library function of this name for `T`, such as `sin_f32`; a quicker one if that is permitted.
    pub fn library_function(&self, name: &str) -> String {
        let quick = (self.element == Element::Float).then(|| math::quick(name)).flatten();
        let quick = quick.filter(|_| self.math.contains(MathOptions::UNSAFE_MATH));
        format!("{}_{}", quick.unwrap_or(name), self.library_type())
    }

    /// What a library function's name ends with: `f32`, `i64`, `u8`. Those of half are those of float; see [`Emitter::library`].
    pub fn library_type(&self) -> String {
        if self.element == Element::Half {
            return "f32".to_owned();
        }
        let kind = match self.element {
            element if element.is_float() => 'f',
            element if element.is_signed() => 'i',
            _ => 'u',
        };
        format!("{kind}{}", self.element.bits())
    }

    /// `s` or `u`, as LLVM prefixes integer operations.
    pub fn sign(&self) -> &'static str {
        if self.element.is_signed() { "s" } else { "u" }
    }
}

/// What an expansion without a result yields.
pub fn nothing() -> Value {
    Value { ir: Ir::scalar(Lane::Void), text: String::new() }
}

/// A section's title and the function that adds its rows.
pub type Section = (&'static str, fn(&mut Rows));

/// The sections of OpenCL 1.2, in order of the page that documents the table.
pub const SECTIONS: [Section; 18] = [
    ("Work-items and synchronization (6.12.1, 6.12.8, 6.12.9)", work_item::rows),
    ("Work-group functions (6.13.15)", work_group::rows),
    ("Sub-groups (OpenCL C 3.0, 6.15.19)", sub_group::rows),
    ("Blocks of sub-groups (cl_intel_subgroups)", block::rows),
    ("Math (6.12.2)", math::rows),
    ("Integer (6.12.3)", integer::rows),
    ("Dot products of integers (cl_khr_integer_dot_product)", dot_product::rows),
    ("Common (6.12.4)", common::rows),
    ("Geometric (6.12.5)", geometric::rows),
    ("Relational (6.12.6)", relational::rows),
    ("Vector loads and stores (6.12.7)", memory::rows),
    ("Address spaces (OpenCL C 2.0, 6.13.9)", address_space::rows),
    ("Async copies (6.12.10)", async_copy::rows),
    ("Atomics (6.12.11)", atomic::rows),
    ("Atomics after C11 (OpenCL C 2.0, 6.13.11)", c11_atomic::rows),
    ("Vectors (6.12.12)", shuffle::rows),
    ("Images (6.12.14)", image::rows),
    ("Conversions (6.2.3)", convert::rows),
];

/// The rows of a section.
pub fn rows_of_section((_, add): &Section) -> Vec<Row> {
    let mut rows = Rows::default();
    add(&mut rows);
    rows.0
}

/// The table: rows by name.
static TABLE: LazyLock<HashMap<Cow<'static, str>, Vec<Row>>> = LazyLock::new(|| {
    SECTIONS.iter().flat_map(rows_of_section).fold(HashMap::new(), |mut table: HashMap<_, Vec<Row>>, row| {
        table.entry(row.name.clone()).or_default().push(row);
        table
    })
});

/// The rows of a name.
pub fn rows_of(name: &str) -> &'static [Row] {
    TABLE.get(name).map_or(&[], Vec::as_slice)
}

/// Every row, in no order.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLE.values().flatten()
}
