//! Widening: vectors that stay as they lie in memory, an array of structures (AoS): element c of lane l is number l*n + c of a pack's,
//! and registers take as many of these in order as there are lanes. Otherwise each component has a register of its own, and
//! loads and stores transpose.
//!
//! What computes all elements alike does not care where they are. Which order is cheaper is decided for all vectors at once
//! that are computed from each other: the one saves transpositions where lanes access neighbours, the other is
//! free to pick components.

use super::Widener;
use super::division::is_divisor;
use super::memory::{Elements, Pattern};
use super::rows::Walks;
use super::slots::{SlotPlan, access_size};
use super::variables::Variable;
use super::wrapping::Wrapping;
use crate::analysis::{ControlFlow, Loops, Shape, Shapes};
use crate::{BinaryOp, Block, CastOp, Constant, Function, Inst, Op, Scalar, Type, UnaryOp, Value};
use fixedbitset::FixedBitSet;
use std::collections::HashMap;

/// A transposition, against a plain operation on the same registers.
pub(super) const TRANSPOSE: f64 = 2.0;
/// Of longer packs LLVM takes long to shuffle the elements.
const MOST_ELEMENTS: u32 = 128;
/// A loop is thought to run so often.
const ITERATIONS: f64 = 8.0;

/// The vectors that stay in memory's order.
pub(super) struct AosVectors {
    values: FixedBitSet,
    /// Those of them whose components are wanted, too.
    apart: FixedBitSet,
}

impl AosVectors {
    pub fn contains(&self, value: Value) -> bool {
        self.values.contains(value.index())
    }

    /// Whether some user wants the components of one in registers of their own.
    pub fn is_taken_apart(&self, value: Value) -> bool {
        self.apart.contains(value.index())
    }
}

/// What decides.
pub(super) struct Finder<'a> {
    pub body: &'a Function,
    pub flow: &'a ControlFlow,
    pub loops: &'a Loops,
    pub shapes: &'a Shapes,
    pub slots: &'a SlotPlan,
    pub walks: &'a Walks,
    pub lanes: u32,
}

/// Vectors that are computed from each other, as a forest, and what each of them gains by memory's order.
#[derive(Default)]
struct Classes {
    parents: HashMap<Value, Value>,
    gains: HashMap<Value, f64>,
    /// How often each is computed.
    weights: HashMap<Value, f64>,
}

impl Classes {
    fn root(&mut self, mut value: Value) -> Value {
        while let Some(&parent) = self.parents.get(&value).filter(|&&parent| parent != value) {
            // Each look halves the way.
            let above = self.parents.get(&parent).copied().unwrap_or(parent);
            self.parents.insert(value, above);
            value = above;
        }
        value
    }

    fn join(&mut self, a: Value, b: Value) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents.insert(a, b);
    }

    fn contains(&self, value: Value) -> bool {
        self.parents.contains_key(&value)
    }

    fn gain(&mut self, value: Value, by: f64) {
        *self.gains.entry(value).or_default() += by;
    }
}

