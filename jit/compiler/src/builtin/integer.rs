//! Builtins: integer functions (6.12.3), and those of cl_khr_extended_bit_ops.

use super::emit::{Emitter, Ir, Lane, Value};
use super::table::{Call, INT32, INTEGERS, NARROW, Rows};

pub fn rows(rows: &mut Rows) {
    rows.expand("abs", INTEGERS, "U(T)", absolute);
    rows.expand("abs_diff", INTEGERS, "U(T,T)", |e, call| {
        let [low, high] = ["min", "max"].map(|op| extreme(e, call, op, 0, 1));
        e.binary("sub", &high, &low)
    });
    for (name, op) in [("add_sat", "add"), ("sub_sat", "sub")] {
        rows.expand(name, INTEGERS, "T(T,T)", move |e, call| {
            e.intrinsic(&format!("{}{op}.sat", call.sign()), call.arguments)
        });
    }
    rows.expand("hadd", INTEGERS, "T(T,T)", |e, call| average(e, call, "and", "add"));
    rows.expand("rhadd", INTEGERS, "T(T,T)", |e, call| average(e, call, "or", "sub"));
    for op in ["min", "max"] {
        rows.expand(op, INTEGERS, "T(T,T)", move |e, call| extreme(e, call, op, 0, 1));
        rows.expand(op, INTEGERS, "T(T,E)", move |e, call| extreme(e, call, op, 0, 1));
    }
    for pattern in ["T(T,T,T)", "T(T,E,E)"] {
        rows.expand("clamp", INTEGERS, pattern, |e, call| {
            let [x, low, high] = call.arguments else { unreachable!("clamp has three parameters") };
            let above = e.intrinsic(&format!("{}max", call.sign()), &[x.clone(), low.clone()]);
            e.intrinsic(&format!("{}min", call.sign()), &[above, high.clone()])
        });
    }
    rows.expand("clz", INTEGERS, "T(T)", |e, call| count_zeros(e, call, "ctlz"));
    rows.expand("ctz", INTEGERS, "T(T)", |e, call| count_zeros(e, call, "cttz"));
    rows.intrinsic("popcount", INTEGERS, "T(T)", "ctpop");
    rows.expand("mul_hi", INTEGERS, "T(T,T)", multiply_high);
    rows.expand("mad_hi", INTEGERS, "T(T,T,T)", |e, call| {
        let high = multiply_high(e, call);
        e.binary("add", &high, &call.arguments[2])
    });
    rows.expand("mad_sat", INTEGERS, "T(T,T,T)", multiply_add_saturated);
    rows.expand("mul24", INT32, "T(T,T)", |e, call| e.binary("mul", &call.arguments[0], &call.arguments[1]));
    rows.expand("mad24", INT32, "T(T,T,T)", |e, call| {
        let product = e.binary("mul", &call.arguments[0], &call.arguments[1]);
        e.binary("add", &product, &call.arguments[2])
    });
    rows.expand("rotate", INTEGERS, "T(T,T)", |e, call| {
        let [x, count] = call.arguments else { unreachable!("rotate has two parameters") };
        e.intrinsic("fshl", &[x.clone(), x.clone(), count.clone()])
    });
    rows.expand("upsample", NARROW, "W(T,U)", |e, call| {
        let wide = call.result.lane;
        let high = e.cast("zext", &call.arguments[0], wide);
        let low = e.cast("zext", &call.arguments[1], wide);
        let count = e.int(call.result, (wide.bits() / 2).into());
        let high = e.binary("shl", &high, &count);
        e.binary("or", &high, &low)
    });
    rows.intrinsic("bit_reverse", INTEGERS, "T(T)", "bitreverse");
    rows.expand("bitfield_insert", INTEGERS, "T(T,T,uint,uint)", insert);
    rows.expand("bitfield_extract_signed", INTEGERS, "I(T,uint,uint)", |e, call| extract(e, call, "ashr"));
    rows.expand("bitfield_extract_unsigned", INTEGERS, "U(T,uint,uint)", |e, call| extract(e, call, "lshr"));
}

/// The places of a field of bits: its offset and how many bits the type has besides it, in every lane, and whether it has
/// none. Shifts by these are defined for every field that lies within the type.
struct Field {
    offset: Value,
    outside: Value,
    empty: Value,
}

