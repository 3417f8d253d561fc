//! Polynomials by Horner's rule, for both widths.

/// A type with a fused multiply-add.
pub(crate) trait Fused: Copy {
    /// self * factor + summand, rounded once.
    fn fused(self, factor: Self, summand: Self) -> Self;
}

impl Fused for f32 {
    #[inline(always)]
    fn fused(self, factor: f32, summand: f32) -> f32 {
        self.mul_add(factor, summand)
    }
}

impl Fused for f64 {
    #[inline(always)]
    fn fused(self, factor: f64, summand: f64) -> f64 {
        self.mul_add(factor, summand)
    }
}

/// c\[0\] + c\[1\] x + c\[2\] x² …
#[inline(always)]
pub(crate) fn polynomial<F: Fused, const N: usize>(x: F, c: [F; N]) -> F {
    let mut sum = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.fused(x, c[i]);
    }
    sum
}
