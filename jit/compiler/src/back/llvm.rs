//! Kernel IR as LLVM IR text, operation by operation. Nothing is decided here: loops, memory layout, what work-items share
//! all stand in Kernel IR already. Text keeps this a pure function that golden tests can read; LLVM's parser is a small part
//! of a build.
//!
//! A block's parameters become phis, a private slot an `alloca`, all pointers `ptr`; what their address spaces say about
//! aliasing becomes metadata, as do access groups and loop hints.

mod control;
mod lines;
mod memory;
mod metadata;
mod operation;
mod types;

#[cfg(test)]
mod tests;

use fixedbitset::FixedBitSet;
use lines::Lines;
use memory::narrow::private_variable;
use metadata::Metadata;
use spirula_kir::analysis::wrapping_loops;
use spirula_kir::{
    Attributes, ConstantData, Function, Op, Passing, Promises, Signature, Type, Value, ValueDef,
};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use types::{llvm_constant, llvm_type};

/// LLVM IR text of any number of functions, which may call each other.
#[derive(Default)]
pub struct Text {
    functions: String,
    constants: String,
    defined: HashSet<String>,
    declarations: BTreeSet<Declaration>,
    metadata: Metadata,
    /// Whether debuggers and profilers can unwind, and know the lines that functions know.
    debug_info: bool,
    lines: Lines,
    /// What stands behind each instruction: its line.
    location: String,
}

/// What a function refers to outside of it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Declaration {
    name: String,
    text: String,
}

impl Text {
    /// Of functions that have frame pointers, and tell how they are unwound and of which lines they are, if so asked for.
    pub fn new(debug_info: bool) -> Text {
        Text { debug_info, ..Text::default() }
    }

    /// Adds a function's definition, under its own name.
    pub fn add(&mut self, function: &Function) {
        self.defined.insert(function.name.clone());
        Translator::new(function, self).function();
    }

    /// Adds a constant. Each text has a copy of its own.
    pub fn add_constant(&mut self, constant: &ConstantData) {
        self.defined.insert(constant.name.to_string());
        self.constants.push_str(&constant_text(constant));
        self.constants.push('\n');
    }

    /// The text: declarations of what is not defined, definitions, metadata.
    pub fn finish(self) -> String {
        let outside =
            self.declarations.iter().filter(|declaration| !self.defined.contains(&declaration.name));
        let declarations: String = outside.map(|declaration| format!("{}\n", declaration.text)).collect();
        format!("{declarations}{}\n{}{}{}", self.constants, self.functions, self.metadata, self.lines)
    }

    fn line(&mut self, text: &str) {
        self.functions.push_str("  ");
        self.functions.push_str(text);
        self.functions.push_str(&self.location);
        self.functions.push('\n');
    }

    fn label(&mut self, name: &str) {
        self.functions.push_str(name);
        self.functions.push_str(":\n");
    }

    fn declare(&mut self, name: &str, text: String) {
        self.declarations.insert(Declaration { name: name.to_owned(), text });
    }
}

/// What LLVM is told of a function.
fn attributes(attributes: Attributes) -> String {
    let Attributes { effects, noinline, cold } = attributes;
    let memory = match (effects.reads, effects.writes) {
        (false, false) => " memory(none)",
        (true, false) => " memory(read)",
        (false, true) => " memory(write)",
        (true, true) => "",
    };
    let word = |on: bool, word: &'static str| if on { word } else { "" };
    let returns = word(!effects.traps, " willreturn");
    format!("nounwind{memory}{returns}{}{}", word(noinline, " noinline"), word(cold, " cold"))
}

/// Vectors that find no register are kept on the stack, where LLVM aligns them only if it knew that beforehand; else most of
/// them would lie in two lines each.
fn stack_alignment(function: &Function) -> String {
    const ABI_ALIGN: u64 = 16;
    const MOST: u64 = 64;
    let sizes = function.insts().filter_map(|inst| function.result(inst)).map(|value| function.ty(value));
    let widest = sizes.filter(|ty| matches!(ty, Type::Vector(..))).map(Type::size).max().unwrap_or(0);
    if widest > ABI_ALIGN {
        format!(" alignstack({})", widest.next_power_of_two().min(MOST))
    } else {
        String::new()
    }
}

