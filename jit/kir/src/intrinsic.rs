//! Kernel IR: intrinsics. An allowlist: what each takes, yields and does stands in one table, and nothing else exists.

use crate::instruction::named;
use crate::{Scalar, Type};

/// What an intrinsic takes and yields. T is the result's type where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many integers of type T.
    Integers(u32),
    /// So many floats of type T.
    Floats(u32),
    /// An integer of type T and a constant i1.
    IntegerAndFlag,
    /// A float; yields integers, as many as it has lanes.
    FloatToInteger,
    /// Floats and a constant i32 that names classes; yields conditions.
    FloatClass,
    /// Two integers of one type; yields integers, as many as they have lanes.
    IntegerCompare,
    /// Two integers of type U; yields `{U, i1}`.
    IntegerWithOverflow,
    /// A vector of integers; yields one of its lanes' type.
    IntegerReduction,
    /// A vector of floats; yields one of its lanes' type.
    FloatReduction,
    /// A float of type T to begin with, and a vector of them.
    FloatSum,
    /// A register of 512 bits of floats, what lanes get that are left out, and a constant integer that leaves them out.
    MaskedRegister,
    /// Two registers of 512 bits of floats, one more with what lanes get that are left out, a constant integer that leaves them
    /// out, and a constant i32, how to round.
    RoundedRegisters,
    /// A vector of integers, and a constant vector of integers that has elements at these indices; yields as many as there are indices.
    /// Of an index only as many bits count as the table has indices.
    Lookup,
    /// A register of 512 bits of integers, and one of indices.
    Permutation,
    /// A register of 512 bits of integers, one of indices, and one more with the elements behind those of the first.
    PermutationOfTwo,
    /// Two pointers, an integer, and a constant i1 that says whether the access is volatile; no result.
    Copy,
    /// A pointer, an i8, an integer, and a constant i1 as above; no result.
    Fill,
    /// A pointer and three constant i32; no result.
    Prefetch,
    /// A pointer; yields a condition.
    SpaceTest,
}

/// What evaluating something may do, beyond yielding a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Effects {
    /// It may read memory that may change.
    pub reads: bool,
    /// It may write memory, or do what can't be done twice, earlier or not at all.
    pub writes: bool,
    /// It may trap, or not come back.
    pub traps: bool,
}

impl Effects {
    /// It computes, and that's all: it may be done anywhere, any number of times.
    pub const NONE: Effects = Effects { reads: false, writes: false, traps: false };
    /// Nothing is known.
    pub const ANY: Effects = Effects { reads: true, writes: true, traps: true };

    /// Whether it may be left out if nobody uses the result.
    pub fn is_pure(self) -> bool {
        !self.reads && !self.writes && !self.traps
    }
}

impl std::ops::BitOr for Effects {
    type Output = Effects;

    fn bitor(self, other: Effects) -> Effects {
        Effects {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
            traps: self.traps || other.traps,
        }
    }
}

/// Declares the intrinsics, grouped by shape.
macro_rules! intrinsics {
    ($($shape:expr => { $($variant:ident $text:literal),* $(,)? })*) => {
        named!(
            /// An operation with a name of its own; the names are LLVM's, without `llvm.` and types. All but those that
            /// access memory compute and do nothing else.
            Intrinsic { $($($variant $text),*),* }
        );

        impl Intrinsic {
            /// What it takes and yields.
            pub fn shape(self) -> Shape {
                match self { $($(Intrinsic::$variant)|* => $shape),* }
            }
        }
    };
}

