//! Atomics and barriers: scopes and memory semantics become OpenCL C's scopes and orders.

use super::super::c11_atomic::C11_ORDER;
use super::super::emit::{Emitter, Lane, Value};
use super::super::types::{Element, Qualifiers, Type};
use super::{Argument, Call, INT, Ir, POINTER, VOID, as_result, by_number, forward, number, opaque, pointer};

/// OpenCL C's `memory_scope` for each of SPIR-V's scopes: cross-device, device, work-group, sub-group, invocation.
const SCOPES: [i128; 5] = [3, 2, 1, 4, 0];

/// The bits of memory semantics that are orders, and C11's numbers of them.
const ORDERS: [(i128, i128); 4] = [(0x2, 2), (0x4, 3), (0x8, 4), (0x10, 5)];

/// The bits that say which memory, and OpenCL C's flags.
const MEMORIES: [(i128, i128); 2] = [(0x100, 1), (0x200, 2)];

/// Instructions that change memory by an operand: OpenCL C's operation, and whether the operand is signed.
const FETCHES: [(&str, &str, bool); 13] = [
    ("AtomicIAdd", "fetch_add", true),
    ("AtomicISub", "fetch_sub", true),
    ("AtomicSMin", "fetch_min", true),
    ("AtomicUMin", "fetch_min", false),
    ("AtomicSMax", "fetch_max", true),
    ("AtomicUMax", "fetch_max", false),
    ("AtomicAnd", "fetch_and", true),
    ("AtomicOr", "fetch_or", true),
    ("AtomicXor", "fetch_xor", true),
    ("AtomicExchange", "exchange", true),
    ("AtomicFAddEXT", "fetch_add", true),
    ("AtomicFMinEXT", "fetch_min", true),
    ("AtomicFMaxEXT", "fetch_max", true),
];

/// The number of a list in which a number is found by an index that inlining makes known.
fn look_up(e: &mut Emitter, index: &Value, rows: impl IntoIterator<Item = (i128, i128)>) -> Value {
    let otherwise = e.int(INT, 0);
    rows.into_iter().fold(otherwise, |otherwise, (key, value)| {
        let (key, value) = (e.int(INT, key), e.int(INT, value));
        let found = e.compare("icmp eq", index, &key);
        e.select(&found, &value, &otherwise)
    })
}

/// A scope as an argument.
pub fn scope(e: &mut Emitter, scope: &Value) -> (Type, Value) {
    let rows = SCOPES.iter().enumerate().map(|(number, &scope)| (number as i128, scope));
    (opaque("memory_scope"), look_up(e, scope, rows))
}

/// The order of memory semantics as an argument.
fn order(e: &mut Emitter, semantics: &Value) -> (Type, Value) {
    let mask = e.int(INT, ORDERS.iter().map(|row| row.0).sum());
    let bits = e.binary("and", semantics, &mask);
    (opaque(C11_ORDER), look_up(e, &bits, ORDERS))
}

/// The flags of a fence.
fn flags(e: &mut Emitter, semantics: &Value) -> (Type, Value) {
    let none = e.int(INT, 0);
    let flags = MEMORIES.iter().fold(none, |flags, &(bit, flag)| {
        let shift = e.int(INT, i128::from((bit / flag).trailing_zeros()));
        let moved = e.binary("lshr", semantics, &shift);
        let flag = e.int(INT, flag);
        let flag = e.binary("and", &moved, &flag);
        e.binary("or", &flags, &flag)
    });
    (Type::scalar(Element::UInt), flags)
}

/// A pointer to an atomic object of this type. One to private memory, which no other work-item has, as a generic one.
fn object(e: &mut Emitter, place: &Argument, ty: Type) -> Option<(Type, Value)> {
    let generic = Ir::scalar(Lane::Pointer(4));
    let (space, value) = match place.value.ir.lane {
        Lane::Pointer(0) => (4, e.value(generic, &format!("addrspacecast {} to {generic}", place.value))),
        Lane::Pointer(space) => (space, place.value.clone()),
        _ => return None,
    };
    let qualifiers = Qualifiers { space, constant: false, volatile: true };
    Some((Type::Pointer(qualifiers, Box::new(Type::Atomic(Box::new(ty)))), value))
}

