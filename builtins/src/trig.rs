//! Trigonometric functions. The argument becomes quarter turns: x 2/π = k + r with |r| <= 1/2; k modulo 4 chooses
//! between the polynomials of sine and cosine and their signs.
//!
//! Up to 2^16, k π/2 is taken from a float in three parts (Cody and Waite). Beyond, 2/π is kept as two doubles for
//! each binary exponent of x, without the leading bits that only add multiples of four quarter turns: the first has 28
//! bits, so that its product with x is exact, the second 53 more. r is then good to 2^-56 for every float, however
//! large (the idea is Payne and Hanek's).

use crate::exp::{ROUND, ROUND_SINGLE};
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::f64::consts::FRAC_PI_2;
use std::hint::select_unpredictable;

/// sin(r π/2) / r over r²; relative error 2^-47.
const SIN: [f64; 6] = [
    FRAC_PI_2,
    -0.6459640975043052,
    0.07969262615560159,
    -0.004681752589609857,
    0.00016042925554202335,
    -3.556369371360422e-06,
];

/// cos(r π/2) over r²; relative error 2^-43.
const COS: [f64; 6] = [
    0.9999999999999443,
    -1.2337005501201272,
    0.2536695071525108,
    -0.0208634679869731,
    0.0009191616584395563,
    -2.485082381773045e-05,
];

/// A place on the circle: quarter turns, their low two bits in `quadrant`, and the rest.
#[derive(Clone, Copy)]
struct Angle {
    quadrant: u64,
    rest: f64,
}

/// The angle of so many quarter turns (below 2^50).
#[inline(always)]
fn angle(turns: f64) -> Angle {
    let shifted = turns + ROUND;
    Angle { quadrant: shifted.to_bits(), rest: turns - (shifted - ROUND) }
}

/// x radians.
#[inline(always)]
fn radians(x: f32) -> Single {
    let near = near_radians(x);
    // Behind a branch, which code for several work-items at once takes only if one of them needs it.
    if x.abs() > NEAR { far_radians(x).single() } else { near }
}

#[inline(always)]
fn far_radians(x: f32) -> Angle {
    let exponent = (x.to_bits() >> 23) as usize & 0xFF;
    let (high, low) = TWO_OVER_PI[exponent.saturating_sub(152) & 127];
    let first = angle(f64::from(x) * high);
    let second = angle(f64::from(x).mad(low, first.rest));
    Angle { quadrant: first.quadrant.wrapping_add(second.quadrant), ..second }
}

/// |x| half turns. Numbers from 2^25 on are even.
#[inline(always)]
fn half_turns(x: f32) -> Angle {
    let turns = if x.abs() < 33554432.0 { 2.0 * f64::from(x.abs()) } else { 0.0 };
    let turns = if x.is_finite() { turns } else { f64::NAN };
    angle(turns)
}

/// (sin x / x - 1) / x² over x² for |x| <= π/4, and (cos x - 1) / x². The sine's relative error is 2^-29.6 up to 0.53, where
/// a result below 1/2 has smaller units than x, and 2^-26.3 beyond; the cosine's 2^-33.
const SIN_SINGLE: [f32; 3] = [-0.16666661, 0.008332598, -0.00019569953];
const COS_SINGLE: [f32; 4] = [-0.5, 0.041666646, -0.0013887308, 2.4432093e-05];

/// (tan x / x - 1) / x² over x² likewise; the tangent's relative error is 2^-28.
const TAN_SINGLE: [f32; 7] =
    [0.33333334, 0.13333207, 0.053998288, 0.021596529, 0.01003594, 0.0010817517, 0.0038981086];

/// An angle whose rest is in radians, in float.
#[derive(Clone, Copy)]
struct Single {
    quadrant: u32,
    rest: f32,
    /// What the rest misses, for half turns, and for tangents: near π/4 they err by 1.6 times as much.
    low: f32,
}

