//! Lowering: a region in the loops over a group's work-items, and the way on to the next region.

use super::Lowering;
use super::body::{BodyCopy, Item, Kind};
use super::invariants::repeated_loads;
use super::launch::NO_WRAP;
use crate::transform::{ContextKind, Region, RegionExit};
use crate::{AccessGroup, BinaryOp, Block, IntPredicate, LoopHints, Target, Terminator, Type, Value};

/// So many loads that are the same for all packs of a row keep their results in registers. More would be spread over lanes once,
/// to be kept in memory, where they take as long to load again and all lanes' room.
const MOST_HOISTED: usize = 20;
/// Shorter vectors are not loaded and spread in one instruction on some processors.
const LEAST_BROADCAST: u32 = 8;

/// A loop over one dimension, whose header has the id as its parameter.
struct Loop {
    header: Block,
    id: Value,
}

impl Lowering<'_, '_> {
    /// Writes all regions; [`Self::leave_regions`] connects them. Returns the block that each begins with.
    pub(super) fn regions(&mut self) -> Vec<Block> {
        (0..self.group.regions.len()).map(|number| self.region(number)).collect()
    }

    fn region(&mut self, number: usize) -> Block {
        let group = self.group;
        let region = &group.regions[number];
        let start = self.out.function.add_block();
        self.out.at = start;
        if region.exits.len() > 1 {
            self.set_exit(return_exit(region).unwrap_or(0));
        }
        // Without loops there is nothing to be parallel.
        let parallel = (!region.once).then_some(AccessGroup(number as u32));
        let wide = region.wide.as_ref().filter(|_| self.packs.is_some());
        let fills = wide.is_some() && self.packs.as_ref().is_some_and(|packs| packs.is_all);
        let mut scalar = BodyCopy::new(&region.body, region, parallel, Kind::Item);
        if !fills {
            self.copy_group_block(&mut scalar);
        }
        let mut wide = wide.map(|wide| (BodyCopy::new(&wide.body, region, parallel, Kind::Pack), wide.lanes));
        if let Some((wide, _)) = &mut wide {
            self.copy_group_block(wide);
        }
        let tail = region.tail.as_ref().filter(|_| self.packs.is_some() && !fills);
        let mut tail = tail.map(|tail| (BodyCopy::new(&tail.body, region, parallel, Kind::Tail), tail.lanes));
        if let Some((tail, _)) = &mut tail {
            self.copy_group_block(tail);
        }
        self.begin_collectives(region);
        let end = if region.once {
            let first = self.begin_copy(&mut scalar, None);
            let latch = self.out.function.add_block();
            self.out.jump(first, &[]);
            self.finish_copy(&mut scalar, latch);
            latch
        } else {
            let rest = if fills { Rest::None } else { Rest::Items(Box::new(scalar), tail.map(Box::new)) };
            self.items(rest, wide, parallel)
        };
        self.out.at = end;
        self.end_collectives(region);
        self.ends.push(end);
        start
    }

    /// The loops over dimensions 2, 1 and 0, with the packs of a row in front of the innermost, or instead. Returns the block behind
    /// them.
    fn items(&mut self, rest: Rest, wide: Option<(BodyCopy, u32)>, parallel: Option<AccessGroup>) -> Block {
        let zero = self.out.int(0);
        let [x, y, z] = self.sizes.by_row();
        let is_wide = wide.is_some();
        let [plane, row] = [(); 2].map(|()| self.add_loop());
        self.out.jump(plane.header, &[zero]);
        self.out.at = plane.header;
        self.out.jump(row.header, &[zero]);
        self.out.at = row.header;
        let planes = self.out.binary(BinaryOp::Mul, NO_WRAP, plane.id, y);
        let line = self.out.binary(BinaryOp::Add, NO_WRAP, planes, row.id);
        let row_start = self.out.binary(BinaryOp::Mul, NO_WRAP, line, x);
        let place = (row_start, [row.id, plane.id]);
        let packs = wide.map(|(copy, lanes)| self.packs(copy, lanes, place));
        // The rest of a row that goes in packs is short, and copies of the loops around would be twice as long.
        let hints = LoopHints { parallel, no_vectorize: false, no_unroll: is_wide, no_hoist: false };
        let [next_row, next_plane, end] = match rest {
            Rest::None => {
                let behind = std::array::from_fn(|_| self.out.function.add_block());
                if let Some(packs) = packs {
                    self.out.at = packs.enter;
                    self.out.jump(packs.header, &[zero]);
                    self.out.at = packs.rest;
                    self.out.jump(behind[0], &[]);
                }
                behind
            }
            Rest::Items(scalar, tail) => self.row_items((*scalar, tail), packs, place, hints),
        };
        for (latch, of, size, out_of) in [(next_row, row, y, next_plane), (next_plane, plane, z, end)] {
            self.out.at = latch;
            self.close_loop(&of, (1, size), out_of, hints);
        }
        end
    }

