//! Polynomials for both widths, by Estrin's scheme in fours: where Horner's rule waits four cycles for each coefficient,
//! the coefficients of a block of four wait for one another only twice (Muller, Elementary Functions, 3rd ed., 5.3); three
//! by Horner's rule, which multiplies less.

use crate::multiply_add::MultiplyAdd;

/// c\[0\] + c\[1\] x + c\[2\] x² …
#[inline(always)]
pub(crate) fn polynomial<F: MultiplyAdd, const N: usize>(x: F, c: [F; N]) -> F {
    if let [a, b, d] = c[..] {
        return d.mad(x, b).mad(x, a);
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