impl Finder<'_> {
    pub fn find(&self) -> AosVectors {
        let none = FixedBitSet::with_capacity(self.body.value_count());
        let mut found = AosVectors { values: none.clone(), apart: none };
        let mut classes = self.candidates();
        if classes.parents.is_empty() {
            return found;
        }
        for &block in self.flow.reverse_post_order().iter().filter(|block| block.0 > 0) {
            self.look_at(block, &mut classes, &mut found.apart);
        }
        let mut by_class: HashMap<Value, f64> = HashMap::new();
        let all: Vec<Value> = classes.parents.keys().copied().collect();
        for &value in &all {
            let gain = classes.gains.get(&value).copied().unwrap_or(0.0);
            let apart = if found.is_taken_apart(value) { TRANSPOSE * self.elements(value) } else { 0.0 };
            let lost = apart * classes.weights[&value];
            *by_class.entry(classes.root(value)).or_default() += gain - lost;
        }
        let stay = all.into_iter().filter(|&value| by_class[&classes.root(value)] > 0.0);
        found.values.extend(stay.map(|value| value.index()));
        found
    }

    /// Vectors that could stay in memory's order, each a class of its own.
    fn candidates(&self) -> Classes {
        let mut classes = Classes::default();
        for &block in self.flow.reverse_post_order().iter().filter(|block| block.0 > 0) {
            let data = self.body.block(block);
            let params = data.params.iter().copied();
            let results = data.insts.iter().filter(|&&inst| self.keeps_order(block, inst));
            let results = results.filter_map(|&inst| self.body.result(inst));
            for value in params.chain(results).filter(|&value| self.fits(value)) {
                classes.parents.insert(value, value);
                classes.weights.insert(value, self.weight(block));
            }
        }
        classes
    }

    /// Whether registers can take a varying vector in order, each with the same components at the same places.
    fn fits(&self, value: Value) -> bool {
        let Type::Vector(_, count) = *self.body.ty(value) else { return false };
        count > 1
            && count * self.lanes <= MOST_ELEMENTS
            && self.lanes.is_multiple_of(count)
            && self.shapes.shape(value) == Shape::Varying
    }

    /// Whether a block's parameters come from one place only, or from an iteration before.
    fn is_entered_once(&self, block: Block) -> bool {
        let own = self.loops.innermost(block).filter(|&id| self.loops.get(id).header == block);
        let from = self.flow.predecessors(block).iter();
        let latches = from.filter(|&&from| own.is_some_and(|id| self.loops.contains(id, from))).count();
        latches <= 1 && self.flow.predecessors(block).len() - latches <= 1
    }

    /// Whether an instruction computes all elements of a vector alike, or moves them within each lane.
    fn keeps_order(&self, block: Block, inst: Inst) -> bool {
        let op = self.body.op(inst);
        let Some(result) = self.body.result(inst) else { return false };
        let count = self.body.ty(result).lanes();
        let as_many = |v: Value| self.body.ty(v).lanes() == count;
        match *op {
            Op::Load { pointer, volatile: false, ordering: None, .. } => {
                !self.walks.serve(result) && self.is_contiguous(block, pointer, self.body.ty(result))
            }
            Op::Unary { op: UnaryOp::Freeze | UnaryOp::FNeg, .. } | Op::Compare { .. } => true,
            Op::Binary {
                op: BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem, rhs, ..
            } => is_divisor(self.body, rhs),
            Op::Binary { op, .. } => op != BinaryOp::FRem,
            Op::Cast { op: CastOp::BitCast, value, .. } => as_many(value),
            Op::Cast { .. } => true,
            Op::Select { condition, .. } => {
                as_many(condition) || self.shapes.shape_at(condition, block) == Shape::Uniform
            }
            Op::Intrinsic { intrinsic, .. } => intrinsic.is_elementwise(),
            Op::Shuffle { first, ref mask, .. } => {
                let within = mask.iter().all(|&place| place < count as i32);
                within && as_many(first) && self.shapes.shape_at(first, block) == Shape::Varying
            }
            Op::InsertElement { element, index, .. } => {
                self.body.constant_int(index).is_some()
                    && self.shapes.shape_at(element, block) == Shape::Uniform
            }
            _ => false,
        }
    }

    /// Whether lanes' vectors follow on each other in memory.
    fn is_contiguous(&self, block: Block, pointer: Value, ty: &Type) -> bool {
        let (Some(size), false) = (access_size(ty), self.slots.is_interleaved(pointer)) else { return false };
        let stride = match self.shapes.shape_at(pointer, block) {
            Shape::Affine { stride, .. } => Some(stride),
            Shape::Varying => Wrapping::of(self.body, self.shapes, pointer, block).map(|way| way.stride()),
            Shape::Uniform => None,
        };
        stride == Some(size as i64 * i64::from(ty.lanes()))
    }

    /// Joins what is computed from each other, and counts what is gained and lost.
    fn look_at(&self, block: Block, classes: &mut Classes, apart: &mut FixedBitSet) {
        let weight = self.weight(block);
        let data = self.body.block(block);
        if !self.is_entered_once(block) {
            // Each lane's bit is repeated for its elements, and chooses.
            for &param in &data.params {
                classes.gain(param, -2.0 * self.elements(param) * weight);
            }
        }
        for &inst in &data.insts {
            let op = self.body.op(inst);
            let result = self.body.result(inst).filter(|&result| classes.contains(result));
            match (op, result) {
                (Op::Load { .. }, Some(result)) => {
                    classes.gain(result, TRANSPOSE * self.elements(result) * weight);
                    continue;
                }
                (&Op::Store { pointer, value, volatile: false, ordering: None, .. }, _)
                    if classes.contains(value)
                        && self.leaves_none(value, block)
                        && self.is_contiguous(block, pointer, self.body.ty(value)) =>
                {
                    classes.gain(value, TRANSPOSE * self.elements(value) * weight);
                    continue;
                }
                (Op::Shuffle { .. } | Op::InsertElement { .. }, Some(result)) => {
                    classes.gain(result, -self.elements(result) * weight);
                }
                _ => {}
            }
            for operand in op.operands() {
                self.use_of(operand, result, block, classes, apart);
            }
        }
        for target in data.terminator.targets() {
            for (&argument, &param) in target.arguments.iter().zip(&self.body.block(target.block).params) {
                self.use_of(
                    argument,
                    Some(param).filter(|&param| classes.contains(param)),
                    block,
                    classes,
                    apart,
                );
            }
        }
    }

    /// A user of a value that is in memory's order if its class is, or never.
    fn use_of(
        &self,
        operand: Value,
        user: Option<Value>,
        block: Block,
        classes: &mut Classes,
        apart: &mut FixedBitSet,
    ) {
        if !matches!(self.body.ty(operand), Type::Vector(..)) {
            return;
        }
        let candidate = classes.contains(operand) && self.leaves_none(operand, block);
        match user {
            Some(user) if candidate => classes.join(operand, user),
            Some(user) if self.shapes.shape_at(operand, block) == Shape::Varying => {
                classes.gain(user, -TRANSPOSE * self.elements(operand) * self.weight(block));
            }
            None if classes.contains(operand) => apart.insert(operand.index()),
            _ => {}
        }
    }

    /// Whether a value is used where its own lanes are known.
    fn leaves_none(&self, value: Value, user: Block) -> bool {
        !self.shapes.leaves_divergent_loop(value, user)
    }

    fn elements(&self, value: Value) -> f64 {
        f64::from(self.body.ty(value).lanes())
    }

    fn weight(&self, block: Block) -> f64 {
        ITERATIONS.powi(self.loops.around(self.loops.innermost(block)).count() as i32)
    }
}

