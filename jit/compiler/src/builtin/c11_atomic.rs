//! Builtins: atomics after C11 (OpenCL C 2.0, 6.13.11; 3.0, 6.15.12). An order is a number that only inlining makes known: each
//! body has a way for every order that LLVM tells apart, of which one stays. On x86-64 that is an instruction of its own for stores
//! (`xchg` if sequentially consistent, else `mov`) and fences (`mfence`, else none); all other atomics have the same for every
//! order, which then says what the compiler may move past them.
//!
//! A scope may be wider than was asked for: all are the whole machine, which costs nothing, for its caches are coherent and an
//! instruction is the same for every scope. Only of fences, whose strongest is an instruction, those within a work-group need
//! none: one thread runs it.
//!
//! Sums, differences and extremes of floats are those of cl_ext_float_atomics.

use super::emit::{Emitter, Ir, Lane, Value};
use super::pattern::Generic;
use super::table::{Call, Effect, FIXED, Rows, nothing};
use super::types::{Element, Type};

const INTEGERS: Generic =
    Generic { elements: &[Element::Int, Element::UInt, Element::Long, Element::ULong], widths: &[1] };
const NUMBERS: Generic = {
    use Element::*;
    Generic { elements: &[Int, UInt, Long, ULong, Float, Double], widths: &[1] }
};
const LONG: Generic = Generic { elements: &[Element::Long], widths: &[1] };
const ULONG: Generic = Generic { elements: &[Element::ULong], widths: &[1] };
const FLOATS: Generic = Generic { elements: &[Element::Float, Element::Double], widths: &[1] };
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

/// The orders below `memory_order_seq_cst`: their numbers in C11, which clang's header takes, in SPIR 2.0 (table 9), and what
/// LLVM calls them.
const ORDERS: [(i128, i128, &str); 4] =
    [(0, 0, "monotonic"), (2, 1, "acquire"), (3, 2, "release"), (4, 3, "acq_rel")];

/// What orders are called in mangled names once the producers' differing numbers are told apart.
pub const SPIR_ORDER: &str = "spir_memory_order";
/// The same for C11's numbers.
pub const C11_ORDER: &str = "c11_memory_order";

/// Whether a type of this name is `memory_order`.
pub fn is_order(name: &str) -> bool {
    ["memory_order", SPIR_ORDER, C11_ORDER].contains(&name)
}

/// The orders that an operation can have.
const MODIFYING: &[&str] = &["monotonic", "acquire", "release", "acq_rel"];
const LOADING: &[&str] = &["monotonic", "acquire"];
const STORING: &[&str] = &["monotonic", "release"];

pub fn rows(rows: &mut Rows) {
    // Not atomic itself.
    rows.expand("atomic_init", NUMBERS, "void(_Atomic*T,T)", |e, call| {
        e.store(&call.arguments[1], &call.arguments[0], alignment(call));
        nothing()
    });
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
        for op in ["add", "sub", "min", "max"] {
            rows.expand(&name(&format!("fetch_{op}")), FLOATS, pattern("T(_Atomic*T,T"), move |e, call| {
                modify(e, call, &format!("f{op}"), &call.arguments[1])
            });
        }
        rows.expand(&name("load"), NUMBERS, pattern("T(_Atomic*T"), load);
        rows.expand(&name("store"), NUMBERS, pattern("void(_Atomic*T,T"), |e, call| {
            let bits = e.bits(&call.arguments[1]);
            store(e, call, &bits)
        });
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
        for (stem, weak) in [("compare_exchange_strong", ""), ("compare_exchange_weak", " weak")] {
            rows.expand(&name(stem), NUMBERS, compared.clone(), move |e, call| {
                compare_exchange(e, call, weak)
            });
        }
        rows.expand(&name("flag_test_and_set"), FLAG, pattern("bool(_Atomic*T"), |e, call| {
            let set = e.int(call.generic(), 1);
            let old = modify(e, call, "xchg", &set);
            let clear = e.int(call.generic(), 0);
            e.compare("icmp ne", &old, &clear)
        });
        rows.expand(&name("flag_clear"), FLAG, pattern("void(_Atomic*T"), |e, call| {
            let clear = e.int(call.generic(), 0);
            store(e, call, &clear)
        });
    }
    rows.expand("atomic_work_item_fence", FIXED, "void(uint,#memory_order,#memory_scope)", fence);
    rows.mark("atomic_work_item_fence", Effect::Memory);
}

fn alignment(call: &Call) -> u32 {
    call.element.bits() / 8
}

/// Writes an operation for each order that it can have; what isn't named is sequentially consistent. Yields its values.
fn ordered(
    e: &mut Emitter,
    call: &Call,
    known: &[&str],
    write: impl FnMut(&mut Emitter, &str) -> Vec<Value>,
) -> Vec<Value> {
    by_order(e, call, 0, known, write)
}

