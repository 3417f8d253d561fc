//! Analysis: how a value differs between the lanes of a pack.
//!
//! A *pack* is a run of work-items next to each other in dimension 0 that go through a barrier region in lock-step, one in
//! each SIMD lane. A value is uniform, affine in the lane's number, or varying. After Karrenberg, "Automatic SIMD
//! Vectorization of SSA-based Control Flow Graphs" (2015); the sync dependence of divergent branches and loops is asked level by level.

use super::{ControlFlow, Edge, Level, LoopId, Loops, Node, To};
use crate::transform::ContextKind;
use crate::{
    BinaryOp, Block, CastOp, Constant, Flags, Function, Inst, Intrinsic, Op, Passing, SMALL_LIMIT, Scalar,
    SubGroupOp, Type, Value, ValueDef, WorkItemQuery,
};
use fixedbitset::FixedBitSet;

/// Work-item ids and sizes in vector code are below this: the launch's first check. So they fit 32-bit arithmetic.
pub const ID_LIMIT: i128 = 1 << 30;

/// What the lanes of a pack hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The same in all active lanes.
    Uniform,
    /// Lane i holds the first lane's value + i*stride, in the value's own modular arithmetic.
    #[allow(missing_docs)]
    Affine {
        stride: i64,
        /// It holds without wrapping too, as signed numbers: extensions keep the shape.
        exact: bool,
    },
    /// Anything.
    Varying,
}

impl Shape {
    /// What holds for both.
    pub fn join(self, other: Shape) -> Shape {
        match (self, other) {
            (a, b) if a == b => a,
            (Shape::Affine { stride: a, exact: x }, Shape::Affine { stride: b, exact: y }) if a == b => {
                Shape::Affine { stride: a, exact: x && y }
            }
            _ => Shape::Varying,
        }
    }

    /// The distance between lanes, 0 for a uniform value; none if there is no such thing.
    pub fn stride(self) -> Option<i64> {
        match self {
            Shape::Uniform => Some(0),
            Shape::Affine { stride, .. } => Some(stride),
            Shape::Varying => None,
        }
    }

    /// Whether it holds without wrapping.
    pub fn is_exact(self) -> bool {
        matches!(self, Shape::Uniform | Shape::Affine { exact: true, .. })
    }
}

/// What the analysis must know of memory outside of the region's body.
pub struct MemoryShape<'a> {
    /// What each context slot holds.
    pub context: &'a [ContextKind],
    /// Bytes between the same variable of two lanes, for each private slot; empty where that isn't decided yet.
    pub slot_strides: &'a [i64],
    /// Private pointers into slots whose lanes are interleaved: an offset is not in bytes of one lane.
    pub interleaved: &'a FixedBitSet,
}

/// The answer for one region's body.
pub struct Shapes {
    loops: Loops,
    shapes: Vec<Option<Shape>>,
    home: Vec<Option<Block>>,
    divergent_branches: FixedBitSet,
    divergent_loops: Vec<bool>,
}

impl Shapes {
    /// Analyses a body in which work-items start at block 0.
    pub fn new(function: &Function, flow: &ControlFlow, loops: &Loops, memory: &MemoryShape) -> Self {
        let levels = std::iter::once(None).chain((0..loops.count()).map(|l| Some(LoopId(l))));
        let mut solver = Solver {
            function,
            memory,
            levels: levels.map(|level| Level::new(function, flow, loops, level)).collect(),
            answer: Shapes {
                loops: loops.clone(),
                shapes: vec![None; function.value_count()],
                home: function.homes(),
                divergent_branches: FixedBitSet::with_capacity(function.blocks.len()),
                divergent_loops: vec![false; loops.count()],
            },
            changed: true,
        };
        while std::mem::take(&mut solver.changed) {
            for &block in flow.reverse_post_order() {
                solver.block(block);
            }
        }
        solver.answer
    }

    /// A value's shape where it is defined.
    pub fn shape(&self, value: Value) -> Shape {
        self.shapes[value.index()].unwrap_or(Shape::Uniform)
    }

