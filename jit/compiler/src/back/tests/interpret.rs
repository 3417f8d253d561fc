//! What a kernel means, without any of the passes: every work-item runs to the next barrier, then all go on.
//! Covers what the generator makes: arithmetic of integers up to 64 bits, memory, branches.

use spirula_kir::{
    BinaryOp, Block, CastOp, Constant, Function, Inst, IntPredicate, Op, Predicate, ReduceOp, RmwOp,
    SubGroupOp, Target, Terminator, Type, Value, ValueDef, WorkItemQuery,
};

/// The memory that a work-group sees: 32-bit words.
pub struct Memory<'a> {
    pub data: &'a mut [i32],
    pub local: Vec<i32>,
}

/// Where an interpreted pointer leads: upper half the memory, lower half the byte.
const DATA: u64 = 1 << 32;
const LOCAL: u64 = 2 << 32;
const SLOT: u64 = 3 << 32;

struct Item {
    local_id: u64,
    group: u64,
    values: Vec<u64>,
    slots: Vec<Vec<i32>>,
    /// Where it goes on, by block and instruction; none when it has returned.
    block: Option<Block>,
    position: usize,
    /// The work-group or sub-group function that it waits in.
    waits_in: Option<Inst>,
}

/// Runs one work-group of a one-dimensional launch, in sub-groups of so many lanes.
pub fn run_group(
    kernel: &Function,
    memory: &mut Memory,
    group: u64,
    (local_size, lanes): (u64, u64),
    number: i32,
) {
    let mut items: Vec<Item> = (0..local_size)
        .map(|local_id| Item {
            local_id,
            group,
            values: vec![0; kernel.value_count()],
            slots: kernel.slots.iter().map(|s| vec![0; s.size as usize / 4]).collect(),
            block: Some(Block(0)),
            position: 0,
            waits_in: None,
        })
        .collect();
    while items.iter().any(|item| item.block.is_some()) {
        for item in items.iter_mut().filter(|item| item.block.is_some()) {
            Walk { kernel, memory: &mut *memory, local_size, number, item }.run_until_barrier();
        }
        let inst = items.iter().find_map(|item| item.waits_in);
        if inst.is_some_and(|inst| matches!(kernel.op(inst), Op::SubGroup { .. })) {
            items.chunks_mut(lanes as usize).for_each(|lanes| combine(kernel, lanes, number));
        } else {
            combine(kernel, &mut items, number);
        }
    }
}

/// Gives those that wait in a work-group function, or a sub-group's, their results: all that have not returned.
fn combine(kernel: &Function, items: &mut [Item], number: i32) {
    let mut sum: Option<u32> = None;
    let mut before = Vec::new();
    let waiting = items.iter().enumerate().filter_map(|(lane, item)| Some((lane, item, item.waits_in?)));
    for (lane, item, inst) in waiting {
        let (op, value) = combination(kernel.op(inst));
        let mut own = match kernel.def(value) {
            ValueDef::Constant(Constant::Int(bits)) => *bits as u32,
            ValueDef::Param(_) => number as u32,
            _ => item.values[value.index()] as u32,
        };
        if *kernel.ty(value) == Type::BOOL {
            own <<= lane;
        }
        let next = sum.map_or(own, |sum| combined(op, sum, own));
        before.push((sum.unwrap_or(identity(op)), next));
        sum = Some(next);
    }
    let waiting = items.iter_mut().filter(|item| item.waits_in.is_some());
    for (item, (before, up_to)) in waiting.zip(before) {
        let Some(inst) = item.waits_in.take() else { continue };
        let yields = match kernel.op(inst) {
            Op::GroupScan { inclusive: true, .. } | Op::SubGroup { op: SubGroupOp::InclusiveScan(_), .. } => {
                up_to
            }
            Op::GroupScan { .. } | Op::SubGroup { op: SubGroupOp::ExclusiveScan(_), .. } => before,
            _ => sum.unwrap_or(0),
        };
        if let Some(result) = kernel.result(inst) {
            item.values[result.index()] = yields.into();
        }
        item.position += 1;
    }
}

