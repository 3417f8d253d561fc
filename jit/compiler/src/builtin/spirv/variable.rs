//! Built-in variables: each component of one is a call with its number.

use super::super::emit::{Emitter, Lane, Value};
use super::super::types::{Element, Type};
use super::{Call, INT, LONG, forward, resized};

/// Variables of three components, and the work-item functions that yield them.
const VECTORS: [(&str, &str); 8] = [
    ("GlobalInvocationId", "get_global_id"),
    ("GlobalOffset", "get_global_offset"),
    ("GlobalSize", "get_global_size"),
    ("LocalInvocationId", "get_local_id"),
    ("WorkgroupId", "get_group_id"),
    ("WorkgroupSize", "get_local_size"),
    ("EnqueuedWorkgroupSize", "get_enqueued_local_size"),
    ("NumWorkgroups", "get_num_groups"),
];

/// Variables of one component: those of 64 bits and those of 32.
const LONGS: [(&str, &str); 2] =
    [("GlobalLinearId", "get_global_linear_id"), ("LocalInvocationIndex", "get_local_linear_id")];
const INTS: [(&str, &str); 7] = [
    ("WorkDim", "get_work_dim"),
    ("SubgroupSize", "get_sub_group_size"),
    ("SubgroupMaxSize", "get_max_sub_group_size"),
    ("NumSubgroups", "get_num_sub_groups"),
    ("NumEnqueuedSubgroups", "get_enqueued_num_sub_groups"),
    ("SubgroupId", "get_sub_group_id"),
    ("SubgroupLocalInvocationId", "get_sub_group_local_id"),
];

/// Masks of sub-groups, of which there are four words.
const MASKS: [(&str, &str); 5] = [
    ("SubgroupEqMask", "get_sub_group_eq_mask"),
    ("SubgroupGeMask", "get_sub_group_ge_mask"),
    ("SubgroupGtMask", "get_sub_group_gt_mask"),
    ("SubgroupLeMask", "get_sub_group_le_mask"),
    ("SubgroupLtMask", "get_sub_group_lt_mask"),
];

/// How many components a variable has, 0 if it isn't known.
pub fn components(name: &str) -> usize {
    let has = |list: &[(&str, &str)]| list.iter().any(|(known, _)| *known == name);
    match name {
        _ if has(&VECTORS) => 3,
        _ if has(&MASKS) => 4,
        _ if has(&LONGS) || has(&INTS) => 1,
        _ => 0,
    }
}

/// A component, which the argument names where there are several.
pub fn read(e: &mut Emitter, name: &str, call: &Call) -> Option<Value> {
    let find = |list: &[(&str, &'static str)]| list.iter().find(|(known, _)| *known == name).map(|row| row.1);
    let result = call.ir().filter(|ir| ir.width == 1 && matches!(ir.lane, Lane::Int(_)))?;
    let value = match call.arguments {
        [] => match find(&LONGS) {
            Some(function) => forward(e, function, LONG, &[]),
            None => forward(e, find(&INTS)?, INT, &[]),
        },
        [index] => {
            let index = resized(e, &index.value, INT.lane);
            match find(&VECTORS) {
                Some(function) => forward(e, function, LONG, &[(Type::scalar(Element::UInt), index)]),
                None => {
                    let all = forward(e, find(&MASKS)?, super::Ir { width: 4, ..INT }, &[]);
                    e.value(INT, &format!("extractelement {all}, {index}"))
                }
            }
        }
        _ => return None,
    };
    Some(resized(e, &value, result.lane))
}
