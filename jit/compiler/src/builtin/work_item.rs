//! Builtins: work-item functions (6.12.1), barriers and fences (6.12.8, 6.12.9).

use super::c11_atomic::beyond_work_group;
use super::emit::{Emitter, Ir, Lane, Value};
use super::table::{Call, Effect, FIXED, Rows, nothing};

const SIZE: Ir = Ir::scalar(Lane::Int(64));
const INT: Ir = Ir::scalar(Lane::Int(32));

/// Name in OpenCL C, primitive, value for a dimension that does not exist.
const QUERIES: [(&str, &str, i128); 8] = [
    ("get_global_id", "global_id", 0),
    ("get_local_id", "local_id", 0),
    ("get_group_id", "group_id", 0),
    ("get_global_offset", "global_offset", 0),
    ("get_global_size", "global_size", 1),
    ("get_local_size", "local_size", 1),
    ("get_enqueued_local_size", "enqueued_local_size", 1),
    ("get_num_groups", "num_groups", 1),
];

pub fn rows(rows: &mut Rows) {
    for (name, primitive, default) in QUERIES {
        rows.expand(name, FIXED, "size_t(uint)", move |e, call| query(e, call, primitive, default));
    }
    rows.expand("get_global_linear_id", FIXED, "size_t()", |e, _| linear(e, "global", true));
    rows.expand("get_local_linear_id", FIXED, "size_t()", |e, _| linear(e, "local", false));
    rows.expand("get_work_dim", FIXED, "uint()", |e, _| e.primitive("work_dim", INT));
    for pattern in ["void(uint)", "void(uint,#memory_scope)"] {
        let names = if pattern == "void(uint)" { "barrier work_group_barrier" } else { "work_group_barrier" };
        rows.expand(names, FIXED, pattern, |e, call| {
            let scope = call.arguments.get(1);
            scope.into_iter().for_each(|scope| fence_of(e, scope, "release"));
            barrier(e, &call.arguments[0]);
            scope.into_iter().for_each(|scope| fence_of(e, scope, "acquire"));
            nothing()
        });
    }
    rows.mark("barrier work_group_barrier", Effect::Barrier);
    for (name, order) in
        [("mem_fence", "acq_rel"), ("read_mem_fence", "acquire"), ("write_mem_fence", "release")]
    {
        rows.expand(name, FIXED, "void(uint)", move |e, _| {
            e.effect(&format!("fence {order}"));
            nothing()
        });
        rows.mark(name, Effect::Memory);
    }
}

/// The id without the offset, of all dimensions: `(z * height + y) * width + x`.
fn linear(e: &mut Emitter, what: &str, has_offset: bool) -> Value {
    let zero = e.int(SIZE, 0);
    (0..3).rev().fold(zero, |slower, index| {
        let size = e.primitive(&format!("{what}_size.{index}"), SIZE);
        let scaled = e.binary("mul", &slower, &size);
        let mut id = e.primitive(&format!("{what}_id.{index}"), SIZE);
        if has_offset {
            let offset = e.primitive(&format!("{what}_offset.{index}"), SIZE);
            id = e.binary("sub", &id, &offset);
        }
        e.binary("add", &scaled, &id)
    })
}

/// A fence if others than the work-group are to see what it did: those of the group have one thread.
fn fence_of(e: &mut Emitter, scope: &Value, order: &str) {
    let [wide, done] = [0; 2].map(|_| e.fresh());
    let is_wide = beyond_work_group(e, scope);
    e.effect(&format!("br {is_wide}, label %{wide}, label %{done}"));
    e.label(&wide);
    e.effect(&format!("fence {order}"));
    e.effect(&format!("br label %{done}"));
    e.label(&done);
}

/// Waits for the work-group, with memory fences as `flags` say.
pub fn barrier(e: &mut Emitter, flags: &Value) {
    e.call("spirula.barrier", Ir::scalar(Lane::Void), std::slice::from_ref(flags), "convergent nounwind");
}

/// The primitive of the dimension that the argument names. Dimensions at or beyond `get_work_dim()` below three
/// have their default in the launch already.
fn query(e: &mut Emitter, call: &Call, primitive: &str, default: i128) -> Value {
    let dimension = &call.arguments[0];
    let default = e.int(SIZE, default);
    (0..3).rev().fold(default, |otherwise, index| {
        let value = e.primitive(&format!("{primitive}.{index}"), SIZE);
        let number = e.int(INT, index);
        let matches = e.compare("icmp eq", dimension, &number);
        e.select(&matches, &value, &otherwise)
    })
}
