//! The instructions of OpenCL.std. Most are OpenCL C's functions by the same name; the signs of integers, which SPIR-V's types
//! have not, are in the names of those that care.

use super::super::emit::{Emitter, Lane, Value};
use super::super::types::{Element, Type};
use super::{Call, INT, LONG, by_number, forward, number, pointer, resized};

/// Instructions that OpenCL C calls otherwise.
const RENAMED: [(&str, &str); 3] = [("fclamp", "clamp"), ("fmax_common", "max"), ("fmin_common", "min")];

/// Arguments that are unsigned where the others aren't: the instruction, and which.
const UNSIGNED: [(&str, usize); 4] = [("shuffle", 1), ("shuffle2", 2), ("nan", 0), ("s_upsample", 1)];

/// Instructions whose pointer is to integers, not to what they compute with.
const TO_INTEGERS: [&str; 3] = ["frexp", "lgamma_r", "remquo"];

/// What vload_half, vstore_half and their like have behind their names for SPIR-V's rounding modes, in their order.
const ROUNDINGS: [&str; 4] = ["_rte", "_rtz", "_rtp", "_rtn"];

pub fn call(e: &mut Emitter, call: &Call) -> Option<Value> {
    match call.op {
        op if op.starts_with("vload") => load(e, call),
        op if op.starts_with("vstore") => store(e, call),
        "prefetch" => {
            let [place, count] = call.arguments else { return None };
            let count = resized(e, &count.value, LONG.lane);
            let Type::Pointer(_, pointee) = &place.ty else { return None };
            let pointee = match **pointee {
                Type::Value(..) => (**pointee).clone(),
                _ => Type::scalar(Element::Char),
            };
            let place = (pointer(1, pointee), place.value.clone());
            Some(forward(e, "prefetch", call.ir()?, &[place, (Type::scalar(Element::ULong), count)]))
        }
        op => {
            let (signed, stem) = match (op.strip_prefix("s_"), op.strip_prefix("u_")) {
                (Some(stem), _) => (true, stem),
                (_, Some(stem)) => (false, stem),
                _ => (true, op),
            };
            let name = RENAMED.iter().find(|(known, _)| *known == op).map_or(stem, |row| row.1);
            let arguments = call.arguments.iter().enumerate().map(|(index, argument)| {
                let signed = signed && !UNSIGNED.contains(&(op, index));
                let value = &argument.value;
                let ty = match value.ir.lane {
                    Lane::Pointer(space) => {
                        let first = call.value(0)?.ir;
                        let lane = if TO_INTEGERS.contains(&op) { INT.lane } else { first.lane };
                        pointer(space, number(first.with(lane), true)?)
                    }
                    _ => number(value.ir, signed)?,
                };
                Some((ty, value.clone()))
            });
            let arguments: Vec<(Type, Value)> = arguments.collect::<Option<_>>()?;
            Some(forward(e, name, call.ir()?, &arguments))
        }
    }
}

/// What a pointer is to in a load or store of this instruction and these lanes.
fn pointee(op: &str, lane: Lane) -> Option<Type> {
    number(super::Ir::scalar(if op.contains("half") { Lane::Half } else { lane }), true)
}

fn space(value: &Value) -> Option<u8> {
    match value.ir.lane {
        Lane::Pointer(space) => Some(space),
        _ => None,
    }
}

/// OpenCL C's name of a load or store of so many.
fn of_width(op: &str, width: u8) -> String {
    let stem = op.trim_end_matches("_r").trim_end_matches('n');
    match (width, op.trim_end_matches("_r").ends_with('n')) {
        (1, _) | (_, false) => stem.to_string(),
        (width, true) => format!("{stem}{width}"),
    }
}

/// Offset, pointer and, where it is one of several, the number of components.
fn load(e: &mut Emitter, call: &Call) -> Option<Value> {
    let [offset, place, ..] = call.arguments else { return None };
    let result = call.ir()?;
    let offset = resized(e, &offset.value, LONG.lane);
    let place = (pointer(space(&place.value)?, pointee(call.op, result.lane)?), place.value.clone());
    let name = of_width(call.op, result.width);
    Some(forward(e, &name, result, &[(Type::scalar(Element::ULong), offset), place]))
}

/// Data, offset, pointer and, of those in `_r`, the rounding mode.
fn store(e: &mut Emitter, call: &Call) -> Option<Value> {
    let [data, offset, place, ..] = call.arguments else { return None };
    let (ir, result) = (data.value.ir, call.ir()?);
    let offset = resized(e, &offset.value, LONG.lane);
    let arguments = [
        (number(ir, true)?, data.value.clone()),
        (Type::scalar(Element::ULong), offset),
        (pointer(space(&place.value)?, pointee(call.op, ir.lane)?), place.value.clone()),
    ];
    let name = of_width(call.op, ir.width);
    if !call.op.ends_with("_r") {
        return Some(forward(e, &name, result, &arguments));
    }
    let mode = call.value(3)?.clone();
    by_number(e, &mode, &[1, 2, 3], |e, way| {
        // The last way is the default, to nearest.
        let suffix = ROUNDINGS[(way + 1) % ROUNDINGS.len()];
        Some(forward(e, &format!("{name}{suffix}"), result, &arguments))
    })
}
