//! Trigonometric functions. The argument less the nearest multiple of π/2 is kept in two doubles. Up to 2^26 the
//! multiple is subtracted with π/2 in three doubles (Cody and Waite's way); beyond, x 2/π is computed modulo 4 in
//! integers from as many bits of 2/π as matter (Payne and Hanek, SIGNUM Newsletter 18, 1983).

use super::exp::{nearest, power_of_two};
use super::pair::{Pair, product, sum};
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::reciprocal::quotient;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// What π/2 has beyond FRAC_PI_2, twice.
const PI_2_SECOND: f64 = 6.123233995736766e-17;
const PI_2_THIRD: f64 = -1.4973849048591698e-33;

/// (sin r - r) / r³ over r² for |r| <= π/4; error 2^-56 / r².
const SIN: [f64; 6] = [
    -0.16666666666666632,
    0.008333333333322323,
    -0.00019841269829731523,
    2.755731366423934e-06,
    -2.505075363479296e-08,
    1.5896527113099536e-10,
];

/// (cos r - 1 + r²/2) / r⁴ over r²; error 2^-59 / r⁴.
const COS: [f64; 6] = [
    0.0416666666666666,
    -0.0013888888888874001,
    2.4801587289401564e-05,
    -2.755731432802981e-07,
    2.0875719840829864e-09,
    -1.135946379284175e-11,
];

/// Quarter turns, modulo 4 in the low bits, and the rest in radians.
#[derive(Clone, Copy)]
struct Angle {
    quadrant: u32,
    rest: Pair,
}

/// From here on a multiple of π/2 is taken off in integers.
pub(super) const LARGE: f64 = 67108864.0;

/// |x| radians.
#[inline(always)]
fn radians(x: f64) -> Angle {
    let x = x.abs();
    // Both ways would be gone under masks; this one is short, and right or replaced.
    let angle = moderate(x);
    if x < LARGE { angle } else { Angle { quadrant: huge_quadrant(x), rest: huge_rest(x) } }
}

#[inline(always)]
fn moderate(x: f64) -> Angle {
    let (turns, k) = nearest(x * FRAC_2_PI);
    // Exact: both have no bits below 2^-53 and the difference is below 1.
    let first = (-turns).fused(FRAC_PI_2, x);
    let second = product(turns, PI_2_SECOND);
    // The parts may overlap, where `hi` is as small as what it misses: sine and cosine are linear in `lo`.
    let Pair { hi, lo } = sum(first, -second.hi);
    Angle { quadrant: k as u32, rest: Pair { hi, lo: (-turns).mad(PI_2_THIRD, lo - second.lo) } }
}

/// 2/π after a word of zeros, up to the last bits that the largest double needs.
static TWO_OVER_PI: [u64; 32] = [
    0,
    0xA2F9_836E_4E44_1529,
    0xFC27_57D1_F534_DDC0,
    0xDB62_9599_3C43_9041,
    0xFE51_63AB_DEBB_C561,
    0xB724_6E3A_424D_D2E0,
    0x0649_2EEA_09D1_921C,
    0xFE1D_EB1C_B129_A73E,
    0xE882_35F5_2EBB_4484,
    0xE99C_7026_B45F_7E41,
    0x3991_D639_8353_39F4,
    0x9C84_5F8B_BDF9_283B,
    0x1FF8_97FF_DE05_980F,
    0xEF2F_118B_5A0A_6D1F,
    0x6D36_7ECF_27CB_09B7,
    0x4F46_3F66_9E5F_EA2D,
    0x7527_BAC7_EBE5_F17B,
    0x3D07_39F7_8A52_92EA,
    0x6BFB_5FB1_1F8D_5D08,
    0x5603_3046_FC7B_6BAB,
    0xF0CF_BC20_9AF4_361D,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
];

/// Two functions, each of whose results fits registers: no memory of the caller's is in use where it calls neither.
#[cold]
#[inline(never)]
fn huge_quadrant(x: f64) -> u32 {
    huge(x).quadrant
}

#[cold]
#[inline(never)]
fn huge_rest(x: f64) -> Pair {
    huge(x).rest
}

/// sin x and cos x of such numbers, NaN and infinity.
#[cold]
#[inline(never)]
pub(super) fn huge_sine(x: f64) -> f64 {
    huge(x).sin_cos().0
}

#[cold]
#[inline(never)]
pub(super) fn huge_cosine(x: f64) -> f64 {
    huge(x).sin_cos().1
}