    /// The loop over those of a row's work-items that go in no packs, and the way there. Returns the block that it leads to, and two
    /// more.
    fn row_items(
        &mut self,
        (mut scalar, tail): (BodyCopy, Option<Box<(BodyCopy, u32)>>),
        packs: Option<Packs>,
        (row_start, [row, plane]): (Value, [Value; 2]),
        hints: LoopHints,
    ) -> [Block; 3] {
        let zero = self.out.int(0);
        let item = self.add_loop();
        if packs.is_none() {
            self.out.jump(item.header, &[zero]);
        }
        self.out.at = item.header;
        let linear = self.out.binary(BinaryOp::Add, NO_WRAP, row_start, item.id);
        let local = self.sizes.local_id([item.id, row, plane]);
        let first = self.begin_copy(&mut scalar, Some(Item { linear, local }));
        self.out.jump(first, &[]);
        let [latch, next_row, next_plane, end] = std::array::from_fn(|_| self.out.function.add_block());
        self.finish_copy(&mut scalar, latch);
        let is_wide = packs.is_some();
        if let Some(packs) = packs {
            let rest = match tail {
                Some(tail) => self.tail(*tail, (row_start, [row, plane]), (item.header, next_row)),
                None => item.header,
            };
            self.out.at = packs.enter;
            self.out.branch(packs.some, (packs.header, &[zero]), (rest, &[zero]));
            self.out.at = packs.rest;
            self.out.branch(packs.left, (rest, &[packs.items]), (next_row, &[]));
        }
        self.out.at = latch;
        let size = self.sizes.by_row()[0];
        self.close_loop(&item, (1, size), next_row, LoopHints { no_vectorize: is_wide, ..hints });
        [next_row, next_plane, end]
    }

    /// The loop over a row's full packs, which begins in a block of its own.
    fn packs(
        &mut self,
        mut wide: BodyCopy,
        lanes: u32,
        (row_start, [row, plane]): (Value, [Value; 2]),
    ) -> Packs {
        let items = self.packs.as_ref().map_or_else(|| self.out.int(0), |packs| packs.of_lanes[&lanes]);
        let enter = self.out.function.add_block();
        self.out.jump(enter, &[]);
        self.out.at = enter;
        let none = self.out.int(0);
        let some = self.out.compare(IntPredicate::Ne, items, none);
        let pack = self.add_loop();
        self.out.at = pack.header;
        let linear = self.out.binary(BinaryOp::Add, NO_WRAP, row_start, pack.id);
        let first = self
            .begin_copy(&mut wide, Some(Item { linear, local: self.sizes.local_id([pack.id, row, plane]) }));
        self.out.jump(first, &[]);
        let [latch, rest] = std::array::from_fn(|_| self.out.function.add_block());
        self.finish_copy(&mut wide, latch);
        self.out.at = latch;
        let no_hoist = lanes >= LEAST_BROADCAST && repeated_loads(wide.body, &wide.flow) > MOST_HOISTED;
        let hints = LoopHints { no_vectorize: true, no_hoist, ..LoopHints::default() };
        self.close_loop(&pack, (lanes, items), rest, hints);
        self.out.at = rest;
        let left = self.out.compare(IntPredicate::Ult, items, self.sizes.by_row()[0]);
        Packs { enter, some, header: pack.header, rest, left, items }
    }

    fn add_loop(&mut self) -> Loop {
        let header = self.out.function.add_block();
        Loop { header, id: self.out.function.add_block_param(header, Type::I64) }
    }

    /// Every group has at least one work-item, so the loops test at their ends.
    fn close_loop(&mut self, of: &Loop, (step, size): (u32, Value), out_of: Block, hints: LoopHints) {
        let step = self.out.int(step.into());
        let next = self.out.binary(BinaryOp::Add, NO_WRAP, of.id, step);
        let more = self.out.compare(IntPredicate::Ult, next, size);
        self.out.branch(more, (of.header, &[next]), (out_of, &[]));
        self.out.function.blocks[self.out.at.index()].loop_hints = Some(hints);
    }

    pub(super) fn set_exit(&mut self, exit: u32) {
        if let Some(place) = self.memory.exit {
            let exit = self.out.function.int(Type::I32, exit.into());
            self.out.store(place, exit, 4);
        }
    }

    /// From each region's end to where the group goes next.
    pub(super) fn leave_regions(&mut self, ways: &Ways, group_end: Block) {
        for (region, end) in self.group.regions.iter().zip(std::mem::take(&mut self.ends)) {
            self.out.at = end;
            match region.exits.as_slice() {
                // Every work-item ends in an infinite loop or in undefined behaviour.
                [] => {}
                [only] => self.go(only, ways, group_end),
                several => self.choose_exit(several, ways, group_end),
            }
        }
    }

