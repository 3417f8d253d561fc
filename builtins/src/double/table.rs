//! Logarithms and exponentials by tables of sixteen, which AVX-512 has in two registers and looks up by one instruction: what is left is so
//! small that short polynomials do, and no division is needed (Tang, ACM Transactions on Mathematical Software 15 and 16, 1989 and 1990).

use super::log::{LN_2_HIGH, LN_2_LOW, LOG2_E_REST, LOG10_2_HIGH, LOG10_2_LOW};
use super::pair::{Pair, ordered_sum, product};
use crate::exp::ROUND;
use crate::log::{Split, split_from};
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::f64::consts::{LOG2_E, LOG10_E, SQRT_2};

/// Whether such tables are looked up by an instruction: where there are approximations of reciprocals as well.
pub(super) use crate::reciprocal::is_approximated as is_quick;

/// From here on m is in sixteen steps, of which the ninth goes from 1 - 1/64 to 1 + 1/32.
const LEAST: u64 = 0.734375f64.to_bits();

/// About 1/m of each step, with so few bits that m / M - 1 is exact, and 1 around 1; that is below 0.0342.
static INVERSE: [f64; 16] = [
    1.34375, 1.28125, 1.21875, 1.1875, 1.15625, 1.09375, 1.0625, 1.03125, 1.0, 0.9375, 0.890625, 0.84375,
    0.796875, 0.765625, 0.71875, 0.6875,
];

/// Their logarithms with the opposite sign, in multiples of 2^-42, which `LN_2_HIGH` is one of, and the rest.
static LOG_HIGH: [f64; 16] = [
    -0.2954642128938758,
    -0.2478361639045943,
    -0.19782574332998593,
    -0.17185025692674571,
    -0.14518200984457508,
    -0.08961215868976069,
    -0.06062462181648698,
    -0.03077165866670839,
    0.0,
    0.0645385211375924,
    0.11583181552509814,
    0.16989903679541385,
    0.22705745063535687,
    0.2670627852489815,
    0.33024168687052224,
    0.3746934494413381,
];
static LOG_LOW: [f64; 16] = [
    3.993416384387844e-14,
    1.3029797173308663e-14,
    6.604544877082384e-14,
    8.649239607212071e-14,
    7.718001336828099e-14,
    7.355770219435029e-14,
    5.213620639136504e-14,
    -4.529814257790929e-14,
    0.0,
    -2.1225608044809997e-14,
    2.3568822182038756e-14,
    -1.6376276414097503e-14,
    -1.078736749871691e-14,
    6.371947269815667e-14,
    5.4612144489920215e-14,
    7.260466149925637e-14,
];

/// The same for logarithms in other bases.
static LOG2_HIGH: [f64; 16] = [
    -0.4262647547020606,
    -0.3575520046181282,
    -0.2854022188621457,
    -0.24792751344352837,
    -0.2094533656288604,
    -0.12928301694500988,
    -0.0874628412502716,
    -0.04439411935845783,
    0.0,
    0.09310940439149817,
    0.16710998583516812,
    0.2451124978365442,
    0.3275746580284249,
    0.3852901558848316,
    0.47643804394306244,
    0.5405683813626183,
];
static LOG2_LOW: [f64; 16] = [
    -3.733907276649932e-14,
    4.450095846656107e-14,
    -1.02668366941445e-13,
    -5.712484083531846e-14,
    -8.937120568078598e-14,
    4.3421195976986995e-14,
    -6.781363655020842e-14,
    4.390985973169353e-15,
    0.0,
    -1.6703260328550802e-14,
    9.02069790225012e-14,
    -1.275189131300513e-14,
    7.951818330761124e-14,
    -3.983479855974919e-14,
    -7.531150579247643e-14,
    8.443284155858175e-14,
];
static LOG10_HIGH: [f64; 16] = [
    -0.12831847725965417,
    -0.10763387839983807,
    -0.08591462870663236,
    -0.07463361829695714,
    -0.06305174574708872,
    -0.03891806603041914,
    -0.026328938722372186,
    -0.013363961558070514,
    0.0,
    0.02802872360030051,
    0.05030511831137119,
    0.07378621416091846,
    0.09860979788595614,
    0.11598389395544473,
    0.14342214230237005,
    0.16272729749766768,
];
static LOG10_LOW: [f64; 16] = [
    -2.6376941728557574e-14,
    8.549266888283615e-15,
    3.912619221171875e-14,
    5.295754592095892e-14,
    -3.0414152859579186e-16,
    4.948115870926483e-14,
    2.303833573367737e-14,
    8.901202535016551e-14,
    0.0,
    -5.697035970961075e-14,
    2.45838402798293e-14,
    2.023262471821997e-16,
    -5.3353699074522504e-15,
    -7.121804988774013e-14,
    -5.695092715108574e-14,
    3.206228782072406e-14,
];

