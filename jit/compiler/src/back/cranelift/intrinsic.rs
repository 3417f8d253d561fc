//! The baseline's back end: intrinsics that legalization leaves.

use super::function::Translator;
use super::types::{clif, scalar};
use super::{BaselineError, illegal};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I32;
use cranelift_codegen::ir::{InstBuilder, Value as ClifValue};
use spirula_kir::{Intrinsic, Op, Value};

impl Translator<'_> {
    /// What it yields, if anything.
    pub(super) fn intrinsic(
        &mut self,
        op: &Op,
        result: Option<Value>,
    ) -> Result<Vec<ClifValue>, BaselineError> {
        let Op::Intrinsic { intrinsic, arguments, .. } = op else { return Err(illegal("an intrinsic")) };
        let intrinsic = *intrinsic;
        if intrinsic == Intrinsic::Prefetch {
            return Ok(Vec::new());
        }
        let operands = (0..arguments.len()).filter(|&number| !intrinsic.is_constant_operand(number));
        let operands = operands.map(|number| self.get(arguments[number]));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        match (intrinsic, &operands[..]) {
            (Intrinsic::CopyMemory, _) => return self.call("memcpy", &operands).map(|_| Vec::new()),
            (Intrinsic::MoveMemory, _) => return self.call("memmove", &operands).map(|_| Vec::new()),
            (Intrinsic::FillMemory, &[place, byte, size]) => {
                let byte = self.out.ins().uextend(I32, byte);
                return self.call("memset", &[place, byte, size]).map(|_| Vec::new());
            }
            _ => {}
        }
        let Some(result) = result else { return Err(illegal(intrinsic.name())) };
        if let [x, y] = operands[..]
            && let Some(pair) = self.with_overflow(intrinsic, x, y)
        {
            return Ok(pair.to_vec());
        }
        let value = match operands[..] {
            [x] => self.of_one(intrinsic, x, result)?,
            [x, y] => self.of_two(intrinsic, x, y)?,
            [x, y, z] if intrinsic == Intrinsic::FusedMultiplyAdd => self.out.ins().fma(x, y, z),
            _ => return Err(illegal(intrinsic.name())),
        };
        Ok(vec![value])
    }

    fn of_one(
        &mut self,
        intrinsic: Intrinsic,
        x: ClifValue,
        result: Value,
    ) -> Result<ClifValue, BaselineError> {
        use Intrinsic::*;
        match intrinsic {
            FloatToSignedSaturating | FloatToUnsignedSaturating => {
                let to = scalar(self.function, result)?;
                if clif(to)?.bits() < 32 {
                    return Err(illegal(intrinsic.name()));
                }
                return self.int_of(intrinsic == FloatToSignedSaturating, x, to);
            }
            ReciprocalRootOne14 | ReciprocalOne14 => {
                let is_double = scalar(self.function, result)? == spirula_kir::Scalar::Double;
                let name = match (intrinsic, is_double) {
                    (ReciprocalRootOne14, true) => "spirula.rsqrt14.f64",
                    (ReciprocalRootOne14, false) => "spirula.rsqrt14",
                    (_, true) => "spirula.rcp14.f64",
                    (_, false) => "spirula.rcp14",
                };
                return Ok(self.call(name, &[x])?[0]);
            }
            Canonicalize => {
                // As the product with one: quiets.
                let one = match scalar(self.function, result)? {
                    spirula_kir::Scalar::Float => self.out.ins().f32const(1.0),
                    _ => self.out.ins().f64const(1.0),
                };
                return Ok(self.out.ins().fmul(x, one));
            }
            _ => {}
        }
        let out = self.out.ins();
        Ok(match intrinsic {
            BitReverse => out.bitrev(x),
            ByteSwap => out.bswap(x),
            PopCount => out.popcnt(x),
            LeadingZeros => out.clz(x),
            TrailingZeros => out.ctz(x),
            Abs => out.iabs(x),
            FloatAbs => out.fabs(x),
            Ceil => out.ceil(x),
            Floor => out.floor(x),
            Truncate => out.trunc(x),
            Rint | NearbyInt | RoundEven => out.nearest(x),
            SquareRoot => out.sqrt(x),
            other => return Err(illegal(other.name())),
        })
    }

    fn of_two(
        &mut self,
        intrinsic: Intrinsic,
        x: ClifValue,
        y: ClifValue,
    ) -> Result<ClifValue, BaselineError> {
        use Intrinsic::*;
        let condition = match intrinsic {
            SignedMax => Some(IntCC::SignedGreaterThan),
            SignedMin => Some(IntCC::SignedLessThan),
            UnsignedMax => Some(IntCC::UnsignedGreaterThan),
            UnsignedMin => Some(IntCC::UnsignedLessThan),
            _ => None,
        };
        if let Some(condition) = condition {
            let first = self.out.ins().icmp(condition, x, y);
            return Ok(self.select(first, x, y));
        }
        let out = self.out.ins();
        Ok(match intrinsic {
            CopySign => out.fcopysign(x, y),
            Maximum => out.fmax(x, y),
            Minimum => out.fmin(x, y),
            other => return Err(illegal(other.name())),
        })
    }

    /// The value and whether it is another than it should be.
    fn with_overflow(&mut self, intrinsic: Intrinsic, x: ClifValue, y: ClifValue) -> Option<[ClifValue; 2]> {
        use Intrinsic::*;
        let out = self.out.ins();
        let (value, overflows) = match intrinsic {
            SignedAddWithOverflow => out.sadd_overflow(x, y),
            UnsignedAddWithOverflow => out.uadd_overflow(x, y),
            SignedSubWithOverflow => out.ssub_overflow(x, y),
            UnsignedSubWithOverflow => out.usub_overflow(x, y),
            SignedMulWithOverflow => out.smul_overflow(x, y),
            UnsignedMulWithOverflow => out.umul_overflow(x, y),
            _ => return None,
        };
        Some([value, overflows])
    }
}
