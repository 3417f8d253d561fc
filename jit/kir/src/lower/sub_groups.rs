//! Lowering: sub-groups. They are packs if rows end where packs do, or if there is one row only; else, so that all but the last are
//! of one size, each work-item is one of its own. A kernel that asks for their size has that in any case: the last of each row is
//! what is left of it.

use super::Lowering;
use super::body::{BodyCopy, Item, Kind};
use super::groups::ids_are_small;
use super::launch::{NO_WRAP, Sizes};
use crate::builder::Builder;
use crate::transform::WorkGroup;
use crate::{BinaryOp, Block, CastOp, IntPredicate, SubGroupOp, Type, Value, WorkItemQuery};

/// So many lanes take about as long as one work-item alone.
const LANES_OF_AN_ITEM: u32 = 16;

/// How a launch's work-groups are divided.
#[derive(Clone, Copy)]
pub(super) struct SubGroups {
    /// Whether sub-groups are packs.
    pub are_packs: Value,
    /// The same of the groups that are as large as the launch asked for.
    whole_are_packs: Value,
    /// Lanes of a pack.
    lanes: u32,
    /// Work-items in a sub-group.
    size: Value,
    /// Whether what is left of a row runs together.
    tails: Value,
    /// Whether each row has sub-groups of its own.
    rows_end: bool,
}

impl SubGroups {
    /// `packs`: whether there are packs at all.
    pub fn new(out: &mut Builder, group: &WorkGroup, sizes: &Sizes, packs: bool) -> SubGroups {
        let one = out.int(1);
        let lanes = group.sub_group_size;
        if lanes < 2 || !packs {
            let never = out.function.int(Type::BOOL, 0);
            let has_tails = packs && group.regions.iter().any(|region| region.tail.is_some());
            let tails = if has_tails { ids_are_small(out, sizes) } else { never };
            return SubGroups {
                are_packs: never,
                whole_are_packs: never,
                lanes: 1,
                size: one,
                tails,
                rows_end: false,
            };
        }
        let small = ids_are_small(out, sizes);
        let rows_end = group.regions.iter().any(|region| region.body.required_sub_group_size.is_some());
        let mut are_packs = |[x, y, z]: [Value; 3]| {
            if rows_end {
                return small;
            }
            let (most, zero) = (out.int(u64::from(lanes - 1)), out.int(0));
            let over = out.binary(BinaryOp::And, 0, x, most);
            let rows_fit = out.compare(IntPredicate::Eq, over, zero);
            let rows = out.binary(BinaryOp::Mul, NO_WRAP, y, z);
            let one_row = out.compare(IntPredicate::Eq, rows, one);
            let fits = out.binary(BinaryOp::Or, 0, rows_fit, one_row);
            out.binary(BinaryOp::And, 0, fits, small)
        };
        let enqueued = sizes.order.map(|d| sizes.enqueued_local_size[d]);
        let [are_packs, whole_are_packs] = [sizes.by_row(), enqueued].map(&mut are_packs);
        let size = out.int(lanes.into());
        let size = out.select(are_packs, size, one);
        SubGroups { are_packs, whole_are_packs, lanes, size, tails: are_packs, rows_end }
    }

    /// How many sub-groups a group of that size has.
    fn count(&self, out: &mut Builder, [x, y, z]: [Value; 3], are_packs: Value) -> Value {
        let row = out.binary(BinaryOp::Mul, NO_WRAP, x, y);
        let items = out.binary(BinaryOp::Mul, NO_WRAP, row, z);
        let packs = match self.rows_end {
            true => {
                let rows = out.binary(BinaryOp::Mul, NO_WRAP, y, z);
                let in_row = self.packs_of(out, x);
                out.binary(BinaryOp::Mul, NO_WRAP, in_row, rows)
            }
            false => self.packs_of(out, items),
        };
        out.select(are_packs, packs, items)
    }

    /// Packs of so many work-items, the last of which may have less than the others.
    fn packs_of(&self, out: &mut Builder, items: Value) -> Value {
        let most = out.int(u64::from(self.lanes - 1));
        let up = out.binary(BinaryOp::Add, NO_WRAP, items, most);
        let shift = out.int(self.lanes.ilog2().into());
        out.binary(BinaryOp::LShr, 0, up, shift)
    }
}

