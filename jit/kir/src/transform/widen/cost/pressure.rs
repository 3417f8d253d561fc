//! Widening: what packs spend on values that find no register.

use super::price::Prices;
use crate::analysis::{Liveness, Shape};
use crate::{Block, Value};
use std::collections::{BTreeSet, HashMap};

/// What a pack spends in each block on stores and loads of such values: of those that are needed, the ones stay in registers that are
/// used next (Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", 1966), as far as register allocators manage.
pub(super) fn spills(prices: &Prices) -> Vec<f64> {
    let (body, flow) = (prices.body, &prices.facts.flow);
    let all = if prices.register_bits >= 512 { 32.0 } else { 16.0 };
    let mut spills = vec![0.0; body.blocks.len()];
    let blocks = flow.reverse_post_order();
    let results = blocks.iter().flat_map(|&block| {
        let insts = body.block(block).insts.iter().filter_map(|&inst| body.result(inst));
        insts.chain(body.block(block).params.iter().copied()).map(move |value| (value, block))
    });
    // Those that fit in any case are most.
    if results.map(|(value, block)| registers(prices, value, block)).sum::<f64>() <= all {
        return spills;
    }
    let liveness = Liveness::new(body, flow);
    for &block in blocks {
        let behind: BTreeSet<Value> =
            flow.successors(block).iter().flat_map(|&to| liveness.live_in(to)).collect();
        let mut file = Registers::new(prices, block, &behind, all);
        let before = liveness.live_in(block).chain(body.block(block).params.iter().copied());
        before.for_each(|value| file.begin_with(value));
        for (place, &inst) in body.block(block).insts.iter().enumerate() {
            body.op(inst).visit_operands(|value| file.read(value, place));
            body.result(inst).into_iter().for_each(|value| file.write(value));
        }
        spills[block.index()] = file.moved * prices.costs.access;
    }
    spills
}

/// How many registers a value fills in a pack.
fn registers(prices: &Prices, value: Value, block: Block) -> f64 {
    let is_varying = prices.facts.shapes.shape_at(value, block) == Shape::Varying;
    if is_varying && !prices.body.is_given(value) { prices.registers(prices.body.ty(value)) } else { 0.0 }
}

/// The registers as a block's instructions go by.
struct Registers<'a> {
    prices: &'a Prices<'a>,
    block: Block,
    all: f64,
    /// Where each value is used, the last place first. What is needed behind the block is used there.
    uses: HashMap<Value, Vec<usize>>,
    /// What is in registers, by its next use.
    held: BTreeSet<(usize, Value)>,
    filled: f64,
    /// What is in memory.
    stored: BTreeSet<Value>,
    /// Registers that were stored and loaded.
    moved: f64,
}

impl<'a> Registers<'a> {
    fn new(prices: &'a Prices<'a>, block: Block, behind: &BTreeSet<Value>, all: f64) -> Self {
        let data = prices.body.block(block);
        let mut uses: HashMap<Value, Vec<usize>> = HashMap::new();
        let end = data.insts.len();
        let mut last = |value: Value, place: usize| {
            let places = uses.entry(value).or_default();
            if places.last() != Some(&place) {
                places.push(place);
            }
        };
        behind.iter().copied().chain(data.terminator.operands()).for_each(|value| last(value, end));
        for (place, &inst) in data.insts.iter().enumerate().rev() {
            prices.body.op(inst).visit_operands(|value| last(value, place));
        }
        let (held, stored) = (BTreeSet::new(), BTreeSet::new());
        Registers { prices, block, all, uses, held, filled: 0.0, stored, moved: 0.0 }
    }

    fn size(&self, value: Value) -> f64 {
        registers(self.prices, value, self.block)
    }

    fn next_use(&self, value: Value) -> Option<usize> {
        self.uses.get(&value)?.last().copied()
    }

    /// A value that is there when the block begins. What finds no register then was stored before.
    fn begin_with(&mut self, value: Value) {
        self.hold(value);
        while let Some(last) = self.last_beyond() {
            self.stored.insert(last);
        }
    }

    fn read(&mut self, value: Value, place: usize) {
        if self.next_use(value) != Some(place) {
            return; // A second operand.
        }
        if self.held.remove(&(place, value)) {
            self.filled -= self.size(value);
        } else {
            self.moved += self.size(value);
        }
        if let Some(places) = self.uses.get_mut(&value) {
            places.pop();
        }
        self.hold(value);
        self.make_room();
    }

    fn write(&mut self, value: Value) {
        self.hold(value);
        self.make_room();
    }

    fn hold(&mut self, value: Value) {
        let Some(next) = self.next_use(value) else { return };
        if self.size(value) > 0.0 && self.held.insert((next, value)) {
            self.filled += self.size(value);
        }
    }

    fn make_room(&mut self) {
        while let Some(last) = self.last_beyond() {
            if self.stored.insert(last) {
                self.moved += self.size(last);
            }
        }
    }

    /// Takes out what is used last, if more is held than there are registers.
    fn last_beyond(&mut self) -> Option<Value> {
        let (_, last) = *self.held.last().filter(|_| self.filled > self.all)?;
        self.held.pop_last();
        self.filled -= self.size(last);
        Some(last)
    }
}