impl Single {
    #[inline(always)]
    fn sin_of_rest(self) -> f32 {
        let square = self.rest * self.rest;
        // (The rest's cube would be a denormal number sooner, and those take a hundred cycles.)
        let value = self.rest.mad(square * polynomial(square, SIN_SINGLE), self.rest);
        // -0 and the product, which is 0, have the sum 0.
        f32::from_bits(value.to_bits() | (self.rest.to_bits() & (1 << 31)))
    }

    #[inline(always)]
    fn cos_of_rest(self) -> f32 {
        let square = self.rest * self.rest;
        square.mad(polynomial(square, COS_SINGLE), 1.0)
    }

    /// Both: of the polynomials each is one of them. Neither has a branch of its own, in which half of the lanes would wait.
    #[inline(always)]
    fn sin_cos(self) -> (f32, f32) {
        self.turned(self.sin_of_rest(), self.cos_of_rest())
    }

    /// Sine and cosine from those of the rest.
    #[inline(always)]
    fn turned(self, sin: f32, cos: f32) -> (f32, f32) {
        let values =
            [select_unpredictable(self.is_even(), sin, cos), select_unpredictable(self.is_even(), cos, sin)];
        let signed = |value: f32, quadrant: u32| f32::from_bits(value.to_bits() ^ ((quadrant & 2) << 30));
        (signed(values[0], self.quadrant), signed(values[1], self.quadrant.wrapping_add(1)))
    }

    /// The tangent of the rest as what it is more than the rest. What `low` adds is multiplied by 1 + r² if `weighed`, which comes nearer to the derivative.
    #[inline(always)]
    fn tan_above_rest(self, weighed: bool) -> f32 {
        let square = self.rest * self.rest;
        let low = if weighed { square.mad(self.low, self.low) } else { self.low };
        (self.rest * square).mad(polynomial(square, TAN_SINGLE), low)
    }

    #[inline(always)]
    fn is_even(self) -> bool {
        self.quadrant & 1 == 0
    }

    #[inline(always)]
    fn tan(self) -> f32 {
        let tan = self.rest + self.tan_above_rest(false);
        select_unpredictable(self.is_even(), tan, -1.0 / tan)
    }

    /// The same within 1.5 ULP, for a fifth more: the inverse gets what the tangent was rounded by.
    #[inline(always)]
    fn tan_rounded_once(self) -> f32 {
        let above = self.tan_above_rest(true);
        let tan = self.rest + above;
        let low = above - (tan - self.rest);
        let inverse = -1.0 / tan;
        select_unpredictable(self.is_even(), tan, (inverse * inverse).mad(low, inverse))
    }
}

/// π/2 in parts of 24 bits, none of them too large, so that zeros keep their sign.
const FRAC_PI_2_PARTS: [f32; 3] = [std::f32::consts::FRAC_PI_2.next_down(), 7.549_789_4e-8, 5.390_302_5e-15];

/// π/2 in float, and what that misses.
const FRAC_PI_2_NEAREST: f32 = std::f32::consts::FRAC_PI_2;
const FRAC_PI_2_REST: f32 = -4.371139e-8;

/// Up to here the first part's product is taken off exactly, and the third's is too small to round the rest a second time.
const NEAR: f32 = 65536.0;

/// x - k p in double, for a p in parts of 24 bits and a k of 17: only the last steps round.
#[inline(always)]
fn wide_remainder(x: f32, k: f32, parts: [f32; 3]) -> f64 {
    let ([first, second, third], k) = (parts.map(f64::from), f64::from(k));
    (f64::from(x) - k * first) - (k * second + k * third)
}

/// The same in float. A zero keeps its sign.
#[inline(always)]
pub(crate) fn remainder(x: f32, k: f32, parts: [f32; 3]) -> f32 {
    if cfg!(feature = "unfused") {
        return wide_remainder(x, k, parts) as f32;
    }
    parts.iter().fold(x, |rest, part| (-k).mad(*part, rest))
}

