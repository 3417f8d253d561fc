//! Widening: how long the chains of results take: those that go from one iteration of a loop to the next, and those within a block.

use super::super::interleaved::place;
use super::{Cost, Price};
use crate::analysis::Leaps;
use crate::{Block, Function, Inst, Op, Value};
use std::collections::HashMap;

/// When each value is there; kept between loops, so that each costs what it has.
pub(super) struct Chains {
    ready: Vec<Cost>,
}

/// Iterations that are looked at: chains that change places, as in a hash function, come to rest meanwhile.
const ITERATIONS: usize = 8;
/// What is stored longer before has arrived in any case.
const MOST_ITERATIONS_BACK: usize = 2;

/// A store that a load gets its value from, so many iterations before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Source {
    store: Inst,
    back: usize,
}

impl Chains {
    pub fn new(body: &Function) -> Self {
        Chains { ready: vec![Cost::default(); body.value_count()] }
    }

    /// The longest chain of a loop without inner loops, through memory as well, for one iteration. `blocks` are the loop's in the order in
    /// which they run, the header first.
    pub fn longest(&mut self, body: &Function, blocks: &[Block], leaps: &Leaps, prices: &[Price]) -> Cost {
        let Some(&header) = blocks.first() else { return Cost::default() };
        let sources = sources(body, blocks, leaps);
        // When a store has what it stores, by the iteration.
        let mut stored: HashMap<(Inst, usize), Cost> = HashMap::new();
        let (mut half, mut end) = (Cost::default(), Cost::default());
        for iteration in 1..=ITERATIONS {
            let mut brought: Vec<(Value, Cost)> = Vec::new();
            for &block in blocks {
                for &inst in &body.block(block).insts {
                    let (op, price) = (body.op(inst), &prices[inst.index()]);
                    let mut at = Cost::default();
                    op.visit_operands(|v| at = later(at, self.ready[v.index()]));
                    if let Op::Store { .. } = op {
                        stored.insert((inst, iteration), at);
                        end = later(end, at);
                    } else if let Some(source) = sources.get(&inst)
                        && let Some(before) = iteration.checked_sub(source.back)
                        && let Some(&store) = stored.get(&(source.store, before))
                    {
                        at = later(at, store);
                    }
                    at += price.latency;
                    if let Some(value) = body.result(inst) {
                        self.ready[value.index()] = at;
                    }
                }
                for target in body.block(block).terminator.targets() {
                    let params = &body.block(target.block).params;
                    for (&param, &argument) in params.iter().zip(&target.arguments) {
                        let at = self.ready[argument.index()];
                        if target.block == header {
                            brought.push((param, at));
                        } else {
                            self.ready[param.index()] = later(self.ready[param.index()], at);
                        }
                    }
                }
            }
            for (param, at) in brought {
                self.ready[param.index()] = later(self.ready[param.index()], at);
                end = later(end, self.ready[param.index()]);
            }
            if iteration == ITERATIONS / 2 {
                half = end;
            }
        }
        self.forget(body, blocks);
        let each = |end: f64, half: f64| (end - half) / (ITERATIONS - ITERATIONS / 2) as f64;
        Cost { scalar: each(end.scalar, half.scalar), pack: each(end.pack, half.pack) }
    }

    /// The longest chain of a block's instructions.
    pub fn within(&mut self, body: &Function, block: Block, prices: &[Price]) -> Cost {
        let mut end = Cost::default();
        for &inst in &body.block(block).insts {
            let mut at = Cost::default();
            body.op(inst).visit_operands(|v| at = later(at, self.ready[v.index()]));
            at += prices[inst.index()].latency;
            if let Some(value) = body.result(inst) {
                self.ready[value.index()] = at;
                end = later(end, at);
            }
        }
        self.forget(body, &[block]);
        end
    }

    fn forget(&mut self, body: &Function, blocks: &[Block]) {
        for &block in blocks {
            let results = body.block(block).insts.iter().filter_map(|&inst| body.result(inst));
            let brought = body.block(block).terminator.targets().into_iter();
            let params = brought.flat_map(|target| body.block(target.block).params.iter().copied());
            results.chain(params).for_each(|value| self.ready[value.index()] = Cost::default());
        }
    }
}

/// What loads of a loop get by memory: from stores to what is the same place, or becomes it by the loop's steps.
fn sources(body: &Function, blocks: &[Block], leaps: &Leaps) -> HashMap<Inst, Source> {
    let insts = || blocks.iter().flat_map(|&block| body.block(block).insts.iter().map(move |&i| (block, i)));
    let stores = insts().enumerate().filter_map(|(number, (_, inst))| match *body.op(inst) {
        Op::Store { pointer, .. } => Some((place(body, pointer), (number, inst))),
        _ => None,
    });
    let stores: HashMap<_, (usize, Inst)> = stores.collect();
    let loads = insts().enumerate().filter(|_| !stores.is_empty()).filter_map(|(number, (block, inst))| {
        let Op::Load { pointer, .. } = *body.op(inst) else { return None };
        let (place, at) = place(body, pointer);
        let step = leaps.step_at(block, pointer)?;
        let source = |back: usize| {
            let bytes = step.checked_mul(back as i64)?.checked_add(at)?;
            let &(before, store) = stores.get(&(place, bytes))?;
            (back > 0 || before < number).then_some(Source { store, back })
        };
        Some((inst, (0..=MOST_ITERATIONS_BACK).find_map(source)?))
    });
    loads.collect()
}

pub(super) fn later(a: Cost, b: Cost) -> Cost {
    Cost { scalar: a.scalar.max(b.scalar), pack: a.pack.max(b.pack) }
}
