//! What the work-items of a work-group or a sub-group do together.

use super::super::emit::{Emitter, Lane, Value};
use super::super::types::{Element, Qualifiers, Type};
use super::super::work_group::FORMS;
use super::{
    Call, INT, Ir, LONG, VOID, as_int, as_result, by_number, forward, number, opaque, pointer, resized,
};

/// SPIR-V's scope of a sub-group.
const SUB_GROUP: i128 = 3;

/// What instructions combine by, as their names end and as OpenCL C calls it, and whether integers are signed.
const OPERATIONS: [(&str, &str, bool); 16] = [
    ("IAdd", "add", true),
    ("FAdd", "add", true),
    ("SMin", "min", true),
    ("UMin", "min", false),
    ("FMin", "min", true),
    ("SMax", "max", true),
    ("UMax", "max", false),
    ("FMax", "max", true),
    ("IMul", "mul", true),
    ("FMul", "mul", true),
    ("BitwiseAnd", "and", true),
    ("BitwiseOr", "or", true),
    ("BitwiseXor", "xor", true),
    ("LogicalAnd", "logical_and", true),
    ("LogicalOr", "logical_or", true),
    ("LogicalXor", "logical_xor", true),
];

/// Instructions of sub-groups that hand values to others: the type of the operand besides the value, and OpenCL C's name.
const EXCHANGES: [(&str, &str, bool); 6] = [
    ("Broadcast", "sub_group_non_uniform_broadcast", false),
    ("Shuffle", "sub_group_shuffle", false),
    ("ShuffleXor", "sub_group_shuffle_xor", false),
    ("ShuffleUp", "sub_group_shuffle_up", false),
    ("ShuffleDown", "sub_group_shuffle_down", false),
    ("RotateKHR", "sub_group_rotate", true),
];

/// Questions about a ballot.
const BALLOTS: [(&str, &str); 2] =
    [("BallotFindLSB", "sub_group_ballot_find_lsb"), ("BallotFindMSB", "sub_group_ballot_find_msb")];

pub fn call(e: &mut Emitter, call: &Call) -> Option<Value> {
    if let Some(name) = call.op.strip_prefix("Subgroup") {
        return of_intel(e, name, call);
    }
    let name = call.op.strip_prefix("Group")?;
    if let Some(name) = name.strip_prefix("NonUniform") {
        return non_uniform(e, name, call);
    }
    match (name, call.arguments) {
        ("AsyncCopy", [_, to, from, count, stride, event]) => {
            let Type::Pointer(_, pointee) = &to.ty else { return None };
            let ty = |value: &Value| match value.ir.lane {
                super::Lane::Pointer(space) => Some(pointer(space, (**pointee).clone())),
                _ => None,
            };
            let [count, stride] = [count, stride].map(|size| resized(e, &size.value, LONG.lane));
            let size = Type::scalar(Element::ULong);
            let arguments = [
                (ty(&to.value)?, to.value.clone()),
                (ty(&from.value)?, from.value.clone()),
                (size.clone(), count),
                (size, stride),
                (opaque("ocl_event"), event.value.clone()),
            ];
            Some(forward(e, "async_work_group_strided_copy", call.ir()?, &arguments))
        }
        ("WaitEvents", [_, count, events]) => {
            let super::Lane::Pointer(space) = events.value.ir.lane else { return None };
            let events = (pointer(space, opaque("ocl_event")), events.value.clone());
            let count = (Type::scalar(Element::Int), count.value.clone());
            Some(forward(e, "wait_group_events", VOID, &[count, events]))
        }
        ("All" | "Any", [scope, predicate]) => {
            let predicate = as_int(e, &predicate.value);
            let name = name.to_lowercase();
            of_scope(e, &scope.value, |e, group| {
                let truth = [(Type::scalar(Element::Int), predicate.clone())];
                let all = forward(e, &format!("{group}_{name}"), INT, &truth);
                Some(as_result(e, &all, call.ir()?))
            })
        }
        ("Broadcast", [scope, value, id]) => broadcast(e, call, [&scope.value, &value.value, &id.value]),
        _ => {
            let [scope, form, value] = call.arguments else { return None };
            combine(e, call, name, &scope.value, &form.value, &value.value)
        }
    }
}

