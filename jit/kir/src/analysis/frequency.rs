//! Analysis: how often blocks are run, guessed from their shape (after Ball and Larus, "Branch Prediction for Free", 1993), and
//! how often loops are, where constants say so.

use super::{ControlFlow, Edge, Level, Loop, LoopId, Loops, Node, To, magnitude};
use crate::{
    BinaryOp, Block, Function, IntPredicate, Op, Predicate, Terminator, Value, ValueDef, WorkItemQuery,
};

/// Guesses for one function.
pub struct Frequencies {
    blocks: Vec<f64>,
    loops: Vec<f64>,
    iterations: Vec<Option<u64>>,
    retries: Vec<bool>,
}

/// A way out of a loop is taken once in so many iterations.
const LEAVES_LOOP: f64 = 0.04;

/// What stays a call though it could have been inlined is there for rare cases, if something decides about it.
const CALLS: f64 = 0.01;

/// Buffers have memory in common in so few launches.
const SHARE_MEMORY: f64 = 0.02;

/// Numbers are as large as a condition says, or none, in so few cases.
const LARGE: f64 = 0.005;

/// Another work-item comes between a load and the exchange that goes by it in so few cases.
const EXCHANGE_FAILS: f64 = 0.05;

/// So many go at once where a branch leads to the end: a check of bounds.
const ENDS: f64 = 0.1;

/// In so many cases a pack's lanes take the same way, where they might part: what neighbours ask of their data is seldom independent.
const ALIKE: f64 = 0.5;

/// How often an edge is taken, by the block that it leaves and its share of the control that leaves there; and how often at most control
/// comes to a node.
type Guess<'a> = (&'a dyn Fn(Block, f64) -> f64, &'a dyn Fn(&Node) -> f64);

impl Frequencies {
    /// Of a function whose loops have one entry each.
    pub fn new(function: &Function, flow: &ControlFlow, loops: &Loops) -> Self {
        Frequencies::with(function, flow, loops, (&|_, part| part, &|_| 1.0))
    }

    /// The same for a pack of so many work-items of which these are the guesses: it goes where any of them goes. `parts` says at the end of
    /// which blocks they part.
    pub fn of_pack(
        &self,
        function: &Function,
        flow: &ControlFlow,
        loops: &Loops,
        lanes: u32,
        parts: &dyn Fn(Block) -> bool,
    ) -> Self {
        let some_lane = |part: f64| {
            let independent = 1.0 - (1.0 - part).powi(lanes as i32);
            ALIKE * part + (1.0 - ALIKE) * independent
        };
        let taken = |from, part| if parts(from) { some_lane(part) } else { part };
        // Where ways meet on which lanes come that parted, it is as if these had parted from the others once: a sum of the ways counts
        // packs twice.
        let most = |node: &Node| {
            some_lane(match *node {
                Node::Block(block) => self.of(block),
                Node::Loop(id) => self.entered(id),
            })
        };
        Frequencies::with(function, flow, loops, (&taken, &most))
    }

    fn with(function: &Function, flow: &ControlFlow, loops: &Loops, guess: Guess) -> Self {
        let ids: Vec<LoopId> = (0..loops.count()).map(LoopId).collect();
        let mut frequencies = Frequencies {
            blocks: vec![0.0; function.blocks.len()],
            loops: vec![0.0; ids.len()],
            iterations: ids.iter().map(|&id| iterations(function, flow, loops, id)).collect(),
            retries: ids.iter().map(|&id| is_retry(function, loops.get(id))).collect(),
        };
        for level in std::iter::once(None).chain(ids.into_iter().map(Some)) {
            let nodes = Level::new(function, flow, loops, level);
            let leaving = level.map_or(Vec::new(), |id| leaving(function, &nodes, loops, id));
            frequencies.level(function, &nodes, &leaving, guess);
        }
        frequencies
    }

    /// How often a block is run in an iteration of the innermost loop around it, or in a run of the function.
    pub fn of(&self, block: Block) -> f64 {
        self.blocks[block.index()]
    }

