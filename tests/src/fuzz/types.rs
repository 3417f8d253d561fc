//! Random kernels: the types of their variables.

use crate::mutate::Random;

/// A scalar type of OpenCL C, or a vector of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ty {
    pub base: Base,
    /// 1 for a scalar.
    pub lanes: usize,
}

/// The scalar types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Base {
    UChar,
    Char,
    UShort,
    Short,
    UInt,
    Int,
    ULong,
    Long,
    Float,
    Double,
}

use Base::*;

/// The common ones more often.
const SCALARS: [Base; 16] =
    [UInt, UInt, UInt, Int, Int, Int, Float, Float, Float, UChar, Char, UShort, Short, ULong, Long, Double];

impl Base {
    pub fn name(self) -> &'static str {
        ["uchar", "char", "ushort", "short", "uint", "int", "ulong", "long", "float", "double"][self as usize]
    }

    pub fn bits(self) -> usize {
        [8, 8, 16, 16, 32, 32, 64, 64, 32, 64][self as usize]
    }

    pub fn is_float(self) -> bool {
        matches!(self, Float | Double)
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Char | Short | Int | Long)
    }

    /// The integer type of this width without a sign.
    pub fn unsigned(self) -> Base {
        match self.bits() {
            8 => UChar,
            16 => UShort,
            32 => UInt,
            _ => ULong,
        }
    }
}

impl Ty {
    pub const UINT: Ty = Ty { base: UInt, lanes: 1 };

    pub fn scalar(base: Base) -> Ty {
        Ty { base, lanes: 1 }
    }

    pub fn any_scalar(random: &mut Random) -> Ty {
        Ty::scalar(SCALARS[random.below(SCALARS.len())])
    }

    pub fn any_vector(random: &mut Random) -> Ty {
        let lanes = [2, 2, 3, 4, 4, 4, 8, 16][random.below(8)];
        Ty { lanes, ..Ty::any_scalar(random) }
    }

    pub fn name(self) -> String {
        if self.lanes == 1 {
            self.base.name().to_string()
        } else {
            format!("{}{}", self.base.name(), self.lanes)
        }
    }

    pub fn with_base(self, base: Base) -> Ty {
        Ty { base, ..self }
    }
}