intrinsics! {
    Shape::Integers(1) => {
        BitReverse "bitreverse", ByteSwap "bswap", PopCount "ctpop",
    }
    Shape::Integers(2) => {
        SignedMax "smax", SignedMin "smin", UnsignedMax "umax", UnsignedMin "umin",
        SignedAddSaturating "sadd.sat", SignedSubSaturating "ssub.sat",
        UnsignedAddSaturating "uadd.sat", UnsignedSubSaturating "usub.sat",
        SignedShiftSaturating "sshl.sat", UnsignedShiftSaturating "ushl.sat",
    }
    Shape::Integers(3) => {
        FunnelShiftLeft "fshl", FunnelShiftRight "fshr",
    }
    Shape::IntegerAndFlag => {
        Abs "abs", LeadingZeros "ctlz", TrailingZeros "cttz",
    }
    Shape::IntegerCompare => {
        SignedCompare "scmp", UnsignedCompare "ucmp",
    }
    Shape::IntegerWithOverflow => {
        SignedAddWithOverflow "sadd.with.overflow", UnsignedAddWithOverflow "uadd.with.overflow",
        SignedSubWithOverflow "ssub.with.overflow", UnsignedSubWithOverflow "usub.with.overflow",
        SignedMulWithOverflow "smul.with.overflow", UnsignedMulWithOverflow "umul.with.overflow",
    }
    Shape::Floats(1) => {
        Canonicalize "canonicalize", Ceil "ceil", FloatAbs "fabs", Floor "floor", NearbyInt "nearbyint", Rint "rint",
        Round "round", RoundEven "roundeven", SquareRoot "sqrt", Truncate "trunc",
        // An approximation of 1/sqrt(x), to be made better: the machine's, or the quotient itself.
        ReciprocalRoot "spirula.reciprocal_root",
        // 1/x likewise.
        Reciprocal "spirula.reciprocal",
        // The same as those of 14 bits below, of one number.
        ReciprocalRootOne14 "spirula.reciprocal_root_14", ReciprocalOne14 "spirula.reciprocal_14",
    }
    Shape::Floats(2) => {
        CopySign "copysign", Maximum "maximum", MaximumNumber "maximumnum", MaxNumber "maxnum",
        Minimum "minimum", MinimumNumber "minimumnum", MinNumber "minnum",
        // m 2^k of an integer k, rounded once; as `transform::scale` says.
        Scale "spirula.scale",
    }
    Shape::Floats(3) => {
        FusedMultiplyAdd "fma", MultiplyAdd "fmuladd",
    }
    Shape::FloatToInteger => {
        FloatToSignedSaturating "fptosi.sat", FloatToUnsignedSaturating "fptoui.sat",
    }
    Shape::FloatClass => {
        IsFloatClass "is.fpclass",
    }
    Shape::IntegerReduction => {
        ReduceAdd "vector.reduce.add", ReduceMul "vector.reduce.mul",
        ReduceAnd "vector.reduce.and", ReduceOr "vector.reduce.or", ReduceXor "vector.reduce.xor",
        ReduceSignedMax "vector.reduce.smax", ReduceSignedMin "vector.reduce.smin",
        ReduceUnsignedMax "vector.reduce.umax", ReduceUnsignedMin "vector.reduce.umin",
    }
    Shape::FloatReduction => {
        ReduceMaxNumber "vector.reduce.fmax", ReduceMinNumber "vector.reduce.fmin",
        ReduceMaximum "vector.reduce.fmaximum", ReduceMinimum "vector.reduce.fminimum",
    }
    Shape::FloatSum => {
        ReduceFloatAdd "vector.reduce.fadd", ReduceFloatMul "vector.reduce.fmul",
    }
    Shape::MaskedRegister => {
        // AVX-512's approximations of 1/sqrt(x) and 1/x, to 14 bits.
        ReciprocalRoot14 "x86.avx512.rsqrt14.ps.512", ReciprocalRoot14OfDoubles "x86.avx512.rsqrt14.pd.512",
        Reciprocal14 "x86.avx512.rcp14.ps.512", Reciprocal14OfDoubles "x86.avx512.rcp14.pd.512",
    }
    Shape::RoundedRegisters => {
        // AVX-512's m 2^k, of an integer k.
        ScaleFloats "x86.avx512.mask.scalef.ps.512", ScaleDoubles "x86.avx512.mask.scalef.pd.512",
    }
    Shape::Lookup => {
        // As `transform::lookups` says.
        Lookup "spirula.lookup",
    }
    Shape::Permutation => {
        // AVX-512's.
        PermuteBytes "x86.avx512.permvar.qi.512", PermuteShorts "x86.avx512.permvar.hi.512",
        PermuteInts "x86.avx512.permvar.si.512", PermuteLongs "x86.avx512.permvar.di.512",
    }
    Shape::PermutationOfTwo => {
        PermuteTwoOfBytes "x86.avx512.vpermi2var.qi.512", PermuteTwoOfShorts "x86.avx512.vpermi2var.hi.512",
        PermuteTwoOfInts "x86.avx512.vpermi2var.d.512", PermuteTwoOfLongs "x86.avx512.vpermi2var.q.512",
    }
    Shape::Copy => {
        CopyMemory "memcpy", MoveMemory "memmove",
    }
    Shape::Fill => {
        FillMemory "memset",
    }
    Shape::Prefetch => {
        Prefetch "prefetch",
    }
    Shape::SpaceTest => {
        // Whether a pointer leads into the group's local memory, into a work-item's private memory. Kernels only.
        IsLocal "spirula.is_local", IsPrivate "spirula.is_private",
    }
}

