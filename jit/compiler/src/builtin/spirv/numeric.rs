//! Conversions, and operations on numbers that LLVM has no instruction for.

use super::super::emit::{Emitter, Lane, Value};
use super::super::types::Type;
use super::{Call, INT, Ir, as_result, forward, number};

/// Conversions: whether the operand and the result are signed, and whether they saturate without saying so.
const CONVERSIONS: [(&str, bool, bool, bool); 9] = [
    ("ConvertFToU", true, false, false),
    ("ConvertFToS", true, true, false),
    ("ConvertUToF", false, true, false),
    ("ConvertSToF", true, true, false),
    ("UConvert", false, false, false),
    ("SConvert", true, true, false),
    ("FConvert", true, true, false),
    ("SatConvertSToU", true, false, true),
    ("SatConvertUToS", false, true, true),
];

/// Questions about floats whose answers are booleans.
const RELATIONS: [(&str, &str); 8] = [
    ("IsNan", "isnan"),
    ("IsInf", "isinf"),
    ("IsFinite", "isfinite"),
    ("IsNormal", "isnormal"),
    ("SignBitSet", "signbit"),
    ("LessOrGreater", "islessgreater"),
    ("Ordered", "isordered"),
    ("Unordered", "isunordered"),
];

/// Comparisons and LLVM's.
const COMPARISONS: [(&str, &str); 22] = [
    ("IEqual", "icmp eq"),
    ("INotEqual", "icmp ne"),
    ("UGreaterThan", "icmp ugt"),
    ("SGreaterThan", "icmp sgt"),
    ("UGreaterThanEqual", "icmp uge"),
    ("SGreaterThanEqual", "icmp sge"),
    ("ULessThan", "icmp ult"),
    ("SLessThan", "icmp slt"),
    ("ULessThanEqual", "icmp ule"),
    ("SLessThanEqual", "icmp sle"),
    ("FOrdEqual", "fcmp oeq"),
    ("FUnordEqual", "fcmp ueq"),
    ("FOrdNotEqual", "fcmp one"),
    ("FUnordNotEqual", "fcmp une"),
    ("FOrdLessThan", "fcmp olt"),
    ("FUnordLessThan", "fcmp ult"),
    ("FOrdGreaterThan", "fcmp ogt"),
    ("FUnordGreaterThan", "fcmp ugt"),
    ("FOrdLessThanEqual", "fcmp ole"),
    ("FUnordLessThanEqual", "fcmp ule"),
    ("FOrdGreaterThanEqual", "fcmp oge"),
    ("FUnordGreaterThanEqual", "fcmp uge"),
];

/// Dot products of integers: whether the operands are signed, and whether a third is added with saturation.
const DOTS: [(&str, [bool; 2], bool); 6] = [
    ("SDot", [true, true], false),
    ("UDot", [false, false], false),
    ("SUDot", [true, false], false),
    ("SDotAccSat", [true, true], true),
    ("UDotAccSat", [false, false], true),
    ("SUDotAccSat", [true, false], true),
];

pub fn call(e: &mut Emitter, call: &Call) -> Option<Value> {
    if let Some(&row) = CONVERSIONS.iter().find(|row| row.0 == call.op) {
        return convert(e, call, row);
    }
    let op = call.op.trim_end_matches("KHR");
    if let Some(&(_, signs, saturates)) = DOTS.iter().find(|row| row.0 == op) {
        return dot(e, call, signs, saturates);
    }
    let result = call.ir()?;
    let values = call.values();
    if let Some((_, name)) = RELATIONS.iter().find(|row| row.0 == call.op) {
        let given: Option<Vec<(Type, Value)>> =
            values.into_iter().map(|value| Some((number(value.ir, true)?, value))).collect();
        let given = given?;
        let from = given.first()?.1.ir;
        // For vectors OpenCL C answers in integers of the operand's size.
        let lane = if from.width == 1 { INT.lane } else { Lane::Int(from.lane.bits()) };
        let answer = forward(e, name, from.with(lane), &given);
        return Some(booleans(e, &answer, result));
    }
    if let ([a, b], Some((_, compare))) = (&values[..], COMPARISONS.iter().find(|row| row.0 == call.op)) {
        let answer = e.compare(compare, a, b);
        return Some(if answer.ir == result { answer } else { e.cast("zext", &answer, result.lane) });
    }
    match (call.op, &values[..]) {
        ("Any" | "All", [a]) => {
            let zero = e.int(a.ir, 0);
            let lanes = match a.ir.lane {
                Lane::Int(1) => a.clone(),
                _ => e.compare("icmp slt", a, &zero),
            };
            let all = e.reduce(if call.op == "Any" { "or" } else { "and" }, &lanes);
            Some(if all.ir == result { all } else { e.cast("zext", &all, result.lane) })
        }
        ("BitCount", [a]) => {
            let count = e.intrinsic("ctpop", std::slice::from_ref(a));
            Some(resize(e, &count, result))
        }
        ("BitReverse", [a]) => Some(e.intrinsic("bitreverse", std::slice::from_ref(a))),
        ("BitFieldInsert", [base, insert, offset, count]) => {
            let (offset, count) = (amount(e, offset, base.ir), amount(e, count, base.ir));
            let mask = low_mask(e, base.ir, &count);
            let place = e.binary("shl", &mask, &offset);
            let moved = e.binary("shl", insert, &offset);
            let (ones, new) = (e.int(base.ir, -1), e.binary("and", &moved, &place));
            let kept = e.binary("xor", &place, &ones);
            let old = e.binary("and", base, &kept);
            Some(e.binary("or", &old, &new))
        }
        ("BitFieldUExtract", [base, offset, count]) => {
            let (offset, count) = (amount(e, offset, base.ir), amount(e, count, base.ir));
            let mask = low_mask(e, base.ir, &count);
            let moved = e.binary("lshr", base, &offset);
            Some(e.binary("and", &moved, &mask))
        }
        ("BitFieldSExtract", [base, offset, count]) => {
            let (offset, count) = (amount(e, offset, base.ir), amount(e, count, base.ir));
            let mask = low_mask(e, base.ir, &count);
            let moved = e.binary("lshr", base, &offset);
            let field = e.binary("and", &moved, &mask);
            // The field's sign: the bit that is in it and not in the field without its first bit.
            let one = e.int(base.ir, 1);
            let half = e.binary("lshr", &mask, &one);
            let sign = e.binary("xor", &mask, &half);
            let flipped = e.binary("xor", &field, &sign);
            Some(e.binary("sub", &flipped, &sign))
        }
        ("Dot", [a, b]) => {
            let given = [(number(a.ir, true)?, a.clone()), (number(b.ir, true)?, b.clone())];
            Some(forward(e, "dot", result, &given))
        }
        ("FMod", [a, b]) => {
            // The remainder with the divisor's sign.
            let ty = number(a.ir, true)?;
            let given = [(ty.clone(), a.clone()), (ty, b.clone())];
            let rest = forward(e, "fmod", result, &given);
            let zero = e.float(result, 0.0);
            let sum = e.binary("fadd", &rest, b);
            let (rest_bits, b_bits) = (e.bits(&rest), e.bits(b));
            let signs = e.binary("xor", &rest_bits, &b_bits);
            let none = e.int(signs.ir, 0);
            let differs = e.compare("icmp slt", &signs, &none);
            let some = e.compare("fcmp une", &rest, &zero);
            let wrong = e.binary("and", &differs, &some);
            Some(e.select(&wrong, &sum, &rest))
        }
        ("FRem", [a, b]) => {
            let ty = number(a.ir, true)?;
            Some(forward(e, "fmod", result, &[(ty.clone(), a.clone()), (ty, b.clone())]))
        }
        ("VectorTimesScalar", [a, b]) => {
            let b = e.splat(b, a.ir.width);
            Some(e.binary("fmul", a, &b))
        }
        _ => None,
    }
}

