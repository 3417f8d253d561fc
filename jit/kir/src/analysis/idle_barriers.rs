//! Analysis: barriers that order nothing, as the last one of a kernel, behind which nothing comes.
//!
//! A barrier has what work-items access before it done before what they access behind it. Where the one or the other is nothing, or they
//! access different memory, or only load, work-items need not wait. Each barrier that is left out makes one of what comes before and
//! behind it, which others may have to order: they are looked at one after the other.

use crate::analysis::ControlFlow;
use crate::{AddressSpace, Block, Function, Op, Terminator};
use fixedbitset::FixedBitSet;

/// Further ones are thought to order something: each is looked at with all that lies around it.
const MOST_BARRIERS: usize = 500;

/// The blocks that end in such barriers, all of which may be left out.
pub fn idle_barriers(kernel: &Function) -> Vec<Block> {
    let flow = ControlFlow::new(kernel);
    let ends = |block: &&Block| matches!(kernel.block(**block).terminator, Terminator::Barrier(_));
    let all: Vec<Block> = flow.reverse_post_order().iter().filter(ends).copied().collect();
    if all.is_empty() || all.len() > MOST_BARRIERS {
        return Vec::new();
    }
    let accesses: Vec<Accesses> = kernel.block_ids().map(|block| Accesses::of(kernel, block)).collect();
    let mut barriers = FixedBitSet::with_capacity(kernel.blocks.len());
    all.iter().for_each(|block| barriers.insert(block.index()));
    let mut idle = Vec::new();
    for block in all {
        let [before, behind] =
            [Way::Back, Way::Onward].map(|way| way.gather(block, &flow, &barriers, &accesses));
        if !before.meets(behind) {
            barriers.remove(block.index());
            idle.push(block);
        }
    }
    idle
}

/// What work-items have in common, a bit each.
type Memories = u8;
const GLOBAL: Memories = 1;
const LOCAL: Memories = 2;
const ALL: Memories = GLOBAL | LOCAL;

/// Memory that is loaded from, and that is stored to.
#[derive(Clone, Copy, Default)]
struct Accesses {
    loaded: Memories,
    stored: Memories,
}

impl Accesses {
    const ANY: Accesses = Accesses { loaded: ALL, stored: ALL };

    fn of(kernel: &Function, block: Block) -> Accesses {
        let insts = kernel.block(block).insts.iter();
        insts.map(|&inst| Accesses::of_op(kernel, kernel.op(inst))).fold(Accesses::default(), Accesses::and)
    }

    fn of_op(kernel: &Function, op: &Op) -> Accesses {
        let at = |pointer| match kernel.ty(pointer).address_space() {
            Some(AddressSpace::Global) => GLOBAL,
            Some(AddressSpace::Local) => LOCAL,
            // Nobody else sees it, or nobody may store to it.
            Some(AddressSpace::Private | AddressSpace::Constant) => 0,
            _ => ALL,
        };
        match op {
            _ if op.is_atomic() => Accesses::ANY,
            Op::Load { pointer, volatile: false, .. } => Accesses { loaded: at(*pointer), stored: 0 },
            Op::Store { pointer, volatile: false, .. } => Accesses { loaded: 0, stored: at(*pointer) },
            op if op.reads_memory() => Accesses::ANY,
            _ => Accesses::default(),
        }
    }

    fn and(self, other: Accesses) -> Accesses {
        Accesses { loaded: self.loaded | other.loaded, stored: self.stored | other.stored }
    }

    /// Whether the order of the two matters.
    fn meets(self, other: Accesses) -> bool {
        self.stored & (other.loaded | other.stored) | self.loaded & other.stored != 0
    }
}

/// From a barrier to those around it.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Back,
    Onward,
}

impl Way {
    /// All that is accessed on the way.
    fn gather(
        self,
        from: Block,
        flow: &ControlFlow,
        barriers: &FixedBitSet,
        accesses: &[Accesses],
    ) -> Accesses {
        let mut seen = FixedBitSet::with_capacity(accesses.len());
        let mut open: Vec<Block> = match self {
            Way::Back => vec![from],
            Way::Onward => flow.successors(from).to_vec(),
        };
        let mut sum = Accesses::default();
        while let Some(block) = open.pop() {
            if seen.put(block.index()) {
                continue;
            }
            sum = sum.and(accesses[block.index()]);
            match self {
                Way::Back => {
                    let before = flow.predecessors(block).iter();
                    open.extend(before.filter(|block| !barriers.contains(block.index())));
                }
                Way::Onward if barriers.contains(block.index()) => {}
                Way::Onward => open.extend(flow.successors(block)),
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// %0 and %1 are global and constant, %2 is a work-item's place in local memory.
    fn idle(text: &str) -> Vec<u32> {
        let kernel = parse(&format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(constant) @ 8) {{\n  local 64\nb0:\n  %2: ptr(local) = local_address 0\n{text}\n  return\n}}"
        ));
        idle_barriers(&kernel.unwrap_or_else(|e| panic!("{e}\n{text}"))).iter().map(|block| block.0).collect()
    }

    const LOAD: &str = "  %7: i32 = load %0, align 4\n";
    const STORE: &str = "  store %0, 1:i32, align 4\n";
    const STORE_LOCAL: &str = "  store %2, 1:i32, align 4\n";
    const LOAD_CONSTANT: &str = "  %7: i32 = load %1, align 4\n";

    #[test]
    fn what_orders_nothing_is_idle() {
        let between =
            |before: &str, behind: &str| !idle(&format!("{before}  barrier b1\nb1:\n{behind}")).is_empty();
        for accesses in [LOAD, STORE, STORE_LOCAL, LOAD_CONSTANT] {
            assert!(between(accesses, "") && between("", accesses), "{accesses}");
        }
        assert!(between(LOAD, &LOAD.replace('7', "8")));
        assert!(between(STORE, STORE_LOCAL) && between(LOAD, STORE_LOCAL) && between(LOAD_CONSTANT, STORE));
        assert!(!between(STORE, LOAD) && !between(LOAD, STORE) && !between(STORE, STORE));
        assert!(!between(STORE_LOCAL, STORE_LOCAL));
        // An atomic may be what others wait for.
        let atomic = "  %9: i32 = rmw atomic monotonic add %2, 1:i32, align 4\n";
        assert!(!between(STORE, atomic) && !between(atomic, LOAD) && between(atomic, LOAD_CONSTANT));
        assert!(!between(LOAD, "  %8: i32 = load volatile %0, align 4\n"));
    }

    #[test]
    fn one_of_two_with_nothing_between_is_idle() {
        assert_eq!(idle(&format!("{STORE}  barrier b1\nb1:\n  barrier b2\nb2:\n{LOAD}")), [0]);
        // Neither orders anything by itself: local memory is what stands between them.
        assert_eq!(idle(&format!("{STORE}  barrier b1\nb1:\n{STORE_LOCAL}  barrier b2\nb2:\n{LOAD}")), [0]);
    }

    #[test]
    fn what_comes_round_a_loop_is_before_it_as_well() {
        let text = |in_loop: &str, behind: &str| {
            format!(
                "  jump b1(0:i32)\nb1(%3: i32):\n{in_loop}  barrier b2\nb2:\n  %4: i32 = add %3, 1:i32\n  %5: i1 = icmp ult %4, 9:i32\n  branch %5, b1(%4), b3\nb3:\n{behind}"
            )
        };
        assert_eq!(idle(&text(STORE, "")), []);
        assert_eq!(idle(&text(LOAD, "")), [1]);
        assert_eq!(idle(&text(LOAD, STORE)), []);
    }
}
