//! Tests of the analyses on textual Kernel IR, with answers in the text's own numbers.

mod flow;
mod shapes;

use super::*;
use crate::{Block, Function, Value, parse};
use fixedbitset::FixedBitSet;

/// A kernel's body, in which work-items start at block 0, and what the analyses say of it.
struct Analysed {
    kernel: Function,
    /// The text's number of each value, where it is defined.
    names: Vec<(u32, Value)>,
    loops: Loops,
    shapes: Shapes,
    masks: Masks,
}

impl Analysed {
    /// Private slots are taken to lie lane after lane, each `strides` bytes.
    fn new(text: &str, strides: &[i64]) -> Self {
        let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
        let flow = ControlFlow::new(&kernel);
        let loops = Loops::new(&flow).expect("every cycle has one entry");
        let interleaved = FixedBitSet::with_capacity(kernel.value_count());
        let memory = MemoryShape { context: &[], slot_strides: strides, interleaved: &interleaved };
        let shapes = Shapes::new(&kernel, &flow, &loops, &memory);
        let masks = Masks::new(&kernel, &flow, &loops, &shapes);
        // Definitions stand in the same order in both texts.
        let names = defined(text).into_iter().zip(defined(&kernel.to_string()).into_iter().map(Value));
        Analysed { names: names.collect(), kernel, loops, shapes, masks }
    }

    /// "%2 +1! %3 +4 %5 ~": strides of affine values, `!` where exact; `~` for varying ones. Uniform ones are not named.
    fn shapes(&self) -> String {
        let one = |&(name, value): &(u32, Value)| match self.shapes.shape(value) {
            Shape::Uniform => None,
            Shape::Affine { stride, exact } => {
                Some(format!("%{name} {stride:+}{}", if exact { "!" } else { "" }))
            }
            Shape::Varying => Some(format!("%{name} ~")),
        };
        self.names.iter().filter_map(one).collect::<Vec<_>>().join(" ")
    }

    fn value(&self, name: u32) -> Value {
        self.names.iter().find(|(n, _)| *n == name).expect("a value of the text").1
    }

    fn divergent_branches(&self) -> Vec<u32> {
        self.kernel.block_ids().filter(|&b| self.shapes.is_divergent_branch(b)).map(|b| b.0).collect()
    }

    /// Headers of divergent loops.
    fn divergent_loops(&self) -> Vec<u32> {
        let all = (0..self.loops.count()).map(LoopId);
        let mut headers: Vec<u32> = all
            .filter(|&id| self.shapes.is_divergent_loop(id))
            .map(|id| self.loops.get(id).header.0)
            .collect();
        headers.sort();
        headers
    }

    /// "full b1 b1 full": each block's mask.
    fn masks(&self) -> String {
        let one = |block: Block| match self.masks.of(block) {
            Mask::Full => "full".to_owned(),
            Mask::Of(first) => first.to_string(),
        };
        self.kernel.block_ids().map(one).collect::<Vec<_>>().join(" ")
    }
}

/// The numbers before which a text has `%` and behind which it has a type.
fn defined(text: &str) -> Vec<u32> {
    text.split('%').skip(1).filter_map(|t| t.split_once(": ")?.0.parse().ok()).collect()
}
