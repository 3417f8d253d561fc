//! Polynomials for both widths, by Estrin's scheme in fours: where Horner's rule waits four cycles for each coefficient,
//! the coefficients of a block of four wait for one another only twice (Muller, Elementary Functions, 3rd ed., 5.3); three
//! by Horner's rule, which multiplies less.

/// A type with a fused multiply-add.
pub(crate) trait Fused: Copy {
    /// self * factor + summand, rounded once.
    fn fused(self, factor: Self, summand: Self) -> Self;
    /// self².
    fn squared(self) -> Self;
}

macro_rules! fused {
    ($($float:ty)*) => {
        $(impl Fused for $float {
            #[inline(always)]
            fn fused(self, factor: Self, summand: Self) -> Self {
                self.mul_add(factor, summand)
            }

            #[inline(always)]
            fn squared(self) -> Self {
                self * self
            }
        })*
    };
}

fused!(f32 f64);

/// c\[0\] + c\[1\] x + c\[2\] x² …
#[inline(always)]
pub(crate) fn polynomial<F: Fused, const N: usize>(x: F, c: [F; N]) -> F {
    if let [a, b, d] = c[..] {
        return d.fused(x, b).fused(x, a);
    }
    let square = x.squared();
    let fourth = square.squared();
    // The last block has one to four coefficients.
    let last = (N - 1) / 4 * 4;
    let mut sum = match c[last..] {
        [a] => a,
        [a, b] => b.fused(x, a),
        [a, b, d] => d.fused(square, b.fused(x, a)),
        [a, b, d, e, ..] => e.fused(x, d).fused(square, b.fused(x, a)),
        [] => c[0],
    };
    for block in c[..last].rchunks_exact(4) {
        if let &[a, b, d, e] = block {
            sum = sum.fused(fourth, e.fused(x, d).fused(square, b.fused(x, a)));
        }
    }
    sum
}