#[inline(always)]
fn huge(x: f64) -> Angle {
    if !x.is_finite() {
        return Angle { quadrant: 0, rest: Pair { hi: f64::NAN, lo: 0.0 } };
    }
    // x = mantissa 2^exponent. The window of 192 bits of 2/π begins with the one of weight 2^(1 - exponent), so that
    // the product modulo 2^192 has the quadrant in its two top bits.
    let bits = x.to_bits();
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    let exponent = (bits >> 52) as usize & 0x7FF;
    let start = exponent - 1013;
    let window = |index: usize| {
        let word = |n: usize| TWO_OVER_PI[(start / 64 + n) & 31];
        word(index) << (start % 64) | (word(index + 1) >> 1) >> (63 - start % 64)
    };
    let low = mantissa * u128::from(window(2));
    let middle = mantissa * u128::from(window(1)) + (low >> 64);
    let high = (mantissa as u64).wrapping_mul(window(0)).wrapping_add((middle >> 64) as u64);
    let fraction = u128::from(high) << 66 | (middle as u64 as u128) << 2 | (low as u64 >> 62) as u128;
    // From a half on, count to the next quarter turn.
    let over = fraction >> 127 == 1;
    let size = if over { fraction.wrapping_neg() } else { fraction };
    let zeros = size.leading_zeros();
    let normal = size << (zeros & 127);
    let top = (normal >> 75) as u64 as f64 * power_of_two(-53 - zeros as i32);
    let next = (normal << 53 >> 75) as u64 as f64 * power_of_two(-106 - zeros as i32);
    let radians = Pair { hi: top, lo: next }.times(Pair { hi: FRAC_PI_2, lo: PI_2_SECOND });
    Angle {
        quadrant: (high >> 62) as u32 + over as u32,
        rest: if over { radians.negated() } else { radians },
    }
}

/// |x| half turns: the quarter turns and their rest are exact before it becomes radians.
#[inline(always)]
fn half_turns(x: f64) -> Angle {
    let size = x.abs();
    let turns = 2.0 * (-2.0f64).mad((0.5 * size).trunc(), size);
    let (whole, k) = nearest(turns);
    let rest = turns - whole;
    let Pair { hi, lo } = product(rest, FRAC_PI_2);
    Angle { quadrant: k as u32, rest: Pair { hi, lo: rest.mad(PI_2_SECOND, lo) } }
}

impl Angle {
    #[inline(always)]
    fn sin_of_rest(self) -> f64 {
        let Pair { hi, lo } = self.rest;
        let z = hi * hi;
        hi + (hi * z).mad(polynomial(z, SIN), lo.mad(-0.5 * z, lo))
    }

    #[inline(always)]
    fn cos_of_rest(self) -> f64 {
        let Pair { hi, lo } = self.rest;
        let z = hi * hi;
        let main = z.mad(-0.5, 1.0);
        main + (z * z).mad(polynomial(z, COS), z.mad(-0.5, 1.0 - main) - hi * lo)
    }

    /// Both: of the polynomials each is one of them.
    #[inline(always)]
    fn sin_cos(self) -> (f64, f64) {
        let (sin, cos) = (self.sin_of_rest(), self.cos_of_rest());
        let turned = |even: f64, odd: f64, quadrant: u32| {
            let value = if self.quadrant & 1 == 0 { even } else { odd };
            f64::from_bits(value.to_bits() ^ (u64::from(quadrant & 2) << 62))
        };
        (turned(sin, cos, self.quadrant), turned(cos, sin, self.quadrant.wrapping_add(1)))
    }

    #[inline(always)]
    fn tan(self) -> f64 {
        let (sin, cos) = (self.sin_of_rest(), self.cos_of_rest());
        let (above, below) = if self.quadrant & 1 == 0 { (sin, cos) } else { (-cos, sin) };
        quotient(above, below)
    }

    /// tan with the signs of zeros and poles that `tanpi` asks for.
    #[inline(always)]
    fn tan_exact(self) -> f64 {
        let edge = if self.quadrant & 1 == 0 { 0.0 } else { f64::INFINITY };
        let edge = if self.quadrant & 2 == 0 { edge } else { -edge };
        if self.rest.hi == 0.0 { edge } else { self.tan() }
    }
}

/// The value for -x from that for |x|, of an odd function.
#[inline(always)]
fn odd(value: f64, x: f64) -> f64 {
    f64::from_bits(value.to_bits() ^ (x.to_bits() & (1 << 63)))
}

/// What [`spirula_sincos_f64`] yields.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SineAndCosine {
    /// sin.
    pub sine: f64,
    /// cos.
    pub cosine: f64,
}

export! {
    /// sin and cos; 4 ULP allowed for each. Who asks for both gets them from one call.
    spirula_sincos_f64(x: f64) -> SineAndCosine = {
        let (sine, cosine) = radians(x).sin_cos();
        SineAndCosine { sine: odd(sine, x), cosine }
    };
    /// tan; 5 ULP allowed.
    spirula_tan_f64(x: f64) -> f64 = odd(radians(x).tan(), x);
    /// tanpi; 6 ULP allowed.
    spirula_tanpi_f64(x: f64) -> f64 = odd(half_turns(x).tan_exact(), x);
}
