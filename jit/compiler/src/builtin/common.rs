//! Builtins: common functions (6.12.4). All within the accuracy of their plain formulas, as the specification asks.

use super::emit::{Emitter, Value};
use super::table::{Call, FLOATS, Rows};
use std::f64::consts::PI;

pub fn rows(rows: &mut Rows) {
    for (name, predicate) in [("min", "olt"), ("max", "ogt")] {
        for pattern in ["T(T,T)", "T(T,E)"] {
            rows.expand(name, FLOATS, pattern, move |e, call| {
                extreme(e, predicate, &call.arguments[0], &call.arguments[1])
            });
        }
    }
    for pattern in ["T(T,T,T)", "T(T,E,E)"] {
        rows.expand("clamp", FLOATS, pattern, |e, call| {
            clamp(e, &call.arguments[0], &call.arguments[1], &call.arguments[2])
        });
    }
    for (name, factor) in [("degrees", 180.0 / PI), ("radians", PI / 180.0)] {
        rows.formula(name, FLOATS, "T(T)", move |e, call| {
            let factor = if call.element.bits() == 32 { f64::from(factor as f32) } else { factor };
            let factor = e.float(call.result, factor);
            e.binary("fmul", &call.arguments[0], &factor)
        });
    }
    for pattern in ["T(T,T,T)", "T(T,T,E)"] {
        rows.formula("mix", FLOATS, pattern, |e, call| {
            let [x, y, a] = call.arguments else { unreachable!("mix has three parameters") };
            let difference = e.binary("fsub", y, x);
            let part = e.binary("fmul", &difference, a);
            e.binary("fadd", x, &part)
        });
    }
    for pattern in ["T(T,T)", "T(E,T)"] {
        rows.expand("step", FLOATS, pattern, |e, call| {
            let [edge, x] = call.arguments else { unreachable!("step has two parameters") };
            let below = e.compare("fcmp olt", x, edge);
            let [zero, one] = [0.0, 1.0].map(|value| e.float(call.result, value));
            e.select(&below, &zero, &one)
        });
    }
    for pattern in ["T(T,T,T)", "T(E,E,T)"] {
        rows.formula("smoothstep", FLOATS, pattern, smooth_step);
    }
    rows.expand("sign", FLOATS, "T(T)", sign);
}

/// `x < y ? x : y` or `x > y ? x : y`, which machines have as one instruction. NaN is undefined here.
fn extreme(e: &mut Emitter, predicate: &str, x: &Value, y: &Value) -> Value {
    let first = e.compare(&format!("fcmp {predicate}"), x, y);
    e.select(&first, x, y)
}

fn clamp(e: &mut Emitter, x: &Value, low: &Value, high: &Value) -> Value {
    let above = extreme(e, "ogt", x, low);
    extreme(e, "olt", &above, high)
}

fn smooth_step(e: &mut Emitter, call: &Call) -> Value {
    let [edge0, edge1, x] = call.arguments else { unreachable!("smoothstep has three parameters") };
    let [zero, one, two, three] = [0.0, 1.0, 2.0, 3.0].map(|value| e.float(call.result, value));
    let distance = e.binary("fsub", x, edge0);
    let range = e.binary("fsub", edge1, edge0);
    let ratio = e.binary("fdiv", &distance, &range);
    let t = clamp(e, &ratio, &zero, &one);
    let square = e.binary("fmul", &t, &t);
    let twice = e.binary("fmul", &two, &t);
    let rest = e.binary("fsub", &three, &twice);
    e.binary("fmul", &square, &rest)
}

/// 1 or -1; zeros keep their sign, NaN gives 0.
fn sign(e: &mut Emitter, call: &Call) -> Value {
    let x = &call.arguments[0];
    let [zero, one] = [0.0, 1.0].map(|value| e.float(call.result, value));
    let signed = e.intrinsic("copysign", &[one, x.clone()]);
    let is_zero = e.compare("fcmp oeq", x, &zero);
    let number = e.select(&is_zero, x, &signed);
    let is_nan = e.compare("fcmp uno", x, x);
    e.select(&is_nan, &zero, &number)
}