impl Intrinsic {
    /// What it does.
    pub fn effects(self) -> Effects {
        match self.shape() {
            Shape::Copy => Effects { reads: true, writes: true, traps: false },
            Shape::Fill | Shape::Prefetch => Effects { reads: false, writes: true, traps: false },
            _ => Effects::NONE,
        }
    }

    /// Whether it works on each lane of a vector by itself, so that it takes vectors over work-items as it takes scalars.
    pub fn is_elementwise(self) -> bool {
        use Shape::*;
        let shape = self.shape();
        matches!(shape, Integers(_) | Floats(_) | IntegerAndFlag | FloatToInteger | FloatClass)
            || matches!(shape, IntegerCompare | SpaceTest)
    }

    /// Whether that operand is a constant that belongs to the operation and is the same for all lanes.
    pub fn is_constant_operand(self, number: usize) -> bool {
        match self.shape() {
            Shape::IntegerAndFlag | Shape::FloatClass => number == 1,
            Shape::MaskedRegister => number == 2,
            Shape::RoundedRegisters => number >= 3,
            Shape::Copy | Shape::Fill => number == 3,
            Shape::Prefetch => number > 0,
            _ => false,
        }
    }

    /// Whether it is of our own making or one machine's: no module that comes from outside has it.
    pub fn is_internal(self) -> bool {
        use Intrinsic::*;
        matches!(self, ReciprocalRoot | ReciprocalRoot14 | ReciprocalRoot14OfDoubles | ReciprocalRootOne14)
            || matches!(self, Reciprocal | Reciprocal14 | Reciprocal14OfDoubles | ReciprocalOne14)
            || matches!(self, Scale | ScaleFloats | ScaleDoubles | IsLocal | IsPrivate)
            || matches!(self.shape(), Shape::Lookup | Shape::Permutation | Shape::PermutationOfTwo)
    }

    /// Whether it only tells the machine something and may be left out.
    pub fn is_hint(self) -> bool {
        self == Intrinsic::Prefetch
    }

    /// Checks what it is given and yields; `None` as `result` is none. Says what doesn't fit.
    pub fn check(self, result: Option<&Type>, operands: &[&Type]) -> Result<(), String> {
        if self.fits(result, operands) {
            return Ok(());
        }
        let types = operands.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
        let result = result.map_or("nothing".into(), Type::to_string);
        Err(format!("{} doesn't take ({types}) and yield {result}", self.name()))
    }

