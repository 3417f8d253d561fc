//! Widening: what a region's body costs, scalar and in lanes, by the processor's costs.

use super::Facts;
use super::slots::access_size;
use super::values::components;
use crate::analysis::{Mask, Shape};
use crate::transform::ContextKind;
use crate::{BinaryOp, Block, Function, Inst, Intrinsic, Op, Scalar, Type, Value};
use spirula_interface::target::{Costs, TargetFacts};

/// Estimates for one work-item in scalar code, and for one pack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub scalar: f64,
    pub pack: f64,
}

/// Each loop is thought to have so many iterations.
const ITERATIONS: f64 = 8.0;

/// What the whole body costs.
pub(super) fn cost(
    body: &Function,
    facts: &Facts,
    context: &[ContextKind],
    lanes: u32,
    target: &TargetFacts,
) -> Cost {
    let TargetFacts { vector_bits: register_bits, costs, .. } = *target;
    let model = Model { body, facts, context, lanes, register_bits, costs };
    let mut sum = Cost::default();
    for block in body.block_ids().skip(1) {
        let mut here = Cost::default();
        for &inst in &body.block(block).insts {
            let cost = model.instruction(block, inst);
            here = Cost { scalar: here.scalar + cost.scalar, pack: here.pack + cost.pack };
        }
        let branch = model.branch(block);
        let (mut scalar_times, mut pack_times) = (1.0, 1.0);
        for id in facts.loops.around(facts.loops.innermost(block)).take(4) {
            scalar_times *= ITERATIONS;
            // A pack stays as long as its longest work-item.
            pack_times *= if facts.shapes.is_divergent_loop(id) { 1.3 * ITERATIONS } else { ITERATIONS };
        }
        // A divergent way is gone by some work-items only; a pack goes it unless no lane does.
        let taken = match facts.masks.of(block) {
            Mask::Full => 1.0,
            Mask::Of(_)
                if facts.loops.innermost(block).is_some_and(|id| facts.shapes.is_divergent_loop(id)) =>
            {
                1.0
            }
            Mask::Of(_) => 0.6,
        };
        sum.scalar += (here.scalar + branch.scalar) * scalar_times * taken;
        sum.pack += (here.pack + branch.pack) * pack_times;
    }
    sum
}

struct Model<'a> {
    body: &'a Function,
    facts: &'a Facts,
    context: &'a [ContextKind],
    lanes: u32,
    register_bits: u32,
    costs: Costs,
}