    /// A value's shape where it is used: what lanes left a loop with at different iterations is varying behind it.
    pub fn shape_at(&self, value: Value, user: Block) -> Shape {
        if self.leaves_divergent_loop(value, user) { Shape::Varying } else { self.shape(value) }
    }

    /// Whether lanes left some loop at different iterations between the value's definition and `user`.
    pub fn leaves_divergent_loop(&self, value: Value, user: Block) -> bool {
        let from = self.home[value.index()].and_then(|home| self.loops.innermost(home));
        self.loops.around(from).any(|id| self.is_divergent_loop(id) && !self.loops.contains(id, user))
    }

    /// Whether active lanes part at the block's end.
    pub fn is_divergent_branch(&self, block: Block) -> bool {
        self.divergent_branches.contains(block.index())
    }

    /// Whether lanes leave the loop at different iterations or by different ways.
    pub fn is_divergent_loop(&self, id: LoopId) -> bool {
        self.divergent_loops[id.0]
    }
}

struct Solver<'a> {
    function: &'a Function,
    memory: &'a MemoryShape<'a>,
    /// The level of no loop, then those of the loops.
    levels: Vec<Level>,
    answer: Shapes,
    changed: bool,
}

impl Solver<'_> {
    fn block(&mut self, block: Block) {
        for &inst in &self.function.block(block).insts {
            if let Some(value) = self.function.result(inst)
                && let Some(shape) = self.transfer(block, inst)
            {
                self.raise(value, shape);
            }
        }
        let terminator = &self.function.block(block).terminator;
        for target in terminator.targets() {
            let params = &self.function.block(target.block).params;
            for (&param, &argument) in params.iter().zip(&target.arguments) {
                // (A block of its own has been put on an edge that leaves a loop with its values.)
                if let Some(shape) = self.operand(argument, target.block) {
                    self.raise(param, shape);
                }
            }
        }
        let parts = terminator.condition().and_then(|c| self.operand(c, block));
        if parts.is_some_and(|shape| shape != Shape::Uniform)
            && !self.answer.divergent_branches.put(block.index())
        {
            self.changed = true;
            let level = self.answer.loops.innermost(block);
            self.part(level, Node::Block(block));
        }
    }

    /// The shape of an operand; none if nothing is known of it yet.
    fn operand(&self, value: Value, user: Block) -> Option<Shape> {
        if self.answer.leaves_divergent_loop(value, user) {
            return Some(Shape::Varying);
        }
        if self.function.is_given(value) { Some(Shape::Uniform) } else { self.answer.shapes[value.index()] }
    }

    fn raise(&mut self, value: Value, shape: Shape) {
        let old = self.answer.shapes[value.index()];
        let new = old.map_or(shape, |old| old.join(shape));
        if old != Some(new) {
            self.answer.shapes[value.index()] = Some(new);
            self.changed = true;
        }
    }

    /// Lanes take different edges out of a node: parameters vary where these ways meet, and a loop is divergent if
    /// some lanes leave it while others stay or leave it elsewhere.
    fn part(&mut self, level: Option<LoopId>, node: Node) {
        let graph = self.levels[level.map_or(0, |id| id.0 + 1)].clone();
        let Some(start) = graph.nodes.iter().position(|&n| n == node) else { return };
        // By which of the edges, or since which meeting, a node is reached.
        let mut reached: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
        let mut ends: Vec<(Edge, usize)> = Vec::new();
        let mut follow = |edge: &Edge, way: usize, reached: &mut Vec<Vec<usize>>| match edge.to {
            To::Node(to) => reached[to].push(way),
            _ => ends.push((*edge, way)),
        };
        for (way, edge) in graph.edges[start].iter().enumerate() {
            follow(edge, graph.nodes.len() + way, &mut reached);
        }
        for at in start + 1..graph.nodes.len() {
            let ways = std::mem::take(&mut reached[at]);
            let Some(&first) = ways.first() else { continue };
            let way = if ways.iter().all(|&w| w == first) {
                first
            } else {
                self.params_vary(self.head(graph.nodes[at]));
                at
            };
            graph.edges[at].iter().for_each(|edge| follow(edge, way, &mut reached));
        }
        let (Some(id), Some(&(_, first))) = (level, ends.first()) else { return };
        if ends.iter().all(|&(_, way)| way == first) {
            return;
        }
        // Lanes that go on by a way of their own take one edge, whichever of several it is.
        let mut back = ends.iter().filter(|(edge, _)| edge.to == To::Back).map(|&(_, way)| way);
        if back.next().is_some_and(|first| back.any(|way| way != first)) {
            self.params_vary(self.answer.loops.get(id).header);
        }
        let leaves = ends.iter().any(|(edge, _)| edge.to != To::Back);
        if leaves && !std::mem::replace(&mut self.answer.divergent_loops[id.0], true) {
            self.changed = true;
            self.part(self.answer.loops.get(id).parent, Node::Loop(id));
        }
    }

    fn head(&self, node: Node) -> Block {
        match node {
            Node::Block(block) => block,
            Node::Loop(id) => self.answer.loops.get(id).header,
        }
    }

    fn params_vary(&mut self, block: Block) {
        for &param in &self.function.block(block).params {
            self.raise(param, Shape::Varying);
        }
    }

    fn transfer(&self, block: Block, inst: Inst) -> Option<Shape> {
        let op = self.function.op(inst);
        let shapes: Option<Vec<Shape>> = op.operands().iter().map(|&v| self.operand(v, block)).collect();
        let shapes = shapes?;
        let uniform = shapes.iter().all(|&s| s == Shape::Uniform);
        let result = self.function.result(inst)?;
        if !uniform && let Some(Resized { inner, factor, .. }) = unchanged(self.function, op, 0) {
            return self.operand(inner, block).map(|shape| match shape {
                Shape::Affine { stride, exact } => affine(stride.wrapping_mul(factor), exact),
                shape => shape,
            });
        }
        Some(match op {
            Op::WorkItem { query: WorkItemQuery::GlobalId | WorkItemQuery::LocalId, dimension }
                if *dimension == self.function.row_dimension =>
            {
                Shape::Affine { stride: 1, exact: true }
            }
            Op::WorkItem { query: WorkItemQuery::SubGroupLocalId, .. } => {
                Shape::Affine { stride: 1, exact: true }
            }
            Op::SubGroup { op, .. } => match op {
                SubGroupOp::Reduce(_) | SubGroupOp::Ballot => Shape::Uniform,
                SubGroupOp::Shuffle if shapes[1] == Shape::Uniform => Shape::Uniform,
                _ => Shape::Varying,
            },
            Op::SlotAddress(slot) => {
                self.memory.slot_strides.get(slot.index()).map_or(Shape::Varying, |&s| affine(s, false))
            }
            Op::ContextAddress(slot) | Op::ContextLoad(slot) => self.context(op, slot.0 as usize),
            Op::AtomicRmw { .. } | Op::CompareExchange { .. } | Op::ContextScan { .. } => Shape::Varying,
            Op::Load { .. } | Op::Call { .. } | Op::Intrinsic { .. } if op.has_effect() => Shape::Varying,
            _ if uniform => Shape::Uniform,
            Op::Binary { op, flags, lhs, rhs } => {
                let exact = flags.0 & Flags::NSW != 0 || interval(self.function, result, 0).is_some();
                binary(self.function, *op, *flags, (*lhs, *rhs), (shapes[0], shapes[1]), exact)
            }
            Op::Cast { op, flags, value } => self.cast(*op, *flags, *value, result, shapes[0]),
            Op::Address { base, scale, .. } => {
                let index = shapes.get(1).map_or(Some(0), |s| s.stride());
                match (shapes[0].stride(), index) {
                    (Some(b), Some(0)) => affine(b, false),
                    (Some(b), Some(i)) if !self.memory.interleaved.contains(base.index()) => {
                        affine(b.wrapping_add(i.wrapping_mul(*scale)), false)
                    }
                    _ => Shape::Varying,
                }
            }
            Op::Select { .. } if shapes[0] == Shape::Uniform => {
                match (shapes[1].stride(), shapes[2].stride()) {
                    (Some(a), Some(b)) if a == b => affine(a, false),
                    _ => Shape::Varying,
                }
            }
            _ => Shape::Varying,
        })
    }

    fn context(&self, op: &Op, slot: usize) -> Shape {
        match (&self.memory.context[slot], op) {
            (ContextKind::Uniform(_) | ContextKind::Reduction(..), _) => Shape::Uniform,
            (&ContextKind::Affine { stride, exact, .. }, _) => affine(stride, exact),
            (&ContextKind::Interleaved { element, neighbours: true, .. }, _) => affine(element as i64, false),
            (ContextKind::Memory { size, align }, Op::ContextAddress(_)) => {
                affine(size.next_multiple_of(u64::from(*align).max(1)) as i64, false)
            }
            _ => Shape::Varying,
        }
    }

    fn cast(&self, op: CastOp, flags: Flags, value: Value, result: Value, shape: Shape) -> Shape {
        let Shape::Affine { stride, exact } = shape else { return Shape::Varying };
        let range = || interval(self.function, value, 0);
        // A stride, and what is exact, is kept in 64 bits.
        let is_scalar =
            matches!(self.function.ty(result), Type::Scalar(Scalar::Int(..=64) | Scalar::Pointer(_)));
        match op {
            _ if !is_scalar => Shape::Varying,
            CastOp::Trunc => affine(stride, exact && fits(range(), self.function.ty(result))),
            CastOp::SExt if exact => affine(stride, true),
            CastOp::ZExt
                if exact && (flags.0 & Flags::NNEG != 0 || range().is_some_and(|(low, _)| low >= 0)) =>
            {
                affine(stride, true)
            }
            CastOp::PtrToInt | CastOp::IntToPtr | CastOp::AddrSpaceCast => affine(stride, false),
            _ => Shape::Varying,
        }
    }
}

