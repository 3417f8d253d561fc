//! A thread's part in a launch: the code that it runs, which may get better meanwhile, and the memory for that.

use crate::error::{Result, Status};
use crate::execute::arena::Arena;
use crate::execute::group_times::{Groups, OwnTimes};
use crate::execute::launch::Invocation;
use crate::execute::tiers::{Better, Version};
use crate::execute::tuning::{Tuning, Turn};
use crate::machine::timer;
use crate::trace::{self, Span};
use spirula_service::settings::{self, Tune};
use std::ops::Range;
use std::sync::Arc;

/// A chunk of work-groups takes about so long where better code may come, which is looked for between chunks. That is little, for the
/// next groups may take thousands of times as long, and forty times what a chunk costs.
const CHUNK_NS: u64 = 8_000;
/// Chunks grow so much at a time: of groups that were not run yet nobody knows how long they take.
const GROWTH: u64 = 4;

pub(super) struct Worker<'i> {
    invocation: &'i Invocation,
    version: Version,
    /// How that is chosen, and which of the launch's threads this is, if there is a choice.
    tuning: Option<Arc<Tuning>>,
    seat: usize,
    arena: Arena,
    /// Whether better code may come.
    waits: bool,
    /// Groups that the next chunk may have, if so.
    most: u64,
    /// How long the last one took, if so, and when it had ended.
    chunk_ns: u64,
    ended: u64,
    /// How long its groups took, if so.
    times: OwnTimes,
    /// Groups that ran in this code, and since when.
    groups: u64,
    since: u64,
}