/// One way for sub-groups and one for work-groups, by the prefix of OpenCL C's functions.
fn of_scope(
    e: &mut Emitter,
    scope: &Value,
    mut write: impl FnMut(&mut Emitter, &str) -> Option<Value>,
) -> Option<Value> {
    by_number(e, scope, &[SUB_GROUP], |e, way| write(e, if way == 0 { "sub_group" } else { "work_group" }))
}

fn broadcast(e: &mut Emitter, call: &Call, [scope, value, id]: [&Value; 3]) -> Option<Value> {
    let ids: Vec<Value> = (0..id.ir.width).map(|index| e.extract(id, index)).collect();
    let scalar = Ir::scalar(value.ir.lane);
    let ty = number(scalar, true)?;
    of_scope(e, scope, |e, group| {
        let lanes = (0..value.ir.width).map(|lane| {
            let own = (ty.clone(), e.extract(value, lane));
            let arguments: Vec<(Type, Value)> = match group {
                "sub_group" => {
                    let id = resized(e, &ids[0], INT.lane);
                    vec![own, (Type::scalar(Element::UInt), id)]
                }
                _ => {
                    let ids = ids.iter().map(|id| resized(e, id, LONG.lane));
                    let ids: Vec<Value> = ids.collect();
                    let ids = ids.into_iter().map(|id| (Type::scalar(Element::ULong), id));
                    [widened(e, &own, true)?].into_iter().chain(ids).collect()
                }
            };
            let sent = forward(e, &format!("{group}_broadcast"), arguments[0].1.ir, &arguments);
            Some(resized(e, &sent, scalar.lane))
        });
        let lanes: Vec<Value> = lanes.collect::<Option<_>>()?;
        Some(e.gather(&lanes)).filter(|value| Some(value.ir) == call.ir())
    })
}

/// The operation that an instruction's name ends with.
fn operation(name: &str) -> Option<(&'static str, bool)> {
    let name = name.trim_end_matches("KHR");
    let row = OPERATIONS.iter().find(|row| row.0 == name)?;
    Some((row.1, row.2))
}

/// What a reduction or scan of a sub-group takes: conditions are ints, and so is what comes of them.
fn operand(e: &mut Emitter, op: &str, signed: bool, value: &Value) -> Option<(Type, Value)> {
    if op.starts_with("logical") {
        return Some((Type::scalar(Element::Int), as_int(e, value)));
    }
    Some((number(value.ir, signed)?, value.clone()))
}

fn combine(
    e: &mut Emitter,
    call: &Call,
    name: &str,
    scope: &Value,
    form: &Value,
    value: &Value,
) -> Option<Value> {
    let (op, signed) = operation(name)?;
    let result = call.ir()?;
    let argument = operand(e, op, signed, value)?;
    by_number(e, form, &[1, 2], |e, way| {
        let form = FORMS[(way + 1) % FORMS.len()];
        of_scope(e, scope, |e, group| {
            let (prefix, argument) = match group {
                "work_group" => (group, widened(e, &argument, signed)?),
                // Those for which not all work-items need come have all operations.
                _ => ("sub_group_non_uniform", argument.clone()),
            };
            let all =
                forward(e, &format!("{prefix}_{form}_{op}"), argument.1.ir, std::slice::from_ref(&argument));
            Some(as_result(e, &all, result))
        })
    })
}

/// A value as work-groups take it: they have no integers of less than 32 bits.
fn widened(e: &mut Emitter, (ty, value): &(Type, Value), signed: bool) -> Option<(Type, Value)> {
    match value.ir.lane {
        super::Lane::Int(8 | 16) => {
            let wide = e.cast(if signed { "sext" } else { "zext" }, value, INT.lane);
            Some((number(wide.ir, signed)?, wide))
        }
        _ => Some((ty.clone(), value.clone())),
    }
}

