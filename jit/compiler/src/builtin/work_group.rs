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

/// How work-items combine values.
pub const FORMS: [&str; 3] = ["reduce", "scan_inclusive", "scan_exclusive"];

/// Of conditions that are 0 or 1.
const LOGICAL: [(&str, &str); 3] = [("logical_and", "umin"), ("logical_or", "umax"), ("logical_xor", "xor")];

pub fn rows(rows: &mut Rows) {
    // Of conditions, which are 0 or 1.
    for (name, op) in [("work_group_all", "umin"), ("work_group_any", "umax")] {
        synchronizing(rows, name, FIXED, "int(int)", move |e, call| {
            combine_truth(e, &format!("group_reduce.{op}"), call.arguments)
        });
    }
    for pattern in ["T(T,size_t)", "T(T,size_t,size_t)", "T(T,size_t,size_t,size_t)"] {
        rows.expand("work_group_broadcast", COMBINED, pattern, broadcast);
    }
    rows.mark("work_group_broadcast", Effect::Barrier);
    for form in FORMS {
        // Products, bits and logic are those of `cl_khr_work_group_uniform_arithmetic`.
        let names = |op: &str| format!("work_group_{form}_{op}");
        combinations(rows, names, (COMBINED, INTEGERS), "", &format!("group_{form}"));
    }
}

/// Rows of what all work-items of a group must reach, or what must not be moved to where others of them come.
pub fn synchronizing(
    rows: &mut Rows,
    names: &str,
    generic: Generic,
    pattern: &str,
    how: impl Fn(&mut Emitter, &Call) -> Value + Send + Sync + Clone + 'static,
) {
    rows.expand(names, generic, pattern.to_string(), how);
    rows.mark(names, Effect::Barrier);
}

/// Rows of one primitive with each operation: on numbers, on bits and on conditions. `others` are the types behind the value's.
pub fn combinations(
    rows: &mut Rows,
    names: impl Fn(&str) -> String,
    (numbers, integers): (Generic, Generic),
    others: &str,
    primitive: &str,
) {
    let pattern = format!("T(T{others})");
    for op in ["add", "min", "max", "mul"] {
        let primitive = primitive.to_string();
        synchronizing(rows, &names(op), numbers, &pattern, move |e, call| {
            combine(e, &format!("{primitive}.{}", typed(op, call)), call.arguments)
        });
    }
    for op in ["and", "or", "xor"] {
        let primitive = primitive.to_string();
        synchronizing(rows, &names(op), integers, &pattern, move |e, call| {
            combine(e, &format!("{primitive}.{op}"), call.arguments)
        });
    }
    for (name, op) in LOGICAL {
        let primitive = primitive.to_string();
        synchronizing(rows, &names(name), FIXED, &format!("int(int{others})"), move |e, call| {
            combine_truth(e, &format!("{primitive}.{op}"), call.arguments)
        });
    }
}

/// 1 if the number isn't 0, else 0.
fn truth(e: &mut Emitter, number: &Value) -> Value {
    let zero = e.int(number.ir, 0);
    let condition = e.compare("icmp ne", number, &zero);
    e.cast("zext", &condition, INT.lane)
}

/// What the conditions of all combine to: the first argument is one.
fn combine_truth(e: &mut Emitter, primitive: &str, arguments: &[Value]) -> Value {
    let condition = truth(e, &arguments[0]);
    let all = combine(e, primitive, &[&[condition], &arguments[1..]].concat());
    // What is true of nobody is all ones.
    truth(e, &all)
}

/// `add`, `mul`, `min` or `max` of the call's type, as Kernel IR names it.
fn typed(op: &str, call: &Call) -> String {
    match (call.element.is_float(), op) {
        (true, op) => format!("f{op}"),
        (false, "min" | "max") => format!("{}{op}", call.sign()),
        (false, op) => op.to_string(),
    }
}

/// What the work-items combine; all of them call it, each with its value before other arguments. Halves in float, so that a sum
/// of many does not lose the last ones.
fn combine(e: &mut Emitter, primitive: &str, arguments: &[Value]) -> Value {
    let value = &arguments[0];
    let wide = e.half_to_float(value);
    let name = format!("spirula.{primitive}.{}", wide.ir.suffix());
    let arguments = [std::slice::from_ref(&wide), &arguments[1..]].concat();
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
    let all = combine(e, "group_reduce.or", &[part]);
    e.cast("bitcast", &all, value.ir.lane)
}
