//! Analysis: which blocks of a region's body all lanes of a pack run through together, and which share a mask.
//!
//! A block that is reached by all lanes that reached another, in the same iteration of the same loop, has its mask.

use super::{ControlFlow, Level, LoopId, Loops, Node, Shapes};
use crate::{Block, Function};

/// The lanes that are active in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All lanes of the pack.
    Full,
    /// The same as in that block, the first of its kind.
    Of(Block),
}

/// Every block's mask.
pub struct Masks {
    masks: Vec<Mask>,
}

impl Masks {
    /// Of a body in which all lanes start at block 0.
    pub fn new(function: &Function, flow: &ControlFlow, loops: &Loops, shapes: &Shapes) -> Self {
        let mut masks = Masks { masks: function.block_ids().map(Mask::Of).collect() };
        let known = Entry { mask: Mask::Full, lasts: true };
        masks.level((function, flow, loops, shapes), None, known);
        masks
    }

    /// The mask of a block.
    pub fn of(&self, block: Block) -> Mask {
        self.masks[block.index()]
    }

    fn level(
        &mut self,
        facts @ (function, flow, loops, shapes): (&Function, &ControlFlow, &Loops, &Shapes),
        level: Option<LoopId>,
        entry: Entry,
    ) {
        let graph = Level::new(function, flow, loops, level);
        let (before, after) = graph.dominators();
        let mut known: Vec<Entry> = Vec::new();
        for (n, &node) in graph.nodes.iter().enumerate() {
            let over = before[n];
            let comes_always =
                || std::iter::successors(after[over], |&p| after[p]).take_while(|&p| p <= n).any(|p| p == n);
            let at = if n == 0 {
                entry
            } else if known[over].lasts && comes_always() {
                known[over]
            } else {
                Entry { mask: Mask::Of(head(loops, node)), lasts: true }
            };
            match node {
                Node::Block(block) => {
                    self.masks[block.index()] = at.mask;
                    known.push(at);
                }
                Node::Loop(id) if shapes.is_divergent_loop(id) => {
                    let header = loops.get(id).header;
                    // The header's mask shrinks while the loop runs.
                    known.push(Entry { lasts: at.mask != Mask::Of(header), ..at });
                    self.level(facts, Some(id), Entry { mask: Mask::Of(header), lasts: true });
                }
                Node::Loop(id) => {
                    known.push(at);
                    self.level(facts, Some(id), at);
                }
            }
        }
    }
}

/// With which mask lanes come to a node, and whether that mask is still to be had behind it.
#[derive(Clone, Copy)]
struct Entry {
    mask: Mask,
    lasts: bool,
}

fn head(loops: &Loops, node: Node) -> Block {
    match node {
        Node::Block(block) => block,
        Node::Loop(id) => loops.get(id).header,
    }
}