/// A base of logarithms: those of 2 and e in it, and of `INVERSE`.
struct Base {
    of_2: Pair,
    of_e: Pair,
    high: &'static [f64; 16],
    low: &'static [f64; 16],
}

const BASE_2: Base = Base {
    of_2: Pair { hi: 1.0, lo: 0.0 },
    of_e: Pair { hi: LOG2_E, lo: LOG2_E_REST },
    high: &LOG2_HIGH,
    low: &LOG2_LOW,
};

const BASE_10: Base = Base {
    of_2: Pair { hi: LOG10_2_HIGH, lo: LOG10_2_LOW },
    of_e: Pair { hi: LOG10_E, lo: 1.098319650216765e-17 },
    high: &LOG10_HIGH,
    low: &LOG10_LOW,
};

/// (log(1 + z) - z + z²/2) / z³ for |z| <= 0.0342; error 2^-66 / z².
const LOG: [f64; 9] = [
    0.3333333333333333,
    -0.2499999999999832,
    0.19999999999993798,
    -0.16666666678329706,
    0.14285714309215303,
    -0.12499973133778908,
    0.11111072884304243,
    -0.10025235991953169,
    0.0911902912746171,
];

/// The same; error 2^-60 / z².
const LOG_OF_FEW: [f64; 8] = [
    0.3333333333333259,
    -0.24999999999997438,
    0.20000000007935936,
    -0.16666666682307266,
    0.1428569135487185,
    -0.12499967767606573,
    0.11135993314325841,
    -0.10027483033356363,
];

/// 2^(n/16).
static POWERS: [f64; 16] = [
    1.0,
    1.0442737824274138,
    1.0905077326652577,
    1.1387886347566916,
    1.189207115002721,
    1.241857812073484,
    1.2968395546510096,
    1.3542555469368927,
    SQRT_2,
    1.4768261459394993,
    1.5422108254079407,
    1.6104903319492543,
    1.681792830507429,
    1.7562521603732995,
    1.8340080864093424,
    1.9152065613971474,
];

/// (e^r - 1 - r) / r² for |r| <= ln 2 / 32; error 2^-56 / r².
const EXP: [f64; 5] = [
    0.5000000000000006,
    0.16666666664416938,
    0.041666666659650256,
    0.008333471952512377,
    0.0013889128951289932,
];

/// What added to a number below 2^31 leaves its sixteenths in the sum's lowest bits.
pub(super) const ROUND_TO_SIXTEENTHS: f64 = ROUND / 16.0;

/// A positive normal number as 2^k M (1 + z), of which 2^k m is all but z.
struct Reduced {
    k: f64,
    m: f64,
    z: f64,
    sixteenth: u64,
}

impl Reduced {
    /// What the table has for 1 / M.
    #[inline(always)]
    fn at(&self, table: &[f64; 16]) -> f64 {
        table[(self.sixteenth & 15) as usize]
    }
}