/// OpenCL C's answers as booleans, lane by lane.
fn booleans(e: &mut Emitter, answer: &Value, result: Ir) -> Value {
    if answer.ir == result {
        return answer.clone();
    }
    if result.lane == Lane::Int(1) {
        return as_result(e, answer, result);
    }
    resize(e, answer, result)
}

fn resize(e: &mut Emitter, value: &Value, to: Ir) -> Value {
    let op = if value.ir.lane.bits() > to.lane.bits() { "trunc" } else { "sext" };
    e.cast(op, value, to.lane)
}

/// A count of bits as a value of the type that is shifted.
fn amount(e: &mut Emitter, count: &Value, ir: Ir) -> Value {
    let resized = super::resized(e, count, ir.lane);
    e.splat(&resized, ir.width)
}

/// So many ones.
fn low_mask(e: &mut Emitter, ir: Ir, count: &Value) -> Value {
    let (ones, none) = (e.int(ir, -1), e.int(ir, 0));
    let width = e.int(ir, i128::from(ir.lane.bits()));
    let unused = e.binary("sub", &width, count);
    let last = e.int(ir, i128::from(ir.lane.bits()) - 1);
    let unused = e.binary("and", &unused, &last);
    let mask = e.binary("lshr", &ones, &unused);
    let is_none = e.compare("icmp eq", count, &none);
    e.select(&is_none, &none, &mask)
}

fn convert(
    e: &mut Emitter,
    call: &Call,
    (_, from_signed, to_signed, saturates): (&str, bool, bool, bool),
) -> Option<Value> {
    let result = call.ir()?;
    let value = call.value(0)?.clone();
    let to = number(result, to_signed)?;
    let has = |postfix: &str| call.postfixes.contains(&postfix);
    let sat = if saturates || has("sat") { "_sat" } else { "" };
    let rounding = ["rte", "rtz", "rtp", "rtn"].into_iter().find(|mode| has(mode));
    let rounding = rounding.map_or(String::new(), |mode| format!("_{mode}"));
    let name = format!("convert_{to}{sat}{rounding}");
    Some(forward(e, &name, result, &[(number(value.ir, from_signed)?, value)]))
}

/// Of vectors, or of integers that hold four of 8 bits.
fn dot(e: &mut Emitter, call: &Call, signs: [bool; 2], saturates: bool) -> Option<Value> {
    let result = call.ir()?;
    let mut factors = Vec::new();
    for (index, signed) in signs.into_iter().enumerate() {
        let value = call.value(index)?.clone();
        let packed = value.ir == INT;
        let lanes = match packed {
            true => {
                let ir = Ir { lane: Lane::Int(8), width: 4 };
                e.value(ir, &format!("bitcast {value} to {ir}"))
            }
            false => value,
        };
        // Wide enough for any product and sum.
        let wide = e.cast(if signed { "sext" } else { "zext" }, &lanes, Lane::Int(64));
        factors.push(wide);
    }
    if factors[0].ir != factors[1].ir {
        return None;
    }
    let products = e.binary("mul", &factors[0], &factors[1]);
    let sum = e.reduce("add", &products);
    let op = if result.lane.bits() < 64 { "trunc" } else { "zext" };
    let sum = e.cast(op, &sum, result.lane);
    if !saturates {
        return Some(sum);
    }
    let signed = signs[0];
    let third = call.value(2)?.clone();
    Some(e.intrinsic(if signed { "sadd.sat" } else { "uadd.sat" }, &[sum, third]))
}
