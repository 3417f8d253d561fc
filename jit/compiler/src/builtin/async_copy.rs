//! Builtins: async copies between global and local memory (6.12.10, cl_khr_extended_async_copies). The work-items share the
//! copying, each taking every n-th element; waiting for the event is a barrier.

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
    for pointers in ["local*void,size_t,const-global*void", "global*void,size_t,const-local*void"] {
        let pattern = |sizes: usize| format!("@event({pointers}{},@event)", ",size_t".repeat(sizes));
        rows.expand("async_work_group_copy_2D2D", FIXED, pattern(6), |e, call| {
            let [to, to_offset, from, from_offset, bytes, length, lines, from_line, to_line, event] =
                call.arguments
            else {
                unreachable!("copies of rectangles have ten parameters")
            };
            let (zero, one) = (e.int(SIZE, 0), e.int(SIZE, 1));
            let to = Side { base: to, offset: to_offset, line: to_line, plane: &zero };
            let from = Side { base: from, offset: from_offset, line: from_line, plane: &zero };
            copy_box(e, &to, &from, bytes, [length, lines, &one]);
            event.clone()
        });
        rows.expand("async_work_group_copy_3D3D", FIXED, pattern(9), |e, call| {
            let [to, to_offset, from, from_offset, bytes, length, lines, planes, sides @ .., event] =
                call.arguments
            else {
                unreachable!("copies of boxes have thirteen parameters")
            };
            let [from_line, from_plane, to_line, to_plane] = sides else {
                unreachable!("four of them are lengths of lines and areas of planes")
            };
            let to = Side { base: to, offset: to_offset, line: to_line, plane: to_plane };
            let from = Side { base: from, offset: from_offset, line: from_line, plane: from_plane };
            copy_box(e, &to, &from, bytes, [length, lines, planes]);
            event.clone()
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
    repeat(e, &id, elements, &count, |e, index| {
        let address = |e: &mut Emitter, base: &Value, stride: &Value| {
            let place = e.binary("mul", index, stride);
            let lanes = e.int(SIZE, width.into());
            let place = e.binary("mul", &place, &lanes);
            e.element(base, element.lane, &place)
        };
        let source = address(e, from, from_stride);
        let target = address(e, to, to_stride);
        let alignment = element.lane.bits() / 8;
        let value = e.load(element, &source, alignment);
        e.store(&value, &target, alignment);
    });
    event.clone()
}

/// for (i = first; i < end; i += step) around what `body` writes.
fn repeat(
    e: &mut Emitter,
    first: &Value,
    end: &Value,
    step: &Value,
    body: impl FnOnce(&mut Emitter, &Value),
) {
    let [entry, head, inside, latch, done] = [0; 5].map(|_| e.fresh());
    e.effect(&format!("br label %{entry}"));
    e.label(&entry);
    e.effect(&format!("br label %{head}"));
    e.label(&head);
    let next = format!("%{}", e.fresh());
    let index = e.value(SIZE, &format!("phi {SIZE} [ {}, %{entry} ], [ {next}, %{latch} ]", first.text));
    let more = e.compare("icmp ult", &index, end);
    e.effect(&format!("br {more}, label %{inside}, label %{done}"));
    e.label(&inside);
    body(e, &index);
    e.effect(&format!("br label %{latch}"));
    e.label(&latch);
    e.effect(&format!("{next} = add {index}, {}", step.text));
    e.effect(&format!("br label %{head}"));
    e.label(&done);
}

/// One side of a copy of lines; offset, a line's length and a plane's area are in elements.
struct Side<'a> {
    base: &'a Value,
    offset: &'a Value,
    line: &'a Value,
    plane: &'a Value,
}

/// Copies planes of lines of elements of so many bytes, the lines one after the other: of each, neighbours take neighbouring bytes.
fn copy_box(e: &mut Emitter, to: &Side, from: &Side, bytes: &Value, [length, lines, planes]: [&Value; 3]) {
    let byte = Ir::scalar(Lane::Int(8));
    let (zero, one) = (e.int(SIZE, 0), e.int(SIZE, 1));
    let (id, count) = place_in_group(e);
    let width = e.binary("mul", length, bytes);
    repeat(e, &zero, planes, &one, |e, plane| {
        repeat(e, &zero, lines, &one, |e, line| {
            let [to, from] = [to, from].map(|side| {
                let [plane, line] = [e.binary("mul", plane, side.plane), e.binary("mul", line, side.line)];
                let place = e.binary("add", &plane, &line);
                let place = e.binary("add", &place, side.offset);
                let place = e.binary("mul", &place, bytes);
                e.element(side.base, byte.lane, &place)
            });
            repeat(e, &id, &width, &count, |e, index| {
                let [source, target] = [&from, &to].map(|start| e.element(start, byte.lane, index));
                let value = e.load(byte, &source, 1);
                e.store(&value, &target, 1);
            });
        });
    });
}