fn affine(stride: i64, exact: bool) -> Shape {
    if stride == 0 { Shape::Uniform } else { Shape::Affine { stride, exact } }
}

fn binary(
    function: &Function,
    op: BinaryOp,
    flags: Flags,
    (lhs, rhs): (Value, Value),
    (left, right): (Shape, Shape),
    exact: bool,
) -> Shape {
    let both_exact = exact && left.is_exact() && right.is_exact();
    let (Some(a), Some(b)) = (left.stride(), right.stride()) else { return Shape::Varying };
    if !matches!(function.ty(lhs), Type::Scalar(Scalar::Int(..=64))) {
        return Shape::Varying;
    }
    let constant = |v: Value| signed_constant(function, v).and_then(|c| i64::try_from(c).ok());
    match op {
        BinaryOp::Add => affine(a.wrapping_add(b), both_exact),
        BinaryOp::Or if flags.0 & Flags::DISJOINT != 0 => {
            affine(a.wrapping_add(b), left.is_exact() && right.is_exact())
        }
        BinaryOp::Sub => affine(a.wrapping_sub(b), both_exact),
        BinaryOp::Mul => match (constant(lhs), constant(rhs)) {
            (_, Some(c)) => affine(a.wrapping_mul(c), both_exact),
            (Some(c), _) => affine(b.wrapping_mul(c), both_exact),
            _ => Shape::Varying,
        },
        BinaryOp::Shl => match constant(rhs) {
            Some(c) if (0..63).contains(&c) => affine(a.wrapping_mul(1 << c), both_exact),
            _ => Shape::Varying,
        },
        _ => Shape::Varying,
    }
}

