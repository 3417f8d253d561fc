//! Builtins: explicit conversions (6.2.3), all types, saturations and rounding modes.

use super::emit::{Emitter, Ir, Lane, Value};
use super::pattern::Generic;
use super::table::{Call, NUMBERS, Rows};
use super::types::Element;

/// A rounding mode of `convert_` and `vstore_half`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// No suffix: to zero for integers, to nearest for floating point.
    Default,
    /// `_rte`
    Nearest,
    /// `_rtz`
    Zero,
    /// `_rtp`
    Up,
    /// `_rtn`
    Down,
}

impl Rounding {
    /// Every mode.
    pub const ALL: [Rounding; 5] =
        [Rounding::Default, Rounding::Nearest, Rounding::Zero, Rounding::Up, Rounding::Down];

    /// What a function's name ends with.
    pub fn suffix(self) -> &'static str {
        match self {
            Rounding::Default => "",
            Rounding::Nearest => "_rte",
            Rounding::Zero => "_rtz",
            Rounding::Up => "_rtp",
            Rounding::Down => "_rtn",
        }
    }
}

/// Every type of one width.
fn of_width(width: u8) -> Generic {
    let widths: &[u8] = match width {
        1 => &[1],
        2 => &[2],
        3 => &[3],
        4 => &[4],
        8 => &[8],
        _ => &[16],
    };
    Generic { elements: &NUMBERS, widths }
}

pub fn rows(rows: &mut Rows) {
    for to in NUMBERS {
        for width in [1, 2, 3, 4, 8, 16] {
            let target = if width == 1 { to.name().to_string() } else { format!("{}{width}", to.name()) };
            for (saturate, sat) in [(false, ""), (true, "_sat")] {
                // Only integers saturate.
                if saturate && to.is_float() {
                    continue;
                }
                for rounding in Rounding::ALL {
                    let name = format!("convert_{target}{sat}{}", rounding.suffix());
                    rows.expand(&name, of_width(width), format!("{target}(T)"), move |e, call| {
                        convert(e, call, to, saturate, rounding)
                    });
                }
            }
        }
    }
}

fn convert(e: &mut Emitter, call: &Call, to: Element, saturate: bool, rounding: Rounding) -> Value {
    // Exact, and all that follows is there for float.
    let x = &e.half_to_float(&call.arguments[0]);
    let from = call.element;
    match (from.is_float(), to.is_float()) {
        (true, true) => round_float(e, x, to.into(), rounding),
        (true, false) => {
            let whole = round_to_integral(e, x, rounding);
            if !saturate && to.bits() < 32 {
                return last_bits(e, &whole, to);
            }
            // What other plain forms do out of range is ours to choose, poison is not.
            let op = if to.is_signed() { "fptosi" } else { "fptoui" };
            let name = format!("llvm.{op}.sat.{}.{}", call.result.suffix(), x.ir.suffix());
            e.call(&name, call.result, &[whole], "")
        }
        (false, true) => round_integer(e, x, from, to.into(), rounding),
        (false, false) if saturate => {
            let bounded = saturate_integer(e, x, from, to);
            resize(e, &bounded, from, to)
        }
        (false, false) => resize(e, x, from, to),
    }
}

/// What fits 32 bits keeps its last ones, as on other runtimes and in C on this processor: programs compare with what those yield.
fn last_bits(e: &mut Emitter, whole: &Value, to: Element) -> Value {
    let whole = e.cast("fptosi", whole, Lane::Int(32));
    let frozen = e.value(whole.ir, &format!("freeze {whole}"));
    e.cast("trunc", &frozen, to.into())
}

fn resize(e: &mut Emitter, x: &Value, from: Element, to: Element) -> Value {
    let op = match (to.bits() > from.bits(), from.is_signed()) {
        (false, _) => "trunc",
        (true, true) => "sext",
        (true, false) => "zext",
    };
    e.cast(op, x, to.into())
}

/// Clamps to what `to` can hold, in the type of the source.
fn saturate_integer(e: &mut Emitter, x: &Value, from: Element, to: Element) -> Value {
    let range = |element: Element| match element.is_signed() {
        true => (-(1i128 << (element.bits() - 1)), (1i128 << (element.bits() - 1)) - 1),
        false => (0, (1i128 << element.bits()) - 1),
    };
    let ((from_low, from_high), (to_low, to_high)) = (range(from), range(to));
    let sign = if from.is_signed() { "s" } else { "u" };
    let mut x = x.clone();
    if to_low > from_low {
        let bound = e.int(x.ir, to_low);
        x = e.intrinsic(&format!("{sign}max"), &[x, bound]);
    }
    if to_high < from_high {
        let bound = e.int(x.ir, to_high);
        x = e.intrinsic(&format!("{sign}min"), &[x, bound]);
    }
    x
}

fn round_to_integral(e: &mut Emitter, x: &Value, rounding: Rounding) -> Value {
    let name = match rounding {
        Rounding::Default | Rounding::Zero => return x.clone(),
        Rounding::Nearest => "roundeven",
        Rounding::Up => "ceil",
        Rounding::Down => "floor",
    };
    e.intrinsic(name, std::slice::from_ref(x))
}