    fn fits(self, result: Option<&Type>, operands: &[&Type]) -> bool {
        let is_integer = |ty: &Type| matches!(ty.scalar(), Some(Scalar::Int(_)));
        let is_pointer = |ty: &Type| ty.address_space().is_some();
        let is_size = |ty: &Type| matches!(ty, Type::Scalar(Scalar::Int(_)));
        let same_lanes = |a: &Type, b: &Type| a.lane_count() == b.lane_count();
        let lanes_of = |vector: &Type| match vector {
            Type::Vector(scalar, _) => Some(Type::Scalar(*scalar)),
            _ => None,
        };
        let is_register =
            |ty: &Type| matches!(ty, Type::Vector(Scalar::Int(bits), lanes) if bits * lanes == 512);
        match (self.shape(), result, operands) {
            (Shape::Integers(n), Some(ty), _) => {
                is_integer(ty) && operands.len() == n as usize && operands.iter().all(|o| *o == ty)
            }
            (Shape::Floats(n), Some(ty), _) => {
                ty.is_float() && operands.len() == n as usize && operands.iter().all(|o| *o == ty)
            }
            (Shape::IntegerAndFlag, Some(ty), [x, flag]) => {
                is_integer(ty) && *x == ty && **flag == Type::BOOL
            }
            (Shape::FloatToInteger, Some(ty), [x]) => is_integer(ty) && x.is_float() && same_lanes(ty, x),
            (Shape::FloatClass, Some(ty), [x, class]) => {
                x.is_float() && *ty == x.with_scalar(Scalar::Int(1)) && **class == Type::I32
            }
            (Shape::IntegerCompare, Some(ty), [x, y]) => {
                is_integer(ty) && is_integer(x) && x == y && same_lanes(ty, x)
            }
            (Shape::IntegerWithOverflow, Some(Type::Struct(fields)), [x, y]) => {
                let flag = x.with_scalar(Scalar::Int(1));
                is_integer(x) && x == y && fields.len() == 2 && fields[0] == **x && fields[1] == flag
            }
            (Shape::IntegerReduction, Some(ty), [x]) => is_integer(ty) && lanes_of(x).as_ref() == Some(ty),
            (Shape::FloatReduction, Some(ty), [x]) => ty.is_float() && lanes_of(x).as_ref() == Some(ty),
            (Shape::FloatSum, Some(ty), [start, x]) => {
                ty.is_float() && *start == ty && lanes_of(x).as_ref() == Some(ty)
            }
            (Shape::MaskedRegister, Some(ty @ Type::Vector(scalar, lanes)), [x, rest, mask]) => {
                let is_register = ty.is_float() && scalar.bits() as u32 * lanes == 512;
                is_register && *x == ty && *rest == ty && **mask == Type::int(*lanes)
            }
            (Shape::RoundedRegisters, Some(ty @ Type::Vector(scalar, lanes)), [x, y, rest, mask, how]) => {
                let is_register = ty.is_float() && scalar.bits() as u32 * lanes == 512;
                let fits = [x, y, rest].iter().all(|operand| **operand == ty);
                is_register && fits && **mask == Type::int(*lanes) && **how == Type::I32
            }
            (Shape::Lookup, Some(Type::Vector(scalar, _)), [index, table]) => {
                let is_table = |ty: &Type| matches!(ty, Type::Vector(of, count) if of == scalar && count.is_power_of_two());
                is_integer(index) && result == Some(*index) && is_table(table)
            }
            (Shape::Permutation, Some(ty), [elements, index]) => {
                is_register(ty) && *elements == ty && *index == ty
            }
            (Shape::PermutationOfTwo, Some(ty), [low, index, high]) => {
                is_register(ty) && [low, index, high].iter().all(|operand| **operand == ty)
            }
            (Shape::Copy, None, [to, from, size, volatile]) => {
                is_pointer(to) && is_pointer(from) && is_size(size) && **volatile == Type::BOOL
            }
            (Shape::Fill, None, [to, byte, size, volatile]) => {
                is_pointer(to) && **byte == Type::int(8) && is_size(size) && **volatile == Type::BOOL
            }
            (Shape::Prefetch, None, [place, constants @ ..]) => {
                is_pointer(place) && constants.len() == 3 && constants.iter().all(|c| **c == Type::I32)
            }
            (Shape::SpaceTest, Some(ty), [pointer]) => {
                matches!(pointer.scalar(), Some(Scalar::Pointer(_)))
                    && *ty == pointer.with_scalar(Scalar::Int(1))
            }
            _ => false,
        }
    }

