//! Analysis: loops, and a kernel's blocks loop by loop.
//!
//! A *level* is what stands directly in one loop (or in none), with each inner loop as a single node: an acyclic graph.
//! What needs no fixed point is asked level by level.

use super::{ControlFlow, Dominators};
use crate::{Block, Function};
use fixedbitset::FixedBitSet;
use std::collections::HashMap;

/// A loop's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopId(pub usize);

/// A natural loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Every way into the loop leads here.
    pub header: Block,
    /// Its blocks, those of inner loops included.
    pub blocks: FixedBitSet,
    /// The loop around it.
    pub parent: Option<LoopId>,
}

/// All loops of a reducible control-flow graph.
#[derive(Clone, Debug)]
pub struct Loops {
    loops: Vec<Loop>,
    innermost: Vec<Option<LoopId>>,
}

impl Loops {
    /// None if some cycle has several entries.
    pub fn new(flow: &ControlFlow) -> Option<Self> {
        let dominators = Dominators::new(flow);
        let mut bodies: HashMap<Block, FixedBitSet> = HashMap::new();
        let position = |b: Block| flow.position(b).unwrap_or(usize::MAX);
        for &block in flow.reverse_post_order() {
            for &to in flow.successors(block).iter().filter(|&&to| position(to) <= position(block)) {
                if !dominators.dominates(to, block) {
                    return None;
                }
                let body = bodies.entry(to).or_insert_with(|| {
                    let mut body = FixedBitSet::with_capacity(flow.block_count());
                    body.insert(to.index());
                    body
                });
                let mut work = vec![block];
                while let Some(at) = work.pop() {
                    if !body.put(at.index()) {
                        work.extend(flow.predecessors(at));
                    }
                }
            }
        }
        // Larger loops first, so that the last loop that contains a block is its innermost.
        let mut found: Vec<(Block, FixedBitSet)> = bodies.into_iter().collect();
        found.sort_by_key(|(header, body)| (usize::MAX - body.count_ones(..), position(*header)));
        let mut loops = Loops { loops: Vec::new(), innermost: vec![None; flow.block_count()] };
        for (header, blocks) in found {
            let parent = loops.innermost[header.index()];
            let id = LoopId(loops.loops.len());
            blocks.ones().for_each(|b| loops.innermost[b] = Some(id));
            loops.loops.push(Loop { header, blocks, parent });
        }
        Some(loops)
    }

    /// Number of loops; their numbers are below it, outer loops first.
    pub fn count(&self) -> usize {
        self.loops.len()
    }

    /// The loops that contain no other.
    pub fn without_inner(&self) -> impl Iterator<Item = LoopId> + use<> {
        let mut innermost = vec![true; self.count()];
        self.loops.iter().filter_map(|l| l.parent).for_each(|parent| innermost[parent.0] = false);
        (0..self.count()).map(LoopId).filter(move |id| innermost[id.0])
    }

    /// A loop.
    pub fn get(&self, id: LoopId) -> &Loop {
        &self.loops[id.0]
    }

    /// The innermost loop around a block.
    pub fn innermost(&self, block: Block) -> Option<LoopId> {
        self.innermost[block.index()]
    }

    /// Whether the loop contains the block.
    pub fn contains(&self, id: LoopId, block: Block) -> bool {
        self.get(id).blocks.contains(block.index())
    }

    /// A loop and those around it, inner first.
    pub fn around(&self, from: Option<LoopId>) -> impl Iterator<Item = LoopId> + '_ {
        std::iter::successors(from, |&id| self.get(id).parent)
    }

    /// The child of `level` that contains `block`, if it does not stand in `level` directly.
    fn child(&self, level: Option<LoopId>, block: Block) -> Option<LoopId> {
        self.around(self.innermost(block)).take_while(|&id| Some(id) != level).last()
    }
}

/// What stands in a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A block directly in the level.
    Block(Block),
    /// An inner loop.
    Loop(LoopId),
}

/// Where an edge of a level leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To the node of that number in the same level.
    Node(usize),
    /// To the header of the level's own loop.
    Back,
    /// Out of the level's loop, to that block, or out of the function.
    Out(Option<Block>),
}

/// An edge of a level: the block that it leaves, the number among its terminator's targets, where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Edge {
    pub from: Block,
    pub target: usize,
    pub to: To,
}

/// The acyclic graph of one loop's body, or of the whole function.
#[derive(Clone, Debug)]
pub struct Level {
    /// In topological order: the header (or the entry) first.
    pub nodes: Vec<Node>,
    /// Each node's edges. A block that leaves the function has one edge, `Out(None)`.
    pub edges: Vec<Vec<Edge>>,
}

