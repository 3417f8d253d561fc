//! Builtins: what `cl_intel_subgroups` and its siblings for other sizes have beyond the functions of OpenCL C: shuffles of two values, which
//! lie one behind the other like the work-items of two sub-groups, and blocks that a sub-group reads and writes.

use super::emit::{Emitter, Ir, Lane, Value};
use super::image::descriptor;
use super::pattern::Generic;
use super::sub_group::{all_ones, own_and, query, shuffle};
use super::table::{ANY, Call, FIXED, Rows, nothing};
use super::types::Element;
use super::work_group::synchronizing;

const INT: Ir = Ir::scalar(Lane::Int(32));
const LONG: Ir = Ir::scalar(Lane::Int(64));

/// What blocks are made of: the ending of the functions' names, the element, and how many of them a work-item has.
type Block = (&'static str, &'static [Element], &'static [u8]);
const BLOCKS: [Block; 5] = [
    ("", &[Element::UInt], &[1, 2, 4, 8]),
    ("_ui", &[Element::UInt], &[1, 2, 4, 8]),
    ("_uc", &[Element::UChar], &[1, 2, 4, 8, 16]),
    ("_us", &[Element::UShort], &[1, 2, 4, 8, 16]),
    ("_ul", &[Element::ULong], &[1, 2, 4, 8, 16]),
];

pub fn rows(rows: &mut Rows) {
    synchronizing(rows, "intel_sub_group_broadcast intel_sub_group_shuffle", ANY, "T(T,uint)", |e, call| {
        shuffle(e, &call.arguments[0], &call.arguments[1])
    });
    synchronizing(rows, "intel_sub_group_shuffle_xor", ANY, "T(T,uint)", |e, call| {
        let index = own_and(e, "xor", &call.arguments[1]);
        shuffle(e, &call.arguments[0], &index)
    });
    synchronizing(rows, "intel_sub_group_shuffle_down", ANY, "T(T,T,uint)", |e, call| {
        let at = own_and(e, "add", &call.arguments[2]);
        of_two(e, call, &at)
    });
    synchronizing(rows, "intel_sub_group_shuffle_up", ANY, "T(T,T,uint)", |e, call| {
        // Up counts from the second value's work-items.
        let size = query(e, "max_sub_group_size");
        let own = own_and(e, "sub", &call.arguments[2]);
        let at = e.binary("add", &own, &size);
        of_two(e, call, &at)
    });
    for block in &BLOCKS {
        blocks(rows, block);
    }
}

/// The value of one of the work-items of two sub-groups, of which the first has the first argument and the second the second.
fn of_two(e: &mut Emitter, call: &Call, at: &Value) -> Value {
    let size = query(e, "max_sub_group_size");
    let is_first = e.compare("icmp ult", at, &size);
    // Sizes are powers of two.
    let most = e.binary("add", &size, &all_ones(e));
    let index = e.binary("and", at, &most);
    let [first, second] = [0, 1].map(|value| shuffle(e, &call.arguments[value], &index));
    let is_first = e.splat(&is_first, first.ir.width);
    e.select(&is_first, &first, &second)
}

fn blocks(rows: &mut Rows, &(ending, elements, counts): &'static Block) {
    let generic = Generic { elements, widths: &[1] };
    for &count in counts {
        let suffix = if count == 1 { String::new() } else { count.to_string() };
        let (read, write) = (
            format!("intel_sub_group_block_read{ending}{suffix}"),
            format!("intel_sub_group_block_write{ending}{suffix}"),
        );
        for space in ["global", "local"] {
            let (reads, writes) =
                (format!("T{suffix}(const-{space}*T)"), format!("void({space}*T,T{suffix})"));
            rows.expand(&read, generic, reads, |e, call| {
                let parts: Vec<Value> = (0..call.result.width)
                    .map(|part| {
                        let address = element(e, &call.arguments[0], call.result.lane, part);
                        e.load(Ir::scalar(call.result.lane), &address, call.result.lane.bits() / 8)
                    })
                    .collect();
                e.gather(&parts)
            });
            rows.expand(&write, generic, writes, |e, call| {
                let [base, data] = call.arguments else { unreachable!("writes have two parameters") };
                for part in 0..data.ir.width {
                    let address = element(e, base, data.ir.lane, part);
                    let value = e.extract(data, part);
                    e.store(&value, &address, data.ir.lane.bits() / 8);
                }
                nothing()
            });
        }
        let ty = Element::name(elements[0]);
        rows.expand(&read, FIXED, format!("{ty}{suffix}(@image2d,int2)"), |e, call| {
            let [image, place] = call.arguments else { unreachable!("reads have two parameters") };
            let parts: Vec<Value> = (0..call.result.width)
                .map(|part| {
                    let place = texels(e, image, place, call.result.lane, part);
                    let read = e.call("spirula_block_read", LONG, &place, "nounwind willreturn");
                    e.cast("trunc", &read, call.result.lane)
                })
                .collect();
            e.gather(&parts)
        });
        rows.expand(&write, FIXED, format!("void(@image2d,int2,{ty}{suffix})"), |e, call| {
            let [image, place, data] = call.arguments else { unreachable!("writes have three parameters") };
            for part in 0..data.ir.width {
                let mut arguments = texels(e, image, place, data.ir.lane, part).to_vec();
                let value = e.extract(data, part);
                arguments.push(e.cast("zext", &value, LONG.lane));
                e.call("spirula_block_write", Ir::scalar(Lane::Void), &arguments, "nounwind willreturn");
            }
            nothing()
        });
    }
}

/// The address of a work-item's element of a block: those of the sub-group lie side by side, its next ones behind those of all.
fn element(e: &mut Emitter, base: &Value, lane: Lane, part: u8) -> Value {
    let own = e.primitive("sub_group_local_id.0", LONG);
    let size = e.primitive("max_sub_group_size.0", LONG);
    let part = e.int(LONG, part.into());
    let before = e.binary("mul", &size, &part);
    let index = e.binary("add", &before, &own);
    e.element(base, lane, &index)
}

/// What the library is told of a work-item's element of a block of an image: each of them is in a row of its own, and coordinates are bytes.
fn texels(e: &mut Emitter, image: &Value, place: &Value, lane: Lane, part: u8) -> [Value; 4] {
    let bytes = e.int(INT, (lane.bits() / 8).into());
    let own = query(e, "sub_group_local_id");
    let offset = e.binary("mul", &own, &bytes);
    let (x, y) = (e.extract(place, 0), e.extract(place, 1));
    let part = e.int(INT, part.into());
    let (x, y) = (e.binary("add", &x, &offset), e.binary("add", &y, &part));
    [descriptor(e, image), bytes, x, y]
}