fn non_uniform(e: &mut Emitter, name: &str, call: &Call) -> Option<Value> {
    let result = call.ir()?;
    let (uint, int) = (Type::scalar(Element::UInt), Type::scalar(Element::Int));
    let uint4 = Type::Value(Element::UInt, 4);
    match (name, &call.arguments[1.min(call.arguments.len())..]) {
        ("Elect", []) => {
            let own = forward(e, "sub_group_elect", INT, &[]);
            Some(as_result(e, &own, result))
        }
        ("All" | "Any", [predicate]) => {
            let predicate = as_int(e, &predicate.value);
            let name = format!("sub_group_non_uniform_{}", name.to_lowercase());
            let all = forward(e, &name, INT, &[(int, predicate)]);
            Some(as_result(e, &all, result))
        }
        ("AllEqual", [value]) => {
            let value = (number(value.value.ir, true)?, value.value.clone());
            let all = forward(e, "sub_group_non_uniform_all_equal", INT, &[value]);
            Some(as_result(e, &all, result))
        }
        ("BroadcastFirst", [value]) => {
            let value = (number(value.value.ir, true)?, value.value.clone());
            Some(forward(e, "sub_group_broadcast_first", result, &[value]))
        }
        ("Ballot", [predicate]) => {
            let predicate = as_int(e, &predicate.value);
            Some(forward(e, "sub_group_ballot", result, &[(int, predicate)]))
        }
        ("InverseBallot", [ballot]) => {
            let own = forward(e, "sub_group_inverse_ballot", INT, &[(uint4, ballot.value.clone())]);
            Some(as_result(e, &own, result))
        }
        ("BallotBitExtract", [ballot, index]) => {
            let arguments = [(uint4, ballot.value.clone()), (uint, index.value.clone())];
            let bit = forward(e, "sub_group_ballot_bit_extract", INT, &arguments);
            Some(as_result(e, &bit, result))
        }
        ("BallotBitCount", [form, ballot]) => {
            const NAMES: [&str; 3] = ["inclusive_scan", "exclusive_scan", "bit_count"];
            let ballot = (uint4, ballot.value.clone());
            by_number(e, &form.value, &[1, 2], |e, way| {
                let name = format!("sub_group_ballot_{}", NAMES[way]);
                Some(forward(e, &name, result, std::slice::from_ref(&ballot)))
            })
        }
        ("RotateKHR", [value, delta, size]) => {
            let value = (number(value.value.ir, true)?, value.value.clone());
            let arguments = [value, (int, delta.value.clone()), (uint, size.value.clone())];
            Some(forward(e, "sub_group_clustered_rotate", result, &arguments))
        }
        (_, [value, other]) if EXCHANGES.iter().any(|row| row.0 == name) => {
            let &(_, function, signed) = EXCHANGES.iter().find(|row| row.0 == name)?;
            exchange(e, function, &value.value, (if signed { int } else { uint }, other.value.clone()))
        }
        (_, [ballot]) => {
            let (_, function) = BALLOTS.iter().find(|row| row.0 == name)?;
            Some(forward(e, function, result, &[(uint4, ballot.value.clone())]))
        }
        (_, [form, value, cluster @ ..]) => {
            let (op, signed) = operation(name)?;
            let argument = operand(e, op, signed, &value.value)?;
            let ir = argument.1.ir;
            if let [size] = cluster {
                let arguments = [argument, (uint, size.value.clone())];
                let all = forward(e, &format!("sub_group_clustered_reduce_{op}"), ir, &arguments);
                return Some(as_result(e, &all, result));
            }
            by_number(e, &form.value, &[1, 2], |e, way| {
                let form = FORMS[(way + 1) % FORMS.len()];
                let name = format!("sub_group_non_uniform_{form}_{op}");
                let all = forward(e, &name, ir, std::slice::from_ref(&argument));
                Some(as_result(e, &all, result))
            })
        }
        _ => None,
    }
}

