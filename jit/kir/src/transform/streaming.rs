//! Transform: what a kernel writes and never reads goes past the caches.
//!
//! A line that is stored to is first read, unless the store is said not to need it (non-temporal). Where the buffers of a
//! launch don't fit in the last cache, the reading is for nothing, as in the C library's large copies; the launch decides,
//! and the address must be that of whole lines.

use super::WorkGroup;
use crate::analysis::{buffer, written_only};
use crate::builder::{Builder, rewrite};
use crate::{BinaryOp, Block, CastOp, Function, Inst, IntPredicate, Op, Type, Value, WorkItemQuery};
use fixedbitset::FixedBitSet;
use spirula_interface::target::TargetFacts;

/// Of so many instructions for each store a kernel is not held up by memory. The branch at each store would only keep its code
/// from being scheduled as one block.
const MOST_WORK: usize = 80;

/// Changes the wide bodies' unmasked stores to buffers that are only written.
pub fn stream_stores(group: &mut WorkGroup, facts: &TargetFacts) {
    let regions = group.regions.iter();
    let targets = written_only(regions.flat_map(|r| r.wide.iter().map(|w| &w.body).chain([&r.body])));
    for body in group.regions.iter_mut().filter_map(|region| Some(&mut region.wide.as_mut()?.body)) {
        let stores: FixedBitSet = (body.blocks.iter().flat_map(|block| &block.insts))
            .filter(|&&inst| streams(body, inst, &targets, facts))
            .map(|inst| inst.index())
            .collect();
        let work: usize = body.blocks.iter().map(|block| block.insts.len()).sum();
        if stores.is_clear() || work > MOST_WORK * stores.count_ones(..) {
            continue;
        }
        group.streams = true;
        let query = Op::WorkItem { query: WorkItemQuery::CachedStores, dimension: 0 };
        let cached = body.push(Block(0), Type::I64, query);
        rewrite(body, |builder, inst| {
            let chosen = stores.contains(inst.index());
            if chosen {
                choose(builder, inst, cached, facts);
            }
            chosen
        });
    }
}

/// Whether a store is to become one that may go past the caches.
fn streams(body: &Function, inst: Inst, targets: &FixedBitSet, facts: &TargetFacts) -> bool {
    let Op::Store { pointer, value, volatile: false, ordering: None, .. } = *body.op(inst) else {
        return false;
    };
    let ty = body.ty(value);
    buffer(body, pointer).is_some_and(|n| targets.contains(n))
        && ty.lanes() > 1
        && ty.size() >= facts.least_streamed_bytes
}

/// A store of whole lines, or parts of one, past the caches if the launch wants that; else the store as it was. The mask
/// is no condition that could be decided in front of a loop, so that LLVM does not write each loop twice.
fn choose(builder: &mut Builder, inst: Inst, cached: Value, facts: &TargetFacts) {
    let Op::Store { pointer, value, .. } = *builder.function.op(inst) else { return };
    let whole = builder.ty(value).size().min(facts.cache_line);
    let address = builder.cast(CastOp::PtrToInt, Type::I64, pointer);
    let low_bits = builder.int(whole - 1);
    let within = builder.binary(BinaryOp::And, 0, address, low_bits);
    let wrong = builder.binary(BinaryOp::Xor, 0, within, cached);
    let zero = builder.int(0);
    let past = builder.compare(IntPredicate::Eq, wrong, zero);
    let [streaming, plain, next] = std::array::from_fn(|_| builder.function.add_block());
    builder.branch(past, (streaming, &[]), (plain, &[]));
    builder.at = streaming;
    builder.effect(Op::NontemporalStore { pointer, value, align: whole as u32 });
    builder.jump(next, &[]);
    builder.at = plain;
    builder.function.append(plain, inst);
    builder.jump(next, &[]);
    builder.at = next;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::form_regions;
    use crate::transform::widen::{Wanted, choose};
    use crate::{parse, verify};

    /// A kernel in packs that stores what comes of so many products.
    fn widened(products: usize) -> (WorkGroup, TargetFacts) {
        let product = |n: usize| format!("  %{}: i32 = mul %{}, %3\n", n + 6, n + 5);
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8) {{\nb0:\n  %2: i64 = global_id 0
  %4: ptr(global) = address %0 + %2*4 + 0\n  %3: i32 = load %4, align 4\n  %5: i32 = mul %3, %3\n{}  %1000: ptr(global) = address %1 + %2*4 + 0
  store %1000, %{}, align 4\n  return\n}}",
            (0..products).map(product).collect::<String>(),
            products + 5
        );
        let mut group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let facts = TargetFacts::with_vectors(512);
        group.regions[0].wide =
            choose(&group.regions[0], &group.context, &facts, Wanted::default(), false).wide;
        (group, facts)
    }

    /// Whether it goes past the caches.
    fn streams_with(products: usize) -> bool {
        let (mut group, facts) = widened(products);
        stream_stores(&mut group, &facts);
        let wide = &group.regions[0].wide.as_ref().unwrap().body;
        verify(wide).unwrap_or_else(|e| panic!("{e}\n{wide}"));
        let past = wide.to_string().contains("nontemporal");
        assert_eq!(group.streams, past);
        past
    }

    #[test]
    fn only_what_memory_holds_up_goes_past_the_caches() {
        assert!(streams_with(4) && !streams_with(200));
    }

    #[test]
    fn what_stores_nothing_asks_nothing() {
        let (mut group, facts) = widened(1);
        let wide = group.regions[0].wide.as_mut().unwrap();
        wide.body = parse("kernel \"k\"() {\nb0:\n  return\n}").unwrap();
        stream_stores(&mut group, &facts);
        let wide = &group.regions[0].wide.as_ref().unwrap().body;
        assert!(!group.streams && wide.insts().next().is_none(), "{wide}");
    }
}
