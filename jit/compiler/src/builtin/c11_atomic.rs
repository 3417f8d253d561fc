//! Builtins: OpenCL C 3.0's atomics after C11 (6.15.12), in named address spaces. Every order is taken as the strongest: on
//! a processor with few orders that costs nothing but stores. Every scope is the whole machine.

use super::emit::{Emitter, Ir, Lane, Value};
use super::pattern::Generic;
use super::table::{Call, Effect, FIXED, Rows, nothing};
use super::types::Element;

const INTEGERS: Generic =
    Generic { elements: &[Element::Int, Element::UInt, Element::Long, Element::ULong], widths: &[1] };
const NUMBERS: Generic = {
    use Element::*;
    Generic { elements: &[Int, UInt, Long, ULong, Float, Double], widths: &[1] }
};
const LONG: Generic = Generic { elements: &[Element::Long], widths: &[1] };
const ULONG: Generic = Generic { elements: &[Element::ULong], widths: &[1] };
/// `atomic_flag` is an `atomic_int`.
const FLAG: Generic = Generic { elements: &[Element::Int], widths: &[1] };

/// What a name ends with, and the parameters that come last; a comparison has two orders.
const FORMS: [(&str, &str); 3] =
    [("", ""), ("_explicit", ",#memory_order"), ("_explicit", ",#memory_order,#memory_scope")];

/// Names after `atomic_fetch_` and what `atomicrmw` calls them; a question mark becomes `u` for unsigned types.
const FETCHES: [(&str, &str); 7] = [
    ("add", "add"),
    ("sub", "sub"),
    ("and", "and"),
    ("or", "or"),
    ("xor", "xor"),
    ("min", "?min"),
    ("max", "?max"),
];

pub fn rows(rows: &mut Rows) {
    rows.expand("atomic_init", NUMBERS, "void(_Atomic*T,T)", store);
    for (suffix, last) in FORMS {
        let name = |stem: &str| format!("atomic_{stem}{suffix}");
        let pattern = |front: &str| format!("{front}{last})");
        for (stem, op) in FETCHES {
            let how = move |e: &mut Emitter, call: &Call| {
                let op = op.replace('?', if call.element.is_signed() { "" } else { "u" });
                modify(e, call, &op, &call.arguments[1])
            };
            let name = name(&format!("fetch_{stem}"));
            rows.expand(&name, INTEGERS, pattern("T(_Atomic*T,T"), how);
            // Of atomic_uintptr_t and atomic_intptr_t.
            rows.expand(&name, ULONG, pattern("T(_Atomic*T,I"), how);
            rows.expand(&name, LONG, pattern("T(_Atomic*T,U"), how);
        }
        rows.expand(&name("load"), NUMBERS, pattern("T(_Atomic*T"), load);
        rows.expand(&name("store"), NUMBERS, pattern("void(_Atomic*T,T"), store);
        rows.expand(&name("exchange"), NUMBERS, pattern("T(_Atomic*T,T"), |e, call| {
            let bits = e.bits(&call.arguments[1]);
            let old = modify(e, call, "xchg", &bits);
            e.cast("bitcast", &old, call.result.lane)
        });
        let compared = pattern(if last.is_empty() {
            "bool(_Atomic*T,*T,T"
        } else {
            "bool(_Atomic*T,*T,T,#memory_order"
        });
        let names = format!("{} {}", name("compare_exchange_strong"), name("compare_exchange_weak"));
        rows.expand(&names, NUMBERS, compared, compare_exchange);
        rows.expand(&name("flag_test_and_set"), FLAG, pattern("bool(_Atomic*T"), |e, call| {
            let set = e.int(call.generic(), 1);
            let old = modify(e, call, "xchg", &set);
            let clear = e.int(call.generic(), 0);
            e.compare("icmp ne", &old, &clear)
        });
        rows.expand(&name("flag_clear"), FLAG, pattern("void(_Atomic*T"), |e, call| {
            let clear = e.int(call.generic(), 0);
            store_bits(e, call, &clear)
        });
    }
    rows.expand("atomic_work_item_fence", FIXED, "void(uint,#memory_order,#memory_scope)", |e, _| {
        e.effect("fence seq_cst");
        nothing()
    });
    rows.mark("atomic_work_item_fence", Effect::Memory);
}

fn alignment(call: &Call) -> u32 {
    call.element.bits() / 8
}

fn modify(e: &mut Emitter, call: &Call, op: &str, operand: &Value) -> Value {
    e.value(operand.ir, &format!("atomicrmw {op} {}, {operand} seq_cst", call.arguments[0]))
}

fn load(e: &mut Emitter, call: &Call) -> Value {
    let bits = Ir::scalar(Lane::Int(call.element.bits()));
    let value = e.value(
        bits,
        &format!("load atomic {bits}, {} seq_cst, align {}", call.arguments[0], alignment(call)),
    );
    e.cast("bitcast", &value, call.result.lane)
}

fn store(e: &mut Emitter, call: &Call) -> Value {
    let bits = e.bits(&call.arguments[1]);
    store_bits(e, call, &bits)
}

fn store_bits(e: &mut Emitter, call: &Call, bits: &Value) -> Value {
    e.effect(&format!("store atomic {bits}, {} seq_cst, align {}", call.arguments[0], alignment(call)));
    nothing()
}

/// The expected value is replaced by the one found, which is the same if the exchange took place.
fn compare_exchange(e: &mut Emitter, call: &Call) -> Value {
    let (object, expected) = (&call.arguments[0], &call.arguments[1]);
    let bits = Ir::scalar(Lane::Int(call.element.bits()));
    let old = e.load(bits, expected, alignment(call));
    let new = e.bits(&call.arguments[2]);
    let pair = format!("%{}", e.fresh());
    e.effect(&format!("{pair} = cmpxchg {object}, {old}, {new} seq_cst seq_cst"));
    let found = e.value(bits, &format!("extractvalue {{ {bits}, i1 }} {pair}, 0"));
    e.store(&found, expected, alignment(call));
    e.value(Ir::scalar(Lane::Int(1)), &format!("extractvalue {{ {bits}, i1 }} {pair}, 1"))
}