impl<'i> Worker<'i> {
    /// In that code, or in the first if there is no memory for it. CL_OUT_OF_RESOURCES if there is none for that.
    pub(super) fn new(invocation: &'i Invocation, version: Version, seat: usize) -> Result<Worker<'i>> {
        let (version, arena) = match arena_for(invocation, &version) {
            Ok(arena) => (version, arena),
            Err(_) => {
                let first = invocation.tiers.first();
                (first.clone(), arena_for(invocation, first)?)
            }
        };
        let waits = !matches!(invocation.tiers.better_than(&version, &invocation.launch), Better::Never);
        let since = timer();
        let mut worker = Worker {
            invocation,
            version,
            tuning: None,
            seat,
            arena,
            waits,
            most: 1,
            chunk_ns: 0,
            ended: since,
            times: OwnTimes::default(),
            groups: 0,
            since,
        };
        worker.begin_tuning();
        Ok(worker)
    }

    /// When it began to measure.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// Groups that the next chunk may have.
    pub(super) fn most(&self) -> u64 {
        if self.waits || self.tuning.is_some() { self.most } else { u64::MAX }
    }

    /// Runs a chunk. CL_OUT_OF_RESOURCES if the code faults.
    pub(super) fn run(&mut self, first: u64, end: u64) -> Result<()> {
        if self.waits {
            self.look();
        }
        let turn = self.tuning.clone().map(|tuning| (self.take_turn(&tuning), tuning));
        let begun = match self.groups {
            _ if !self.waits && turn.is_none() => 0,
            0 => self.since,
            _ => timer(),
        };
        let _span = chunk_span(self.invocation, &self.version, first..end);
        self.invocation.run(&self.version, &mut self.arena, first, end)?;
        self.groups += end - first;
        if self.waits {
            self.ended = timer();
            let ns = self.ended.saturating_sub(begun);
            self.most = next_chunk(end - first, ns, CHUNK_NS);
            self.invocation.group_times.add(&mut self.times, Groups { count: end - first, ns });
            self.chunk_ns = ns;
        } else if let Some((turn, tuning)) = turn {
            let ns = timer().saturating_sub(begun);
            let items = (end - first).saturating_mul(self.invocation.group_items());
            tuning.ran(&self.invocation.tiers, self.seat, &turn, items, ns);
            self.most = next_chunk(end - first, ns, tuning.chunk_ns());
        }
        Ok(())
    }

    /// Behind a chunk: so many groups of its share are left, and so many in all, for so many threads. Has better code made if it pays.
    /// Returns how long the launch is expected to take yet in what it runs now; nothing where no better code comes.
    pub(super) fn look_ahead(&mut self, of_share: u64, of_all: u64, threads: u64) -> u64 {
        let Invocation { group_times, tiers, launch, .. } = self.invocation;
        if !self.waits {
            group_times.tell_left(&mut self.times, 0);
            return 0;
        }
        group_times.tell_left(&mut self.times, of_share);
        let left_ns = group_times.left_ns(of_all, threads);
        tiers.spend(launch, self.chunk_ns, left_ns);
        left_ns.0
    }

    /// Takes better code, if it is there.
    fn look(&mut self) {
        let invocation = self.invocation;
        if self.groups > 0 && settings::get().tune == Tune::Always {
            invocation.tiers.have_made(&invocation.launch);
        }
        match invocation.tiers.better_than(&self.version, &invocation.launch) {
            Better::NotYet => return,
            Better::Never => {}
            Better::Now(newest) => self.take(&newest),
        }
        self.waits = false;
    }

    /// Goes on in that code, unless there is no memory for it.
    fn take(&mut self, newest: &Version) {
        let newest = newest.champion();
        if self.has_room_for(&newest) {
            self.learn();
            (self.groups, self.since) = (0, timer());
            self.version = newest;
            self.begin_tuning();
        }
    }

    fn has_room_for(&mut self, version: &Version) -> bool {
        let (local, scratch) = (self.invocation.local_room(), self.invocation.scratch_size(version));
        self.invocation.can_run(version) && self.arena.make_room(local, scratch)
    }

    /// Whether the lanes of its code are still to be chosen, by launches of which it can be measured how long they take.
    fn begin_tuning(&mut self) {
        let (pace, items) = (&self.invocation.tiers.pace, self.invocation.group_items());
        let all = self.invocation.groups().saturating_mul(items);
        let tuning = self.version.tuning.clone().filter(|tuning| !tuning.is_settled());
        self.tuning = tuning.filter(|tuning| tuning.always() || !pace.is_trivial(all));
        if let Some(tuning) = &self.tuning {
            self.most = next_chunk(1, pace.estimate_ns(items) / GROWTH, tuning.chunk_ns());
        }
    }

    /// Goes on in the code whose turn it is.
    fn take_turn(&mut self, tuning: &Arc<Tuning>) -> Turn {
        let turn = tuning.turn(self.seat);
        if turn.version.code.number() != self.version.code.number() {
            if self.has_room_for(&turn.version) {
                self.version = Version { tuning: Some(tuning.clone()), ..turn.version.clone() };
            } else {
                tuning.refuse(&self.invocation.tiers);
            }
        }
        if tuning.is_settled() {
            self.tuning = None;
        }
        turn
    }

    /// Tells how long the groups took that ran in this code.
    pub(super) fn learn(&self) {
        if self.groups > 0 {
            let items = self.groups.saturating_mul(self.invocation.group_items());
            let ended = if self.waits { self.ended } else { timer() };
            self.invocation.tiers.pace.learn(self.version.tier(), items, ended.saturating_sub(self.since));
        }
    }

    /// Gives the memory back; what code it was.
    pub(super) fn end(mut self) -> Version {
        // Others may have run what was left of its share.
        self.invocation.group_times.tell_left(&mut self.times, 0);
        self.arena.give_back();
        self.version
    }
}

/// Tells of a chunk of a launch.
fn chunk_span(invocation: &Invocation, version: &Version, groups: Range<u64>) -> Span {
    let mut span = trace::span("chunk", || version.info.signature.name.as_str());
    span.note("launch", trace::address_of(invocation));
    span.note("groups", format_args!("{groups:?}"));
    span.note("code", format_args!("{:?}, {} lanes", version.tier(), version.info.code.lanes));
    span
}

fn arena_for(invocation: &Invocation, version: &Version) -> Result<Arena> {
    let (local, scratch) = (invocation.local_room(), invocation.scratch_size(version));
    Arena::take(&invocation.memory, local, scratch).ok_or_else(|| {
        Status::OutOfResources
            .because(format!("no memory for {local} bytes of local memory and {scratch} of scratch"))
    })
}

/// How many groups run next, where so many took so long, if they are to take so long.
fn next_chunk(groups: u64, ns: u64, wanted_ns: u64) -> u64 {
    let fitting = groups.saturating_mul(wanted_ns) / ns.max(1);
    fitting.clamp(1, groups.saturating_mul(GROWTH).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_baseline_code_grow_to_a_short_time() {
        let next_chunk = |groups, ns| next_chunk(groups, ns, CHUNK_NS);
        assert_eq!(next_chunk(1, 1), GROWTH, "not at once");
        assert_eq!(next_chunk(1000, CHUNK_NS / 10), 1000 * GROWTH);
        assert_eq!(next_chunk(1000, 2 * CHUNK_NS), 500);
        assert_eq!(next_chunk(1, u64::MAX), 1);
        assert!(next_chunk(u64::MAX, 0) > 0);
    }
}
