//! Builtins: async copies between global and local memory (6.12.10). The work-items share the copying, each taking
//! every n-th element; waiting for the event is a barrier.

use super::emit::{Emitter, Ir, Lane, Value};
use super::table::{ANY, Call, Effect, FIXED, Rows, nothing};
use super::work_item::barrier;

const SIZE: Ir = Ir::scalar(Lane::Int(64));

/// CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE.
const BOTH_FENCES: i128 = 3;

pub fn rows(rows: &mut Rows) {
    for pointers in ["local*T,const-global*T", "global*T,const-local*T"] {
        let pattern = format!("@event({pointers},size_t,@event)");
        rows.expand("async_work_group_copy", ANY, pattern, |e, call| {
            let one = e.int(SIZE, 1);
            copy(e, call, &one, &one)
        });
        let to_local = pointers.starts_with("local");
        let pattern = format!("@event({pointers},size_t,size_t,@event)");
        rows.expand("async_work_group_strided_copy", ANY, pattern, move |e, call| {
            // The stride is of the global side.
            let one = e.int(SIZE, 1);
            let stride = &call.arguments[3];
            if to_local { copy(e, call, &one, stride) } else { copy(e, call, stride, &one) }
        });
    }
    rows.expand("wait_group_events", FIXED, "void(int,*@event)", |e, _| {
        let flags = e.int(Ir::scalar(Lane::Int(32)), BOTH_FENCES);
        barrier(e, &flags);
        nothing()
    });
    rows.mark("wait_group_events", Effect::Barrier);
}

/// The work-item's number in its group and how many there are.
fn place_in_group(e: &mut Emitter) -> (Value, Value) {
    let [ids, sizes] =
        ["local_id", "local_size"].map(|name| [0, 1, 2].map(|d| e.primitive(&format!("{name}.{d}"), SIZE)));
    let slices = e.binary("mul", &ids[2], &sizes[1]);
    let row = e.binary("add", &slices, &ids[1]);
    let rows = e.binary("mul", &row, &sizes[0]);
    let id = e.binary("add", &rows, &ids[0]);
    let plane = e.binary("mul", &sizes[0], &sizes[1]);
    let count = e.binary("mul", &plane, &sizes[2]);
    (id, count)
}

/// for (i = id; i < elements; i += count) to[i * to_stride] = from[i * from_stride]; the event is handed through.
fn copy(e: &mut Emitter, call: &Call, to_stride: &Value, from_stride: &Value) -> Value {
    let [to, from, elements, .., event] = call.arguments else { unreachable!("copies have four parameters") };
    // Vectors of three lie as four.
    let width = if call.width == 3 { 4 } else { call.width };
    let element = Ir { width, ..call.generic() };
    let (id, count) = place_in_group(e);
    let [head, body, done] = [0; 3].map(|_| e.fresh());
    let entry = e.fresh();
    e.effect(&format!("br label %{entry}"));
    e.label(&entry);
    e.effect(&format!("br label %{head}"));
    e.label(&head);
    let next = format!("%{}", e.fresh());
    let index = e.value(SIZE, &format!("phi {SIZE} [ {}, %{entry} ], [ {next}, %{body} ]", id.text));
    let more = e.compare("icmp ult", &index, elements);
    e.effect(&format!("br {more}, label %{body}, label %{done}"));
    e.label(&body);
    let address = |e: &mut Emitter, base: &Value, stride: &Value| {
        let place = e.binary("mul", &index, stride);
        let lanes = e.int(SIZE, width.into());
        let place = e.binary("mul", &place, &lanes);
        e.element(base, element.lane, &place)
    };
    let source = address(e, from, from_stride);
    let target = address(e, to, to_stride);
    let alignment = element.lane.bits() / 8;
    let value = e.load(element, &source, alignment);
    e.store(&value, &target, alignment);
    e.effect(&format!("{next} = add {index}, {}", count.text));
    e.effect(&format!("br label %{head}"));
    e.label(&done);
    event.clone()
}
