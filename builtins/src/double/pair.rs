//! Unevaluated sums of two doubles (Dekker, Numerische Mathematik 18, 1971; products by what `MultiplyAdd` has for them).

use crate::multiply_add::MultiplyAdd;

/// hi + lo, with lo no more than about half a unit in hi's last place.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub hi: f64,
    pub lo: f64,
}

/// a + b exactly.
#[inline(always)]
pub(super) fn sum(a: f64, b: f64) -> Pair {
    let hi = a + b;
    let part = hi - a;
    Pair { hi, lo: (a - (hi - part)) + (b - part) }
}

/// a + b exactly, for |a| >= |b|.
#[inline(always)]
pub(super) fn ordered_sum(a: f64, b: f64) -> Pair {
    let hi = a + b;
    Pair { hi, lo: b - (hi - a) }
}

/// a b exactly, unless it underflows.
#[inline(always)]
pub(super) fn product(a: f64, b: f64) -> Pair {
    let hi = a * b;
    Pair { hi, lo: a.missed(b, hi) }
}

impl Pair {
    /// The product, to about 2^-104.
    #[inline(always)]
    pub fn times(self, other: Pair) -> Pair {
        let Pair { hi, lo } = product(self.hi, other.hi);
        ordered_sum(hi, lo + (self.hi * other.lo + self.lo * other.hi))
    }

    /// The product, to about 2^-100, whose second part may overlap the first.
    #[inline(always)]
    pub fn roughly_times(self, other: Pair) -> Pair {
        let Pair { hi, lo } = product(self.hi, other.hi);
        Pair { hi, lo: self.lo.mad(other.hi, self.hi.mad(other.lo, lo)) }
    }

    /// The sum, to about 2^-104 of the larger one.
    #[inline(always)]
    pub fn plus(self, other: Pair) -> Pair {
        let Pair { hi, lo } = sum(self.hi, other.hi);
        ordered_sum(hi, lo + (self.lo + other.lo))
    }

    /// -(hi + lo).
    #[inline(always)]
    pub fn negated(self) -> Pair {
        Pair { hi: -self.hi, lo: -self.lo }
    }
}