impl Level {
    /// Of a loop, or of what stands in no loop.
    pub fn new(function: &Function, flow: &ControlFlow, loops: &Loops, level: Option<LoopId>) -> Self {
        let entry = level.map_or(Block(0), |id| loops.get(id).header);
        let inside = |block: Block| level.is_none_or(|id| loops.contains(id, block));
        let node_of = |block: Block| loops.child(level, block).map_or(Node::Block(block), Node::Loop);
        // Depth first from the entry; the reverse of the order in which nodes are finished is topological.
        let successors = |node: Node| -> Vec<Node> {
            let blocks: Vec<Block> = match node {
                Node::Block(block) => vec![block],
                Node::Loop(id) => loops.get(id).blocks.ones().map(|b| Block(b as u32)).collect(),
            };
            let to = blocks.iter().flat_map(|&b| flow.successors(b).iter().copied());
            let to = to.filter(|&b| inside(b) && b != entry).map(node_of);
            to.filter(|&n| n != node).collect()
        };
        let mut finished: Vec<Node> = Vec::new();
        let mut seen: Vec<Node> = vec![node_of(entry)];
        let mut stack = vec![(node_of(entry), successors(node_of(entry)))];
        while let Some((node, left)) = stack.last_mut() {
            match left.pop() {
                Some(next) if seen.contains(&next) => {}
                Some(next) => {
                    seen.push(next);
                    stack.push((next, successors(next)));
                }
                None => {
                    finished.push(*node);
                    stack.pop();
                }
            }
        }
        finished.reverse();
        let nodes = finished;
        let number = |node: Node| nodes.iter().position(|&n| n == node);
        let edge = |from: Block, target: usize, block: Block| {
            let to = if level.is_some() && block == entry {
                To::Back
            } else if inside(block) {
                number(node_of(block)).map_or(To::Out(None), To::Node)
            } else {
                To::Out(Some(block))
            };
            Edge { from, target, to }
        };
        let edges = nodes.iter().map(|&node| {
            let blocks: Vec<Block> = match node {
                Node::Block(block) => vec![block],
                Node::Loop(id) => {
                    flow.reverse_post_order().iter().copied().filter(|&b| loops.contains(id, b)).collect()
                }
            };
            let leaves_node = |b: Block| match node {
                Node::Block(_) => true,
                Node::Loop(id) => !loops.contains(id, b),
            };
            blocks
                .iter()
                .flat_map(|&from| {
                    let targets = function.block(from).terminator.targets();
                    let mut edges: Vec<Edge> = (targets.iter().enumerate())
                        .filter(|(_, t)| leaves_node(t.block))
                        .map(|(k, t)| edge(from, k, t.block))
                        .collect();
                    if targets.is_empty() {
                        edges.push(Edge { from, target: 0, to: To::Out(None) });
                    }
                    edges
                })
                .collect()
        });
        Level { edges: edges.collect(), nodes }
    }

    /// Each node's immediate dominator and immediate post-dominator in the level; the latter is none where the ways
    /// meet only outside of it.
    pub fn dominators(&self) -> (Vec<usize>, Vec<Option<usize>>) {
        let size = self.nodes.len();
        let mut before = vec![Vec::new(); size];
        // Reversed: position 0 is the outside, then the nodes from last to first.
        let mut after = vec![Vec::new(); size + 1];
        for (from, edges) in self.edges.iter().enumerate() {
            for edge in edges {
                if let To::Node(to) = edge.to {
                    before[to].push(from);
                    after[size - from].push(size - to);
                } else {
                    after[size - from].push(0);
                }
            }
            if edges.is_empty() {
                after[size - from].push(0);
            }
        }
        let immediate = super::dominators::immediate_dominators(&before);
        let post = super::dominators::immediate_dominators(&after);
        let post = (0..size).map(|n| size.checked_sub(post[size - n]).filter(|&p| p < size)).collect();
        (immediate, post)
    }
}

/// All blocks and, behind the last block of each loop, the loop itself: the order in which lanes that wait for each
/// other run through a function. Loops stay together.
pub fn linear_order(function: &Function, flow: &ControlFlow, loops: &Loops) -> Vec<Node> {
    fn append(
        order: &mut Vec<Node>,
        (function, flow, loops): (&Function, &ControlFlow, &Loops),
        level: Option<LoopId>,
    ) {
        for node in Level::new(function, flow, loops, level).nodes {
            match node {
                Node::Block(_) => order.push(node),
                Node::Loop(id) => append(order, (function, flow, loops), Some(id)),
            }
        }
        order.extend(level.map(Node::Loop));
    }
    let mut order = Vec::new();
    append(&mut order, (function, flow, loops), None);
    order
}