/// The same by the order that comes as the call's `nth`.
fn by_order(
    e: &mut Emitter,
    call: &Call,
    nth: usize,
    known: &[&str],
    mut write: impl FnMut(&mut Emitter, &str) -> Vec<Value>,
) -> Vec<Value> {
    let takes_order = |ty: &Type| matches!(ty, Type::Named(name) if is_order(name));
    let mut orders = (0..call.parameters.len()).filter(|&number| takes_order(&call.parameters[number]));
    let Some(number) = orders.nth(nth) else { return write(e, "seq_cst") };
    let is_spir = call.parameters[number] == Type::Named(SPIR_ORDER.to_string());
    let (strongest, joined) = (e.fresh(), e.fresh());
    let mut ways = vec![("seq_cst", strongest.clone())];
    let mut cases = String::new();
    for (c11, spir, name) in ORDERS.into_iter().filter(|order| known.contains(&order.2)) {
        let label = e.fresh();
        cases += &format!(" i32 {}, label %{label}", if is_spir { spir } else { c11 });
        ways.push((name, label));
    }
    e.effect(&format!("switch {}, label %{strongest} [{cases} ]", call.arguments[number]));
    let mut values: Vec<(Vec<Value>, String)> = Vec::new();
    for (name, label) in ways {
        e.label(&label);
        let results = write(e, name);
        // What was written may have blocks of its own.
        let last = e.fresh();
        e.effect(&format!("br label %{last}"));
        e.label(&last);
        values.push((results, last));
        e.effect(&format!("br label %{joined}"));
    }
    e.label(&joined);
    let first: Vec<Ir> = values[0].0.iter().map(|value| value.ir).collect();
    let join = |(index, ir): (usize, Ir)| {
        let incoming = values.iter().map(|(list, label)| format!("[ {}, %{label} ]", list[index].text));
        e.value(ir, &format!("phi {ir} {}", incoming.collect::<Vec<_>>().join(", ")))
    };
    first.into_iter().enumerate().map(join).collect()
}

/// The only value.
fn single(mut values: Vec<Value>) -> Value {
    values.pop().unwrap_or_else(nothing)
}

fn modify(e: &mut Emitter, call: &Call, op: &str, operand: &Value) -> Value {
    let object = &call.arguments[0];
    single(ordered(e, call, MODIFYING, |e, order| {
        vec![e.value(operand.ir, &format!("atomicrmw {op} {object}, {operand} {order}"))]
    }))
}

fn load(e: &mut Emitter, call: &Call) -> Value {
    let (object, align) = (&call.arguments[0], alignment(call));
    let bits = Ir::scalar(Lane::Int(call.element.bits()));
    let value = single(ordered(e, call, LOADING, |e, order| {
        vec![e.value(bits, &format!("load atomic {bits}, {object} {order}, align {align}"))]
    }));
    e.cast("bitcast", &value, call.result.lane)
}

fn store(e: &mut Emitter, call: &Call, bits: &Value) -> Value {
    let (object, align) = (&call.arguments[0], alignment(call));
    single(ordered(e, call, STORING, |e, order| {
        e.effect(&format!("store atomic {bits}, {object} {order}, align {align}"));
        Vec::new()
    }))
}

/// The expected value is replaced by the one found, which is the same if the exchange took place.
fn compare_exchange(e: &mut Emitter, call: &Call, weak: &str) -> Value {
    let (object, expected) = (&call.arguments[0], &call.arguments[1]);
    let (bits, flag) = (Ir::scalar(Lane::Int(call.element.bits())), Ir::scalar(Lane::Int(1)));
    let old = e.load(bits, expected, alignment(call));
    let new = e.bits(&call.arguments[2]);
    let values = by_order(e, call, 0, MODIFYING, |e, success| {
        by_order(e, call, 1, LOADING, |e, failure| {
            let pair = format!("%{}", e.fresh());
            e.effect(&format!("{pair} = cmpxchg{weak} {object}, {old}, {new} {success} {failure}"));
            let member = |e: &mut Emitter, ir, index: u32| {
                e.value(ir, &format!("extractvalue {{ {bits}, i1 }} {pair}, {index}"))
            };
            vec![member(e, bits, 0), member(e, flag, 1)]
        })
    });
    e.store(&values[0], expected, alignment(call));
    values[1].clone()
}

fn fence(e: &mut Emitter, call: &Call) -> Value {
    let scope = &call.arguments[2];
    ordered(e, call, MODIFYING, |e, order| {
        match order {
            "monotonic" => {}
            "seq_cst" => {
                let [wide, narrow, done] = [0; 3].map(|_| e.fresh());
                let is_wide = beyond_work_group(e, scope);
                e.effect(&format!("br {is_wide}, label %{wide}, label %{narrow}"));
                for (label, order) in [(wide, order), (narrow, "acq_rel")] {
                    e.label(&label);
                    e.effect(&format!("fence {order}"));
                    e.effect(&format!("br label %{done}"));
                }
                e.label(&done);
            }
            _ => e.effect(&format!("fence {order}")),
        }
        Vec::new()
    });
    nothing()
}

/// Whether a scope is that of the device or of all devices: 2 or 3.
pub fn beyond_work_group(e: &mut Emitter, scope: &Value) -> Value {
    let [device, two] = [2, 2].map(|number| e.int(scope.ir, number));
    let above = e.binary("sub", scope, &device);
    e.compare("icmp ult", &above, &two)
}
