//! Builtins, step 3: a writer of textual LLVM IR, small enough to read in one go. Values know their type, so that
//! expansions are written like arithmetic.

use super::types::{Element, Type};
use spirula_interface::address_bits::AddressBits;
use std::collections::BTreeSet;
use std::fmt;

/// A first-class scalar of LLVM IR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// `iN`.
    Int(u32),
    /// `half`.
    Half,
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `ptr` in an address space.
    Pointer(u8),
    /// `void`.
    Void,
}

impl Lane {
    /// Width in bits of a number.
    pub fn bits(self) -> u32 {
        match self {
            Lane::Int(bits) => bits,
            Lane::Half => 16,
            Lane::Float => 32,
            Lane::Double | Lane::Pointer(_) => 64,
            Lane::Void => 0,
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lane::Int(bits) => write!(f, "i{bits}"),
            Lane::Half => f.write_str("half"),
            Lane::Float => f.write_str("float"),
            Lane::Double => f.write_str("double"),
            Lane::Pointer(0) => f.write_str("ptr"),
            Lane::Pointer(space) => write!(f, "ptr addrspace({space})"),
            Lane::Void => f.write_str("void"),
        }
    }
}

impl From<Element> for Lane {
    fn from(element: Element) -> Lane {
        match element {
            Element::Half => Lane::Half,
            Element::Float => Lane::Float,
            Element::Double => Lane::Double,
            integer => Lane::Int(integer.bits()),
        }
    }
}

/// A scalar (width 1) or vector type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ir {
    /// The element.
    pub lane: Lane,
    /// Elements.
    pub width: u8,
}

impl Ir {
    /// A scalar type.
    pub const fn scalar(lane: Lane) -> Ir {
        Ir { lane, width: 1 }
    }

    /// The same width of another lane.
    pub fn with(self, lane: Lane) -> Ir {
        Ir { lane, ..self }
    }

    /// The name in an overloaded intrinsic: `v4f32`.
    pub fn suffix(self) -> String {
        let lane = match self.lane {
            Lane::Int(bits) => format!("i{bits}"),
            Lane::Pointer(space) => format!("p{space}"),
            float => format!("f{}", float.bits()),
        };
        if self.width == 1 { lane } else { format!("v{}{lane}", self.width) }
    }

    /// Reads `<4 x float>`, `i32`, `ptr addrspace(1)`, as a declaration shows them.
    pub fn parse(text: &str) -> Option<Ir> {
        if let Some(vector) = text.strip_prefix('<') {
            let (width, lane) = vector.strip_suffix('>')?.split_once(" x ")?;
            return Some(Ir { width: width.parse().ok()?, ..Ir::parse(lane)? });
        }
        Some(Ir::scalar(match text {
            "void" => Lane::Void,
            "half" => Lane::Half,
            "float" => Lane::Float,
            "double" => Lane::Double,
            "ptr" => Lane::Pointer(0),
            _ => match text.strip_prefix("ptr addrspace(") {
                Some(space) => Lane::Pointer(space.strip_suffix(')')?.parse().ok()?),
                None => Lane::Int(text.strip_prefix('i')?.parse().ok()?),
            },
        }))
    }

    /// What SPIR passes for an OpenCL type. Images and events are pointers, samplers plain integers.
    pub fn of(ty: &Type) -> Ir {
        match ty {
            Type::Void | Type::Variadic => Ir::scalar(Lane::Void),
            Type::Value(element, width) => Ir { lane: (*element).into(), width: *width },
            Type::Pointer(qualifiers, _) => Ir::scalar(Lane::Pointer(qualifiers.space)),
            Type::Named(name) if name == "ocl_event" => Ir::scalar(Lane::Pointer(0)),
            Type::Named(name) if name.starts_with("ocl_image") => Ir::scalar(Lane::Pointer(1)),
            Type::Atomic(_) | Type::Named(_) => Ir::scalar(Lane::Int(32)),
        }
    }
}

impl fmt::Display for Ir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.width {
            1 => self.lane.fmt(f),
            width => write!(f, "<{width} x {}>", self.lane),
        }
    }
}

/// A value: its type and its text (`%t3`, `splat (i32 5)`).
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The type.
    pub ir: Ir,
    /// The operand without its type.
    pub text: String,
}