fn signed_constant(function: &Function, value: Value) -> Option<i128> {
    let ValueDef::Constant(constant) = function.def(value) else { return None };
    match (constant, function.ty(value)) {
        (Constant::Zero, Type::Scalar(Scalar::Int(_))) => Some(0),
        (Constant::Int(bits), Type::Scalar(Scalar::Int(width))) => {
            let unused = 128 - (*width).clamp(1, 128);
            Some(((bits << unused) as i128) >> unused)
        }
        _ => None,
    }
}

fn fits(range: Option<(i128, i128)>, ty: &Type) -> bool {
    let Type::Scalar(Scalar::Int(bits)) = ty else { return false };
    let limit = 1_i128 << (bits - 1).min(126);
    range.is_some_and(|(low, high)| low >= -limit && high < limit)
}

/// A value, but for a factor: an operation cuts it to a width in which it fits.
struct Resized {
    inner: Value,
    factor: i64,
    /// Bounds of the product.
    range: (i128, i128),
}

/// What only cuts a value to a width in which it fits: `x << c >> c`, `x << c >> d` for a smaller d (which is also multiplied), or
/// `x & mask`, also of a product whose lowest bits are zero.
fn unchanged(function: &Function, op: &Op, depth: u32) -> Option<Resized> {
    let Op::Binary { op, lhs, rhs, .. } = *op else { return None };
    let Type::Scalar(Scalar::Int(bits)) = *function.ty(lhs) else { return None };
    let constant = signed_constant(function, rhs)?;
    let (inner, factor, limits) = match (op, function.defining_op(lhs)) {
        (
            BinaryOp::AShr | BinaryOp::LShr,
            Some(&Op::Binary { op: BinaryOp::Shl, lhs: inner, rhs: by, .. }),
        ) => {
            let left = signed_constant(function, by)?;
            let (kept, more) = (i128::from(bits) - left, left - constant);
            // Narrow values are kept sign-extended: there, zeroes can't come in from above.
            let zeroes_fit = op == BinaryOp::AShr || bits == 64;
            if !(1..64).contains(&kept) || !(0..=32).contains(&more) || constant < 1 || !zeroes_fit {
                return None;
            }
            let (half, signed) = (1 << (kept - 1), op == BinaryOp::AShr);
            (inner, 1 << more, if signed { (-half, half - 1) } else { (0, 2 * half - 1) })
        }
        (BinaryOp::And, shifted) if constant > 0 => {
            // Bits that are zero anyway may be left out of the mask.
            let zeroes = match shifted {
                Some(&Op::Binary { op: BinaryOp::Shl, rhs: by, .. }) => {
                    signed_constant(function, by).unwrap_or(0)
                }
                _ => 0,
            };
            let kept = constant | ((1 << zeroes.clamp(0, 63)) - 1);
            if kept & (kept + 1) != 0 {
                return None;
            }
            (lhs, 1, (0, kept))
        }
        _ => return None,
    };
    let (low, high) = interval(function, inner, depth + 1)?;
    let range = (low * i128::from(factor), high * i128::from(factor));
    (low >= limits.0 && high <= limits.1).then_some(Resized { inner, factor, range })
}