    /// How often a loop is entered in an iteration of the loop around it, or in a run of the function.
    pub fn entered(&self, id: LoopId) -> f64 {
        self.loops[id.0]
    }

    /// Iterations of a loop that counts from one constant to another.
    pub fn iterations(&self, id: LoopId) -> Option<u64> {
        self.iterations[id.0]
    }

    /// Whether a loop ends when a compare-exchange succeeds.
    pub fn is_retry(&self, id: LoopId) -> bool {
        self.retries[id.0]
    }

    /// `leaving` says which edges of a loop's nodes lead out of it in any case.
    fn level(&mut self, function: &Function, level: &Level, leaving: &[Vec<bool>], (taken, most): Guess) {
        let mut share: Vec<f64> = vec![0.0; level.nodes.len()];
        share.first_mut().into_iter().for_each(|first| *first = 1.0);
        for (number, (node, edges)) in level.nodes.iter().zip(&level.edges).enumerate() {
            share[number] = share[number].min(most(node));
            match node {
                Node::Block(block) => self.blocks[block.index()] = share[number],
                Node::Loop(id) => self.loops[id.0] = share[number],
            }
            for (edge, part) in edges.iter().zip(shares(function, edges, leaving.get(number))) {
                if let To::Node(to) = edge.to {
                    share[to] = f64::min(share[to] + share[number] * taken(edge.from, part), 1.0);
                }
            }
        }
    }
}

/// By which of the edges out of a node control goes.
fn shares(function: &Function, edges: &[Edge], leaving: Option<&Vec<bool>>) -> Vec<f64> {
    let leaves = |number: usize| leaving.is_some_and(|leaving| leaving[number]);
    let weight = |(number, edge)| {
        let weight = weight(function, edge);
        // Those that try again until they succeed mostly do so at once.
        if leaves(number) && exchanged(function, edge.from).is_none() {
            weight.min(LEAVES_LOOP)
        } else {
            weight
        }
    };
    let weights: Vec<f64> = edges.iter().enumerate().map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum.max(f64::MIN_POSITIVE)).collect()
}

/// Which of the nodes' edges lead out of a loop in any case. What returns from within a loop mostly goes to its last branch first, with a
/// constant that has it leave there: such ways are in the loop, and yet ways out.
fn leaving(function: &Function, level: &Level, loops: &Loops, id: LoopId) -> Vec<Vec<bool>> {
    let mut leaving: Vec<Vec<bool>> = vec![Vec::new(); level.nodes.len()];
    for (number, edges) in level.edges.iter().enumerate().rev() {
        let leaves = |edge: &Edge| match edge.to {
            To::Out(_) => true,
            To::Back => false,
            To::Node(to) => {
                let on = &leaving[to];
                (!on.is_empty() && on.iter().all(|&leaves| leaves))
                    || decided(function, edge).is_some_and(|to| !loops.contains(id, to))
            }
        };
        leaving[number] = edges.iter().map(leaves).collect();
    }
    leaving
}

/// Where the block that an edge leads to goes on to, if it does nothing else and the edge's arguments decide that.
fn decided(function: &Function, edge: &Edge) -> Option<Block> {
    let terminator = &function.block(edge.from).terminator;
    let target = terminator.targets().into_iter().nth(edge.target)?;
    let data = function.block(target.block);
    let Terminator::Branch { condition, then, otherwise } = &data.terminator else { return None };
    let number = data.params.iter().position(|param| param == condition).filter(|_| data.insts.is_empty())?;
    let is_true = function.constant_int(target.arguments[number])? != 0;
    Some(if is_true { then.block } else { otherwise.block })
}