impl fmt::Display for Value {
    /// With the type: `float %t3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ir, self.text)
    }
}

/// The body of a function under construction, and the declarations that it needs.
#[derive(Debug, Default)]
pub struct Emitter {
    body: String,
    next: u32,
    declarations: BTreeSet<String>,
    permissions: &'static str,
    addresses: AddressBits,
}

/// What library functions and primitives that only compute are declared with.
const PURE: &str = "memory(none) nounwind willreturn";

/// What the question begins with whether both functions of a pair are asked for; see [`Emitter::of_pair`].
pub(crate) const ASKS_FOR_BOTH: &str = "spirula.asks_for_both.";

impl Emitter {
    /// For a program whose pointers have so many bits.
    pub fn of(addresses: AddressBits) -> Emitter {
        Emitter { addresses, ..Emitter::default() }
    }

    /// The program's `size_t`.
    pub fn size(&self) -> Ir {
        Ir::scalar(Lane::Int(self.addresses.number()))
    }

    /// Bytes of its pointers and sizes.
    pub fn size_bytes(&self) -> u32 {
        self.addresses.bytes()
    }

    /// The same for a function of the library.
    pub fn width(&self) -> Value {
        self.int(Ir::scalar(Lane::Int(32)), self.addresses.bytes().into())
    }

    /// The instructions and the declarations.
    pub fn finish(self) -> (String, BTreeSet<String>) {
        (self.body, self.declarations)
    }

    /// A line that must stand in the module, once.
    pub fn declare(&mut self, line: &str) {
        self.declarations.insert(line.to_owned());
    }

    /// A fresh name for a value or label.
    pub fn fresh(&mut self) -> String {
        self.next += 1;
        format!("t{}", self.next)
    }

    /// What `write` does, with fast-math flags on its arithmetic and intrinsics of floats.
    pub fn permit(&mut self, flags: &'static str, write: impl FnOnce(&mut Emitter) -> Value) -> Value {
        self.permissions = flags;
        let value = write(self);
        self.permissions = "";
        value
    }

    /// The name of an instruction on this type, with flags.
    fn flagged(&self, op: &str, ir: Ir) -> String {
        let is_float = matches!(ir.lane, Lane::Half | Lane::Float | Lane::Double);
        if is_float { format!("{op} {}", self.permissions) } else { op.to_string() }.trim_end().to_string()
    }

    /// An instruction without a result.
    pub fn effect(&mut self, instruction: &str) {
        self.body += "  ";
        self.body += instruction;
        self.body.push('\n');
    }

    /// An instruction with a result of type `ir`.
    pub fn value(&mut self, ir: Ir, instruction: &str) -> Value {
        let text = format!("%{}", self.fresh());
        self.effect(&format!("{text} = {instruction}"));
        Value { ir, text }
    }

    /// Starts a basic block.
    pub fn label(&mut self, name: &str) {
        self.body += name;
        self.body += ":\n";
    }

    /// An integer constant, in all lanes.
    pub fn int(&self, ir: Ir, value: i128) -> Value {
        let text = match ir.width {
            1 => value.to_string(),
            _ => format!("splat ({} {value})", ir.lane),
        };
        Value { ir, text }
    }

    /// A floating-point constant, in all lanes; `value` must be exact in the lane's type.
    pub fn float(&self, ir: Ir, value: f64) -> Value {
        let bits = value.to_bits();
        let text = match ir.width {
            1 => format!("0x{bits:016X}"),
            _ => format!("splat ({} 0x{bits:016X})", ir.lane),
        };
        Value { ir, text }
    }

    /// `fadd`, `and`, `lshr` … of two values of one type.
    pub fn binary(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        self.value(a.ir, &format!("{} {a}, {}", self.flagged(op, a.ir), b.text))
    }

    /// `-x`.
    pub fn negate(&mut self, a: &Value) -> Value {
        self.value(a.ir, &format!("fneg {a}"))
    }

    /// `icmp slt`, `fcmp olt` …; i1 in each lane.
    pub fn compare(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        self.value(a.ir.with(Lane::Int(1)), &format!("{op} {a}, {}", b.text))
    }