    fn choose_exit(&mut self, exits: &[RegionExit], ways: &Ways, group_end: Block) {
        let Some(place) = self.memory.exit else { return };
        let from = self.out.at;
        let value = self.out.load(Type::I32, place, 4);
        let leaving: Vec<Block> = exits.iter().map(|_| self.out.function.add_block()).collect();
        for (exit, &block) in exits.iter().zip(&leaving) {
            self.out.at = block;
            self.go(exit, ways, group_end);
        }
        let cases = (1..).zip(&leaving[1..]).map(|(exit, &block)| (exit, Target::to(block))).collect();
        let default = Target::to(leaving[0]);
        self.out.function.set_terminator(from, Terminator::Switch { value, cases, default });
    }

    fn go(&mut self, exit: &RegionExit, ways: &Ways, group_end: Block) {
        match exit {
            RegionExit::Return => self.out.jump(group_end, &[]),
            RegionExit::Region(to) => self.jump_to_region(ways, *to),
            RegionExit::Choice { condition, cases, default } => {
                let ContextKind::Uniform(ty) = &self.group.context[condition.0 as usize] else {
                    unreachable!("a choice depends on a uniform value")
                };
                let value = self.load_kept(*condition, ty.clone());
                let from = self.out.at;
                let cases = cases.iter().map(|(case, to)| (*case, self.way_to_region(ways, *to))).collect();
                let default = self.way_to_region(ways, *default);
                self.out.function.set_terminator(from, Terminator::Switch { value, cases, default });
            }
        }
    }

    /// The ways to regions that begin with these blocks.
    pub(super) fn ways(&mut self, starts: Vec<Block>) -> Ways {
        let hub = (starts.len() > CHAINED).then(|| self.out.function.add_block());
        if let Some(hub) = hub {
            let value = self.out.function.add_block_param(hub, Type::I32);
            let cases = (1..).zip(&starts[1..]).map(|(number, &start)| (number, Target::to(start))).collect();
            let default = Target::to(starts[0]);
            self.out.function.set_terminator(hub, Terminator::Switch { value, cases, default });
        }
        Ways { starts, hub }
    }

    pub(super) fn jump_to_region(&mut self, ways: &Ways, to: usize) {
        match ways.hub {
            Some(hub) => {
                let number = self.out.function.int(Type::I32, to as u128);
                self.out.jump(hub, &[number]);
            }
            None => self.out.jump(ways.starts[to], &[]),
        }
    }

    /// Where a switch goes on to a region.
    fn way_to_region(&mut self, ways: &Ways, to: usize) -> Target {
        if ways.hub.is_none() {
            return Target::to(ways.starts[to]);
        }
        self.out.at = self.out.function.add_block();
        self.jump_to_region(ways, to);
        Target::to(self.out.at)
    }
}

/// As many regions may lead straight to each other. If there are more, all go on through one block, which chooses: else a chain of
/// dominators is as long as there are regions, and what looks for a loop's surroundings walks all of it, for each loop.
const CHAINED: usize = 64;

/// How regions are reached.
pub(super) struct Ways {
    starts: Vec<Block>,
    /// Takes the region's number.
    hub: Option<Block>,
}

/// What of a row's work-items goes in no packs.
enum Rest<'a> {
    /// There is none.
    None,
    /// What each does, and what less than a pack of them, up to so many, do together.
    Items(Box<BodyCopy<'a>>, Option<Box<(BodyCopy<'a>, u32)>>),
}

/// The loop over a row's packs, to be connected with the loop over the rest.
struct Packs {
    /// The block in front of it, and whether there are packs.
    enter: Block,
    some: Value,
    header: Block,
    /// The block behind it, and whether work-items are left.
    rest: Block,
    left: Value,
    /// How many work-items of the row go in packs.
    items: Value,
}

/// The exit of work-items that return.
pub(super) fn return_exit(region: &Region) -> Option<u32> {
    region.exits.iter().position(|exit| *exit == RegionExit::Return).map(|exit| exit as u32)
}

#[cfg(test)]
mod tests {
    use crate::analysis::{ControlFlow, Dominators};
    use crate::{lower, parse, transform, verify};

    /// The most blocks on the way from the entry to any other that all ways there have in common.
    fn depth(barriers: usize) -> usize {
        let store = |n: usize| format!("b{n}:\n  store %0, {n}:i32, align 4\n  barrier b{}\n", n + 1);
        let body: String = (0..barriers).map(store).collect();
        let text = format!("kernel \"k\"(%0: ptr(global) @ 0) {{\n{body}b{barriers}:\n  return\n}}");
        let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let lowered = lower::lower(&transform::form_regions(kernel), "k", lower::How::default());
        verify(&lowered.function).unwrap();
        let flow = ControlFlow::new(&lowered.function);
        let dominators = Dominators::new(&flow);
        let blocks = flow.reverse_post_order();
        let above = |&block: &_| blocks.iter().filter(|&&over| dominators.dominates(over, block)).count();
        blocks.iter().map(above).max().unwrap_or(0)
    }

    #[test]
    fn many_regions_make_no_chain() {
        assert!(depth(60) > 300, "few follow each other");
        assert!(depth(100) < 30);
    }
}