/// A constant's definition: bytes, with addresses between them.
fn constant_text(constant: &ConstantData) -> String {
    let ConstantData { name, align, size, .. } = constant;
    let mut members = Vec::new();
    let mut at = 0;
    for pointer in &constant.pointers {
        members.extend(constant_bytes(constant, at, pointer.at));
        let (target, offset) = (&pointer.target, pointer.offset as i64);
        members.push(("ptr".into(), format!("getelementptr (i8, ptr @\"{target}\", i64 {offset})")));
        at = pointer.at + 8;
    }
    members.extend(constant_bytes(constant, at, *size));
    let types: Vec<&str> = members.iter().map(|(ty, _)| ty.as_str()).collect();
    let values: Vec<String> = members.iter().map(|(ty, value)| format!("{ty} {value}")).collect();
    let (types, values) = (types.join(", "), values.join(", "));
    let definition = match &members[..] {
        [(ty, value)] => format!("{ty} {value}"),
        _ => format!("<{{ {types} }}> <{{ {values} }}>"),
    };
    format!("@\"{name}\" = internal constant {definition}, align {align}")
}

/// Types and values of the bytes between two places; those that aren't given are zero.
fn constant_bytes(constant: &ConstantData, from: u64, to: u64) -> Vec<(String, String)> {
    let given = constant.bytes.len() as u64;
    let (start, end) = (from.min(given), to.min(given));
    let mut members = Vec::new();
    if start < end {
        let bytes = &constant.bytes[start as usize..end as usize];
        let text: String = bytes.iter().map(|byte| format!("\\{byte:02X}")).collect();
        members.push((format!("[{} x i8]", bytes.len()), format!("c\"{text}\"")));
    }
    if to > end.max(from) {
        members.push((format!("[{} x i8]", to - end.max(from)), "zeroinitializer".into()));
    }
    members
}

/// One function on its way.
struct Translator<'a> {
    function: &'a Function,
    out: &'a mut Text,
    /// The function's names for its access groups and alias scopes begin here.
    scope: metadata::Scope,
    /// Blocks at whose end a loop begins again that LLVM's vectorizer must not see.
    wrapping: FixedBitSet,
}

impl<'a> Translator<'a> {
    fn new(function: &'a Function, out: &'a mut Text) -> Self {
        let scope = out.metadata.new_scope();
        Translator { function, out, scope, wrapping: wrapping_loops(function) }
    }

    fn function(&mut self) {
        let params: Vec<String> = self.function.params.iter().map(|p| self.parameter(p)).collect();
        let result = match &self.function.signature {
            Signature::Function { result: Some(ty) } => llvm_type(ty),
            _ => "void".to_owned(),
        };
        let name = &self.function.name;
        let line = if self.out.debug_info { self.out.lines.begin(self.function) } else { String::new() };
        let _ = writeln!(
            self.out.functions,
            "define {result} @\"{name}\"({}) {}{}{}{line} {{\nentry:",
            params.join(", "),
            attributes(self.function.attributes),
            stack_alignment(self.function),
            if self.out.debug_info { " uwtable \"frame-pointer\"=\"all\"" } else { "" }
        );
        for (number, slot) in self.function.slots.iter().enumerate() {
            let variable = private_variable(slot.size, slot.align.into());
            self.out.line(&format!("%s{number} = {variable}"));
        }
        self.out.line("br label %b0");
        self.blocks();
        self.out.functions.push_str("}\n\n");
    }

    fn parameter(&self, param: &spirula_kir::Param) -> String {
        let promises = match param.passing {
            Passing::Argument(promises) => promises,
            _ => Promises::default(),
        };
        let ty = llvm_type(self.function.ty(param.value));
        let words = [
            (promises.noalias, " noalias"),
            (promises.nonnull, " nonnull"),
            (promises.readonly, " readonly"),
            (promises.nocapture, " captures(none)"),
        ];
        let words: String = words.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
        let align = if promises.align > 0 { format!(" align {}", promises.align) } else { String::new() };
        format!("{ty}{words}{align} {}", self.text(param.value))
    }

    /// An operand without its type.
    fn text(&self, value: Value) -> String {
        match self.function.def(value) {
            ValueDef::Constant(constant) => llvm_constant(self.function.ty(value), constant),
            ValueDef::Inst(inst) => match self.function.op(*inst) {
                Op::SlotAddress(slot) => format!("%s{}", slot.0),
                _ => format!("%v{}", value.0),
            },
            _ => format!("%v{}", value.0),
        }
    }

    fn ty(&self, value: Value) -> String {
        llvm_type(self.function.ty(value))
    }

    /// An operand with its type.
    fn typed(&self, value: Value) -> String {
        format!("{} {}", self.ty(value), self.text(value))
    }

    fn list(&self, values: &[Value]) -> String {
        values.iter().map(|&v| self.typed(v)).collect::<Vec<_>>().join(", ")
    }
}