impl Field {
    fn new(e: &mut Emitter, call: &Call, offset: &Value, count: &Value) -> Field {
        let bits = e.int(count.ir, call.element.bits().into());
        let none = e.int(count.ir, 0);
        let empty = e.compare("icmp eq", count, &none);
        let outside = e.binary("sub", &bits, count);
        // Where nothing is chosen, any shift that is defined will do.
        let outside = e.select(&empty, &none, &outside);
        let [offset, outside] = [offset, &outside].map(|amount| {
            let lane = Lane::Int(call.element.bits());
            let op = if lane.bits() > 32 { "zext" } else { "trunc" };
            let amount = if lane.bits() == 32 { amount.clone() } else { e.cast(op, amount, lane) };
            e.splat(&amount, call.width)
        });
        let empty = e.splat(&empty, call.width);
        Field { offset, outside, empty }
    }
}

fn insert(e: &mut Emitter, call: &Call) -> Value {
    let [base, inserted, offset, count] = call.arguments else {
        unreachable!("bitfield_insert has four parameters")
    };
    let field = Field::new(e, call, offset, count);
    let all = e.int(base.ir, -1);
    let low = e.binary("lshr", &all, &field.outside);
    let mask = e.binary("shl", &low, &field.offset);
    let moved = e.binary("shl", inserted, &field.offset);
    let different = e.binary("xor", base, &moved);
    let changed = e.binary("and", &different, &mask);
    let result = e.binary("xor", base, &changed);
    e.select(&field.empty, base, &result)
}

fn extract(e: &mut Emitter, call: &Call, shift: &str) -> Value {
    let [base, offset, count] = call.arguments else { unreachable!("extractions have three parameters") };
    let field = Field::new(e, call, offset, count);
    let above = e.binary("sub", &field.outside, &field.offset);
    let zero = e.int(base.ir, 0);
    let above = e.select(&field.empty, &zero, &above);
    let high = e.binary("shl", base, &above);
    let value = e.binary(shift, &high, &field.outside);
    e.select(&field.empty, &zero, &value)
}

fn absolute(e: &mut Emitter, call: &Call) -> Value {
    let x = &call.arguments[0];
    if !call.element.is_signed() {
        return x.clone();
    }
    let minimum_is_poison = e.int(Ir::scalar(Lane::Int(1)), 0);
    e.intrinsic("abs", &[x.clone(), minimum_is_poison])
}

fn count_zeros(e: &mut Emitter, call: &Call, intrinsic: &str) -> Value {
    let zero_is_poison = e.int(Ir::scalar(Lane::Int(1)), 0);
    e.intrinsic(intrinsic, &[call.arguments[0].clone(), zero_is_poison])
}

fn extreme(e: &mut Emitter, call: &Call, op: &str, a: usize, b: usize) -> Value {
    let arguments = [call.arguments[a].clone(), call.arguments[b].clone()];
    e.intrinsic(&format!("{}{op}", call.sign()), &arguments)
}

/// (x + y) / 2 without overflow: what both have plus half of what one has, or minus it to round upwards.
fn average(e: &mut Emitter, call: &Call, common: &str, combine: &str) -> Value {
    let [x, y] = call.arguments else { unreachable!("averages have two parameters") };
    let common = e.binary(common, x, y);
    let different = e.binary("xor", x, y);
    let one = e.int(x.ir, 1);
    let half = e.binary(if call.element.is_signed() { "ashr" } else { "lshr" }, &different, &one);
    e.binary(combine, &common, &half)
}

/// The arguments in double the width.
fn widened(e: &mut Emitter, call: &Call) -> Vec<Value> {
    let wide = Lane::Int(call.element.bits() * 2);
    let op = if call.element.is_signed() { "sext" } else { "zext" };
    call.arguments.iter().map(|a| e.cast(op, a, wide)).collect()
}

fn multiply_high(e: &mut Emitter, call: &Call) -> Value {
    let wide = widened(e, call);
    let product = e.binary("mul", &wide[0], &wide[1]);
    let count = e.int(product.ir, call.element.bits().into());
    let high = e.binary("lshr", &product, &count);
    e.cast("trunc", &high, call.result.lane)
}

/// The exact a * b + c fits into double the width for either sign.
fn multiply_add_saturated(e: &mut Emitter, call: &Call) -> Value {
    let wide = widened(e, call);
    let product = e.binary("mul", &wide[0], &wide[1]);
    let sum = e.binary("add", &product, &wide[2]);
    let bits = call.element.bits();
    let (low, high) = match call.element.is_signed() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let [low, high] = [low, high].map(|bound| e.int(sum.ir, bound));
    let above = e.intrinsic(&format!("{}max", call.sign()), &[sum, low]);
    let clamped = e.intrinsic(&format!("{}min", call.sign()), &[above, high]);
    e.cast("trunc", &clamped, call.result.lane)
}