/// x radians, up to there.
#[inline(always)]
fn near_radians(x: f32) -> Single {
    let shifted = x.mad(std::f32::consts::FRAC_2_PI, ROUND_SINGLE);
    let k = shifted - ROUND_SINGLE;
    Single { quadrant: shifted.to_bits(), rest: remainder(x, k, FRAC_PI_2_PARTS), low: 0.0 }
}

/// The same with what the rest misses.
#[inline(always)]
fn near_radians_exact(x: f32) -> Single {
    let [first, second, third] = FRAC_PI_2_PARTS;
    let shifted = x.mad(std::f32::consts::FRAC_2_PI, ROUND_SINGLE);
    let k = shifted - ROUND_SINGLE;
    // (The signs are such that a zero keeps its own.)
    if cfg!(feature = "unfused") {
        let exact = wide_remainder(x, k, FRAC_PI_2_PARTS);
        let rest = exact as f32;
        return Single { quadrant: shifted.to_bits(), rest, low: -(f64::from(rest) - exact) as f32 };
    }
    let before = (-k).mad(first, x);
    let rest = (-k).mad(second, before);
    // The difference is exact where the rest is larger than the second product, which is at most 0.0032. Of a smaller one the
    // rounding is small, too.
    let missed = k.mad(second, rest - before);
    let missed = select_unpredictable(rest.abs() > 0.0078125, missed, 0.0);
    Single { quadrant: shifted.to_bits(), rest, low: -(k.mad(third, missed)) }
}

/// tan x of x radians.
#[inline(always)]
fn tan(x: f32) -> f32 {
    let near = near_radians_exact(x);
    let angle = if x.abs() > NEAR { far_radians(x).single() } else { near };
    angle.tan()
}

/// |x| half turns. Quarter turns and their rest, which comes second, are exact in float.
#[inline(always)]
fn half_turns_single(x: f32) -> (Single, f32) {
    let size = x.abs();
    let turns = 2.0 * (-2.0f32).mad((0.5 * size).trunc(), size);
    let shifted = turns + ROUND_SINGLE;
    let (quadrant, turns) = (shifted.to_bits(), turns - (shifted - ROUND_SINGLE));
    let rest = turns * FRAC_PI_2_NEAREST;
    let low = turns.mad(FRAC_PI_2_REST, turns.missed(FRAC_PI_2_NEAREST, rest));
    (Single { quadrant, rest, low }, turns)
}

/// tan(π |x|), with the signs of zeros and poles that OpenCL asks for.
#[inline(always)]
fn tan_half_turns(x: f32) -> f32 {
    let (angle, turns) = half_turns_single(x);
    let edge = select_unpredictable(angle.is_even(), 0.0f32, f32::INFINITY);
    let edge = f32::from_bits(edge.to_bits() | (angle.quadrant & 2) << 30);
    select_unpredictable(turns == 0.0, edge, angle.tan_rounded_once())
}

impl Angle {
    #[inline(always)]
    fn single(self) -> Single {
        let exact = self.rest * FRAC_PI_2;
        let rest = exact as f32;
        Single { quadrant: self.quadrant as u32, rest, low: (exact - f64::from(rest)) as f32 }
    }

    #[inline(always)]
    fn sin_of_rest(self) -> f64 {
        self.rest * polynomial(self.rest * self.rest, SIN)
    }

    #[inline(always)]
    fn cos_of_rest(self) -> f64 {
        polynomial(self.rest * self.rest, COS)
    }

    #[inline(always)]
    fn sin(self) -> f64 {
        let value = if self.quadrant & 1 == 0 { self.sin_of_rest() } else { self.cos_of_rest() };
        f64::from_bits(value.to_bits() ^ ((self.quadrant & 2) << 62))
    }
}

/// sin(π |x|).
#[inline(always)]
pub(crate) fn sin_half_turns(x: f32) -> f64 {
    half_turns(x).sin()
}