    /// `condition ? a : b` in each lane.
    pub fn select(&mut self, condition: &Value, a: &Value, b: &Value) -> Value {
        self.value(a.ir, &format!("select {condition}, {a}, {b}"))
    }

    /// `bitcast`, `zext`, `fptrunc` … to another lane type; nothing if it is that type.
    pub fn cast(&mut self, op: &str, a: &Value, lane: Lane) -> Value {
        if a.ir.lane == lane {
            return a.clone();
        }
        let to = a.ir.with(lane);
        self.value(to, &format!("{op} {a} to {to}"))
    }

    /// The lanes as integers of their size.
    pub fn bits(&mut self, a: &Value) -> Value {
        self.cast("bitcast", a, Lane::Int(a.ir.lane.bits()))
    }

    /// A lane.
    pub fn extract(&mut self, a: &Value, index: u8) -> Value {
        match a.ir.width {
            1 => a.clone(),
            _ => self.value(Ir::scalar(a.ir.lane), &format!("extractelement {a}, i32 {index}")),
        }
    }

    /// A vector of these scalars, or the scalar itself if there is one only.
    pub fn gather(&mut self, lanes: &[Value]) -> Value {
        if let [single] = lanes {
            return single.clone();
        }
        let ir = Ir { lane: lanes[0].ir.lane, width: lanes.len() as u8 };
        let start = Value { ir, text: "poison".to_string() };
        lanes.iter().enumerate().fold(start, |vector, (index, lane)| {
            self.value(ir, &format!("insertelement {vector}, {lane}, i32 {index}"))
        })
    }

    /// A scalar in every lane.
    pub fn splat(&mut self, a: &Value, width: u8) -> Value {
        if a.ir.width == width {
            return a.clone();
        }
        let ir = Ir { width, ..a.ir };
        let first = self.value(ir, &format!("insertelement {ir} poison, {a}, i32 0"));
        self.value(ir, &format!("shufflevector {first}, {ir} poison, <{width} x i32> zeroinitializer"))
    }

    /// Folds the lanes with a binary operation, first lane first.
    pub fn reduce(&mut self, op: &str, a: &Value) -> Value {
        let first = self.extract(a, 0);
        (1..a.ir.width).fold(first, |sum, index| {
            let lane = self.extract(a, index);
            self.binary(op, &sum, &lane)
        })
    }

    /// Declares and calls a function. `attributes` stand after its declaration's parameters.
    pub fn call(&mut self, name: &str, result: Ir, arguments: &[Value], attributes: &str) -> Value {
        let types: Vec<String> = arguments.iter().map(|a| a.ir.to_string()).collect();
        let declaration = format!("declare {result} @{name}({}) {attributes}", types.join(", "));
        self.declarations.insert(declaration.trim_end().to_string());
        let values: Vec<String> = arguments.iter().map(Value::to_string).collect();
        let call = format!("{} {result} @{name}({})", self.flagged("call", result), values.join(", "));
        if result.lane == Lane::Void {
            self.effect(&call);
            return Value { ir: result, text: String::new() };
        }
        self.value(result, &call)
    }

    /// An intrinsic that is overloaded on its result's type only: `llvm.fma.v4f32`.
    pub fn intrinsic(&mut self, name: &str, arguments: &[Value]) -> Value {
        let result = arguments[0].ir;
        self.call(&format!("llvm.{name}.{}", result.suffix()), result, arguments, "")
    }

    /// A pure argumentless primitive of the work-group lowering.
    pub fn primitive(&mut self, name: &str, result: Ir) -> Value {
        self.call(&format!("spirula.{name}"), result, &[], PURE)
    }

    /// The value, in float if it is in half.
    pub fn half_to_float(&mut self, a: &Value) -> Value {
        if a.ir.lane == Lane::Half { self.cast("fpext", a, Lane::Float) } else { a.clone() }
    }