/// What other work-items of the sub-group have, one lane after the other: only broadcasts are there for vectors.
fn exchange(e: &mut Emitter, function: &str, value: &Value, other: (Type, Value)) -> Option<Value> {
    let lanes = (0..value.ir.width).map(|lane| {
        let own = e.extract(value, lane);
        let own = (number(own.ir, true)?, own);
        let scalar = own.1.ir;
        Some(forward(e, function, scalar, &[own, other.clone()]))
    });
    let lanes: Vec<Value> = lanes.collect::<Option<_>>()?;
    Some(e.gather(&lanes))
}

/// SPV_INTEL_subgroups.
fn of_intel(e: &mut Emitter, name: &str, call: &Call) -> Option<Value> {
    match name {
        "ShuffleINTEL" => shuffle(e, "shuffle", call),
        "ShuffleXorINTEL" => shuffle(e, "shuffle_xor", call),
        "ShuffleDownINTEL" => shuffle(e, "shuffle_down", call),
        "ShuffleUpINTEL" => shuffle(e, "shuffle_up", call),
        "BlockReadINTEL" | "ImageBlockReadINTEL" => {
            let moved = call.ir()?;
            let read = block(e, call, ("read", moved), &[])?;
            Some(e.cast("bitcast", &read, moved.lane))
        }
        "BlockWriteINTEL" | "ImageBlockWriteINTEL" => {
            let data = &call.arguments.last()?.value;
            let bits = e.bits(data);
            block(e, call, ("write", data.ir), &[bits])
        }
        _ => None,
    }
}

/// One value or two, and by what they go to others.
fn shuffle(e: &mut Emitter, function: &str, call: &Call) -> Option<Value> {
    let (by, values) = call.arguments.split_last()?;
    let values =
        values.iter().map(|argument| Some((number(argument.value.ir, true)?, argument.value.clone())));
    let mut arguments: Vec<(Type, Value)> = values.collect::<Option<_>>()?;
    arguments.push((Type::scalar(Element::UInt), by.value.clone()));
    Some(forward(e, &format!("intel_sub_group_{function}"), call.ir()?, &arguments))
}

/// Reads or writes a block: at a pointer, or in an image at a place, and what is written behind that. Blocks are of unsigned integers: other
/// numbers are moved as their bits.
fn block(e: &mut Emitter, call: &Call, (function, moved): (&str, Ir), data: &[Value]) -> Option<Value> {
    number(moved, false)?; // No pointers.
    let bits = moved.with(Lane::Int(moved.lane.bits()));
    let Type::Value(element, count) = number(bits, false)? else { return None };
    let ending = match element {
        Element::UChar => "_uc",
        Element::UShort => "_us",
        Element::UInt => "_ui",
        Element::ULong => "_ul",
        _ => return None,
    };
    let places = &call.arguments[..call.arguments.len() - data.len()];
    let mut arguments = match places {
        [image, place] => {
            let place = (number(place.value.ir, true)?, place.value.clone());
            vec![(opaque("ocl_image2d"), image.value.clone()), place]
        }
        [base] => {
            let Lane::Pointer(space) = base.value.ir.lane else { return None };
            let qualifiers = Qualifiers { space, constant: data.is_empty(), volatile: false };
            let ty = Type::Pointer(qualifiers, Box::new(Type::scalar(element)));
            vec![(ty, base.value.clone())]
        }
        _ => return None,
    };
    for value in data {
        arguments.push((number(bits, false)?, value.clone()));
    }
    let count = if count == 1 { String::new() } else { count.to_string() };
    let result = if data.is_empty() { bits } else { VOID };
    Some(forward(e, &format!("intel_sub_group_block_{function}{ending}{count}"), result, &arguments))
}