export! {
    /// The bits of sin and, above them, of cos; 4 ULP allowed for each. Who asks for both gets them from one call.
    spirula_sincos_f32(x: f32) -> u64 = {
        let (sin, cos) = radians(x).sin_cos();
        u64::from(sin.to_bits()) | u64::from(cos.to_bits()) << 32
    };
    /// tan; 5 ULP allowed.
    spirula_tan_f32(x: f32) -> f32 = tan(x);
    /// tanpi; 6 ULP allowed.
    spirula_tanpi_f32(x: f32) -> f32 = odd(tan_half_turns(x), x);
}

/// The value for -x from that for |x|, of an odd function.
#[inline(always)]
fn odd(value: f32, x: f32) -> f32 {
    f32::from_bits(value.to_bits() ^ (x.to_bits() & (1 << 31)))
}

/// 2/π without multiples of 2^(25 - e), for the float exponents e from 25 on; 25 serves all below. The last rows,
/// of infinity and no exponent, only keep NaN.
static TWO_OVER_PI: [(f64, f64); 128] = [
    (0.6366197690367699, 3.330811476132176e-09),
    (0.13661977089941502, 1.4681663269012186e-09),
    (0.1366197718307376, 5.368437522857402e-10),
    (0.011619772296398878, 7.118246497800087e-11),
    (0.011619772296398878, 7.118246497800087e-11),
    (0.011619772296398878, 7.118246497800087e-11),
    (0.011619772354606539, 1.2974804064533467e-11),
    (0.003807272354606539, 1.2974804064533467e-11),
    (0.003807272354606539, 1.2974804064533467e-11),
    (0.0018541473618824966, 5.6988464503500404e-12),
    (0.0008775848655204754, 2.060867643258328e-12),
    (0.00038930361733946484, 2.418782397124712e-13),
    (0.00014516299233946484, 2.418782397124712e-13),
    (2.3092679839464836e-05, 2.418782397124712e-13),
    (2.309268006683851e-05, 1.4504564269239186e-14),
    (2.309268006683851e-05, 1.4504564269239186e-14),
    (7.833891004338511e-06, 1.4504564269239186e-14),
    (2.0449647308851127e-07, 1.4504564269239186e-14),
    (2.0449648729936598e-07, 2.93709554037182e-16),
    (2.0449648729936598e-07, 2.93709554037182e-16),
    (2.0449648729936598e-07, 2.93709554037182e-16),
    (2.0449648729936598e-07, 2.93709554037182e-16),
    (2.0449648729936598e-07, 2.93709554037182e-16),
    (8.528719774858473e-08, 2.93709554037182e-16),
    (2.568255319523871e-08, 7.166494911215068e-17),
    (2.568255319523871e-08, 7.166494911215068e-17),
    (1.0781392056902206e-08, 1.6153797880892852e-17),
    (3.330811459978378e-09, 1.6153797880892852e-17),
    (3.3308114738561656e-09, 2.276010073078396e-18),
    (1.4681663246252086e-09, 2.276010073078396e-18),
    (5.368437500097301e-10, 2.276010073078396e-18),
    (7.118246443671428e-11, 5.412865971015893e-19),
    (7.118246443671428e-11, 5.412865971015893e-19),
    (7.118246487039515e-11, 1.0760572810738749e-19),
    (1.2974803956927738e-11, 1.0760572810738749e-19),
    (1.2974803956927738e-11, 1.0760572810738749e-19),
    (1.2974804011137847e-11, 5.339561948311227e-20),
    (5.6988464240594755e-12, 2.6290565170974656e-20),
    (2.0608676305202897e-12, 1.2738038014905852e-20),
    (2.418782337506968e-13, 5.961774436871449e-21),
    (2.418782371388286e-13, 2.573642647854248e-21),
    (2.418782388328945e-13, 8.79576753345647e-22),
    (1.450456423669538e-14, 3.254380609134673e-23),
    (1.450456423669538e-14, 3.254380609134673e-23),
    (1.450456423669538e-14, 3.254380609134673e-23),
    (1.450456423669538e-14, 3.254380609134673e-23),
    (2.937095214933759e-16, 3.254380609134673e-23),
    (2.937095479631555e-16, 6.074026489649846e-24),
    (2.937095479631555e-16, 6.074026489649846e-24),
    (2.937095479631555e-16, 6.074026489649846e-24),
    (2.9370955127187795e-16, 2.7653040394377357e-24),
    (2.9370955292623917e-16, 1.1109428143316804e-24),
    (7.166494882838848e-17, 2.8376220177865265e-25),
    (7.166494882838848e-17, 2.8376220177865265e-25),
    (1.6153797803925804e-17, 7.696704864039572e-26),
    (1.6153797803925804e-17, 7.696704864039572e-26),
    (2.276010047810136e-18, 2.52682603558315e-26),
    (2.276010047810136e-18, 2.52682603558315e-26),
    (2.276010060734833e-18, 1.234356328469044e-26),
    (5.412865912203745e-19, 5.881214749119912e-27),
    (5.412865944515488e-19, 2.6500404813346476e-27),
    (1.0760572707293414e-19, 1.0344533474420156e-27),
    (1.0760572788072771e-19, 2.2665978049569947e-28),
    (1.0760572788072771e-19, 2.2665978049569947e-28),
    (5.339561945840088e-20, 2.471138875912043e-29),
    (2.6290565146263268e-20, 2.471138875912043e-29),
    (1.2738037990194463e-20, 2.471138875912043e-29),
    (5.96177441216006e-21, 2.471138875912043e-29),
    (2.5736426357646335e-21, 1.2089614275584243e-29),
    (8.7957674756692e-22, 5.778727033816148e-30),
    (3.254380346806332e-23, 2.6232834129321014e-30),
    (3.254380504578513e-23, 1.0455616024900778e-30),
    (3.2543805834646035e-23, 2.567006972690659e-31),
    (3.2543805834646035e-23, 2.567006972690659e-31),
    (3.254380603186126e-23, 5.948547096381295e-32),
    (6.0740264301643754e-24, 5.948547096381295e-32),
    (6.074026479468182e-24, 1.018166438749971e-32),
    (6.074026479468182e-24, 1.018166438749971e-32),
    (2.7653040292560713e-24, 1.018166438749971e-32),
    (1.1109428103129918e-24, 4.018688565460554e-33),
    (2.83762200841452e-25, 9.372006544409767e-34),
    (2.83762200841452e-25, 9.372006544409767e-34),
    (7.696704847356705e-26, 1.668286766860824e-34),
    (7.696704847356705e-26, 1.668286766860824e-34),
    (2.5268260189002822e-26, 1.668286766860824e-34),
    (2.526826028529932e-26, 7.053217946672059e-35),
    (1.234356326230651e-26, 2.2383930857039694e-35),
    (5.881214726735981e-27, 2.2383930857039694e-35),
    (2.650040470987779e-27, 1.0346868704619472e-35),
    (1.034453343113678e-27, 4.328337628409359e-36),
    (2.2665977917662736e-28, 1.319072090304303e-36),
    (2.2665977917662736e-28, 1.319072090304303e-36),
    (2.4711388192364726e-29, 5.667557057780389e-37),
    (2.4711388568522918e-29, 1.9059751351490696e-37),
    (2.4711388756602014e-29, 2.5184173833409495e-39),
    (2.4711388756602014e-29, 2.5184173833409495e-39),
    (1.2089614273065826e-29, 2.5184173833409495e-39),
    (5.778727031297731e-30, 2.5184173833409495e-39),
    (2.623283410413684e-30, 2.5184173833409495e-39),
    (1.0455615999716603e-30, 2.5184173833409495e-39),
    (2.567006947506485e-31, 2.5184173833409495e-39),
    (2.5670069622001645e-31, 1.0490494448130901e-39),
    (5.948547064944747e-32, 3.1436547554916045e-40),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
    (1.0, 1.0),
];
