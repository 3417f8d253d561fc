//! Pointers, pipes, events and queues.

use super::super::emit::{Emitter, Lane, Value};
use super::super::types::Type;
use super::{Call, INT, as_result, by_number, forward, pointer};

/// Instructions that are builtins of the kind that is told by names alone: that name, and the order of the arguments.
const NAMED: [(&str, &str); 20] = [
    ("ReadPipe", "__read_pipe_2"),
    ("WritePipe", "__write_pipe_2"),
    ("ReservedReadPipe", "__read_pipe_4"),
    ("ReservedWritePipe", "__write_pipe_4"),
    ("ReserveReadPipePackets", "__reserve_read_pipe"),
    ("ReserveWritePipePackets", "__reserve_write_pipe"),
    ("CommitReadPipe", "__commit_read_pipe"),
    ("CommitWritePipe", "__commit_write_pipe"),
    ("IsValidReserveId", "is_valid_reserve_id"),
    ("GetNumPipePackets", "get_pipe_num_packets"),
    ("GetMaxPipePackets", "get_pipe_max_packets"),
    ("EnqueueMarker", "enqueue_marker"),
    ("GetDefaultQueue", "get_default_queue"),
    ("RetainEvent", "retain_event"),
    ("ReleaseEvent", "release_event"),
    ("CreateUserEvent", "create_user_event"),
    ("IsValidEvent", "is_valid_event"),
    ("SetUserEventStatus", "set_user_event_status"),
    ("CaptureEventProfilingInfo", "capture_event_profiling_info"),
    ("GetPipeNumPackets", "get_pipe_num_packets"),
];

/// The same of groups, whose first argument is the scope: what stands behind `work_group_` or `sub_group_`.
const OF_GROUPS: [(&str, &str); 4] = [
    ("GroupReserveReadPipePackets", "reserve_read_pipe"),
    ("GroupReserveWritePipePackets", "reserve_write_pipe"),
    ("GroupCommitReadPipe", "commit_read_pipe"),
    ("GroupCommitWritePipe", "commit_write_pipe"),
];

/// Bits of memory semantics: work-group memory, and cross-work-group memory.
const SEMANTICS: [i128; 2] = [0x100, 0x200];

pub fn call(e: &mut Emitter, call: &Call) -> Option<Value> {
    let values = call.values();
    if let Some((_, name)) = NAMED.iter().find(|row| row.0 == call.op) {
        // Answers of these are booleans.
        let result = if name.starts_with("is_valid") { super::BOOL } else { call.ir()? };
        let answer = e.call(name, result, &values, "");
        return Some(if Some(result) == call.ir() { answer } else { as_result(e, &answer, call.ir()?) });
    }
    if let Some((_, name)) = OF_GROUPS.iter().find(|row| row.0 == call.op) {
        let (scope, values) = values.split_first()?;
        let result = call.ir()?;
        return by_number(e, scope, &[3], |e, way| {
            let group = if way == 0 { "sub_group" } else { "work_group" };
            Some(e.call(&format!("__{group}_{name}"), result, values, ""))
        });
    }
    match call.op {
        "GenericCastToPtrExplicit" => {
            let to = call.ir()?;
            let name = match to.lane {
                Lane::Pointer(0) => "to_private",
                Lane::Pointer(1) => "to_global",
                Lane::Pointer(3) => "to_local",
                _ => return None,
            };
            Some(forward(e, name, to, &[(pointer(4, Type::Void), values.first()?.clone())]))
        }
        "GenericPtrMemSemantics" => {
            let fence = forward(e, "get_fence", INT, &[(pointer(4, Type::Void), values.first()?.clone())]);
            let one = e.int(INT, 1);
            let is_local = e.compare("icmp eq", &fence, &one);
            let [local, global] = SEMANTICS.map(|bits| e.int(INT, bits));
            Some(e.select(&is_local, &local, &global))
        }
        _ => None,
    }
}