impl Lowering<'_, '_> {
    /// What a work-item, or a pack's first, is told of its sub-group.
    pub(super) fn sub_group_query(&mut self, copy: &BodyCopy, query: WorkItemQuery) -> Value {
        let groups = self.sub_groups;
        match (query, copy.kind) {
            (WorkItemQuery::MaxSubGroupSize, _) => groups.size,
            (WorkItemQuery::NumSubGroups, _) => {
                groups.count(&mut self.out, self.sizes.by_row(), groups.are_packs)
            }
            (WorkItemQuery::EnqueuedNumSubGroups, _) => {
                let enqueued = self.sizes.order.map(|d| self.sizes.enqueued_local_size[d]);
                groups.count(&mut self.out, enqueued, groups.whole_are_packs)
            }
            (WorkItemQuery::SubGroupLocalId, _) => self.out.int(0),
            (WorkItemQuery::SubGroupSize, Kind::Item) => self.out.int(1),
            (WorkItemQuery::SubGroupSize, Kind::Pack) => self.out.int(groups.lanes.into()),
            (WorkItemQuery::SubGroupSize, Kind::Tail) => {
                let first = copy.item().local[self.sizes.order[0]];
                self.out.binary(BinaryOp::Sub, NO_WRAP, self.sizes.by_row()[0], first)
            }
            (_, Kind::Item) => copy.item().linear,
            _ if groups.rows_end => {
                let local = copy.item().local;
                let [first, row, plane] = self.sizes.order.map(|d| local[d]);
                let [x, y, _] = self.sizes.by_row();
                let in_row = groups.packs_of(&mut self.out, x);
                let planes = self.out.binary(BinaryOp::Mul, NO_WRAP, plane, y);
                let rows = self.out.binary(BinaryOp::Add, NO_WRAP, planes, row);
                let before = self.out.binary(BinaryOp::Mul, NO_WRAP, rows, in_row);
                let shift = self.out.int(groups.lanes.ilog2().into());
                let own = self.out.binary(BinaryOp::LShr, 0, first, shift);
                self.out.binary(BinaryOp::Add, NO_WRAP, before, own)
            }
            _ => {
                let shift = self.out.int(groups.lanes.ilog2().into());
                self.out.binary(BinaryOp::LShr, 0, copy.item().linear, shift)
            }
        }
    }

    /// What a sub-group of one work-item does together; packs know it already.
    pub(super) fn alone(&mut self, op: SubGroupOp, value: Value) -> Value {
        match op {
            SubGroupOp::ExclusiveScan(op) => {
                let ty = self.out.ty(value);
                op.identity_of(self.out.function, &ty)
            }
            SubGroupOp::Ballot => self.out.cast(CastOp::ZExt, Type::I64, value),
            _ => value,
        }
    }

    /// The rest of a row, the last of its sub-groups: less than a pack, or one work-item after the other. Returns the block that begins it, whose
    /// parameter is the number of the first in the row.
    pub(super) fn tail(
        &mut self,
        (mut tail, lanes): (BodyCopy, u32),
        (row_start, [row, plane]): (Value, [Value; 2]),
        (item, next_row): (Block, Block),
    ) -> Block {
        let [choose, pack, latch] = std::array::from_fn(|_| self.out.function.add_block());
        let first = self.out.function.add_block_param(choose, Type::I64);
        self.out.at = choose;
        let together = self.runs_together(first, lanes);
        self.out.branch(together, (pack, &[]), (item, &[first]));
        self.out.at = pack;
        let linear = self.out.binary(BinaryOp::Add, NO_WRAP, row_start, first);
        let begin = self
            .begin_copy(&mut tail, Some(Item { linear, local: self.sizes.local_id([first, row, plane]) }));
        self.out.jump(begin, &[]);
        self.finish_copy(&mut tail, latch);
        self.out.at = latch;
        self.out.jump(next_row, &[]);
        choose
    }

    /// Whether what is left of a row behind `first` runs as a pack of up to so many lanes. Unless it is a sub-group, very few work-items are
    /// done sooner one by one: groups of one work-item above all, of which all that there is is such a rest.
    fn runs_together(&mut self, first: Value, lanes: u32) -> Value {
        let tails = self.sub_groups.tails;
        if self.sub_groups.lanes > 1 {
            return tails;
        }
        let few = self.out.int(u64::from(lanes / LANES_OF_AN_ITEM));
        let left = self.out.binary(BinaryOp::Sub, NO_WRAP, self.sizes.by_row()[0], first);
        let are_many = self.out.compare(IntPredicate::Ugt, left, few);
        self.out.binary(BinaryOp::And, 0, tails, are_many)
    }
}
