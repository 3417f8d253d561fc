//! Analysis: predecessors, successors and orders of a kernel's blocks.

use crate::{Block, Function};

/// The control-flow graph of the blocks that the entry reaches.
#[derive(Debug)]
pub struct ControlFlow {
    successors: Vec<Vec<Block>>,
    predecessors: Vec<Vec<Block>>,
    order: Vec<Block>,
    position: Vec<Option<usize>>,
}

impl ControlFlow {
    /// Of the whole function.
    pub fn new(function: &Function) -> Self {
        let successors: Vec<Vec<Block>> = function
            .block_ids()
            .map(|b| {
                let mut to: Vec<Block> =
                    function.block(b).terminator.targets().iter().map(|t| t.block).collect();
                to.sort();
                to.dedup();
                to
            })
            .collect();
        Self::from_successors(successors, Block(0))
    }

    /// Of a graph given by each block's distinct successors, from `entry` on.
    pub fn from_successors(successors: Vec<Vec<Block>>, entry: Block) -> Self {
        let order = reverse_post_order(&successors, entry);
        let mut position = vec![None; successors.len()];
        for (i, block) in order.iter().enumerate() {
            position[block.index()] = Some(i);
        }
        let mut predecessors = vec![Vec::new(); successors.len()];
        for &block in &order {
            for to in &successors[block.index()] {
                predecessors[to.index()].push(block);
            }
        }
        ControlFlow { successors, predecessors, order, position }
    }

    /// Distinct successors.
    pub fn successors(&self, block: Block) -> &[Block] {
        &self.successors[block.index()]
    }

    /// Distinct reachable predecessors.
    pub fn predecessors(&self, block: Block) -> &[Block] {
        &self.predecessors[block.index()]
    }

    /// Reachable blocks, each before its successors but for back edges.
    pub fn reverse_post_order(&self) -> &[Block] {
        &self.order
    }

    /// The block's place in the reverse post-order.
    pub fn position(&self, block: Block) -> Option<usize> {
        self.position[block.index()]
    }

    /// Blocks, reachable or not.
    pub fn block_count(&self) -> usize {
        self.successors.len()
    }

    /// Whether the block reaches itself.
    pub fn is_in_loop(&self, block: Block) -> bool {
        let mut seen = vec![false; self.successors.len()];
        let mut work = self.successors(block).to_vec();
        while let Some(at) = work.pop() {
            if at == block {
                return true;
            }
            if !std::mem::replace(&mut seen[at.index()], true) {
                work.extend(self.successors(at));
            }
        }
        false
    }

    /// Whether the entry reaches the block.
    pub fn is_reachable(&self, block: Block) -> bool {
        self.position(block).is_some()
    }
}

fn reverse_post_order(successors: &[Vec<Block>], entry: Block) -> Vec<Block> {
    let mut order = Vec::new();
    let mut seen = vec![false; successors.len()];
    // Each entry: a block and how many of its successors were visited.
    let mut stack = Vec::new();
    if entry.index() < successors.len() {
        seen[entry.index()] = true;
        stack.push((entry, 0));
    }
    while let Some((block, next)) = stack.last_mut() {
        if let Some(&to) = successors[block.index()].get(*next) {
            *next += 1;
            if !std::mem::replace(&mut seen[to.index()], true) {
                stack.push((to, 0));
            }
        } else {
            order.push(*block);
            stack.pop();
        }
    }
    order.reverse();
    order
}