fn weight(function: &Function, edge: &Edge) -> f64 {
    let Some(to) = function.block(edge.from).terminator.targets().get(edge.target).map(|to| to.block) else {
        return 1.0;
    };
    let data = function.block(to);
    if edge.target == 1 && asks_for_disjoint_buffers(function, edge.from) {
        return SHARE_MEMORY;
    }
    if exchanged(function, edge.from).is_some_and(|succeeds| succeeds != (edge.target == 0)) {
        return EXCHANGE_FAILS;
    }
    let condition = function.block(edge.from).terminator.condition();
    let seldom = condition.and_then(|condition| magnitude::seldom(function, condition));
    if seldom.is_some_and(|seldom| seldom == (edge.target == 0)) {
        return LARGE;
    }
    let calls = || data.insts.iter().any(|&inst| matches!(function.op(inst), Op::Call { .. }));
    match data.terminator {
        Terminator::Unreachable => 0.0001,
        Terminator::Exit(_) | Terminator::Return(_) if data.insts.is_empty() => ENDS,
        _ if calls() => CALLS,
        _ => 1.0,
    }
}

/// Whether a block's branch is taken to its first target if a compare-exchange succeeds, or if it fails; None if it asks something else.
fn exchanged(function: &Function, block: Block) -> Option<bool> {
    let Terminator::Branch { condition, .. } = function.block(block).terminator else { return None };
    let part = |value: Value| match function.defining_op(value)? {
        Op::ExtractValue { aggregate, indices } => match function.defining_op(*aggregate)? {
            Op::CompareExchange { expected, .. } => Some((*expected, indices[..] == [1])),
            _ => None,
        },
        _ => None,
    };
    if let Some((_, is_success)) = part(condition) {
        return is_success.then_some(true);
    }
    let Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. } =
        *function.defining_op(condition)?
    else {
        return None;
    };
    let is_what_was_expected = |old, other| part(old).is_some_and(|(expected, _)| expected == other);
    let asks = is_what_was_expected(lhs, rhs) || is_what_was_expected(rhs, lhs);
    match predicate {
        IntPredicate::Eq if asks => Some(true),
        IntPredicate::Ne if asks => Some(false),
        _ => None,
    }
}

/// Whether a compare-exchange in a loop decides what comes next: such as end when it succeeds.
fn is_retry(function: &Function, found: &Loop) -> bool {
    found.blocks.ones().any(|number| exchanged(function, Block(number as u32)).is_some())
}

fn asks_for_disjoint_buffers(function: &Function, block: Block) -> bool {
    let condition = function.block(block).terminator.condition();
    let Some(&Op::Compare { lhs, .. }) = condition.and_then(|value| function.defining_op(value)) else {
        return false;
    };
    let query = WorkItemQuery::DisjointBuffers;
    matches!(function.defining_op(lhs), Some(Op::WorkItem { query: asked, .. }) if *asked == query)
}

/// Of a loop with a counter that starts at a constant, is changed by one, and compared with one.
fn iterations(function: &Function, flow: &ControlFlow, loops: &Loops, id: LoopId) -> Option<u64> {
    let header = loops.get(id).header;
    let inside = |block: Block| loops.contains(id, block);
    let leaving = loops.get(id).blocks.ones().map(|number| Block(number as u32));
    let mut leaving = leaving.filter(|&block| flow.successors(block).iter().any(|&to| !inside(to)));
    let Terminator::Branch { condition, then, .. } = &function.block(leaving.next()?).terminator else {
        return None;
    };
    let &Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. } =
        function.defining_op(*condition)?
    else {
        return None;
    };
    let bound = i128::from(signed(function, rhs)?);
    let step_of = |value: Value| match *function.defining_op(value)? {
        Op::Binary { op: BinaryOp::Add, lhs, rhs, .. } => Some((lhs, signed(function, rhs)?)),
        _ => None,
    };
    // The counter is compared before or after its step.
    let (param, before) = if let ValueDef::BlockParam(block, _) = function.def(lhs)
        && *block == header
    {
        (lhs, true)
    } else {
        (step_of(lhs)?.0, false)
    };
    let ValueDef::BlockParam(block, number) = *function.def(param) else { return None };
    let brought = |from: Block| {
        let targets = function.block(from).terminator.targets();
        targets.into_iter().find(|to| to.block == header).map(|to| to.arguments[number as usize])
    };
    let (mut start, mut step) = (None, None);
    for &from in flow.predecessors(block) {
        let value = brought(from).filter(|_| block == header)?;
        if inside(from) {
            step = Some(step_of(value).filter(|(of, _)| *of == param)?.1);
        } else {
            start = Some(signed(function, value)?);
        }
    }
    let (start, step) = (i128::from(start?), i128::from(step?));
    let stays = inside(then.block);
    let distance = match (predicate, stays) {
        (IntPredicate::Slt | IntPredicate::Ult | IntPredicate::Ne, true) => bound - start,
        (IntPredicate::Eq | IntPredicate::Sge | IntPredicate::Uge, false) => bound - start,
        (IntPredicate::Sle | IntPredicate::Ule, true) | (IntPredicate::Sgt | IntPredicate::Ugt, false) => {
            bound + 1 - start
        }
        (IntPredicate::Sgt | IntPredicate::Ugt, true) => bound - start,
        _ => return None,
    };
    let count = if step != 0 && distance.signum() == step.signum() {
        (distance.abs() + step.abs() - 1) / step.abs()
    } else {
        return None;
    };
    u64::try_from(if before { count } else { count.max(1) }).ok()
}

