//! Transform: cuts a kernel where work-items must wait for each other.
//!
//! Every barrier is a border. So is a uniform branch that all work-items take together and that decides which
//! border comes next: the group takes it once, and a uniform loop around a barrier stays a scalar loop around its regions.

use crate::analysis::{ControlFlow, Uniformity};
use crate::{Block, Function, Target, Terminator};
use fixedbitset::FixedBitSet;

/// The blocks that begin a region. Every way into them crosses a border, and they have no parameters.
pub(super) struct Borders {
    starts: FixedBitSet,
}

impl Borders {
    /// Whether a region begins here.
    pub fn contains(&self, block: Block) -> bool {
        self.starts.contains(block.index())
    }
}

/// Gives each barrier, and each uniform branch between borders, successors of its own that begin a region.
/// `uniformity` speaks of the function as it came and stays true of its values.
pub(super) fn cut(function: &mut Function, flow: &ControlFlow, uniformity: &Uniformity) -> Borders {
    let ahead = BordersAhead::new(function, flow);
    let mut starts = FixedBitSet::with_capacity(function.blocks.len());
    starts.insert(0);
    for &block in flow.reverse_post_order() {
        let terminator = &function.block(block).terminator;
        let cut = match terminator {
            Terminator::Barrier(_) => true,
            Terminator::Branch { .. } | Terminator::Switch { .. } => {
                let together = uniformity.is_converged(block)
                    && terminator.condition().is_some_and(|c| uniformity.is_uniform(c));
                together && ahead.differ(flow.successors(block))
            }
            _ => false,
        };
        if cut {
            for target in 0..terminator.targets().len() {
                starts.grow_and_insert(begin_region(function, block, target).index());
            }
        }
    }
    Borders { starts }
}

/// Puts a block without parameters between `block` and its successor.
fn begin_region(function: &mut Function, block: Block, target: usize) -> Block {
    let start = function.add_block();
    let mut targets = function.blocks[block.index()].terminator.targets_mut();
    let onward = std::mem::replace(&mut *targets[target], Target::to(start));
    function.set_terminator(start, Terminator::Jump(onward));
    start
}

/// Which barriers or returns come next after each block.
struct BordersAhead {
    sets: Vec<FixedBitSet>,
}

impl BordersAhead {
    fn new(function: &Function, flow: &ControlFlow) -> Self {
        let mut sets = vec![FixedBitSet::with_capacity(function.blocks.len() + 1); function.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for &block in flow.reverse_post_order().iter().rev() {
                let mut set = sets[block.index()].clone();
                match function.block(block).terminator {
                    Terminator::Barrier(_) => set.insert(block.index()),
                    // All returns are one border.
                    Terminator::Return(_) => set.insert(function.blocks.len()),
                    _ => flow.successors(block).iter().for_each(|s| set.union_with(&sets[s.index()])),
                }
                changed |= set != sets[block.index()];
                sets[block.index()] = set;
            }
        }
        BordersAhead { sets }
    }

    fn differ(&self, successors: &[Block]) -> bool {
        successors.windows(2).any(|pair| self.sets[pair[0].index()] != self.sets[pair[1].index()])
    }
}
