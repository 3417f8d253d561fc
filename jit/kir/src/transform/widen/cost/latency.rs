//! Widening: how long the chains of results take: those that go from one iteration of a loop to the next, and those within a block.

use super::{Cost, Price};
use crate::{Block, Function, Op, Value};
use std::collections::HashMap;

/// When each value is there; kept between loops, so that each costs what it has.
pub(super) struct Chains {
    ready: Vec<Cost>,
}

/// Iterations that are looked at: chains that change places, as in a hash function, come to rest meanwhile.
const ITERATIONS: usize = 8;

impl Chains {
    pub fn new(body: &Function) -> Self {
        Chains { ready: vec![Cost::default(); body.value_count()] }
    }

    /// The longest chain of a loop without inner loops, for one iteration. `blocks` are the loop's in the order in which they run.
    pub fn longest(&mut self, body: &Function, header: Block, blocks: &[Block], prices: &[Price]) -> Cost {
        // What was stored by a pointer of the same name, which is there when it is loaded again.
        let mut stored: HashMap<Value, Cost> = HashMap::new();
        let (mut half, mut end) = (Cost::default(), Cost::default());
        for iteration in 1..=ITERATIONS {
            let mut brought: Vec<(Value, Cost)> = Vec::new();
            for &block in blocks {
                for &inst in &body.block(block).insts {
                    let (op, price) = (body.op(inst), &prices[inst.index()]);
                    let mut at = Cost::default();
                    op.visit_operands(|v| at = later(at, self.ready[v.index()]));
                    match op {
                        Op::Store { pointer, .. } => {
                            stored.insert(*pointer, at);
                        }
                        Op::Load { pointer, .. } => {
                            at = stored.get(pointer).map_or(at, |&store| later(at, store));
                        }
                        _ => {}
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
            end = stored.values().fold(end, |end, &at| later(end, at));
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

pub(super) fn later(a: Cost, b: Cost) -> Cost {
    Cost { scalar: a.scalar.max(b.scalar), pack: a.pack.max(b.pack) }
}