impl Model<'_> {
    fn instruction(&self, block: Block, inst: Inst) -> Cost {
        let op = self.body.op(inst);
        let result = self.body.result(inst);
        let shape = result.map(|v| self.facts.shapes.shape_at(v, block));
        let masked = self.facts.masks.of(block) != Mask::Full;
        match op {
            Op::Load { pointer, volatile: false, ordering: None, .. } => match shape {
                Some(Shape::Varying) => {
                    self.access(block, *pointer, self.body.ty(result.unwrap_or(*pointer)), masked)
                }
                _ => Cost { scalar: self.costs.access, pack: self.costs.access },
            },
            Op::Store { pointer, value, volatile: false, ordering: None, .. } => {
                self.access(block, *pointer, self.body.ty(*value), masked)
            }
            Op::AtomicRmw { .. } | Op::CompareExchange { .. } | Op::Load { .. } | Op::Store { .. } => {
                let once = 4.0 * self.costs.access;
                Cost { scalar: once, pack: f64::from(self.lanes) * (once + self.costs.instance) }
            }
            Op::Call { .. } => {
                Cost { scalar: 80.0, pack: f64::from(self.lanes) * (80.0 + self.costs.instance) }
            }
            Op::ContextLoad(slot) | Op::ContextStore(slot, _) => match &self.context[slot.0 as usize] {
                ContextKind::Varying(ty) => {
                    Cost { scalar: self.costs.access, pack: self.costs.access * self.registers(ty) }
                }
                _ => Cost { scalar: self.costs.access, pack: self.costs.access },
            },
            Op::ContextScan { value, .. } => {
                let steps = f64::from(self.lanes.ilog2() + 1);
                let registers = self.registers(self.body.ty(*value));
                let pack = 2.0 * steps * self.costs.vector * registers + self.costs.access;
                Cost { scalar: self.costs.scalar + self.costs.access, pack }
            }
            _ if shape != Some(Shape::Varying) => Cost { scalar: self.costs.scalar, pack: self.costs.scalar },
            _ => self.arithmetic(op, result.map_or(&Type::BOOL, |v| self.body.ty(v))),
        }
    }

    fn arithmetic(&self, op: &Op, ty: &Type) -> Cost {
        let (scalar_registers, registers) = (self.scalar_registers(ty), self.registers(ty));
        let plain =
            Cost { scalar: self.costs.scalar * scalar_registers, pack: self.costs.vector * registers };
        let is_division =
            |op: &BinaryOp| matches!(op, BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem);
        match op {
            Op::Binary { op, .. } if is_division(op) => {
                let long = ty.scalar() == Some(Scalar::Int(64));
                let pack = if long {
                    40.0 * f64::from(self.lanes * ty.lanes())
                } else {
                    3.0 * self.costs.division * registers
                };
                Cost { scalar: 24.0 * scalar_registers, pack }
            }
            Op::Binary { op: BinaryOp::FDiv | BinaryOp::FRem, .. } => Cost {
                scalar: self.costs.division * scalar_registers,
                pack: 1.5 * self.costs.division * registers,
            },
            Op::Intrinsic { intrinsic: Intrinsic::SquareRoot, .. } => Cost {
                scalar: self.costs.division * scalar_registers,
                pack: 1.5 * self.costs.division * registers,
            },
            // Taken apart and put together: nothing, as components are apart in lanes.
            Op::ExtractElement { .. } | Op::InsertElement { .. } | Op::Shuffle { .. } => {
                Cost { scalar: self.costs.scalar * scalar_registers, pack: 0.0 }
            }
            Op::ExtractValue { .. } | Op::InsertValue { .. } => Cost::default(),
            _ => plain,
        }
    }

    /// A load or store by a pointer of any shape.
    fn access(&self, block: Block, pointer: Value, ty: &Type, masked: bool) -> Cost {
        let count = f64::from(ty.lanes());
        let scalar = self.costs.access * self.scalar_registers(ty);
        let size = access_size(ty).unwrap_or(1) as i64;
        let registers = self.registers(ty);
        let masking = if masked { 1.5 } else { 1.0 };
        let pack = match self.facts.shapes.shape_at(pointer, block) {
            Shape::Uniform => self.costs.access,
            Shape::Affine { stride, .. } if stride == size => self.costs.access * registers * masking,
            Shape::Affine { stride, .. } if stride > 0 && stride <= size * i64::from(ty.lanes() + 1) => {
                (self.costs.access + 2.0 * self.costs.vector) * registers * masking
            }
            _ => self.costs.gathered * f64::from(self.lanes) * count,
        };
        Cost { scalar, pack }
    }

    fn branch(&self, block: Block) -> Cost {
        let targets = self.body.block(block).terminator.targets().len();
        if targets < 2 {
            Cost::default()
        } else if self.facts.shapes.is_divergent_branch(block) {
            Cost { scalar: self.costs.mispredicted, pack: 4.0 * self.costs.vector }
        } else {
            Cost { scalar: self.costs.scalar, pack: self.costs.scalar }
        }
    }

    /// Vector registers that a value fills in all lanes.
    fn registers(&self, ty: &Type) -> f64 {
        let in_lanes = |scalar: &Scalar| {
            let bits = u64::from(self.lanes) * scalar.bits().max(8);
            bits.div_ceil(u64::from(self.register_bits.max(1)))
        };
        components(ty).iter().map(in_lanes).sum::<u64>() as f64
    }

    /// Registers that a value fills in scalar code, where OpenCL's vectors are vectors.
    fn scalar_registers(&self, ty: &Type) -> f64 {
        (ty.size() * 8).div_ceil(u64::from(self.register_bits.max(64))).max(1) as f64
    }
}