/// Significant bits of a floating-point type.
fn precision(lane: Lane) -> u32 {
    match lane {
        Lane::Float => 24,
        _ => 53,
    }
}

/// Integer to floating point.
fn round_integer(e: &mut Emitter, x: &Value, from: Element, to: Lane, rounding: Rounding) -> Value {
    if to == Lane::Half {
        // What float can't tell apart is infinite, or the largest half.
        let float = e.cast(if from.is_signed() { "sitofp" } else { "uitofp" }, x, Lane::Float);
        return round_float(e, &float, to, rounding);
    }
    let exact = from.bits() <= precision(to);
    if exact || matches!(rounding, Rounding::Default | Rounding::Nearest) {
        return e.cast(if from.is_signed() { "sitofp" } else { "uitofp" }, x, to);
    }
    // The magnitude cut to the precision is exact; away from zero is one unit of its last place more.
    let no = e.int(Ir::scalar(Lane::Int(1)), 0);
    let magnitude = match from.is_signed() {
        true => e.intrinsic("abs", &[x.clone(), no.clone()]),
        false => x.clone(),
    };
    let zeros = e.intrinsic("ctlz", &[magnitude.clone(), no]);
    let spare = e.int(x.ir, (from.bits() - precision(to)).into());
    let excess = e.intrinsic("usub.sat", &[spare, zeros]);
    let shifted = e.binary("lshr", &magnitude, &excess);
    let cut = e.binary("shl", &shifted, &excess);
    let mut result = e.cast("uitofp", &cut, to);
    let zero = e.int(x.ir, 0);
    let negative = e.compare("icmp slt", x, &zero);
    if rounding != Rounding::Zero {
        let inexact = e.compare("icmp ne", &cut, &magnitude);
        let mut away = inexact;
        if from.is_signed() {
            let direction = match rounding {
                Rounding::Up => "icmp sge",
                _ => "icmp slt",
            };
            let outward = e.compare(direction, x, &zero);
            away = e.binary("and", &away, &outward);
        }
        if from.is_signed() || rounding == Rounding::Up {
            let one = e.int(x.ir, 1);
            let unit = e.binary("shl", &one, &excess);
            let unit = e.cast("uitofp", &unit, to);
            let none = e.float(unit.ir, 0.0);
            let step = e.select(&away, &unit, &none);
            result = e.binary("fadd", &result, &step);
        }
    }
    if !from.is_signed() {
        return result;
    }
    let opposite = e.negate(&result);
    e.select(&negative, &opposite, &result)
}

/// Floating point to floating point.
pub fn round_float(e: &mut Emitter, x: &Value, to: Lane, rounding: Rounding) -> Value {
    if x.ir.lane.bits() <= to.bits() {
        return e.cast("fpext", x, to);
    }
    if x.ir.lane == Lane::Double && to == Lane::Half {
        let float = round_to_odd(e, x);
        return round_float(e, &float, to, rounding);
    }
    let nearest = e.cast("fptrunc", x, to);
    let (wrong, upwards) = match rounding {
        Rounding::Default | Rounding::Nearest => return nearest,
        Rounding::Zero => return toward_zero(e, x, &nearest),
        Rounding::Up => ("fcmp olt", true),
        Rounding::Down => ("fcmp ogt", false),
    };
    let back = e.cast("fpext", &nearest, x.ir.lane);
    let wrong = e.compare(wrong, &back, x);
    let bits = e.bits(&nearest);
    let zero = e.int(bits.ir, 0);
    let negative = e.compare("icmp slt", &bits, &zero);
    let [one, minus_one] = [1, -1].map(|value| e.int(bits.ir, value));
    let step = match upwards {
        true => e.select(&negative, &minus_one, &one),
        false => e.select(&negative, &one, &minus_one),
    };
    let neighbour = e.binary("add", &bits, &step);
    let bits = e.select(&wrong, &neighbour, &bits);
    e.cast("bitcast", &bits, to)
}

/// One step back if rounding to nearest went outwards.
fn toward_zero(e: &mut Emitter, x: &Value, nearest: &Value) -> Value {
    let back = e.cast("fpext", nearest, x.ir.lane);
    let [size, limit] = [&back, x].map(|v| e.intrinsic("fabs", std::slice::from_ref(v)));
    let wrong = e.compare("fcmp ogt", &size, &limit);
    let bits = e.bits(nearest);
    let minus_one = e.int(bits.ir, -1);
    let neighbour = e.binary("add", &bits, &minus_one);
    let bits = e.select(&wrong, &neighbour, &bits);
    e.cast("bitcast", &bits, nearest.ir.lane)
}

/// double to float such that rounding once more, in any mode, is right: an inexact result is odd.
fn round_to_odd(e: &mut Emitter, x: &Value) -> Value {
    let nearest = e.cast("fptrunc", x, Lane::Float);
    let cut = toward_zero(e, x, &nearest);
    let back = e.cast("fpext", &cut, Lane::Double);
    let inexact = e.compare("fcmp one", &back, x);
    let bits = e.bits(&cut);
    let sticky = e.cast("zext", &inexact, Lane::Int(32));
    let bits = e.binary("or", &bits, &sticky);
    e.cast("bitcast", &bits, Lane::Float)
}
