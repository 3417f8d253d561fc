//! Polynomials by Horner's rule.

/// c\[0\] + c\[1\] x + c\[2\] x² …
#[inline(always)]
pub(crate) fn polynomial<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut sum = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.mul_add(x, c[i]);
    }
    sum
}
