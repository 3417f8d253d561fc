//! Builtins: atomic functions (6.12.11) and their `atom_` forms of the int32 and int64 extensions. OpenCL 1.2
//! atomics order nothing but themselves: `monotonic`.

use super::emit::{Emitter, Ir, Lane, Value};
use super::pattern::Generic;
use super::table::{Call, Rows};
use super::types::Element;

const INT32: Generic = Generic { elements: &[Element::Int, Element::UInt], widths: &[1] };
const INT64: Generic =
    Generic { elements: &[Element::Int, Element::UInt, Element::Long, Element::ULong], widths: &[1] };
const FLOAT: Generic = Generic { elements: &[Element::Float], widths: &[1] };

/// Names after `atomic_` and what `atomicrmw` calls them; a question mark becomes `u` for unsigned types.
const WITH_OPERAND: [(&str, &str); 8] = [
    ("add", "add"),
    ("sub", "sub"),
    ("xchg", "xchg"),
    ("and", "and"),
    ("or", "or"),
    ("xor", "xor"),
    ("min", "?min"),
    ("max", "?max"),
];

pub fn rows(rows: &mut Rows) {
    for (prefix, generic) in [("atomic", INT32), ("atom", INT64)] {
        for (name, op) in WITH_OPERAND {
            rows.expand(&format!("{prefix}_{name}"), generic, "T(atomic*T,T)", move |e, call| {
                let op = op.replace('?', if call.element.is_signed() { "" } else { "u" });
                modify(e, call, &op, &call.arguments[1])
            });
        }
        for (name, op) in [("inc", "add"), ("dec", "sub")] {
            rows.expand(&format!("{prefix}_{name}"), generic, "T(atomic*T)", move |e, call| {
                let one = e.int(call.result, 1);
                modify(e, call, op, &one)
            });
        }
        rows.expand(&format!("{prefix}_cmpxchg"), generic, "T(atomic*T,T,T)", compare_exchange);
    }
    rows.expand("atomic_xchg", FLOAT, "T(atomic*T,T)", |e, call| {
        let bits = e.bits(&call.arguments[1]);
        let old = modify(e, call, "xchg", &bits);
        e.cast("bitcast", &old, Lane::Float)
    });
}

fn modify(e: &mut Emitter, call: &Call, op: &str, operand: &Value) -> Value {
    e.value(operand.ir, &format!("atomicrmw {op} {}, {operand} monotonic", call.arguments[0]))
}

fn compare_exchange(e: &mut Emitter, call: &Call) -> Value {
    let [pointer, expected, new] = call.arguments else { unreachable!("cmpxchg has three parameters") };
    let pair = format!("%{}", e.fresh());
    e.effect(&format!("{pair} = cmpxchg {pointer}, {expected}, {new} monotonic monotonic"));
    e.value(Ir::scalar(call.result.lane), &format!("extractvalue {{ {}, i1 }} {pair}, 0", call.result))
}
