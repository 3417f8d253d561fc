//! Builtins: relational functions (6.12.6). Scalars answer 0 or 1, vectors 0 or -1 in integers of their size.

use super::emit::{Emitter, Lane, Value};
use super::table::{ANY, Call, FLOATS, Rows, SIGNED};

/// Functions that are one comparison.
const COMPARISONS: [(&str, &str); 9] = [
    ("isequal", "oeq"),
    ("isnotequal", "une"),
    ("isgreater", "ogt"),
    ("isgreaterequal", "oge"),
    ("isless", "olt"),
    ("islessequal", "ole"),
    ("islessgreater", "one"),
    ("isordered", "ord"),
    ("isunordered", "uno"),
];

pub fn rows(rows: &mut Rows) {
    for (name, predicate) in COMPARISONS {
        rows.expand(name, FLOATS, "R(T,T)", move |e, call| {
            let truth = e.compare(&format!("fcmp {predicate}"), &call.arguments[0], &call.arguments[1]);
            answer(e, call, &truth)
        });
    }
    rows.expand("isnan", FLOATS, "R(T)", |e, call| {
        let x = &call.arguments[0];
        let truth = e.compare("fcmp uno", x, x);
        answer(e, call, &truth)
    });
    for (name, predicate) in [("isinf", "oeq"), ("isfinite", "olt")] {
        rows.expand(name, FLOATS, "R(T)", move |e, call| {
            let truth = compare_magnitude(e, call, predicate, f64::INFINITY);
            answer(e, call, &truth)
        });
    }
    rows.expand("isnormal", FLOATS, "R(T)", |e, call| {
        let smallest = match call.generic().lane {
            Lane::Half => 2f64.powi(-14),
            Lane::Float => f32::MIN_POSITIVE.into(),
            _ => f64::MIN_POSITIVE,
        };
        let finite = compare_magnitude(e, call, "olt", f64::INFINITY);
        let large = compare_magnitude(e, call, "oge", smallest);
        let truth = e.binary("and", &finite, &large);
        answer(e, call, &truth)
    });
    rows.expand("signbit", FLOATS, "R(T)", |e, call| {
        let bits = e.bits(&call.arguments[0]);
        let truth = is_negative(e, &bits);
        answer(e, call, &truth)
    });
    for (name, op) in [("any", "or"), ("all", "and")] {
        rows.expand(name, SIGNED, "int(T)", move |e, call| {
            let folded = e.reduce(op, &call.arguments[0]);
            let truth = is_negative(e, &folded);
            e.cast("zext", &truth, Lane::Int(32))
        });
    }
    rows.expand("bitselect", ANY, "T(T,T,T)", bit_select);
    for pattern in ["T(T,T,I)", "T(T,T,U)"] {
        rows.expand("select", ANY, pattern, |e, call| {
            let [otherwise, then, condition] = call.arguments else {
                unreachable!("select has three parameters")
            };
            let truth = match call.width {
                1 => {
                    let zero = e.int(condition.ir, 0);
                    e.compare("icmp ne", condition, &zero)
                }
                _ => is_negative(e, condition),
            };
            e.select(&truth, then, otherwise)
        });
    }
}

fn answer(e: &mut Emitter, call: &Call, truth: &Value) -> Value {
    e.cast(if call.width == 1 { "zext" } else { "sext" }, truth, call.result.lane)
}

fn is_negative(e: &mut Emitter, x: &Value) -> Value {
    let zero = e.int(x.ir, 0);
    e.compare("icmp slt", x, &zero)
}

fn compare_magnitude(e: &mut Emitter, call: &Call, predicate: &str, bound: f64) -> Value {
    let magnitude = e.intrinsic("fabs", call.arguments);
    let bound = e.float(magnitude.ir, bound);
    e.compare(&format!("fcmp {predicate}"), &magnitude, &bound)
}

/// Each bit of b where c has a one, else of a.
fn bit_select(e: &mut Emitter, call: &Call) -> Value {
    let bits: Vec<Value> = call.arguments.iter().map(|a| e.bits(a)).collect();
    let ones = e.int(bits[2].ir, -1);
    let inverse = e.binary("xor", &bits[2], &ones);
    let from_a = e.binary("and", &bits[0], &inverse);
    let from_b = e.binary("and", &bits[1], &bits[2]);
    let mixed = e.binary("or", &from_a, &from_b);
    e.cast("bitcast", &mixed, call.result.lane)
}
