//! Polynomials for both widths. By Horner's rule where they are short: it multiplies least, lanes and iterations beside each other fill the
//! four cycles that it waits for each coefficient, and it has no powers of x, which for tiny floats would be denormal numbers: an
//! operation that yields one takes a hundred cycles. Else by Estrin's scheme in fours, whose coefficients of a block wait for one another
//! only twice (Muller, Elementary Functions, 3rd ed., 5.3).

use crate::multiply_add::MultiplyAdd;

/// As many coefficients are a short polynomial: more, as a logarithm's, take longer by Horner's rule where other functions wait for them
/// (Black and Scholes' prices by 8 %).
const SHORT: usize = 7;

/// c\[0\] + c\[1\] x + c\[2\] x² …
#[inline(always)]
pub(crate) fn polynomial<F: MultiplyAdd, const N: usize>(x: F, c: [F; N]) -> F {
    if N <= SHORT {
        return c[..N - 1].iter().rev().fold(c[N - 1], |sum, &next| sum.mad(x, next));
    }
    let square = x.squared();
    let fourth = square.squared();
    // The last block has one to four coefficients.
    let last = (N - 1) / 4 * 4;
    let mut sum = match c[last..] {
        [a] => a,
        [a, b] => b.mad(x, a),
        [a, b, d] => d.mad(square, b.mad(x, a)),
        [a, b, d, e, ..] => e.mad(x, d).mad(square, b.mad(x, a)),
        [] => c[0],
    };
    for block in c[..last].rchunks_exact(4) {
        if let &[a, b, d, e] = block {
            sum = sum.mad(fourth, e.mad(x, d).mad(square, b.mad(x, a)));
        }
    }
    sum
}
