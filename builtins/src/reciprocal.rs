//! 1/x and 1/√x of doubles, for quotients and roots within functions: a register of doubles keeps the divider sixteen cycles busy, and
//! as long again for a root. Where the processor has approximations, the compiler makes these of them (`transform/reciprocals.rs`).

use crate::multiply_add::MultiplyAdd;
use crate::scale;

#[cfg(spirula_bitcode)]
unsafe extern "C" {
    #[link_name = "spirula.reciprocal.f64"]
    safe fn reciprocal_f64(x: f64) -> f64;
    #[link_name = "spirula.reciprocal_root.f64"]
    safe fn reciprocal_root_f64(x: f64) -> f64;
}

/// 1/x within 1.2 ULP, of normal numbers whose reciprocal is normal. Others give anything, zero and infinity mostly NaN.
#[inline(always)]
pub(crate) fn reciprocal(x: f64) -> f64 {
    #[cfg(spirula_bitcode)]
    return reciprocal_f64(x);
    #[cfg(not(spirula_bitcode))]
    host::reciprocal(x)
}

/// x/y within an ULP, of such y and a normal quotient.
#[inline(always)]
pub(crate) fn quotient(x: f64, y: f64) -> f64 {
    let inverse = reciprocal(y);
    let quotient = x * inverse;
    (-quotient).fused(y, x).mad(inverse, quotient)
}

/// 1/√x within 1.2 ULP; infinity of zero.
#[inline(always)]
pub(crate) fn reciprocal_root(x: f64) -> f64 {
    #[cfg(spirula_bitcode)]
    return reciprocal_root_f64(x);
    #[cfg(not(spirula_bitcode))]
    host::reciprocal_root(x)
}

/// Whether [`reciprocal_root`] begins with an approximation: it does where there is AVX-512, as [`scale`] does. (On the host, where tests run,
/// where operations are fused.)
#[inline(always)]
pub(crate) fn is_approximated() -> bool {
    if cfg!(spirula_bitcode) { scale::is_quick() } else { cfg!(not(feature = "unfused")) }
}

/// Quotients and roots in functions that are written once for both widths: floats leave them to the divider.
pub(crate) trait Divide {
    /// 1/self, as [`reciprocal`] has it.
    fn inverse(self) -> Self;
    /// √self, of positive normal numbers within an ULP; of zero and infinity anything.
    fn root(self) -> Self;
}

impl Divide for f32 {
    #[inline(always)]
    fn inverse(self) -> f32 {
        1.0 / self
    }

    #[inline(always)]
    fn root(self) -> f32 {
        self.sqrt()
    }
}

impl Divide for f64 {
    #[inline(always)]
    fn inverse(self) -> f64 {
        reciprocal(self)
    }

    #[inline(always)]
    fn root(self) -> f64 {
        if !is_approximated() {
            return self.sqrt();
        }
        let inverse = reciprocal_root(self);
        let root = self * inverse;
        (-root).fused(root, self).mad(0.5 * inverse, root)
    }
}

/// What tests of the library on any processor compute: the same steps from approximations of 14 bits, where the library is built for
/// processors with fused products, and else the quotients.
#[cfg(not(spirula_bitcode))]
mod host {
    /// As good as an approximation of 14 bits may be.
    fn approximate(exact: f64) -> f64 {
        f64::from_bits(exact.to_bits() & !((1 << 38) - 1))
    }

    pub fn reciprocal(x: f64) -> f64 {
        let exact = 1.0 / x;
        if cfg!(feature = "unfused") {
            return exact;
        }
        let first = approximate(exact);
        let error = (-x).mul_add(first, 1.0);
        let closer = first.mul_add(error, first);
        closer.mul_add(error * error, closer)
    }

    pub fn reciprocal_root(x: f64) -> f64 {
        let exact = 1.0 / x.sqrt();
        if cfg!(feature = "unfused") {
            return exact;
        }
        let root = approximate(exact);
        let error = (-(x * root)).mul_add(root, 1.0);
        let terms = 0.3125f64.mul_add(error, 0.375_000_003_375_456).mul_add(error, 0.5);
        if error.is_nan() { root } else { (root * error).mul_add(terms, root) }
    }
}