/// Upper bounds of what a work-item can ask about its place in a range of packs, whose sizes are below [`ID_LIMIT`].
fn place_limit(function: &Function, query: WorkItemQuery, dimension: u8) -> i128 {
    let group =
        function.required_work_group_size.and_then(|sizes| sizes.get(usize::from(dimension)).copied());
    let group = group.map_or(1, |size| i128::from(size).max(1));
    match query {
        WorkItemQuery::GroupId | WorkItemQuery::NumGroups => {
            let factor = function.group_factors.get(usize::from(dimension)).copied().unwrap_or(0);
            ID_LIMIT / group.max(factor.into())
        }
        WorkItemQuery::LocalId | WorkItemQuery::LocalSize | WorkItemQuery::EnqueuedLocalSize => {
            if group > 1 {
                group
            } else {
                MAX_LOCAL_SIZE
            }
        }
        WorkItemQuery::SubGroupLocalId => MAX_LOCAL_SIZE,
        _ => id_limit(function),
    }
}

/// Ids and global sizes are not larger in packs.
pub fn id_limit(function: &Function) -> i128 {
    ID_LIMIT / i128::from(function.id_factor.max(1))
}

/// No work-group is larger in any dimension.
const MAX_LOCAL_SIZE: i128 = (1 << 16) - 1;

