//! Random kernels: nested branches and loops, uniform and divergent, with barriers wherever all work-items pass
//! together, work-group and sub-group functions there too, switches, loops with several exits, private arrays, atomics on a
//! work-item's own memory and on the group's, integers of all widths, and work-items that return early. No races, so that there is
//! one right answer.

mod atomics;

use spirula_kir::{
    BinaryOp, Block, CastOp, Flags, Function, IntPredicate, Op, Passing, Predicate, ReduceOp, Slot,
    SubGroupOp, Target, Terminator, Type, Value, WorkItemQuery,
};

/// A small generator of random numbers (xorshift64*): the seed names the kernel.
pub struct Random(u64);

impl Random {
    /// From a kernel's number.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// The kernel of that number: arguments as in `PARAMS`.
pub fn kernel(seed: u64) -> Function {
    let mut function = Function::new("k");
    use spirula_kir::AddressSpace::{Global, Local};
    let data = function.add_param(Type::pointer(Global), 0, Passing::Direct);
    let local = function.add_param(Type::pointer(Local), 8, Passing::LocalOffset);
    let number = function.add_param(Type::I32, 16, Passing::Direct);
    let slots = [function.add_slot(16, 4), function.add_slot(16, 4)];
    let block = function.add_block();
    let mut generator = Generator {
        random: Random::new(seed),
        function,
        block,
        data,
        local,
        slots,
        around: Vec::new(),
        uniform: vec![number],
        varying: Vec::new(),
        statements: 0,
    };
    generator.whole();
    generator.function
}

struct Generator {
    random: Random,
    function: Function,
    /// Where the next instruction goes.
    block: Block,
    data: Value,
    local: Value,
    /// Four words each; the second is accessed in bytes and halves as well.
    slots: [Slot; 2],
    /// Where the loops around this place go on, the innermost last; none may be left if the group runs it together.
    around: Vec<Option<Block>>,
    /// i32 values in scope that are the same for the group.
    uniform: Vec<Value>,
    /// Other i32 values in scope.
    varying: Vec<Value>,
    statements: usize,
}

impl Generator {
    fn whole(&mut self) {
        let id = self.query(WorkItemQuery::LocalId);
        let group = self.query(WorkItemQuery::GroupId);
        let id = self.cast(CastOp::Trunc, Type::I32, id);
        let group = self.cast(CastOp::Trunc, Type::I32, group);
        let own = self.own_element();
        let first = self.load(own);
        self.varying.extend([id, first]);
        self.uniform.push(group);
        for (slot, i) in self.slots.into_iter().flat_map(|slot| (0..4).map(move |i| (slot, i))) {
            let address = self.push(Type::PRIVATE_POINTER, Op::SlotAddress(slot));
            let address = self.address(Type::PRIVATE_POINTER, address, None, 4 * i);
            self.store(address, first);
        }
        // Local memory holds something before its first use.
        self.exchange();
        self.statements(3, true);
        let result = self.sum_up();
        let own = self.own_element();
        self.store(own, result);
        self.end(Terminator::Return(None));
    }

    fn sum_up(&mut self) -> Value {
        let all: Vec<Value> = self.uniform.iter().chain(&self.varying).copied().collect();
        let (one, other) = (self.slot_element(0), self.slot_element(1));
        let (one, other) = (self.load(one), self.load(other));
        let start = self.binary(BinaryOp::Xor, one, other);
        all.into_iter().fold(start, |sum, v| {
            let three = self.int(3);
            let sum = self.binary(BinaryOp::Mul, sum, three);
            self.binary(BinaryOp::Add, sum, v)
        })
    }

    /// Some statements; `together` says that all work-items of the group pass here.
    fn statements(&mut self, depth: u32, together: bool) {
        for _ in 0..1 + self.random.below(4) {
            self.statements += 1;
            if self.statements > 40 {
                return;
            }
            match self.random.below(if depth > 0 { 18 } else { 11 }) {
                0 => self.arithmetic(),
                1 => self.private_array(),
                2 => self.global_memory(),
                3 if together => self.combine(),
                4 if together => self.exchange(),
                3 => self.arithmetic(),
                4 => self.atomic(),
                5 => self.choose(),
                6 => self.other_width(),
                7 => self.divide(),
                8 => self.shift(),
                9 if together => self.shared_atomic(),
                10 if together => self.sub_group(),
                9 | 10 => self.compare_exchange(),
                11 | 12 => self.branch(depth - 1, together),
                13..16 => self.repeat(depth - 1, together),
                16 => self.switch(depth - 1, together),
                _ => self.early_return(together),
            }
        }
    }

