//! Widening: dominators of a function whose blocks are still being written, each behind all that leads to it but the ways back to headers.
//!
//! Chains of immediate dominators are as long as a function; each block knows one far up its own, as in Myers, "An Applicative Random-Access
//! Stack" (1983).

use crate::Block;

/// The dominator tree so far.
#[derive(Debug)]
pub(super) struct GrowingDominators {
    /// By block; none of those to which no way leads yet from the first one.
    nodes: Vec<Option<Node>>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    depth: u32,
    /// The immediate dominator; the first block's is itself.
    up: Block,
    /// Another one above it, or `up` itself.
    far: Block,
}

impl GrowingDominators {
    /// Of a function that begins with block 0.
    pub fn new() -> Self {
        GrowingDominators { nodes: vec![Some(Node { depth: 0, up: Block(0), far: Block(0) })] }
    }

    /// Says that a way leads from one block to another. What is known of blocks behind `to` stays true if it is the way back to a header.
    pub fn add_way(&mut self, from: Block, to: Block) {
        // What never runs decides nothing.
        if self.node(from).is_none() {
            return;
        }
        let up = self.node(to).map_or(from, |known| self.common(known.up, from));
        let depth = self.depth(up);
        let skipped = self.node(up).map_or(up, |node| node.far);
        let next = self.node(skipped).map_or(skipped, |node| node.far);
        let is_as_long = depth - self.depth(skipped) == self.depth(skipped) - self.depth(next);
        let far = if is_as_long { next } else { up };
        if self.nodes.len() <= to.index() {
            self.nodes.resize(to.index() + 1, None);
        }
        self.nodes[to.index()] = Some(Node { depth: depth + 1, up, far });
    }

    /// Whether every way to `block` passes through `over`.
    pub fn dominates(&self, over: Block, mut block: Block) -> bool {
        let least = self.depth(over);
        while let Some(node) = self.node(block).filter(|node| node.depth > least) {
            block = if self.depth(node.far) >= least { node.far } else { node.up };
        }
        block == over
    }

    /// The closest block that dominates both, which have nodes.
    fn common(&self, mut a: Block, mut b: Block) -> Block {
        let up = |block: Block| self.node(block).map_or(block, |node| node.up);
        while a != b {
            let (at_a, at_b) = (self.depth(a), self.depth(b));
            if at_a >= at_b {
                a = up(a);
            }
            if at_b >= at_a {
                b = up(b);
            }
        }
        a
    }

    fn node(&self, block: Block) -> Option<Node> {
        self.nodes.get(block.index()).copied().flatten()
    }

    fn depth(&self, block: Block) -> u32 {
        self.node(block).map_or(0, |node| node.depth)
    }
}

#[cfg(test)]
mod tests {
    use super::GrowingDominators;
    use crate::Block;

    fn of(ways: &[(u32, u32)]) -> GrowingDominators {
        let mut dominators = GrowingDominators::new();
        ways.iter().for_each(|&(from, to)| dominators.add_way(Block(from), Block(to)));
        dominators
    }

    fn over(dominators: &GrowingDominators, block: u32) -> Vec<u32> {
        (0..10).filter(|&over| dominators.dominates(Block(over), Block(block))).collect()
    }

    #[test]
    fn what_all_ways_pass_through_dominates() {
        // 1 parts and meets in 4; 5 is a header to which 6 leads back, and 7 is behind it or comes from 4.
        let all = of(&[(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 6), (6, 5), (4, 7), (5, 7)]);
        assert_eq!(over(&all, 4), [0, 1, 4]);
        assert_eq!(over(&all, 6), [0, 1, 4, 5, 6]);
        assert_eq!(over(&all, 7), [0, 1, 4, 7]);
        assert_eq!(over(&all, 9), [9], "no way leads there");
        // From 8, which never runs, a way leads to 2.
        assert_eq!(over(&of(&[(0, 1), (8, 2), (1, 2), (8, 2), (2, 3)]), 3), [0, 1, 2, 3]);
    }

    #[test]
    fn chains_are_as_they_are_step_by_step() {
        // A ladder: every third block is passed by.
        let ways = (0..3000).flat_map(|n| match n % 3 {
            1 => vec![(n, n + 1), (n, n + 2)],
            _ => vec![(n, n + 1)],
        });
        let all = of(&ways.collect::<Vec<_>>());
        for block in [1, 17, 400, 2999] {
            for passed in 0..=block {
                let is_over = passed == block || passed % 3 != 2;
                assert_eq!(all.dominates(Block(passed), Block(block)), is_over, "{passed} {block}");
            }
            assert!(!all.dominates(Block(block + 1), Block(block)));
        }
    }
}