/// What a function combines values by, and its operand. A ballot's operands are bits.
fn combination(op: &Op) -> (ReduceOp, Value) {
    match op {
        Op::GroupReduce { op, value } | Op::GroupScan { op, value, .. } => (*op, *value),
        Op::SubGroup { op, arguments } => {
            let op = match op {
                SubGroupOp::Reduce(op) | SubGroupOp::InclusiveScan(op) | SubGroupOp::ExclusiveScan(op) => *op,
                SubGroupOp::Ballot => ReduceOp::Or,
                other => panic!("{other:?}"),
            };
            (op, arguments[0])
        }
        other => panic!("{other:?} combines nothing"),
    }
}

fn combined(op: ReduceOp, a: u32, b: u32) -> u32 {
    let signed = |choose: fn(i32, i32) -> i32| choose(a as i32, b as i32) as u32;
    match op {
        ReduceOp::Add => a.wrapping_add(b),
        ReduceOp::And => a & b,
        ReduceOp::Or => a | b,
        ReduceOp::Xor => a ^ b,
        ReduceOp::SMin => signed(i32::min),
        ReduceOp::SMax => signed(i32::max),
        ReduceOp::UMin => a.min(b),
        ReduceOp::UMax => a.max(b),
        other => panic!("{other:?}"),
    }
}

fn identity(op: ReduceOp) -> u32 {
    match op {
        ReduceOp::And | ReduceOp::UMin => u32::MAX,
        ReduceOp::SMin => i32::MAX as u32,
        ReduceOp::SMax => i32::MIN as u32,
        _ => 0,
    }
}

struct Walk<'a, 'm> {
    kernel: &'a Function,
    memory: &'a mut Memory<'m>,
    local_size: u64,
    number: i32,
    item: &'a mut Item,
}

impl Walk<'_, '_> {
    fn run_until_barrier(&mut self) {
        while let Some(block) = self.item.block {
            let data = self.kernel.block(block);
            while let Some(&inst) = data.insts.get(self.item.position) {
                if matches!(
                    self.kernel.op(inst),
                    Op::GroupReduce { .. } | Op::GroupScan { .. } | Op::SubGroup { .. }
                ) {
                    self.item.waits_in = Some(inst);
                    return;
                }
                self.item.position += 1;
                let result = self.evaluate(self.kernel.op(inst), self.kernel.result(inst));
                if let Some(value) = self.kernel.result(inst) {
                    self.item.values[value.index()] = truncate(result, self.kernel.ty(value));
                }
            }
            match &data.terminator {
                Terminator::Return(_) => self.item.block = None,
                Terminator::Jump(target) => self.go(target),
                Terminator::Branch { condition, then, otherwise } => {
                    let target = if self.get(*condition) != 0 { then } else { otherwise };
                    self.go(target);
                }
                Terminator::Switch { value, cases, default } => {
                    let value = u128::from(self.get(*value));
                    let case = cases.iter().find(|(case, _)| *case == value);
                    self.go(case.map_or(default, |(_, target)| target));
                }
                Terminator::Barrier(target) => return self.go(target),
                other => panic!("{other:?}"),
            }
        }
    }

    fn go(&mut self, target: &Target) {
        let arguments: Vec<u64> = target.arguments.iter().map(|&a| self.get(a)).collect();
        for (param, argument) in self.kernel.block(target.block).params.iter().zip(arguments) {
            self.item.values[param.index()] = argument;
        }
        self.item.block = Some(target.block);
        self.item.position = 0;
    }

    fn get(&self, value: Value) -> u64 {
        match self.kernel.def(value) {
            ValueDef::Constant(Constant::Int(bits)) => *bits as u64,
            ValueDef::Constant(other) => panic!("{other:?}"),
            ValueDef::Param(0) => DATA,
            ValueDef::Param(1) => LOCAL,
            ValueDef::Param(_) => u64::from(self.number as u32),
            _ => self.item.values[value.index()],
        }
    }

    fn signed(&self, value: Value) -> i64 {
        let unused = 64 - self.kernel.ty(value).scalar().map_or(64, |s| s.bits());
        ((self.get(value) << unused) as i64) >> unused
    }

    fn word(&mut self, pointer: u64) -> &mut i32 {
        let at = (pointer & 0xffff_ffff) as usize / 4;
        match pointer & !0xffff_ffff {
            DATA => &mut self.memory.data[at],
            LOCAL => &mut self.memory.local[at],
            slot => &mut self.item.slots[((slot - SLOT) >> 32) as usize][at],
        }
    }

