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

pub fn rows(rows: &mut Rows) {
    // Of conditions, which are 0 or 1.
    for (name, op) in [("work_group_all", "umin"), ("work_group_any", "umax")] {
        rows.expand(name, FIXED, "int(int)", move |e, call| {
            let condition = truth(e, &call.arguments[0]);
            combine(e, &format!("group_reduce.{op}"), &condition)
        });
        rows.mark(name, Effect::Barrier);
    }
    for pattern in ["T(T,size_t)", "T(T,size_t,size_t)", "T(T,size_t,size_t,size_t)"] {
        rows.expand("work_group_broadcast", COMBINED, pattern, broadcast);
    }
    rows.mark("work_group_broadcast", Effect::Barrier);
    for op in ["add", "min", "max"] {
        for (name, primitive) in [
            ("reduce", "group_reduce"),
            ("scan_inclusive", "group_scan_inclusive"),
            ("scan_exclusive", "group_scan_exclusive"),
        ] {
            let name = format!("work_group_{name}_{op}");
            rows.expand(&name, COMBINED, "T(T)", move |e, call| {
                combine(e, &format!("{primitive}.{}", typed(op, call)), &call.arguments[0])
            });
            rows.mark(&name, Effect::Barrier);
        }
    }
}

/// 1 if the number isn't 0, else 0.
pub fn truth(e: &mut Emitter, number: &Value) -> Value {
    let zero = e.int(number.ir, 0);
    let condition = e.compare("icmp ne", number, &zero);
    e.cast("zext", &condition, INT.lane)
}

/// `add`, `min` or `max` of the call's type, as Kernel IR names it.
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