/// Whether the two are a group's number and size in one dimension: the product is the first global id without offset.
fn is_group_start(function: &Function, lhs: Value, rhs: Value) -> bool {
    let query = |v: Value| match function.defining_op(v) {
        Some(Op::WorkItem { query, dimension }) => Some((*query, *dimension)),
        _ => None,
    };
    let (Some(a), Some(b)) = (query(lhs), query(rhs)) else { return false };
    let pair = [a.0, b.0];
    let is_size = |q: &WorkItemQuery| {
        // That of the last group is smaller than the others' at most.
        matches!(q, WorkItemQuery::LocalSize | WorkItemQuery::EnqueuedLocalSize)
    };
    a.1 == b.1 && pair.contains(&WorkItemQuery::GroupId) && pair.iter().any(is_size)
}

/// Bounds of a signed integer that follow from the ids', the small parameters' and the constants' alone.
pub fn interval(function: &Function, value: Value, depth: u32) -> Option<(i128, i128)> {
    if let Some(c) = signed_constant(function, value) {
        return Some((c, c));
    }
    if depth > 8 {
        return None;
    }
    if let ValueDef::Param(number) = *function.def(value) {
        let limit = i128::from(SMALL_LIMIT);
        let is_small = function.params[number as usize].passing == Passing::Small;
        return is_small.then_some((-limit, limit - 1));
    }
    let of = |v: Value| interval(function, v, depth + 1);
    let op = function.defining_op(value)?;
    if let Some(Resized { range, .. }) = unchanged(function, op, depth) {
        return Some(range);
    }
    let range = match op {
        Op::WorkItem { query, dimension } => (0, place_limit(function, *query, *dimension)),
        Op::Binary { op: BinaryOp::Mul, lhs, rhs, .. } if is_group_start(function, *lhs, *rhs) => {
            (0, id_limit(function))
        }
        Op::Cast { op: CastOp::Trunc | CastOp::SExt, value, .. } => of(*value)?,
        Op::Cast { op: CastOp::ZExt, value, .. } => of(*value).filter(|r| r.0 >= 0)?,
        // Whatever the other operand is.
        Op::Binary { op: BinaryOp::And, rhs, .. } => of(*rhs).filter(|r| r.0 >= 0).map(|r| (0, r.1))?,
        Op::Binary { op: op @ (BinaryOp::URem | BinaryOp::SRem | BinaryOp::UDiv), lhs, rhs, .. } => {
            let divided = of(*lhs).filter(|r| r.0 >= 0).map(|r| r.1);
            let divisor = of(*rhs).filter(|r| *op == BinaryOp::URem && r.0 > 0).map(|r| r.1 - 1);
            (0, [divided, divisor].into_iter().flatten().min()?)
        }
        Op::Binary { op, flags, lhs, rhs } => {
            let (a, b) = (of(*lhs)?, of(*rhs)?);
            match op {
                BinaryOp::Or if flags.0 & Flags::DISJOINT == 0 => return None,
                BinaryOp::Add | BinaryOp::Or => (a.0.checked_add(b.0)?, a.1.checked_add(b.1)?),
                BinaryOp::Sub => (a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?),
                BinaryOp::Mul => product(a, b)?,
                BinaryOp::Shl if b.0 == b.1 && (0..31).contains(&b.0) => product(a, (1 << b.0, 1 << b.0))?,
                BinaryOp::LShr | BinaryOp::SDiv if a.0 >= 0 && b.0 >= 0 => (0, a.1),
                _ => return None,
            }
        }
        Op::Intrinsic { intrinsic: Intrinsic::UnsignedMin, arguments, .. } => {
            let limits = arguments.iter().filter_map(|&v| of(v)).filter(|r| r.0 >= 0);
            (0, limits.map(|r| r.1).min()?)
        }
        _ => return None,
    };
    fits(Some(range), function.ty(value)).then_some(range)
}

fn product(a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    let all = [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
    Some((*all.iter().min()?, *all.iter().max()?))
}