    /// The types that tell instances apart, in the order of LLVM's names: `fptosi.sat` of a double as an i32 is i32, f64.
    pub fn instance<'t>(self, result: Option<&'t Type>, operands: &[&'t Type]) -> Vec<&'t Type> {
        let operand = |n: usize| operands.get(n).copied();
        let types: [Option<&Type>; 3] = match self.shape() {
            Shape::Integers(_) | Shape::Floats(_) | Shape::IntegerAndFlag => [result, None, None],
            Shape::FloatToInteger | Shape::IntegerCompare => [result, operand(0), None],
            Shape::FloatSum => [operand(1), None, None],
            Shape::Lookup => [result, operand(1), None],
            Shape::MaskedRegister
            | Shape::RoundedRegisters
            | Shape::Permutation
            | Shape::PermutationOfTwo => [None; 3],
            Shape::Copy => [operand(0), operand(1), operand(2)],
            Shape::Fill => [operand(0), operand(2), None],
            Shape::FloatClass
            | Shape::IntegerWithOverflow
            | Shape::IntegerReduction
            | Shape::FloatReduction
            | Shape::SpaceTest
            | Shape::Prefetch => [operand(0), None, None],
        };
        types.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: Type = Type::Scalar(Scalar::Float);
    const F32X4: Type = Type::Vector(Scalar::Float, 4);

    #[test]
    fn names_differ_and_lead_back() {
        for &intrinsic in Intrinsic::ALL {
            assert_eq!(Intrinsic::from_name(intrinsic.name()), Some(intrinsic));
        }
    }

    #[test]
    fn operands_have_to_fit_the_shape() {
        let fma = Intrinsic::FusedMultiplyAdd;
        assert_eq!(fma.check(Some(&F32X4), &[&F32X4, &F32X4, &F32X4]), Ok(()));
        let error = fma.check(Some(&F32), &[&F32, &F32]).unwrap_err();
        assert_eq!(error, "fma doesn't take (f32, f32) and yield f32");
        assert!(fma.check(Some(&Type::I32), &[&Type::I32; 3]).is_err());
        let reduce = Intrinsic::ReduceFloatAdd;
        assert_eq!(reduce.check(Some(&F32), &[&F32, &F32X4]), Ok(()));
        assert!(reduce.check(Some(&F32), &[&F32, &F32]).is_err());
    }

    #[test]
    fn only_memory_intrinsics_have_effects() {
        let active: Vec<&str> =
            Intrinsic::ALL.iter().filter(|i| !i.effects().is_pure()).map(|i| i.name()).collect();
        assert_eq!(active, ["memcpy", "memmove", "memset", "prefetch"]);
    }

    #[test]
    fn an_instance_is_named_by_what_varies() {
        let double = Type::Scalar(Scalar::Double);
        let saturating = Intrinsic::FloatToSignedSaturating;
        assert_eq!(saturating.instance(Some(&Type::I32), &[&double]), [&Type::I32, &double]);
        let pointer = Type::PRIVATE_POINTER;
        let copy = Intrinsic::CopyMemory.instance(None, &[&pointer, &pointer, &Type::I64, &Type::BOOL]);
        assert_eq!(copy, [&pointer, &pointer, &Type::I64]);
    }
}