impl Widener<'_> {
    /// Whether a value has memory's order where it is used.
    fn is_in_order(&self, value: Value) -> bool {
        self.facts.aos.contains(value) && !self.facts.shapes.leaves_divergent_loop(value, self.user)
    }

    /// A vector of any shape, in memory's order.
    pub(super) fn elements_of(&mut self, value: Value) -> Vec<Value> {
        let count = self.body.ty(value).lanes();
        if self.is_in_order(value) {
            return (0..count).map(|c| self.out.read(self.at, Variable::Value(value, c))).collect();
        }
        if let Some(known) = self.in_order.get(&(self.at, self.user, value)) {
            return known.clone();
        }
        let registers = if self.is_uniform(value) {
            let whole = self.first_lane(value);
            vec![self.repeat(whole); count as usize]
        } else {
            let lanes = self.lanes_of(value);
            self.reordered(&lanes)
        };
        self.in_order.insert((self.at, self.user, value), registers.clone());
        registers
    }

    /// The components of one that is in memory's order.
    pub(super) fn components_in_order(&mut self, value: Value) -> Vec<Value> {
        let registers = self.elements_of(value);
        let count = registers.len() as u32;
        let block = self.end_to_end(registers);
        (0..count).map(|c| self.every(block, c, count)).collect()
    }

    fn reordered(&mut self, components: &[Value]) -> Vec<Value> {
        let block = self.interleave(components, components.len() as u32);
        self.cut(block)
    }

    /// Elements that follow on each other, in registers.
    fn cut(&mut self, block: Value) -> Vec<Value> {
        let lanes = self.lanes as i32;
        let count = self.ty(block).lanes() as i32 / lanes;
        (0..count).map(|r| self.shuffle_one(block, (r * lanes..(r + 1) * lanes).collect())).collect()
    }

    /// One lane's vector again and again.
    fn repeat(&mut self, whole: Value) -> Value {
        let count = self.ty(whole).lanes();
        self.shuffle_one(whole, (0..self.lanes).map(|place| (place % count) as i32).collect())
    }

    fn shuffle_one(&mut self, first: Value, mask: Vec<i32>) -> Value {
        let second = self.constant(self.ty(first), Constant::Poison);
        let scalar = self.ty(first).scalar().unwrap_or(Scalar::Int(8));
        self.push(self.wide(scalar), Op::Shuffle { first, second, mask: mask.into() })
    }

    /// The lanes of a mask, each as often as a vector has elements, in the register of that number.
    pub(super) fn mask_in_order(&mut self, mask: Value, register: u32, count: u32) -> Value {
        let places = (register * self.lanes..).take(self.lanes as usize).map(|place| (place / count) as i32);
        self.shuffle_one(mask, places.collect())
    }

    /// A result in memory's order.
    pub(super) fn in_memory_order(&mut self, op: &Op, value: Value) -> Vec<Value> {
        let ty = self.body.ty(value).clone();
        let (lanes, count) = (self.lanes, ty.lanes());
        match op {
            Op::Load { pointer, align, .. } => self.load_in_order(*pointer, &ty, *align),
            Op::Shuffle { first, mask, .. } => {
                let place = |at: u32| match mask[(at % count) as usize] {
                    any @ ..0 => any,
                    from => (at - at % count) as i32 + from,
                };
                let places: Vec<i32> = (0..lanes).map(place).collect();
                let registers = self.elements_of(*first);
                registers.into_iter().map(|register| self.shuffle_one(register, places.clone())).collect()
            }
            Op::InsertElement { vector, element, index } => {
                let mut registers = self.elements_of(*vector);
                let place = self.body.constant_int(*index).unwrap_or_default() as u32;
                let element = self.lanes_of(*element)[0];
                for register in &mut registers {
                    let from = |at| if at % count == place { lanes + at } else { at };
                    let mask = (0..lanes).map(|at| from(at) as i32).collect::<Vec<_>>().into();
                    let op = Op::Shuffle { first: *register, second: element, mask };
                    *register = self.push(self.ty(element), op);
                }
                registers
            }
            _ => {
                let scalar = ty.scalar().unwrap_or(Scalar::Int(8));
                let operands: Vec<Vec<Value>> = (op.operands().into_iter())
                    .map(|operand| match self.body.ty(operand) {
                        Type::Vector(..) => self.elements_of(operand),
                        _ => vec![self.first_lane(operand); count as usize],
                    })
                    .collect();
                self.for_each_part(op, &operands, &vec![scalar; count as usize])
            }
        }
    }

    fn load_in_order(&mut self, pointer: Value, ty: &Type, align: u32) -> Vec<Value> {
        let (scalar, count) = (ty.scalar().unwrap_or(Scalar::Int(8)), ty.lanes());
        let size = access_size(ty).unwrap_or(1) as i64;
        self.by_pattern(pointer, Elements { size, count, padded: None }, |widener, pattern| match pattern {
            Pattern::Block(first, elements) if elements == count => {
                let block = widener.load_block(first, (scalar, count), align);
                widener.cut(block)
            }
            pattern => {
                let components = widener.load_pattern(pointer, pattern, ty, align);
                widener.reordered(&components)
            }
        })
    }

    /// Stores a vector that is in memory's order.
    pub(super) fn store_in_order(&mut self, pointer: Value, value: Value, align: u32) -> bool {
        let ty = self.body.ty(value).clone();
        let (Some(size), true) = (access_size(&ty), self.is_in_order(value)) else { return false };
        let elements = Elements { size: size as i64, count: ty.lanes(), padded: None };
        self.by_pattern(pointer, elements, |widener, pattern| {
            match pattern {
                Pattern::Block(first, elements) if elements == ty.lanes() => {
                    let registers = widener.elements_of(value);
                    let block = widener.end_to_end(registers);
                    widener.store_block(block, first, elements, align);
                }
                pattern => {
                    let registers = widener.elements_of(value);
                    widener.store_pattern(
                        pointer,
                        pattern,
                        &ty,
                        (&registers, true),
                        align,
                        |widener, pattern| {
                            let lanes = widener.lanes_of(value);
                            widener.store_by(pattern, &lanes, align);
                        },
                    );
                }
            }
            Vec::new()
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::Facts;
    use super::*;
    use crate::parse;

    /// Which of a kernel's vectors stay in memory's order in eight lanes, by what makes them. Values 6 and 7 are vectors that neighbours
    /// load from `%0`, value 8 is one for all.
    fn in_order(rest: &str) -> Vec<String> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: <4 x f32> @ 16) {{
b0:
  jump b1
b1:
  %3: i64 = global_id 0
  %4: ptr(global) = address %0 + %3*16 + 0
  %5: ptr(global) = address %1 + %3*16 + 0
  %6: <4 x f32> = load %4, align 16
  %7: <4 x f32> = load %5, align 16
  %8: <4 x f32> = fmul %2, %2
{rest}  return
}}"
        );
        let body = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let facts = Facts::new(&body, &[], 8).unwrap();
        let made = |value: &Value| match body.def(*value) {
            crate::ValueDef::BlockParam(..) => "parameter".to_owned(),
            _ => body.defining_op(*value).map_or_else(String::new, |op| format!("{op:?}")),
        };
        let all = (0..body.value_count()).map(|v| Value(v as u32)).filter(|&v| facts.aos.contains(v));
        all.map(|v| made(&v).split([' ', '(']).next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn what_is_loaded_computed_and_stored_whole_stays() {
        let loaded = ["Load", "Load"];
        let sum =
            "  %9: <4 x f32> = fadd %6, %7\n  %10: <4 x f32> = fmul %9, %8\n  store %4, %10, align 16\n";
        assert_eq!(in_order(sum), [&loaded[..], &["Binary", "Binary"]].concat());
        // Within each lane.
        let turned =
            "  %9: <4 x f32> = shuffle %6, poison:<4 x f32>, [3, 2, 1, 0]\n  store %4, %9, align 16\n";
        assert_eq!(in_order(turned), [&loaded[..], &["Shuffle"]].concat());
        // Through a loop.
        let looped = "  jump b2(0:i32, %6)
b2(%9: i32, %10: <4 x f32>):
  %11: <4 x f32> = fmul %10, %7
  %12: i32 = add %9, 1:i32
  %13: i1 = icmp ult %12, 9:i32
  branch %13, b2(%12, %11), b3
b3:
  store %4, %11, align 16
";
        assert_eq!(in_order(looped), ["parameter", "Load", "Load", "Binary"]);
    }

    #[test]
    fn what_is_taken_apart_does_not() {
        let first = |v: u32, from: u32| format!("  %{v}: f32 = extract_element %{from}, 0:i32\n");
        let scalars = format!("{}{}  %11: f32 = fmul %9, %10\n", first(9, 6), first(10, 7));
        assert_eq!(in_order(&format!("{scalars}  store %1, %11, align 4\n")), [] as [&str; 0]);
        // Of two loads one is, and the sum is stored.
        let both = format!(
            "  %9: <4 x f32> = fadd %6, %7\n{}  %11: f32 = fmul %10, %10\n  store %1, %11, align 4\n  store %4, %9, align 16\n",
            first(10, 6)
        );
        assert_eq!(in_order(&both), ["Load", "Load", "Binary"]);
    }
}
