//! Analysis: dominators by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).

use super::ControlFlow;
use crate::Block;

/// The dominator tree of the reachable blocks.
#[derive(Debug)]
pub struct Dominators {
    /// Immediate dominator as a position in the order; the entry's is itself.
    immediate: Vec<usize>,
    position: Vec<Option<usize>>,
    order: Vec<Block>,
}

impl Dominators {
    /// Of a control-flow graph.
    pub fn new(flow: &ControlFlow) -> Self {
        let order = flow.reverse_post_order().to_vec();
        let size = order.iter().map(|b| b.index() + 1).max().unwrap_or(0);
        let position = (0..size as u32).map(|b| flow.position(Block(b))).collect();
        let predecessors: Vec<Vec<usize>> = order
            .iter()
            .map(|&b| flow.predecessors(b).iter().filter_map(|&p| flow.position(p)).collect())
            .collect();
        Dominators { immediate: immediate_dominators(&predecessors), position, order }
    }

    /// Whether every way to `block` passes through `over`. False for unreachable blocks.
    pub fn dominates(&self, over: Block, block: Block) -> bool {
        let place = |b: Block| self.position.get(b.index()).copied().flatten();
        let (Some(over), Some(mut at)) = (place(over), place(block)) else { return false };
        while at > over {
            at = self.immediate[at];
        }
        at == over
    }

    /// The closest block that dominates both.
    pub fn common(&self, a: Block, b: Block) -> Option<Block> {
        let place = |b: Block| self.position.get(b.index()).copied().flatten();
        Some(self.order[intersect(&self.immediate, place(a)?, place(b)?)])
    }
}

/// `predecessors` by position in a reverse post-order; position 0 is the root.
pub(super) fn immediate_dominators(predecessors: &[Vec<usize>]) -> Vec<usize> {
    const UNKNOWN: usize = usize::MAX;
    let mut immediate = vec![UNKNOWN; predecessors.len()];
    if let Some(root) = immediate.first_mut() {
        *root = 0;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for at in 1..predecessors.len() {
            let known = predecessors[at].iter().copied().filter(|&p| immediate[p] != UNKNOWN);
            let Some(new) = known.reduce(|a, b| intersect(&immediate, a, b)) else { continue };
            changed |= immediate[at] != new;
            immediate[at] = new;
        }
    }
    immediate
}

fn intersect(immediate: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while a > b {
            a = immediate[a];
        }
        while b > a {
            b = immediate[b];
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[&[u32]]) -> ControlFlow {
        let successors = edges.iter().map(|to| to.iter().map(|&b| Block(b)).collect()).collect();
        ControlFlow::from_successors(successors, Block(0))
    }

    #[test]
    fn a_loop_with_two_exits() {
        // 0 -> 1 -> {2, 4}; 2 -> {3, 4}; 3 -> 1; 5 is unreachable.
        let flow = graph(&[&[1], &[2, 4], &[3, 4], &[1], &[], &[4]]);
        let dominators = Dominators::new(&flow);
        assert!(dominators.dominates(Block(1), Block(4)) && dominators.dominates(Block(2), Block(3)));
        assert!(!dominators.dominates(Block(2), Block(4)) && !dominators.dominates(Block(4), Block(1)));
        assert!(!dominators.dominates(Block(0), Block(5)));
        assert_eq!(dominators.common(Block(3), Block(4)), Some(Block(1)));
    }
}
