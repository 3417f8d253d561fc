//! Random kernels: expressions. All are defined for all operands: signed numbers are computed without their sign, divisors
//! and what becomes an integer are tested.

use super::kernel::Writer;
use super::types::{Base, Ty};

/// Of integers, in their own width.
const INTEGER_FUNCTIONS: [(&str, usize); 13] = [
    ("min", 2),
    ("max", 2),
    ("add_sat", 2),
    ("sub_sat", 2),
    ("mul_hi", 2),
    ("hadd", 2),
    ("rhadd", 2),
    ("rotate", 2),
    ("popcount", 1),
    ("clz", 1),
    ("bitselect", 3),
    ("mad_hi", 3),
    ("mad_sat", 3),
];

/// Exact ones, of floats; of a zero's sign nothing is asked.
const FLOAT_FUNCTIONS: [&str; 6] = ["fabs", "floor", "ceil", "rint", "trunc", "round"];

/// Builtins of many instructions; the last is for float alone.
const MATH: [&str; 14] = [
    "sin",
    "cos",
    "exp",
    "exp2",
    "log",
    "log2",
    "tanh",
    "atan",
    "cbrt",
    "rsqrt",
    "tan",
    "asin",
    "erf",
    "native_sin",
];

impl Writer<'_> {
    /// A value of this type.
    pub fn expression(&mut self, ty: Ty, depth: usize) -> String {
        if depth == 0 || self.once_in(6) {
            return self.leaf(ty);
        }
        match (ty.lanes, ty.base.is_float()) {
            (1, false) => self.integer(ty.base, depth - 1),
            (_, true) => self.float(ty, depth - 1),
            _ => self.integers(ty, depth - 1),
        }
    }

    /// A uint of any origin.
    pub fn uint(&mut self, depth: usize) -> String {
        self.expression(Ty::UINT, depth)
    }

    /// A uint that is the same for the group, if the group is together here.
    pub fn uniform(&mut self, depth: usize) -> String {
        if depth > 0 && self.once_in(2) {
            let (a, b) = (self.uniform(depth - 1), self.uniform(depth - 1));
            return match self.below(6) {
                0 => format!("({a} + {b})"),
                1 => format!("({a} * {b})"),
                2 => format!("({a} ^ {b})"),
                3 => format!("in[{a} & 255u]"),
                4 => format!("({a} >> ({b} & 31u))"),
                _ => format!("({a} < {b} ? {b} : {a} - 1u)"),
            };
        }
        let counters: Vec<String> = self.counters.iter().filter(|c| c.1).map(|c| c.0.clone()).collect();
        match self.below(5) {
            0 => format!("{}u", self.below(9)),
            1 if !counters.is_empty() => self.pick(&counters).clone(),
            2 => {
                (*self.pick(&["(uint)get_local_size(0)", "(uint)get_num_groups(1)", "lsize", "items"])).into()
            }
            _ => {
                let names = self.uniform.clone();
                self.pick(&names).clone()
            }
        }
    }

    fn leaf(&mut self, ty: Ty) -> String {
        let same: Vec<String> =
            self.variables.iter().filter(|v| v.ty == ty).map(|v| v.name.clone()).collect();
        if !same.is_empty() && !self.once_in(3) {
            return self.pick(&same).clone();
        }
        if ty.lanes > 1 {
            return self.vector_leaf(ty);
        }
        let name = ty.base.name();
        let arrays: Vec<(String, usize)> =
            self.arrays.iter().filter(|a| a.ty == ty).map(|a| (a.name.clone(), a.length)).collect();
        if !arrays.is_empty() && self.once_in(2) {
            let (array, length) = self.pick(&arrays).clone();
            return format!("{array}[{} & {}u]", self.uint(1), length - 1);
        }
        if ty.base.is_float() {
            let source = match self.below(6) {
                0 => format!("floats[POS({} & 7u)]", self.uint(1)),
                1 => format!("cf[{} & 15u]", self.uint(1)),
                2 => format!("cf[{}]", self.below(16)),
                3 if self.has_struct => format!("st[{} & 1u].f", self.uint(0)),
                4 => format!("(int)({})", self.integer_leaf()),
                _ => (*self.pick(&["0.5f", "-1.25f", "3.0f", "1e-3f", "-0.0f", "1e20f"])).into(),
            };
            return format!("({name})({source})");
        }
        format!("({name})({})", self.integer_leaf())
    }

    /// An integer of some type.
    fn integer_leaf(&mut self) -> String {
        let integers: Vec<String> = (self.variables.iter())
            .filter(|v| v.ty.lanes == 1 && !v.ty.base.is_float())
            .map(|v| v.name.clone())
            .collect();
        match self.below(13) {
            0 => format!("{}u", self.below(10)),
            1 => (*self.pick(&["0x80000000u", "0xffffffffu", "0x7fffffffu", "255u", "-7", "65536u"])).into(),
            2 => format!("data[POS({} & 7u)]", self.uint(1)),
            3 => format!("data[POS({})]", self.below(8)),
            4 => format!("in[{} & 255u]", self.uint(1)),
            5 if self.once_in(2) => format!("in[(gx | {}u) & 255u]", [1, 3][self.below(2)]),
            5 => {
                // A row or a column.
                let number = *self.pick(&["item", "gx", "lid", "(gx * 2u)"]);
                let op = *self.pick(&["/", "%"]);
                let by = match self.once_in(3) {
                    true => format!("({} | 1u)", self.uniform(0)),
                    false => format!("{}u", [16, 32, 64, 1 + self.below(256)][self.below(4)]),
                };
                format!("in[({number} {op} {by}) & 255u]")
            }
            6 => self.byte_load(),
            7 => (*self.pick(&[
                "lid",
                "item",
                "gx",
                "gy",
                "get_global_id(0)",
                "get_local_id(1)",
                "lsize - lid",
            ]))
            .into(),
            8 if !self.counters.is_empty() => {
                let counters = self.counters.clone();
                self.pick(&counters).0.clone()
            }
            9 => self.uniform.last().cloned().unwrap_or_default(),
            10 if self.has_struct => format!("st[{} & 1u].s[{} & 3u]", self.uint(0), self.uint(0)),
            _ => self.pick(&integers).clone(),
        }
    }

    /// Of the work-item's own 16 bytes, in some width.
    pub fn own_bytes(&mut self, depth: usize) -> (Base, String) {
        let base = *self.pick(&[Base::UChar, Base::Char, Base::UShort, Base::Short, Base::Int, Base::ULong]);
        let elements = 128 / base.bits();
        let index = if self.once_in(2) {
            format!("{}u", self.below(elements))
        } else {
            format!("({} & {}u)", self.uint(depth), elements - 1)
        };
        let place = format!("((global {} *)bytes)[item * {elements}u + {index}]", base.name());
        (base, place)
    }

    fn byte_load(&mut self) -> String {
        if self.once_in(3) {
            let field = *self.pick(&["a", "b", "c", "d"]);
            return format!("((global struct record *)bytes)[item].{field}");
        }
        self.own_bytes(0).1
    }

    fn vector_leaf(&mut self, ty: Ty) -> String {
        let (name, size) = (ty.name(), ty.base.bits() / 8);
        if !ty.base.is_float() && ty.lanes * size <= 16 && self.once_in(3) {
            let spare = 16 / size - ty.lanes;
            let from = if spare == 0 { 0 } else { self.below(spare + 1) };
            return format!(
                "vload{}(0, (global {} *)bytes + item * {}u + {from}u)",
                ty.lanes,
                ty.base.name(),
                16 / size
            );
        }
        if ty.lanes <= 4 && self.once_in(2) {
            let parts: Vec<String> = (0..ty.lanes).map(|_| self.leaf(Ty::scalar(ty.base))).collect();
            return format!("({name})({})", parts.join(", "));
        }
        format!("({name})({})", self.leaf(Ty::scalar(ty.base)))
    }

    fn integer(&mut self, base: Base, depth: usize) -> String {
        let ty = Ty::scalar(base);
        let (name, wide) = (base.name(), if base.bits() == 64 { "ulong" } else { "uint" });
        match self.below(16) {
            0..5 => {
                let op = *self.pick(&["+", "-", "*", "&", "|", "^"]);
                let (a, b) = (self.expression(ty, depth), self.expression(ty, depth));
                format!("({name})(({wide}){a} {op} ({wide}){b})")
            }
            5 => {
                let (a, b) = (self.expression(ty, depth), self.uint(depth.min(1)));
                match self.below(3) {
                    0 => format!("({name})(({wide}){a} << ({b} & {}u))", base.bits() - 1),
                    1 => format!("({name})({a} >> ({b} & {}u))", base.bits() - 1),
                    // OpenCL takes the count modulo the (promoted) width.
                    _ => format!("({name})(({wide}){a} << {b})"),
                }
            }
            6 => {
                let f = *self.pick(&["div", "rem"]);
                let (a, b) = (self.expression(ty, depth), self.expression(ty, depth.min(1)));
                format!("{f}_{name}({a}, {b})")
            }
            7 | 8 => {
                let (c, a, b) =
                    (self.condition(depth.min(1)), self.expression(ty, depth), self.expression(ty, depth));
                format!("({c} ? {a} : {b})")
            }
            9 | 10 => {
                let (function, count) = *self.pick(&INTEGER_FUNCTIONS);
                let arguments: Vec<String> =
                    (0..count).map(|_| format!("({name}){}", self.expression(ty, depth.min(1)))).collect();
                format!("{function}({})", arguments.join(", "))
            }
            11 | 12 => {
                let other = Ty::any_scalar(&mut self.random);
                let value = self.expression(other, depth);
                match other.base {
                    Base::Float if self.once_in(2) => format!("({name})(int)tame({value})"),
                    Base::Float | Base::Double => format!("convert_{name}_sat({value})"),
                    _ => format!("({name}){value}"),
                }
            }
            13 => {
                let other = Ty::any_vector(&mut self.random);
                let value =
                    if other.base.is_float() { self.leaf(ty) } else { self.expression(other, depth.min(1)) };
                if other.base.is_float() {
                    value
                } else {
                    format!("({name})({value}).s{:x}", self.below(other.lanes))
                }
            }
            14 => format!("({name}){}", self.condition(depth)),
            _ if self.once_in(3) => {
                format!("({name})helper({}, {})", self.uint(depth.min(1)), self.uint(depth.min(1)))
            }
            _ => self.leaf(ty),
        }
    }

    fn integers(&mut self, ty: Ty, depth: usize) -> String {
        let (name, unsigned) = (ty.name(), ty.with_base(ty.base.unsigned()).name());
        let (a, b) = (self.expression(ty, depth), self.expression(ty, depth.min(1)));
        match self.below(9) {
            0..3 => {
                let op = *self.pick(&["+", "-", "*", "&", "|", "^"]);
                format!("as_{name}(as_{unsigned}({a}) {op} as_{unsigned}({b}))")
            }
            3 => format!(
                "as_{name}(as_{unsigned}({a}) << (as_{unsigned}({b}) & ({unsigned})({})))",
                ty.base.bits() - 1
            ),
            4 => format!("as_{name}(as_{unsigned}({a}) / (as_{unsigned}({b}) | ({unsigned})(1)))"),
            5 => format!("select({a}, {b}, {a} < {b})"),
            6 => {
                let (function, count) = *self.pick(&INTEGER_FUNCTIONS[..7]);
                debug_assert_eq!(count, 2);
                format!("{function}({a}, {b})")
            }
            7 => {
                let other = Ty { lanes: ty.lanes, ..Ty::any_scalar(&mut self.random) };
                let value = self.expression(other, depth.min(1));
                let sat = if other.base.is_float() { "_sat" } else { "" };
                format!("convert_{name}{sat}({value})")
            }
            _ => {
                let order: String = (0..ty.lanes).map(|_| format!("{:x}", self.below(ty.lanes))).collect();
                format!("({a}).s{order}")
            }
        }
    }

    fn float(&mut self, ty: Ty, depth: usize) -> String {
        let name = ty.name();
        let (a, b) = (self.expression(ty, depth), self.expression(ty, depth.min(1)));
        let suffix = if ty.base == Base::Float { "f" } else { "" };
        match self.below(12) {
            0..4 => {
                let op = *self.pick(&["+", "-", "*", "*", "/"]);
                format!("({a} {op} {b})")
            }
            4 => format!("fma({a}, {b}, {})", self.leaf(ty)),
            5 => format!("{}({a})", *self.pick(&FLOAT_FUNCTIONS)),
            6 => format!("sqrt(fabs({a}))"),
            // Which of two zeros is the lesser is open.
            7 => format!("({}({a}, {b}) + 0.0{suffix})", *self.pick(&["fmin", "fmax"])),
            8 if self.with_math => {
                let count = MATH.len() - usize::from(ty.base == Base::Double);
                format!("{}({a})", MATH[self.below(count)])
            }
            8 | 9 if ty.lanes == 1 => {
                let condition = self.condition(depth.min(1));
                format!("({condition} ? {a} : {b})")
            }
            8 | 9 => format!("select({a}, {b}, {a} < {b})"),
            10 if ty.lanes == 1 => {
                let other = Ty::any_scalar(&mut self.random);
                format!("({name}){}", self.expression(other, depth.min(1)))
            }
            10 => {
                let other = Ty { lanes: ty.lanes, ..Ty::any_scalar(&mut self.random) };
                format!("convert_{name}({})", self.expression(other, depth.min(1)))
            }
            _ if ty.lanes == 1 => format!("{}tame({a})", if ty.base == Base::Double { "d" } else { "" }),
            _ => {
                let order: String = (0..ty.lanes).map(|_| format!("{:x}", self.below(ty.lanes))).collect();
                format!("({a}).s{order}")
            }
        }
    }

    /// A condition of any origin.
    pub fn condition(&mut self, depth: usize) -> String {
        let compare = *self.pick(&["<", ">", "<=", ">=", "==", "!="]);
        match self.below(9) {
            0 | 1 => format!(
                "(({} & {}u) {compare} {}u)",
                self.uint(depth),
                [1, 3, 7][self.below(3)],
                self.below(5)
            ),
            2 => format!("({} % {}u {compare} lid)", self.uint(depth), 1 + self.below(9)),
            3 if depth > 0 => {
                let op = *self.pick(&["&&", "||"]);
                format!("({} {op} {})", self.condition(depth - 1), self.condition(depth - 1))
            }
            4 if depth > 0 => format!("!{}", self.condition(depth - 1)),
            5 => {
                let ty = Ty::any_scalar(&mut self.random);
                format!("({} {compare} {})", self.expression(ty, depth), self.expression(ty, depth))
            }
            6 => {
                let ty = Ty { lanes: 4, base: Base::Int };
                let all = *self.pick(&["any", "all"]);
                format!("{all}({} {compare} {})", self.expression(ty, depth), self.leaf(ty))
            }
            // From which a compiler concludes something of other values.
            7 if self.once_in(2) => format!("((gx & {}u) == 0u)", [1, 3, 7][self.below(3)]),
            7 => format!("(lid {compare} {}u)", self.below(20)),
            _ => format!("(item % {}u {compare} {}u)", 2 + self.below(7), self.below(4)),
        }
    }

    /// A condition that is the same for the group, if the group is together here.
    pub fn uniform_condition(&mut self) -> String {
        let compare = *self.pick(&["<", ">", "==", "!="]);
        format!("(({} & {}u) {compare} {}u)", self.uniform(2), [1, 3, 7][self.below(3)], self.below(5))
    }
}

/// Division and remainder of every integer type, for all operands.
pub(super) fn divisions() -> String {
    use Base::*;
    let one = |base: Base| {
        let name = base.name();
        let wide = if base.bits() == 64 { "ulong" } else { "uint" };
        let minus =
            |value: &str| if base.is_signed() { format!("b == -1 ? {value} : ") } else { String::new() };
        format!(
            "{name} div_{name}({name} a, {name} b) {{ return b == 0 ? a : {}({name})(a / b); }}\n\
             {name} rem_{name}({name} a, {name} b) {{ return b == 0 ? a : {}({name})(a % b); }}\n",
            minus(&format!("({name})(0u - ({wide})a)")),
            minus("0")
        )
    };
    [UChar, Char, UShort, Short, UInt, Int, ULong, Long].map(one).concat()
}
