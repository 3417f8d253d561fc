//! Random functions on integers of any width and on floats. No result is undefined: counts of shifts are below the width,
//! divisors positive, and every NaN is made the same one, for its sign and payload are left open.

use super::super::generate::Random;
use spirula_interface::target::Target;
use spirula_kir::{
    AddressSpace, BinaryOp, Block, CastOp, Constant, Flags, FloatPredicate, Function, IntPredicate,
    Intrinsic, Op, Ordering, Predicate, Promises, RmwOp, Scalar, Signature, Target as Way, Terminator, Type,
    UnaryOp, Value,
};

/// Places of 16 bytes, first to read and then to write.
pub const INPUTS: usize = 24;
pub const OUTPUTS: usize = 160;
/// The last of them, for memory that is written and read again.
const SCRATCH: usize = INPUTS + OUTPUTS - 1;

const WIDTHS: [u32; 19] = [1, 2, 3, 7, 8, 12, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 100, 128];
const FLOAT: Type = Type::Scalar(Scalar::Float);
const DOUBLE: Type = Type::Scalar(Scalar::Double);
const HALF: Type = Type::Scalar(Scalar::Half);

/// The function `entry`, which uses every value that it computes, and one that it calls.
pub fn functions(seed: u64, machine: &Target) -> Vec<Function> {
    let mut function = Function::callable("entry", None);
    let data = function.add_argument(Type::pointer(AddressSpace::Global), Promises::default());
    let block = function.add_block();
    let mut floats = vec![FLOAT, DOUBLE];
    floats.extend(machine.has("f16c").then_some(HALF));
    let mut generator = Generator {
        random: Random::new(seed),
        function,
        block,
        data,
        floats,
        rounds: machine.has("sse4.1"),
        values: Vec::new(),
    };
    generator.whole();
    vec![generator.function, called()]
}

/// Takes and yields integers of odd widths.
fn called() -> Function {
    let mut function = Function::callable("called", Some(Type::int(17)));
    let x = function.add_argument(Type::int(24), Promises::default());
    let y = function.add_argument(Type::int(3), Promises::default());
    let block = function.add_block();
    let op = Op::Cast { op: CastOp::SExt, flags: Flags::NONE, value: y };
    let wide = function.push(block, Type::int(24), op);
    let op = Op::Binary { op: BinaryOp::Mul, flags: Flags::NONE, lhs: x, rhs: wide };
    let product = function.push(block, Type::int(24), op);
    let op = Op::Cast { op: CastOp::Trunc, flags: Flags::NONE, value: product };
    let result = function.push(block, Type::int(17), op);
    function.set_terminator(block, Terminator::Return(Some(result)));
    function
}

struct Generator {
    random: Random,
    function: Function,
    block: Block,
    data: Value,
    floats: Vec<Type>,
    rounds: bool,
    /// Integers and floats in scope.
    values: Vec<Value>,
}

impl Generator {
    fn whole(&mut self) {
        for place in 0..INPUTS {
            let ty = match self.random.below(3) {
                0 => self.float_type(),
                _ => Type::int(WIDTHS[self.random.below(WIDTHS.len() as u64) as usize]),
            };
            self.input(place, ty);
        }
        for _ in 0..60 {
            match self.random.below(16) {
                0 | 1 => self.binary_integer(),
                2 => self.divide(),
                3 | 4 => self.integer_intrinsic(),
                5 => self.overflow(),
                6 => self.compare(),
                7 => self.resize(),
                8 => self.convert(),
                9 | 10 => self.float_operation(),
                11 => self.float_test(),
                12 => self.memory(),
                13 => self.atomic(),
                14 => self.branch(),
                _ => self.choose_or_call(),
            }
        }
        assert_eq!(self.function.signature, Signature::Function { result: None });
        let values = std::mem::take(&mut self.values);
        for (place, value) in (INPUTS..SCRATCH).zip(values.into_iter().rev()) {
            let pointer = self.place(place);
            self.store(pointer, value);
        }
        self.function.set_terminator(self.block, Terminator::Return(None));
    }

    // Values.

    fn ty(&self, value: Value) -> Type {
        self.function.ty(value).clone()
    }

    fn width(&self, value: Value) -> u32 {
        self.ty(value).scalar().map_or(0, |scalar| scalar.bits() as u32)
    }