pub fn call(e: &mut Emitter, call: &Call) -> Option<Value> {
    match (call.op, call.arguments) {
        ("MemoryBarrier", [memory, semantics]) => {
            let order = order(e, &semantics.value);
            let (flags, scope) = (flags(e, &semantics.value), scope(e, &memory.value));
            Some(forward(e, "atomic_work_item_fence", VOID, &[flags, order, scope]))
        }
        ("ControlBarrier", [execution, memory, semantics]) => {
            let (flags, scope) = (flags(e, &semantics.value), scope(e, &memory.value));
            by_number(e, &execution.value, &[3, 4], |e, way| match way {
                0 => Some(forward(e, "sub_group_barrier", VOID, &[flags.clone(), scope.clone()])),
                1 => Some(super::super::table::nothing()),
                _ => Some(forward(e, "work_group_barrier", VOID, &[flags.clone(), scope.clone()])),
            })
        }
        _ if call.op.starts_with("Atomic") => atomic(e, call),
        _ => None,
    }
}

fn atomic(e: &mut Emitter, call: &Call) -> Option<Value> {
    let [place, scope, semantics, rest @ ..] = call.arguments else { return None };
    let result = call.ir()?;
    let scope = self::scope(e, &scope.value);
    let order = order(e, &semantics.value);
    let known = FETCHES.iter().find(|row| row.0 == call.op);
    match (call.op, rest) {
        (_, [operand]) if known.is_some() => {
            let &(_, name, signed) = known?;
            let ty = number(operand.value.ir, signed)?;
            let operands = [object(e, place, ty.clone())?, (ty, operand.value.clone()), order, scope];
            Some(forward(e, &format!("atomic_{name}_explicit"), result, &operands))
        }
        ("AtomicIIncrement" | "AtomicIDecrement", []) => {
            let ty = number(result, true)?;
            let one = e.int(result, 1);
            let name = if call.op == "AtomicIIncrement" { "add" } else { "sub" };
            let operands = [object(e, place, ty.clone())?, (ty, one), order, scope];
            Some(forward(e, &format!("atomic_fetch_{name}_explicit"), result, &operands))
        }
        ("AtomicLoad", []) => {
            let object = object(e, place, number(result, true)?)?;
            Some(forward(e, "atomic_load_explicit", result, &[object, order, scope]))
        }
        ("AtomicStore", [value]) => {
            let ty = number(value.value.ir, true)?;
            let operands = [object(e, place, ty.clone())?, (ty, value.value.clone()), order, scope];
            Some(forward(e, "atomic_store_explicit", result, &operands))
        }
        ("AtomicFlagTestAndSet", []) => {
            let object = object(e, place, Type::scalar(Element::Int))?;
            let bit = Ir::scalar(Lane::Int(1));
            let old = forward(e, "atomic_flag_test_and_set_explicit", bit, &[object, order, scope]);
            Some(if result == bit { old } else { as_result(e, &old, result) })
        }
        ("AtomicFlagClear", []) => {
            let object = object(e, place, Type::scalar(Element::Int))?;
            Some(forward(e, "atomic_flag_clear_explicit", result, &[object, order, scope]))
        }
        ("AtomicCompareExchange" | "AtomicCompareExchangeWeak", [unequal, value, comparator]) => {
            let ty = number(value.value.ir, true)?;
            let failure = self::order(e, &unequal.value);
            let bytes = result.lane.bits() / 8;
            let expected = e.value(POINTER, &format!("alloca {result}, align {bytes}"));
            e.store(&comparator.value, &expected, bytes);
            let operands = [
                object(e, place, ty.clone())?,
                (pointer(0, ty.clone()), expected.clone()),
                (ty, value.value.clone()),
                order,
                failure,
                scope,
            ];
            let name = "atomic_compare_exchange_strong_explicit";
            forward(e, name, Ir::scalar(Lane::Int(1)), &operands);
            Some(e.load(result, &expected, bytes))
        }
        _ => None,
    }
}
