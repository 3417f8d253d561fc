//! Builtins: work-group functions (OpenCL C 2.0, 6.13.15). All are reductions or scans, which Kernel IR has.

use super::emit::{Emitter, Ir, Lane, Value};
use super::pattern::Generic;
use super::table::{Call, Effect, FIXED, Rows};
use super::types::Element;

const INT: Ir = Ir::scalar(Lane::Int(32));
const SIZE: Ir = Ir::scalar(Lane::Int(64));

/// The types of reductions, scans and broadcasts.
pub const COMBINED: Generic = {
    use Element::*;
    Generic { elements: &[Int, UInt, Long, ULong, Half, Float, Double], widths: &[1] }
};

/// The types of operations on bits.
const INTEGERS: Generic = {
    use Element::*;
    Generic { elements: &[Int, UInt, Long, ULong], widths: &[1] }
};

/// What functions begin with, and the primitives.
const FORMS: [(&str, &str); 3] = [
    ("work_group_reduce", "group_reduce"),
    ("work_group_scan_inclusive", "group_scan_inclusive"),
    ("work_group_scan_exclusive", "group_scan_exclusive"),
];

/// Of conditions that are 0 or 1.
pub const LOGICAL: [(&str, &str); 3] =
    [("logical_and", "umin"), ("logical_or", "umax"), ("logical_xor", "xor")];

pub fn rows(rows: &mut Rows) {
    // Of conditions, which are 0 or 1.
    for (name, op) in [("work_group_all", "umin"), ("work_group_any", "umax")] {
        synchronizing(rows, name, FIXED, "int(int)", move |e, call| {
            combine_truth(e, &format!("group_reduce.{op}"), &call.arguments[0])
        });
    }
    for pattern in ["T(T,size_t)", "T(T,size_t,size_t)", "T(T,size_t,size_t,size_t)"] {
        rows.expand("work_group_broadcast", COMBINED, pattern, broadcast);
    }
    rows.mark("work_group_broadcast", Effect::Barrier);
    for (form, primitive) in FORMS {
        // Products, bits and logic are those of `cl_khr_work_group_uniform_arithmetic`.
        for op in ["add", "min", "max", "mul"] {
            synchronizing(rows, &format!("{form}_{op}"), COMBINED, "T(T)", move |e, call| {
                combine(e, &format!("{primitive}.{}", typed(op, call)), &call.arguments[0])
            });
        }
        for op in ["and", "or", "xor"] {
            synchronizing(rows, &format!("{form}_{op}"), INTEGERS, "T(T)", move |e, call| {
                combine(e, &format!("{primitive}.{op}"), &call.arguments[0])
            });
        }
        for (name, op) in LOGICAL {
            synchronizing(rows, &format!("{form}_{name}"), FIXED, "int(int)", move |e, call| {
                combine_truth(e, &format!("{primitive}.{op}"), &call.arguments[0])
            });
        }
    }
}

/// Rows of what all work-items of a group must reach.
fn synchronizing(
    rows: &mut Rows,
    name: &str,
    generic: Generic,
    pattern: &str,
    how: impl Fn(&mut Emitter, &Call) -> Value + Send + Sync + Clone + 'static,
) {
    rows.expand(name, generic, pattern.to_string(), how);
    rows.mark(name, Effect::Barrier);
}

/// 1 if the number isn't 0, else 0.
pub fn truth(e: &mut Emitter, number: &Value) -> Value {
    let zero = e.int(number.ir, 0);
    let condition = e.compare("icmp ne", number, &zero);
    e.cast("zext", &condition, INT.lane)
}

/// What the conditions of all combine to.
pub fn combine_truth(e: &mut Emitter, primitive: &str, condition: &Value) -> Value {
    let condition = truth(e, condition);
    let all = combine(e, primitive, &condition);
    // What is true of nobody is all ones.
    truth(e, &all)
}

/// `add`, `mul`, `min` or `max` of the call's type, as Kernel IR names it.
pub fn typed(op: &str, call: &Call) -> String {
    match (call.element.is_float(), op) {
        (true, op) => format!("f{op}"),
        (false, "min" | "max") => format!("{}{op}", call.sign()),
        (false, op) => op.to_string(),
    }
}

/// What the work-items combine; all of them call it.
pub fn combine(e: &mut Emitter, primitive: &str, value: &Value) -> Value {
    combine_with(e, primitive, value, &[])
}

/// The same of a primitive that takes more than the value. Halves in float, so that a sum of many does not lose the last ones.
pub fn combine_with(e: &mut Emitter, primitive: &str, value: &Value, others: &[Value]) -> Value {
    let wide = e.half_to_float(value);
    let name = format!("spirula.{primitive}.{}", wide.ir.suffix());
    let arguments = [std::slice::from_ref(&wide), others].concat();
    let all = e.call(&name, wide.ir, &arguments, "convergent nounwind");
    e.cast("fptrunc", &all, value.ir.lane)
}

/// The bits of one work-item's value, and zeroes of all others, or-ed.
fn broadcast(e: &mut Emitter, call: &Call) -> Value {
    let Some((value, ids)) = call.arguments.split_first() else { unreachable!("it has parameters") };
    let own = Value { ir: Ir::scalar(Lane::Int(1)), text: "true".into() };
    let chosen = ids.iter().enumerate().fold(own, |chosen, (dimension, id)| {
        let own = e.primitive(&format!("local_id.{dimension}"), SIZE);
        let same = e.compare("icmp eq", &own, id);
        e.binary("and", &chosen, &same)
    });
    let bits = e.bits(value);
    let none = e.int(bits.ir, 0);
    let part = e.select(&chosen, &bits, &none);
    let all = combine(e, "group_reduce.or", &part);
    e.cast("bitcast", &all, value.ir.lane)
}