    fn value(&mut self) -> Value {
        let uniform = self.random.below(3) == 0 || self.varying.is_empty();
        let from = if uniform { self.uniform.clone() } else { self.varying.clone() };
        self.random.pick(&from)
    }

    fn uniform_value(&mut self) -> Value {
        let from = self.uniform.clone();
        self.random.pick(&from)
    }

    fn arithmetic(&mut self) {
        let uniform = self.random.below(2) == 0;
        let (a, b) =
            if uniform { (self.uniform_value(), self.uniform_value()) } else { (self.value(), self.value()) };
        let op = self.random.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Xor]);
        let result = self.binary(op, a, b);
        if uniform { self.uniform.push(result) } else { self.varying.push(result) }
    }

    /// A value and whether it is the same for the group.
    fn some_value(&mut self) -> (Value, bool) {
        if self.random.below(2) == 0 { (self.uniform_value(), true) } else { (self.value(), false) }
    }

    fn declare(&mut self, value: Value, uniform: bool) {
        if uniform { self.uniform.push(value) } else { self.varying.push(value) }
    }

    fn choose(&mut self) {
        let uniform = self.random.below(2) == 0;
        let condition = self.condition(uniform);
        let (then, otherwise) =
            if uniform { (self.uniform_value(), self.uniform_value()) } else { (self.value(), self.value()) };
        let op = Op::Select { flags: Flags::NONE, condition, then, otherwise };
        let result = self.push(Type::I32, op);
        self.declare(result, uniform);
    }

    /// Through a narrower or a wider integer and back.
    fn other_width(&mut self) {
        let (value, uniform) = self.some_value();
        let extend = self.random.pick(&[CastOp::ZExt, CastOp::SExt]);
        let bits = self.random.pick(&[8, 16, 64]);
        let other = Type::int(bits);
        let result = if bits < 32 {
            let narrow = self.cast(CastOp::Trunc, other, value);
            let sum = self.binary(BinaryOp::Add, narrow, narrow);
            self.cast(extend, Type::I32, sum)
        } else {
            let wide = self.cast(extend, other, value);
            let product = self.binary(BinaryOp::Mul, wide, wide);
            let places = self.function.int(Type::I64, 13);
            let high = self.binary(BinaryOp::LShr, product, places);
            self.cast(CastOp::Trunc, Type::I32, high)
        };
        self.declare(result, uniform);
    }

    fn shift(&mut self) {
        let (value, uniform) = self.some_value();
        let count = if uniform { self.uniform_value() } else { self.value() };
        let most = self.int(31);
        let count = self.binary(BinaryOp::And, count, most);
        let op = self.random.pick(&[BinaryOp::Shl, BinaryOp::LShr, BinaryOp::AShr]);
        let result = self.binary(op, value, count);
        self.declare(result, uniform);
    }

    /// Only lanes whose divisor is neither 0 nor -1 divide.
    fn divide(&mut self) {
        let (value, divisor) = (self.value(), self.value());
        let (one, three) = (self.int(1), self.int(3));
        let above = self.binary(BinaryOp::Add, divisor, one);
        let above = self.binary(BinaryOp::And, above, three);
        let condition = self.compare(IntPredicate::Sgt, above, one);
        let (divides, after) = (self.function.add_block(), self.function.add_block());
        let result = self.function.add_block_param(after, Type::I32);
        self.end(Terminator::Branch {
            condition,
            then: Target::to(divides),
            otherwise: Target { block: after, arguments: vec![divisor] },
        });
        self.block = divides;
        let op = self.random.pick(&[BinaryOp::UDiv, BinaryOp::SDiv, BinaryOp::URem, BinaryOp::SRem]);
        let quotient = self.binary(op, value, divisor);
        self.end(Terminator::Jump(Target { block: after, arguments: vec![quotient] }));
        self.block = after;
        self.varying.push(result);
    }

    /// What the work-items of a sub-group bring, or those up to each.
    fn sub_group(&mut self) {
        let value = self.value();
        let op = self.reduction();
        let (op, argument) = match self.random.below(4) {
            0 => (SubGroupOp::Reduce(op), value),
            1 => (SubGroupOp::InclusiveScan(op), value),
            2 => (SubGroupOp::ExclusiveScan(op), value),
            _ => (SubGroupOp::Ballot, self.condition(false)),
        };
        let ty = if op == SubGroupOp::Ballot { Type::I64 } else { Type::I32 };
        let mut result = self.push(ty, Op::SubGroup { op, arguments: vec![argument] });
        if op == SubGroupOp::Ballot {
            result = self.cast(CastOp::Trunc, Type::I32, result);
        }
        self.varying.push(result);
    }

    fn reduction(&mut self) -> ReduceOp {
        use ReduceOp::*;
        self.random.pick(&[Add, And, Or, Xor, SMin, SMax, UMin, UMax])
    }

    fn slot_element(&mut self, slot: usize) -> Value {
        let index = self.value();
        let three = self.int(3);
        let index = self.binary(BinaryOp::And, index, three);
        let index = self.cast(CastOp::ZExt, Type::I64, index);
        let base = self.push(Type::PRIVATE_POINTER, Op::SlotAddress(self.slots[slot]));
        self.address(Type::PRIVATE_POINTER, base, Some(index), 0)
    }

    fn private_array(&mut self) {
        let slot = self.random.below(2) as usize;
        let element = self.slot_element(slot);
        let value = self.value();
        match self.random.below(if slot == 0 { 2 } else { 4 }) {
            0 => self.store(element, value),
            1 => {
                let value = self.load(element);
                self.varying.push(value);
            }
            part => {
                let bits = [8, 16][self.random.below(2) as usize];
                let part_of = self.address(Type::PRIVATE_POINTER, element, None, i64::from(bits / 8));
                let align = bits / 8;
                if part == 2 {
                    let value = self.cast(CastOp::Trunc, Type::int(bits), value);
                    let op = Op::Store { pointer: part_of, value, align, volatile: false, ordering: None };
                    self.function.push_effect(self.block, op);
                } else {
                    let op = Op::Load { pointer: part_of, align, volatile: false, ordering: None };
                    let value = self.push(Type::int(bits), op);
                    let value = self.cast(CastOp::ZExt, Type::I32, value);
                    self.varying.push(value);
                }
            }
        }
    }

    fn own_element(&mut self) -> Value {
        let id = self.query(WorkItemQuery::GlobalId);
        let ty = self.function.ty(self.data).clone();
        self.address(ty, self.data, Some(id), 0)
    }

    fn global_memory(&mut self) {
        let own = self.own_element();
        if self.random.below(2) == 0 {
            let value = self.value();
            self.store(own, value);
        } else {
            let value = self.load(own);
            self.varying.push(value);
        }
    }

    /// Adds to memory, as a loop may do in each iteration.
    fn accumulate(&mut self) {
        let own = if self.random.below(3) == 0 { self.slot_element(0) } else { self.own_element() };
        let old = self.load(own);
        let value = self.value();
        let new = self.binary(BinaryOp::Add, old, value);
        self.store(own, new);
        self.varying.push(old);
    }

    /// Each work-item shows a value to another: barriers before, between and after.
    fn exchange(&mut self) {
        let ty = self.function.ty(self.local).clone();
        let (id, size) = (self.query(WorkItemQuery::LocalId), self.query(WorkItemQuery::LocalSize));
        let value = self.value();
        let own = self.address(ty.clone(), self.local, Some(id), 0);
        self.store(own, value);
        self.barrier();
        let everyone_reads_first = self.random.below(3) == 0;
        let index = if everyone_reads_first {
            self.function.int(Type::I64, 0)
        } else {
            let step = self.random.below(4);
            let step = self.function.int(Type::I64, u128::from(step));
            let index = self.binary(BinaryOp::Add, id, step);
            self.binary(BinaryOp::URem, index, size)
        };
        let other = self.address(ty, self.local, Some(index), 0);
        let got = self.load(other);
        self.barrier();
        if everyone_reads_first { self.uniform.push(got) } else { self.varying.push(got) }
    }

    /// What all work-items bring, or those up to each.
    fn combine(&mut self) {
        let (op, value) = (self.reduction(), self.value());
        if self.random.below(2) == 0 {
            let all = self.push(Type::I32, Op::GroupReduce { op, value });
            self.uniform.push(all);
        } else {
            let inclusive = self.random.below(2) == 0;
            let sum = self.push(Type::I32, Op::GroupScan { op, inclusive, value });
            self.varying.push(sum);
        }
    }

    fn barrier(&mut self) {
        let next = self.function.add_block();
        self.end(Terminator::Barrier(Target::to(next)));
        self.block = next;
    }

    fn condition(&mut self, uniform: bool) -> Value {
        let a = if uniform { self.uniform_value() } else { self.value() };
        let mask = self.int(7);
        let a = self.binary(BinaryOp::And, a, mask);
        let limit = self.random.below(8) as u32;
        let limit = self.int(limit);
        let predicate = self.random.pick(&[IntPredicate::Slt, IntPredicate::Sgt, IntPredicate::Eq]);
        self.compare(predicate, a, limit)
    }

    /// if/else that merges one value.
    fn branch(&mut self, depth: u32, together: bool) {
        let uniform = self.random.below(2) == 0;
        let condition = self.condition(uniform);
        let (then, otherwise, after) =
            (self.function.add_block(), self.function.add_block(), self.function.add_block());
        let merged = self.function.add_block_param(after, Type::I32);
        self.end(Terminator::Branch { condition, then: Target::to(then), otherwise: Target::to(otherwise) });
        for start in [then, otherwise] {
            self.block = start;
            let scope = (self.uniform.len(), self.varying.len());
            if self.random.below(4) > 0 {
                self.statements(depth, together && uniform);
            }
            let value = if uniform { self.uniform_value() } else { self.value() };
            self.leave_scope(scope);
            self.end(Terminator::Jump(Target { block: after, arguments: vec![value] }));
        }
        self.block = after;
        if uniform { self.uniform.push(merged) } else { self.varying.push(merged) }
    }

    /// A switch, some of whose cases share a way; all ways merge one value.
    fn switch(&mut self, depth: u32, together: bool) {
        let (value, uniform) = self.some_value();
        let seven = self.int(7);
        let value = self.binary(BinaryOp::And, value, seven);
        let ways: Vec<Block> = (0..2 + self.random.below(2)).map(|_| self.function.add_block()).collect();
        let after = self.function.add_block();
        let merged = self.function.add_block_param(after, Type::I32);
        let cases = (0..self.random.below(6)).map(u128::from).collect::<Vec<_>>();
        let cases = cases.into_iter().map(|case| {
            let target = match self.random.below(4) {
                0 => Target { block: after, arguments: vec![value] },
                way => Target::to(ways[way as usize % ways.len()]),
            };
            (case, target)
        });
        let cases = cases.collect();
        self.end(Terminator::Switch { value, cases, default: Target::to(ways[0]) });
        for (k, &way) in ways.iter().enumerate() {
            self.block = way;
            let scope = (self.uniform.len(), self.varying.len());
            self.statements(depth, together && uniform);
            let value = if uniform { self.uniform_value() } else { self.value() };
            self.leave_scope(scope);
            // Some fall through.
            let next = ways.get(k + 1).filter(|_| self.random.below(3) == 0);
            let to = match next {
                Some(&next) => Target::to(next),
                None => Target { block: after, arguments: vec![value] },
            };
            self.end(Terminator::Jump(to));
        }
        self.block = after;
        self.declare(merged, uniform);
    }

    fn leave_scope(&mut self, (uniform, varying): (usize, usize)) {
        self.uniform.truncate(uniform);
        self.varying.truncate(varying);
    }

    /// A loop with a counter, a carried value and sometimes a break.
    fn repeat(&mut self, depth: u32, together: bool) {
        let uniform = self.random.below(3) > 0;
        let count = if uniform { self.uniform_value() } else { self.value() };
        let three = self.int(3);
        let count = self.binary(BinaryOp::And, count, three);
        let carried_from = self.value();
        let (head, body, after) =
            (self.function.add_block(), self.function.add_block(), self.function.add_block());
        let counter = self.function.add_block_param(head, Type::I32);
        let carried = self.function.add_block_param(head, Type::I32);
        let result = self.function.add_block_param(after, Type::I32);
        let zero = self.int(0);
        self.end(Terminator::Jump(Target { block: head, arguments: vec![zero, carried_from] }));
        self.block = head;
        let more = self.compare(IntPredicate::Slt, counter, count);
        self.end(Terminator::Branch {
            condition: more,
            then: Target::to(body),
            otherwise: Target { block: after, arguments: vec![carried] },
        });
        self.block = body;
        let scope = (self.uniform.len(), self.varying.len());
        if uniform {
            self.uniform.push(counter)
        } else {
            self.varying.push(counter)
        }
        self.varying.push(carried);
        self.around.push((!(together && uniform)).then_some(after));
        if self.random.below(2) == 0 {
            self.accumulate();
        }
        self.statements(depth, together && uniform);
        self.leave_loops();
        self.around.pop();
        let next = self.value();
        if self.random.below(3) == 0 {
            // A divergent break parts the group for the rest of the loop: only where no barrier can follow.
            let condition = self.condition(uniform);
            let go_on = self.function.add_block();
            self.end(Terminator::Branch {
                condition,
                then: Target { block: after, arguments: vec![next] },
                otherwise: Target::to(go_on),
            });
            self.block = go_on;
        }
        let one = self.int(1);
        let counted = self.binary(BinaryOp::Add, counter, one);
        self.leave_scope(scope);
        self.end(Terminator::Jump(Target { block: head, arguments: vec![counted, next] }));
        self.block = after;
        self.varying.push(result);
    }

    /// From the end of a loop's body, some work-items leave it, and perhaps those around it too.
    fn leave_loops(&mut self) {
        let free = self.around.iter().rev().take_while(|after| after.is_some()).count() as u64;
        if free == 0 || self.random.below(3) > 0 {
            return;
        }
        let Some(after) = self.around[self.around.len() - 1 - self.random.below(free) as usize] else {
            return;
        };
        let condition = self.condition(false);
        let go_on = self.function.add_block();
        let value = self.value();
        let then = Target { block: after, arguments: vec![value] };
        self.end(Terminator::Branch { condition, then, otherwise: Target::to(go_on) });
        self.block = go_on;
    }

    /// Some work-items, or all of the group, are done.
    fn early_return(&mut self, together: bool) {
        let uniform = self.random.below(2) == 0;
        let condition = self.condition(uniform || !together);
        let (done, go_on) = (self.function.add_block(), self.function.add_block());
        self.end(Terminator::Branch { condition, then: Target::to(done), otherwise: Target::to(go_on) });
        self.block = done;
        let own = self.own_element();
        let value = self.value();
        self.store(own, value);
        self.end(Terminator::Return(None));
        self.block = go_on;
    }

    fn push(&mut self, ty: Type, op: Op) -> Value {
        self.function.push(self.block, ty, op)
    }

    fn end(&mut self, terminator: Terminator) {
        self.function.set_terminator(self.block, terminator);
    }

    fn int(&mut self, value: u32) -> Value {
        self.function.int(Type::I32, u128::from(value))
    }

    fn binary(&mut self, op: BinaryOp, lhs: Value, rhs: Value) -> Value {
        let ty = self.function.ty(lhs).clone();
        self.push(ty, Op::Binary { op, flags: Flags::NONE, lhs, rhs })
    }

    fn compare(&mut self, predicate: IntPredicate, lhs: Value, rhs: Value) -> Value {
        let predicate = Predicate::Int(predicate);
        self.push(Type::BOOL, Op::Compare { predicate, flags: Flags::NONE, lhs, rhs })
    }

    fn cast(&mut self, op: CastOp, ty: Type, value: Value) -> Value {
        self.push(ty, Op::Cast { op, flags: Flags::NONE, value })
    }

    fn query(&mut self, query: WorkItemQuery) -> Value {
        self.push(Type::I64, Op::WorkItem { query, dimension: 0 })
    }

    fn address(&mut self, ty: Type, base: Value, index: Option<Value>, offset: i64) -> Value {
        let scale = if index.is_some() { 4 } else { 0 };
        self.push(ty, Op::Address { base, index, scale, offset, inbounds: false })
    }

    fn load(&mut self, pointer: Value) -> Value {
        self.push(Type::I32, Op::Load { pointer, align: 4, volatile: false, ordering: None })
    }

    fn store(&mut self, pointer: Value, value: Value) {
        let op = Op::Store { pointer, value, align: 4, volatile: false, ordering: None };
        self.function.push_effect(self.block, op);
    }
}