    /// A Rust library function applied lane by lane: `spirula_NAME`, with the types in the name. The library has none of half:
    /// float's are called, which are so much closer that rounding their results is nearly all of the error.
    pub fn library(&mut self, name: &str, lane: Lane, arguments: &[Value]) -> Value {
        let arguments: Vec<Value> = arguments.iter().map(|a| self.half_to_float(a)).collect();
        let yields = if lane == Lane::Half { Lane::Float } else { lane };
        let width = arguments[0].ir.width;
        let lanes: Vec<Value> = (0..width)
            .map(|index| {
                let scalars: Vec<Value> = arguments.iter().map(|a| self.extract(a, index)).collect();
                self.call(&format!("spirula_{name}"), Ir::scalar(yields), &scalars, PURE)
            })
            .collect();
        let all = self.gather(&lanes);
        self.cast("fptrunc", &all, lane)
    }

    /// One of two functions of doubles that one Rust library function yields both of, lane by lane: its part of that, or what a function of
    /// its own yields if the program doesn't ask for the other one of the same number. That is asked here, and answered when the program's
    /// functions have been inlined (`front::pairs`).
    pub fn of_pair(&mut self, both: &str, (name, part): (&str, u32), x: &Value) -> Value {
        let double = Ir::scalar(Lane::Double);
        let (both, pair) = (format!("spirula_{both}"), format!("{{ {double}, {double} }}"));
        self.declarations.insert(format!("declare {pair} @{both}({double}) {PURE}"));
        let lanes: Vec<Value> = (0..x.ir.width)
            .map(|index| {
                let scalar = self.extract(x, index);
                let question = format!("{ASKS_FOR_BOTH}{}", double.suffix());
                let asks =
                    self.call(&question, Ir::scalar(Lane::Int(1)), std::slice::from_ref(&scalar), PURE);
                let all = self.value(double, &format!("call {pair} @{both}({scalar})"));
                let own = self.value(double, &format!("extractvalue {pair} {}, {part}", all.text));
                let alone = self.call(&format!("spirula_{name}"), double, &[scalar], PURE);
                self.select(&asks, &own, &alone)
            })
            .collect();
        self.gather(&lanes)
    }

    /// A library function of two arguments, or its sibling `known_NAME` if the second is a constant of the program, lane by lane. That is
    /// asked here, and answered when the program's functions have been inlined (`front::constants`).
    pub fn power(&mut self, name: &str, lane: Lane, arguments: &[Value]) -> Value {
        let exponent = &arguments[1];
        let constants: Vec<Value> = (0..exponent.ir.width)
            .map(|index| {
                let scalar = self.extract(exponent, index);
                let asked = format!("llvm.is.constant.{}", scalar.ir.suffix());
                self.call(&asked, Ir::scalar(Lane::Int(1)), &[scalar], "")
            })
            .collect();
        let is_constant = self.gather(&constants);
        let known = self.library(&format!("known_{name}"), lane, arguments);
        let any = self.library(name, lane, arguments);
        self.select(&is_constant, &known, &any)
    }

    /// The address of element `index` of an array of `lane`s.
    pub fn element(&mut self, pointer: &Value, lane: Lane, index: &Value) -> Value {
        self.value(pointer.ir, &format!("getelementptr {lane}, {pointer}, {index}"))
    }

    /// A load; `alignment` in bytes.
    pub fn load(&mut self, ir: Ir, pointer: &Value, alignment: u32) -> Value {
        self.value(ir, &format!("load {ir}, {pointer}, align {alignment}"))
    }

    /// A store; `alignment` in bytes.
    pub fn store(&mut self, value: &Value, pointer: &Value, alignment: u32) {
        self.effect(&format!("store {value}, {pointer}, align {alignment}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_they_are_written() {
        for text in ["void", "i1", "float", "<3 x double>", "ptr", "ptr addrspace(3)", "<16 x i8>"] {
            assert_eq!(Ir::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(Ir::parse("%struct.s"), None);
        assert_eq!(Ir::parse("[4 x i32]"), None);
    }

    #[test]
    fn library_calls_go_lane_by_lane() {
        let mut emitter = Emitter::default();
        let vector = Value { ir: Ir { lane: Lane::Float, width: 2 }, text: "%0".to_string() };
        emitter.library("sin_f32", Lane::Float, &[vector]);
        let (body, declarations) = emitter.finish();
        assert_eq!(body.matches("call float @spirula_sin_f32").count(), 2);
        assert_eq!(
            declarations.into_iter().collect::<Vec<_>>(),
            ["declare float @spirula_sin_f32(float) memory(none) nounwind willreturn"]
        );
    }
}