fn signed(function: &Function, value: Value) -> Option<i64> {
    let bits = function.constant_int(value)?;
    let width = function.ty(value).scalar()?.bits().clamp(1, 64);
    Some(((bits as u64) << (64 - width)) as i64 >> (64 - width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn frequencies(text: &str) -> (Vec<f64>, Vec<Option<u64>>) {
        let function = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let flow = ControlFlow::new(&function);
        let loops = Loops::new(&flow).unwrap();
        let found = Frequencies::new(&function, &flow, &loops);
        (found.blocks, found.iterations)
    }

    #[test]
    fn a_counter_between_constants() {
        let count = |test: &str, step: &str| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  jump b1(4:i32)\nb1(%1: i32):\n  %2: i1 = icmp {test}\n  branch %2, b2, b3\n\
                 b2:\n  store %0, %1, align 4\n  %3: i32 = add %1, {step}:i32\n  jump b1(%3)\nb3:\n  return\n}}"
            );
            frequencies(&text).1[0]
        };
        assert_eq!(count("slt %1, 64:i32", "1"), Some(60));
        assert_eq!(count("sle %1, 64:i32", "2"), Some(31));
        assert_eq!(count("sgt %1, 0:i32", "4294967295"), Some(4));
        assert_eq!(count("slt %1, 64:i32", "4294967295"), None, "away from it");
    }

    #[test]
    fn rare_ways() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {\nb0:\n  %2: i1 = icmp slt %1, 5:i32\n  branch %2, b1, b4\n\
                    b1:\n  %3: i1 = icmp eq %1, 3:i32\n  branch %3, b2, b3\n\
                    b2:\n  call @\"slow\"(%1)\n  jump b3\nb3:\n  store %0, %1, align 4\n  jump b4\nb4:\n  return\n}";
        let blocks = frequencies(text).0;
        assert!(blocks[2] < 0.02 && blocks[1] > 0.9 && blocks[3] > 0.9, "{blocks:?}");
    }

    #[test]
    fn exchanges_mostly_succeed() {
        let tried_again = |condition: &str, targets: &str| {
            let text = format!(
                "kernel \"k\"(%0: ptr(local) @ 0, %1: i32 @ 8) {{\nb0:\n  %2: {{i32, i1}} = cmpxchg monotonic monotonic %0, %1, 7:i32, align 4\n  \
                 %3: i32 = extract_value %2, [0]\n  %4: i1 = {condition}\n  branch %4, {targets}\nb1:\n  jump b2\nb2:\n  store %0, %1, align 4\n  return\n}}"
            );
            frequencies(&text).0[1]
        };
        assert!(tried_again("icmp eq %3, %1", "b2, b1") < 0.1);
        assert!(tried_again("icmp ne %1, %3", "b1, b2") < 0.1);
        assert!(tried_again("extract_value %2, [1]", "b2, b1") < 0.1);
        assert!(tried_again("icmp eq %3, 7:i32", "b2, b1") > 0.4, "something else");
    }

    #[test]
    fn large_numbers_are_rare() {
        let is_rare = |condition: &str| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: f32 @ 8) {{\nb0:\n  %2: f32 = intrinsic fabs(%1)\n  {condition}\n\
                 b1:\n  store %0, %2, align 4\n  jump b2\nb2:\n  store %0, %1, align 4\n  return\n}}"
            );
            frequencies(&text).0[1] < 0.01
        };
        let compared =
            |comparison: &str, way: &str| is_rare(&format!("%3: i1 = fcmp {comparison}\n  branch %3, {way}"));
        assert!(compared("ogt %2, 0x47800000:f32", "b1, b2") && compared("ult %2, 0x47800000:f32", "b2, b1"));
        assert!(!compared("olt %2, 0x47800000:f32", "b1, b2"));
        assert!(!compared("ogt %1, 0x47800000:f32", "b1, b2"), "of any sign");
        assert!(!compared("ogt %2, 0x3f800000:f32", "b1, b2"), "one");
        assert!(compared("uno %1, 0x0:f32", "b1, b2") && compared("ord %1, %2", "b2, b1"), "no number");
    }

    /// How often a block is run for one work-item, and for packs of 16 that go together, or may part at every branch.
    fn of_packs(text: &str, block: Block) -> [f64; 3] {
        let function = parse(text).unwrap();
        let flow = ControlFlow::new(&function);
        let loops = Loops::new(&flow).unwrap();
        let scalar = Frequencies::new(&function, &flow, &loops);
        let of_pack = |parts| scalar.of_pack(&function, &flow, &loops, 16, &|_| parts).of(block);
        [scalar.of(block), of_pack(false), of_pack(true)]
    }

    #[test]
    fn packs_go_where_some_lane_goes_unless_they_go_together() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {\nb0:\n  %2: i1 = icmp slt %1, 5:i32\n  branch %2, b1, b2\n\
                    b1:\n  store %0, 1:i32, align 4\n  jump b3\nb2:\n  store %0, 2:i32, align 4\n  jump b3\nb3:\n  return\n}";
        let [scalar, together, apart] = of_packs(text, Block(1));
        assert_eq!((scalar, together), (0.5, 0.5));
        assert!((0.7..0.8).contains(&apart), "{apart}");
    }

    #[test]
    fn packs_that_come_by_several_ways_are_not_counted_twice() {
        // Lanes come to b2 by two of three ways.
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {\nb0:\n  %2: i1 = icmp slt %1, 5:i32\n  branch %2, b2, b1\n\
                    b1:\n  %3: i1 = icmp slt %1, 3:i32\n  branch %3, b2, b3\nb2:\n  store %0, 2:i32, align 4\n  jump b3\n\
                    b3:\n  store %0, 3:i32, align 4\n  jump b4\nb4:\n  return\n}";
        let [scalar, together, apart] = of_packs(text, Block(2));
        assert_eq!((scalar, together), (0.75, 0.75));
        assert!((0.85..0.9).contains(&apart), "{apart}");
    }

    #[test]
    fn ways_out_by_way_of_the_last_branch() {
        // b2 goes out by way of b4, which goes on or leaves as it is told.
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {\nb0:\n  jump b1(0:i32)\n\
                    b1(%2: i32):\n  %3: i1 = icmp eq %2, %1\n  branch %3, b2, b3\n\
                    b2:\n  store %0, %2, align 4\n  jump b4(0:i1)\n\
                    b3:\n  %4: i32 = add %2, 1:i32\n  store %0, %4, align 4\n  jump b4(1:i1)\n\
                    b4(%5: i1):\n  branch %5, b5, b6\n\
                    b5:\n  %6: i32 = add %2, 2:i32\n  jump b1(%6)\nb6:\n  return\n}";
        let blocks = frequencies(text).0;
        assert!(blocks[2] < 0.1 && blocks[3] > 0.9 && blocks[5] > 0.9, "{blocks:?}");
        // What is not reached is rarer than a way out.
        let never = frequencies(&text.replace("return", "unreachable")).0;
        assert!(never[5] > 0.999 && blocks[5] < 0.99, "{never:?} {blocks:?}");
    }
}