    fn evaluate(&mut self, op: &Op, result: Option<Value>) -> u64 {
        match op {
            Op::Binary { op, lhs, rhs, .. } => {
                let (a, b) = (self.get(*lhs), self.get(*rhs));
                let (x, y) = (self.signed(*lhs), self.signed(*rhs));
                match op {
                    BinaryOp::Add => a.wrapping_add(b),
                    BinaryOp::Sub => a.wrapping_sub(b),
                    BinaryOp::Mul => a.wrapping_mul(b),
                    BinaryOp::And => a & b,
                    BinaryOp::Xor => a ^ b,
                    BinaryOp::UDiv => a / b,
                    BinaryOp::URem => a % b,
                    BinaryOp::SDiv => (x / y) as u64,
                    BinaryOp::SRem => (x % y) as u64,
                    BinaryOp::Shl => a << b,
                    BinaryOp::LShr => a >> b,
                    BinaryOp::AShr => (x >> b) as u64,
                    other => panic!("{other:?}"),
                }
            }
            Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. } => {
                let (a, b) = (self.signed(*lhs), self.signed(*rhs));
                u64::from(match predicate {
                    IntPredicate::Eq => a == b,
                    IntPredicate::Slt => a < b,
                    IntPredicate::Sgt => a > b,
                    other => panic!("{other:?}"),
                })
            }
            Op::Select { condition, then, otherwise, .. } => {
                self.get(if self.get(*condition) != 0 { *then } else { *otherwise })
            }
            Op::Cast { op: CastOp::ZExt | CastOp::Trunc, value, .. } => self.get(*value),
            Op::Cast { op: CastOp::SExt, value, .. } => self.signed(*value) as u64,
            Op::Address { base, index, scale, offset, .. } => {
                let index = index.map_or(0, |i| self.get(i).wrapping_mul(*scale as u64));
                self.get(*base).wrapping_add(index).wrapping_add(*offset as u64)
            }
            Op::SlotAddress(slot) => SLOT + (u64::from(slot.0) << 32),
            Op::Load { pointer, .. } => {
                // What is more than the value's bits is cut off behind.
                let pointer = self.get(*pointer);
                u64::from(*self.word(pointer) as u32 >> (8 * (pointer & 3)))
            }
            Op::Store { pointer, value, .. } => {
                let (pointer, bits) = (self.get(*pointer), self.kernel.ty(*value).size() * 8);
                let (value, place) = (self.get(*value) as u32, 8 * (pointer & 3));
                let mask = (u32::MAX >> (32 - bits)) << place;
                let word = self.word(pointer);
                *word = (*word as u32 & !mask | (value << place) & mask) as i32;
                0
            }
            Op::AtomicRmw { op, pointer, value, .. } => {
                let value = self.get(*value) as i32;
                let word = self.word(self.get(*pointer));
                let old = *word;
                *word = match op {
                    RmwOp::Add => old.wrapping_add(value),
                    RmwOp::Xchg => value,
                    RmwOp::Xor => old ^ value,
                    RmwOp::Sub => old.wrapping_sub(value),
                    RmwOp::And => old & value,
                    RmwOp::Nand => !(old & value),
                    RmwOp::Or => old | value,
                    RmwOp::Max => old.max(value),
                    RmwOp::Min => old.min(value),
                    RmwOp::UMax => (old as u32).max(value as u32) as i32,
                    RmwOp::UMin => (old as u32).min(value as u32) as i32,
                    other => panic!("{other:?}"),
                };
                u64::from(old as u32)
            }
            // The upper half says whether they were exchanged.
            Op::CompareExchange { pointer, expected, replacement, .. } => {
                let (expected, replacement) = (self.get(*expected) as i32, self.get(*replacement) as i32);
                let word = self.word(self.get(*pointer));
                let old = *word;
                if old == expected {
                    *word = replacement;
                }
                u64::from(old == expected) << 32 | u64::from(old as u32)
            }
            Op::ExtractValue { aggregate, indices } => self.get(*aggregate) >> (32 * indices[0]),
            Op::WorkItem { query, dimension: 0 } => match query {
                WorkItemQuery::LocalId => self.item.local_id,
                WorkItemQuery::GlobalId => self.item.group * self.local_size + self.item.local_id,
                WorkItemQuery::GroupId => self.item.group,
                WorkItemQuery::LocalSize => self.local_size,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?} for {result:?}"),
        }
    }
}

fn truncate(bits: u64, ty: &Type) -> u64 {
    bits & (u64::MAX >> (64 - ty.scalar().map_or(64, |s| s.bits())))
}