/// Of x / 2^lift.
#[inline(always)]
fn reduced((x, lift): (f64, f64)) -> Reduced {
    let Split { k, m, sixteenth } = split_from::<LEAST>(x, lift);
    let z = m.mad(INVERSE[(sixteenth & 15) as usize], -1.0);
    Reduced { k, m, z, sixteenth }
}

/// log(x) of a positive normal number, within an ULP.
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    log_of_parts(reduced((x, 0.0)), 0.0, 0.0)
}

/// log(u.hi + u.lo) + `doublings` ln 2 for a positive normal u.hi. Around 1, where the logarithm is as small as the whole argument less 1,
/// the first part less 1 is exact.
#[inline(always)]
pub(super) fn log_of_sum(u: Pair, doublings: f64) -> f64 {
    let parts = reduced((u.hi, 0.0));
    // 2^(1 - k): k goes up to 1024.
    let scale = f64::from_bits(2.0f64.to_bits().wrapping_add(parts.m.to_bits()).wrapping_sub(u.hi.to_bits()));
    let rest = 0.5 * u.lo * scale * parts.at(&INVERSE);
    log_of_parts(parts, rest, doublings)
}

/// log(1 + z + rest) + log M + (k + doublings) ln 2.
#[inline(always)]
fn log_of_parts(parts: Reduced, rest: f64, doublings: f64) -> f64 {
    let k = parts.k + doublings;
    let z = parts.z + rest;
    let square = z * z;
    let cubic = (z * square).mad(polynomial(z, LOG_OF_FEW), k.mad(LN_2_LOW, parts.at(&LOG_LOW)));
    k.mad(LN_2_HIGH, parts.at(&LOG_HIGH)) + (parts.z + (rest + square.mad(-0.5, cubic)))
}

/// The logarithm of a positive normal number in the base 2, within two ULP.
#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    log_in(BASE_2, x)
}

/// The same in the base 10.
#[inline(always)]
pub(super) fn log10(x: f64) -> f64 {
    log_in(BASE_10, x)
}

#[inline(always)]
fn log_in(base: Base, x: f64) -> f64 {
    let parts = reduced((x, 0.0));
    let Reduced { k, z, .. } = parts;
    let square = z * z;
    let rest = square.mad(-0.5, z * square * polynomial(z, LOG_OF_FEW));
    let main = product(z, base.of_e.hi);
    let low = k.mad(base.of_2.lo, z.mad(base.of_e.lo, main.lo) + parts.at(base.low));
    k.mad(base.of_2.hi, parts.at(base.high)) + (main.hi + rest.mad(base.of_e.hi, low))
}

/// log(x) of x / 2^lift to 2^-61 or better, whose second part may have bits of the first.
#[inline(always)]
pub(super) fn log_sum_of_positive(lifted: (f64, f64)) -> Pair {
    let parts = reduced(lifted);
    let Reduced { k, z, .. } = parts;
    let square = product(z, z);
    let cubic = z * square.hi * polynomial(z, LOG);
    // The largest parts, without what rounding takes: the first sum is exact.
    let Pair { hi, lo } = ordered_sum(k.mad(LN_2_HIGH, parts.at(&LOG_HIGH)), z);
    let main = square.hi.mad(-0.5, hi);
    let main_lost = square.hi.mad(-0.5, hi - main);
    let small = square.lo.mad(-0.5, k.mad(LN_2_LOW, parts.at(&LOG_LOW)));
    Pair { hi: main, lo: cubic + (small + (lo + main_lost)) }
}

/// e^r 2^f for |r| <= ln 2 / 32, where f is the fraction, in sixteenths, of what was rounded to `shifted`.
#[inline(always)]
pub(super) fn exp_near_sixteenth(r: f64, shifted: f64) -> f64 {
    let power = POWERS[(shifted.to_bits() & 15) as usize];
    power.mad((r * r).mad(polynomial(r, EXP), r), power)
}
