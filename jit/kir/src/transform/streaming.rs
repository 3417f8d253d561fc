//! Transform: what a kernel writes and never reads goes past the caches.
//!
//! A line that is stored to is first read, unless the store is said not to need it (non-temporal). Where the buffers of a
//! launch don't fit in the last cache, the reading is for nothing, as in the C library's large copies; the launch decides.

use super::WorkGroup;
use crate::Op;
use crate::analysis::{buffer, written_only};

/// Shorter stores would fill a cache line in too many steps.
const LEAST_BYTES: u64 = 32;

/// Changes the wide bodies' unmasked stores to buffers that are only written.
pub fn stream_stores(group: &mut WorkGroup) {
    let regions = group.regions.iter();
    let targets = written_only(regions.flat_map(|r| r.wide.iter().map(|w| &w.body).chain([&r.body])));
    for body in group.regions.iter_mut().filter_map(|region| Some(&mut region.wide.as_mut()?.body)) {
        let insts: Vec<_> = body.blocks.iter().flat_map(|block| &block.insts).copied().collect();
        for inst in insts {
            let Op::Store { pointer, value, align, volatile: false, ordering: None } = *body.op(inst) else {
                continue;
            };
            let streams = buffer(body, pointer).is_some_and(|n| targets.contains(n));
            if streams && body.ty(value).lanes() > 1 && body.ty(value).size() >= LEAST_BYTES {
                *body.op_mut(inst) = Op::StreamingStore { pointer, value, align };
                group.streams = true;
            }
        }
    }
}