    fn float_type(&mut self) -> Type {
        self.floats[self.random.below(self.floats.len() as u64) as usize].clone()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn value(&mut self, is_float: bool) -> Value {
        let values: Vec<Value> = self
            .values
            .iter()
            .copied()
            .filter(|&value| self.function.ty(value).is_float() == is_float)
            .collect();
        if values.is_empty() {
            let ty = if is_float { self.float_type() } else { Type::int(32) };
            return self.input(0, ty);
        }
        self.pick(&values)
    }

    fn integer(&mut self) -> Value {
        self.value(false)
    }

    /// One of at most so many bits.
    fn narrow_integer(&mut self, most: u32) -> Value {
        let value = self.integer();
        if self.width(value) <= most {
            return value;
        }
        let width = self.pick(&WIDTHS.map(|width| width.min(most)));
        self.cast(CastOp::Trunc, Type::int(width), value)
    }

    /// Another value of the type, or a constant.
    fn like(&mut self, value: Value) -> Value {
        let ty = self.ty(value);
        let others: Vec<Value> =
            self.values.iter().copied().filter(|&other| *self.function.ty(other) == ty).collect();
        if others.is_empty() || self.random.below(4) == 0 {
            let bits = self.width(value);
            let any = (0..8).fold(0u128, |bits, _| bits << 16 | u128::from(self.random.below(1 << 16)));
            if !ty.is_float() {
                return self.function.int(ty, any >> (128 - bits));
            }
            let pattern = match ty.scalar() {
                Some(Scalar::Half) => 0x3e00,
                Some(Scalar::Float) => u64::from(2.75f32.to_bits()),
                _ => 0.1f64.to_bits(),
            };
            return self.function.constant(ty, Constant::Float(pattern));
        }
        self.pick(&others)
    }

    fn push(&mut self, ty: Type, op: Op) -> Value {
        self.function.push(self.block, ty, op)
    }

    fn cast(&mut self, op: CastOp, ty: Type, value: Value) -> Value {
        self.push(ty, Op::Cast { op, flags: Flags::NONE, value })
    }

    fn binary(&mut self, op: BinaryOp, lhs: Value, rhs: Value) -> Value {
        self.push(self.ty(lhs), Op::Binary { op, flags: Flags::NONE, lhs, rhs })
    }

    fn intrinsic(&mut self, ty: Type, intrinsic: Intrinsic, arguments: Vec<Value>) -> Value {
        self.push(ty, Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments })
    }

    fn test(&mut self, predicate: Predicate, lhs: Value, rhs: Value) -> Value {
        self.push(Type::BOOL, Op::Compare { predicate, flags: Flags::NONE, lhs, rhs })
    }

    fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        self.push(self.ty(then), Op::Select { flags: Flags::NONE, condition, then, otherwise })
    }

    /// Declares a result: a NaN becomes the one NaN, by its bits, of which LLVM knows less.
    fn declare(&mut self, value: Value) {
        let ty = self.ty(value);
        if !ty.is_float() {
            return self.values.push(value);
        }
        let (infinity, nan) = match ty.scalar() {
            Some(Scalar::Half) => (0x7c00, 0x7e00),
            Some(Scalar::Float) => (0x7f80_0000, 0x7fc0_0000),
            _ => (0x7ff0 << 48, 0x7ff8 << 48),
        };
        let integer = Type::int(self.width(value));
        let mut number = |bits: u128| self.function.int(integer.clone(), bits);
        let (infinity, nan, sign) = (number(infinity), number(nan), number(1));
        let bits = self.cast(CastOp::BitCast, integer, value);
        let doubled = self.binary(BinaryOp::Shl, bits, sign);
        let limit = self.binary(BinaryOp::Shl, infinity, sign);
        let is_nan = self.test(Predicate::Int(IntPredicate::Ugt), doubled, limit);
        let bits = self.select(is_nan, nan, bits);
        let value = self.cast(CastOp::BitCast, ty, bits);
        self.values.push(value);
    }

    fn condition(&mut self) -> Value {
        let x = self.integer();
        let y = self.like(x);
        let predicate = self.pick(IntPredicate::ALL);
        self.test(Predicate::Int(predicate), x, y)
    }

    // Memory.

    fn place(&mut self, number: usize) -> Value {
        let (base, offset) = (self.data, 16 * number as i64);
        let op = Op::Address { base, index: None, scale: 0, offset, inbounds: true };
        self.push(Type::pointer(AddressSpace::Global), op)
    }

    fn load(&mut self, pointer: Value, ty: Type) -> Value {
        self.push(ty, Op::Load { pointer, align: 1, volatile: false, ordering: None })
    }

    fn store(&mut self, pointer: Value, value: Value) {
        let op = Op::Store { pointer, value, align: 1, volatile: false, ordering: None };
        self.function.push_effect(self.block, op);
    }

    /// What stands there. Memory has whole bytes: what is between them comes out of more.
    fn input(&mut self, place: usize, ty: Type) -> Value {
        let pointer = self.place(place);
        let value = match ty.scalar() {
            Some(Scalar::Int(bits)) if !bits.is_multiple_of(8) => {
                let whole = self.load(pointer, Type::int(bits.next_multiple_of(8)));
                self.cast(CastOp::Trunc, ty, whole)
            }
            _ => self.load(pointer, ty),
        };
        self.declare(value);
        self.values[self.values.len() - 1]
    }

    /// Through memory, near other bytes.
    fn memory(&mut self) {
        let (x, y) = (self.integer(), self.value(true));
        let pointer = self.place(SCRATCH);
        let around = self.function.int(Type::int(128), u128::MAX / 3);
        self.store(pointer, around);
        let value = if self.random.below(4) == 0 { y } else { x };
        self.store(pointer, value);
        let again = self.load(pointer, self.ty(value));
        self.declare(again);
        let all = self.load(pointer, Type::int(128));
        self.declare(all);
    }

    fn atomic(&mut self) {
        let pointer = self.place(SCRATCH);
        let is_float = self.random.below(4) > 0;
        let (start, operand) = if is_float {
            let start = self.value(true);
            (start, self.like(start))
        } else {
            let width = self.pick(&[8, 16, 32, 64]);
            let value = self.integer();
            let value = self.as_width(value, width);
            (value, value)
        };
        let ty = self.ty(start);
        let align = ty.size() as u32;
        self.store(pointer, start);
        let op = match is_float {
            true => self.pick(&[RmwOp::FAdd, RmwOp::FSub, RmwOp::FMax, RmwOp::FMin, RmwOp::Xchg]),
            false => self.pick(&[RmwOp::Add, RmwOp::Nand, RmwOp::Max, RmwOp::UMin, RmwOp::Xchg]),
        };
        let ordering =
            self.pick(&[Ordering::Monotonic, Ordering::AcqRel, Ordering::SeqCst, Ordering::Release]);
        let op = Op::AtomicRmw { op, pointer, value: operand, ordering, volatile: false, align };
        let old = self.push(ty.clone(), op);
        self.declare(old);
        let ordering = Some(Ordering::SeqCst);
        let now = self.push(ty, Op::Load { pointer, align, volatile: false, ordering });
        let now = self.unsigned_zero(now);
        self.declare(now);
        let op = Op::Store { pointer, value: start, align, volatile: false, ordering };
        self.function.push_effect(self.block, op);
    }

    /// Which zero is the smaller one is left open where floats are compared.
    fn unsigned_zero(&mut self, value: Value) -> Value {
        let ty = self.ty(value);
        if !ty.is_float() {
            return value;
        }
        let zero = self.function.constant(ty, Constant::Float(0));
        self.binary(BinaryOp::FAdd, value, zero)
    }

    // Operations.

    fn as_width(&mut self, value: Value, width: u32) -> Value {
        let now = self.width(value);
        let op = if now > width { CastOp::Trunc } else { self.pick(&[CastOp::ZExt, CastOp::SExt]) };
        if now == width { value } else { self.cast(op, Type::int(width), value) }
    }

    /// A count for a shift of the value.
    fn count(&mut self, value: Value) -> Value {
        let (count, width) = (self.like(value), self.width(value));
        if width == 1 {
            return self.function.int(Type::BOOL, 0);
        }
        if width > 64 {
            let mask = self.function.int(self.ty(value), 63);
            return self.binary(BinaryOp::And, count, mask);
        }
        let width = self.function.int(self.ty(value), width.into());
        self.binary(BinaryOp::URem, count, width)
    }

    fn binary_integer(&mut self) {
        use BinaryOp::*;
        let x = self.integer();
        let op = self.pick(&[Add, Sub, Mul, And, Or, Xor, Shl, LShr, AShr]);
        let y = if matches!(op, Shl | LShr | AShr) { self.count(x) } else { self.like(x) };
        let result = self.binary(op, x, y);
        self.declare(result);
    }

    fn divide(&mut self) {
        let x = self.narrow_integer(64);
        if self.width(x) < 3 {
            return;
        }
        let (mut y, ty) = (self.like(x), self.ty(x));
        let largest = self.function.int(ty.clone(), (1 << (self.width(x) - 1)) - 1);
        let one = self.function.int(ty, 1);
        y = self.binary(BinaryOp::And, y, largest);
        y = self.binary(BinaryOp::Or, y, one);
        let op = self.pick(&[BinaryOp::UDiv, BinaryOp::SDiv, BinaryOp::URem, BinaryOp::SRem]);
        let result = self.binary(op, x, y);
        self.declare(result);
    }

    fn integer_intrinsic(&mut self) {
        use Intrinsic::*;
        let x = self.integer();
        let (y, ty) = (self.like(x), self.ty(x));
        let no = self.function.int(Type::BOOL, 0);
        let which = self.pick(&[
            BitReverse,
            ByteSwap,
            PopCount,
            SignedMax,
            SignedMin,
            UnsignedMax,
            UnsignedMin,
            SignedAddSaturating,
            SignedSubSaturating,
            UnsignedAddSaturating,
            UnsignedSubSaturating,
            SignedShiftSaturating,
            UnsignedShiftSaturating,
            FunnelShiftLeft,
            FunnelShiftRight,
            Abs,
            LeadingZeros,
            TrailingZeros,
            SignedCompare,
            UnsignedCompare,
        ]);
        let arguments = match which {
            ByteSwap if !self.width(x).is_multiple_of(16) => return,
            // That takes a quotient, for which there is no instruction.
            FunnelShiftLeft | FunnelShiftRight if (65..128).contains(&self.width(x)) => return,
            BitReverse | ByteSwap | PopCount => vec![x],
            SignedShiftSaturating | UnsignedShiftSaturating => vec![x, self.count(x)],
            FunnelShiftLeft | FunnelShiftRight => {
                let (other, count) = (self.like(x), self.like(x));
                vec![x, if self.random.below(2) == 0 { x } else { other }, count]
            }
            Abs | LeadingZeros | TrailingZeros => vec![x, no],
            _ => vec![x, y],
        };
        let ty = match which {
            SignedCompare | UnsignedCompare => Type::int(self.pick(&[2, 8, 24, 32])),
            _ => ty,
        };
        let result = self.intrinsic(ty, which, arguments);
        self.declare(result);
    }

    fn overflow(&mut self) {
        use Intrinsic::*;
        let x = self.narrow_integer(64);
        let y = self.like(x);
        let which = self.pick(&[
            SignedAddWithOverflow,
            UnsignedAddWithOverflow,
            SignedSubWithOverflow,
            UnsignedSubWithOverflow,
            SignedMulWithOverflow,
            UnsignedMulWithOverflow,
        ]);
        let pair = Type::Struct([self.ty(x), Type::BOOL].into());
        let pair = self.intrinsic(pair, which, vec![x, y]);
        for (number, ty) in [self.ty(x), Type::BOOL].into_iter().enumerate() {
            let indices = [number as u32].as_slice().into();
            let member = self.push(ty, Op::ExtractValue { aggregate: pair, indices });
            self.declare(member);
        }
    }

    fn compare(&mut self) {
        let result = if self.random.below(3) == 0 {
            let x = self.value(true);
            let y = self.like(x);
            let predicate = self.pick(FloatPredicate::ALL);
            self.test(Predicate::Float(predicate), x, y)
        } else {
            self.condition()
        };
        self.declare(result);
    }

    fn resize(&mut self) {
        let (value, width) = (self.integer(), self.pick(&WIDTHS));
        let result = self.as_width(value, width);
        if result != value {
            self.declare(result);
        }
    }

    fn convert(&mut self) {
        let width = self.pick(&WIDTHS).min(64);
        let result = match self.random.below(5) {
            0 => {
                let (x, ty) = (self.narrow_integer(64), self.float_type());
                let op = self.pick(&[CastOp::SiToFp, CastOp::UiToFp]);
                self.cast(op, ty, x)
            }
            1 => self.convert_small(width),
            2 | 3 => {
                let which =
                    self.pick(&[Intrinsic::FloatToSignedSaturating, Intrinsic::FloatToUnsignedSaturating]);
                let x = self.value(true);
                // LLVM 22.1 makes the least i16 of a half that is NaN, where the processor computes with halves.
                if self.ty(x) == HALF && width == 16 {
                    return;
                }
                self.intrinsic(Type::int(width), which, vec![x])
            }
            _ => {
                let (x, ty) = (self.value(true), self.float_type());
                let (from, to) = (self.ty(x).size(), ty.size());
                match () {
                    () if from < to => self.cast(CastOp::FpExt, ty, x),
                    // LLVM calls a library for a double as a half.
                    () if from > to && from / to == 2 => self.cast(CastOp::FpTrunc, ty, x),
                    () => return,
                }
            }
        };
        self.declare(result);
    }

    /// A float that fits, as an integer.
    fn convert_small(&mut self, width: u32) -> Value {
        let x = self.value(true);
        let ty = self.ty(x);
        let op = self.pick(&[CastOp::FpToSi, CastOp::FpToUi]);
        let exponent = u64::from(if op == CastOp::FpToSi { width - 1 } else { width });
        // 2 to that power; infinity where all halves fit.
        let limit = match ty.scalar() {
            Some(Scalar::Half) => (exponent + 15).min(31) << 10,
            Some(Scalar::Float) => (exponent + 127) << 23,
            _ => (exponent + 1023) << 52,
        };
        let limit = self.function.constant(ty.clone(), Constant::Float(limit));
        let magnitude = self.intrinsic(ty.clone(), Intrinsic::FloatAbs, vec![x]);
        let fits = self.test(Predicate::Float(FloatPredicate::Olt), magnitude, limit);
        let zero = self.function.constant(ty, Constant::Float(0));
        let x = if op == CastOp::FpToSi { x } else { magnitude };
        let x = self.select(fits, x, zero);
        self.cast(op, Type::int(width), x)
    }

    fn float_operation(&mut self) {
        use Intrinsic::*;
        let x = self.value(true);
        let (y, ty) = (self.like(x), self.ty(x));
        let result = match self.random.below(4) {
            0 => {
                let op = self.pick(&[BinaryOp::FAdd, BinaryOp::FSub, BinaryOp::FMul, BinaryOp::FDiv]);
                self.binary(op, x, y)
            }
            1 => {
                let which =
                    self.pick(&[MinNumber, MaxNumber, MinimumNumber, MaximumNumber, Minimum, Maximum]);
                let result = self.intrinsic(ty, which, vec![x, y]);
                self.unsigned_zero(result)
            }
            2 if self.rounds => {
                let which = self.pick(&[Round, RoundEven, Floor, Ceil, Truncate, Rint, NearbyInt]);
                self.intrinsic(ty, which, vec![x])
            }
            _ => match self.random.below(5) {
                0 => self.push(ty, Op::Unary { op: UnaryOp::FNeg, flags: Flags::NONE, value: x }),
                1 => self.intrinsic(ty, CopySign, vec![x, y]),
                2 => self.intrinsic(ty, FusedMultiplyAdd, vec![x, y, x]),
                which => {
                    let which = if which == 3 { FloatAbs } else { SquareRoot };
                    self.intrinsic(ty, which, vec![x])
                }
            },
        };
        self.declare(result);
    }

    fn float_test(&mut self) {
        let x = self.value(true);
        let classes = self.random.below(1 << 10);
        let classes = self.function.int(Type::I32, classes.into());
        let result = self.intrinsic(Type::BOOL, Intrinsic::IsFloatClass, vec![x, classes]);
        self.declare(result);
    }

    /// Two ways, by which an integer and a float become others.
    fn branch(&mut self) {
        let condition = self.condition();
        let (x, y) = (self.integer(), self.value(true));
        let arguments = [vec![x, y], vec![self.like(x), self.like(y)]];
        let after = self.function.add_block();
        let params =
            [x, y].map(|value| self.function.add_block_param(after, self.function.ty(value).clone()));
        let ways = arguments.map(|arguments| {
            let block = self.function.add_block();
            self.function.set_terminator(block, Terminator::Jump(Way { block: after, arguments }));
            Way::to(block)
        });
        let [then, otherwise] = ways;
        self.function.set_terminator(self.block, Terminator::Branch { condition, then, otherwise });
        self.block = after;
        self.values.extend(params);
    }

    fn choose_or_call(&mut self) {
        if self.random.below(2) == 0 {
            let condition = self.condition();
            let is_float = self.random.below(2) == 0;
            let x = self.value(is_float);
            let y = self.like(x);
            let result = self.select(condition, x, y);
            return self.values.push(result);
        }
        let (x, y) = (self.integer(), self.integer());
        let arguments = vec![self.as_width(x, 24), self.as_width(y, 3)];
        let op = Op::Call { function: "called".into(), pure: true, nocapture: true, nosync: true, arguments };
        let result = self.push(Type::int(17), op);
        self.declare(result);
    }
}
