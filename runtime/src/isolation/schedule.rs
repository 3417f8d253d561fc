//! A launch as requests to the executor: one if its code is the best there will be, else as many as give better code a chance to take
//! over.

use super::Isolation;
use super::message::{Arguments, CodeFacts, MAX_REQUEST, Request, Threads};
use crate::error::{Result, Status};
use crate::execute::launch::Invocation;
use crate::execute::scheduler::Scheduler;
use crate::execute::tiers::{Better, Version};
use crate::memory::pool::Pool;
use crate::memory::raw::{Allocation, PAGE};
use std::ops::Range;

/// Where better code may come, a request takes about so long.
const WAVE_NS: u64 = 5_000_000;
/// Requests grow so much at a time.
const GROWTH: u64 = 4;
/// A thread's groups of a first request: nobody knows how long they take.
const FIRST: u64 = 16;

/// Has the executor run these groups, by as many threads as the scheduler has here.
pub(crate) fn run_groups(
    isolation: &Isolation,
    scheduler: &Scheduler,
    invocation: &Invocation,
    groups: Range<u64>,
) -> Result<()> {
    let threads = Threads {
        count: scheduler.threads(),
        bound: scheduler.bound().map(|cpus| cpus.iter().copied().collect()),
    };
    let (arguments, _kept) = arguments(isolation, invocation)?;
    let mut version = invocation.tiers.choose(invocation);
    let (mut first, mut most) = (groups.start, FIRST.saturating_mul(threads.count as u64));
    while first < groups.end {
        let waits = match invocation.tiers.better_than(&version, &invocation.launch) {
            Better::NotYet => true,
            Better::Now(newest) if invocation.can_run(&newest) => {
                version = newest;
                false
            }
            Better::Now(_) | Better::Never => false,
        };
        let end = if waits { first.saturating_add(most).min(groups.end) } else { groups.end };
        let left = invocation.deadline.left();
        let request = Request {
            code: facts(&version),
            threads: threads.clone(),
            arguments: arguments.clone(),
            launch: invocation.launch,
            groups: first..end,
            local_size: invocation.local_size,
            limit_ns: left.map(|left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)),
        };
        let done = isolation.run(&request, left)?;
        let count = end - first;
        let items = count.saturating_mul(invocation.group_items());
        invocation.tiers.pace.learn(version.tier(), items, done.one_thread_ns);
        if waits {
            let left_ns = done.ns.saturating_mul((groups.end - end) / count);
            // Of the first wave nobody knows what new pages took; the others are long enough.
            invocation.tiers.spend(&invocation.launch, done.one_thread_ns, (left_ns, None));
            most = next_wave(count, done.ns);
        }
        first = end;
    }
    Ok(())
}

/// How many groups run next, where so many took so long.
fn next_wave(groups: u64, ns: u64) -> u64 {
    let fitting = groups.saturating_mul(WAVE_NS) / ns.max(1);
    fitting.clamp(1, groups.saturating_mul(GROWTH).max(1))
}

fn facts(version: &Version) -> CodeFacts {
    let (entry, addresses) = version.code.place();
    let code = &version.info.code;
    CodeFacts {
        number: version.code.number(),
        entry,
        addresses,
        denormals_are_zero: version.info.signature.denormals_are_zero,
        tier: version.tier(),
        scratch_per_item: code.scratch_per_item,
        scratch_fixed: code.scratch_fixed,
        any_order: code.any_order,
    }
}

/// The arguments, and the memory that they are in if they don't fit into a request.
fn arguments(isolation: &Isolation, invocation: &Invocation) -> Result<(Arguments, Option<Allocation>)> {
    let bytes = invocation.arguments.bytes();
    if bytes.len() <= MAX_REQUEST / 2 {
        return Ok((Arguments::Bytes(bytes), None));
    }
    let memory = Pool::new(Some(isolation.shared().clone())).allocate(bytes.len(), PAGE);
    let memory = memory.ok_or_else(|| Status::OutOfResources.because("no memory for its arguments"))?;
    memory.span().write(bytes.as_slice());
    Ok((Arguments::Shared(memory.span().address() as usize, bytes.len()), Some(memory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_grow_to_their_time() {
        assert_eq!(next_wave(16, 1), 16 * GROWTH, "not at once");
        assert_eq!(next_wave(1000, 2 * WAVE_NS), 500);
        assert_eq!(next_wave(1, u64::MAX), 1);
        assert!(next_wave(u64::MAX, 0) > 0);
    }
}
