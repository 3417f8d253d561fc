//! Random kernels: atomics, on memory of one work-item and of all.

use super::Generator;
use spirula_kir::{BinaryOp, CastOp, Op, Ordering, RmwOp, Target, Terminator, Type, WorkItemQuery};

/// Operations whose results don't depend on their order.
const COMMUTING: [RmwOp; 9] = {
    use RmwOp::*;
    [Add, Sub, And, Or, Xor, Max, Min, UMax, UMin]
};

impl Generator {
    fn ordering(&mut self) -> Ordering {
        use Ordering::*;
        self.random.pick(&[Monotonic, Monotonic, Acquire, Release, AcqRel, SeqCst])
    }

    /// On the work-item's own element.
    pub(super) fn atomic(&mut self) {
        let (pointer, value, ordering) = (self.own_element(), self.value(), self.ordering());
        let op =
            self.random.pick(&[RmwOp::Xchg, RmwOp::Nand].into_iter().chain(COMMUTING).collect::<Vec<_>>());
        let op = Op::AtomicRmw { op, pointer, value, align: 4, volatile: false, ordering };
        let old = self.push(Type::I32, op);
        self.varying.push(old);
    }

    /// On the work-item's own element, which is what is expected or, mostly, not.
    pub(super) fn compare_exchange(&mut self) {
        let (pointer, replacement, success) = (self.own_element(), self.value(), self.ordering());
        let failure = self.random.pick(&[Ordering::Monotonic, Ordering::Acquire, Ordering::SeqCst]);
        let expected = if self.random.below(2) == 0 { self.load(pointer) } else { self.value() };
        let (weak, volatile, align) = (false, false, 4);
        let op =
            Op::CompareExchange { pointer, expected, replacement, success, failure, weak, volatile, align };
        let pair = self.push(Type::Struct([Type::I32, Type::BOOL].as_slice().into()), op);
        let member = |generator: &mut Self, ty, index: u32| {
            generator.push(ty, Op::ExtractValue { aggregate: pair, indices: [index].as_slice().into() })
        };
        let (old, done) = (member(self, Type::I32, 0), member(self, Type::BOOL, 1));
        let done = self.cast(CastOp::ZExt, Type::I32, done);
        self.varying.extend([old, done]);
    }

    /// All work-items, or some, change places that they share, in any order; behind a barrier each looks at one.
    pub(super) fn shared_atomic(&mut self) {
        let (id, size) = (self.query(WorkItemQuery::LocalId), self.query(WorkItemQuery::LocalSize));
        let places = 1 + u128::from(self.random.below(3));
        let places = self.function.int(Type::I64, places);
        let (near, far) = (self.binary(BinaryOp::URem, id, places), self.binary(BinaryOp::Add, id, places));
        let [near, far] = [near, far].map(|index| self.binary(BinaryOp::URem, index, size));
        let is_local = self.random.below(2) == 0;
        let address = |generator: &mut Self, index| {
            if is_local {
                let ty = generator.function.ty(generator.local).clone();
                return generator.address(ty, generator.local, Some(index), 0);
            }
            let own = generator.query(WorkItemQuery::GlobalId);
            let first = generator.binary(BinaryOp::Sub, own, id);
            let index = generator.binary(BinaryOp::Add, first, index);
            let ty = generator.function.ty(generator.data).clone();
            generator.address(ty, generator.data, Some(index), 0)
        };
        let own = address(self, id);
        let start = self.value();
        self.store(own, start);
        self.barrier();
        let (pointer, op, ordering) = (address(self, near), self.random.pick(&COMMUTING), self.ordering());
        let value = if self.random.below(2) == 0 { self.uniform_value() } else { self.value() };
        let change = Op::AtomicRmw { op, pointer, value, align: 4, volatile: false, ordering };
        let after = self.function.add_block();
        if self.random.below(2) == 0 {
            let uniform = self.random.below(3) == 0;
            let (condition, some) = (self.condition(uniform), self.function.add_block());
            self.end(Terminator::Branch { condition, then: Target::to(some), otherwise: Target::to(after) });
            self.block = some;
        }
        self.push(Type::I32, change);
        self.end(Terminator::Jump(Target::to(after)));
        self.block = after;
        self.barrier();
        let seen = address(self, far);
        let seen = self.load(seen);
        self.varying.push(seen);
        self.barrier();
    }
}
