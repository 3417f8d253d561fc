//! m 2^k, rounded once, where the processor has an instruction for it (AVX-512's vscalef). The compiler knows whether it has when it
//! links the library with a program: what is not for that processor is gone then.

#[cfg(spirula_bitcode)]
unsafe extern "C" {
    /// Whether there is such an instruction: a constant by the time that a program is compiled.
    #[link_name = "spirula.scales"]
    safe fn has_instruction() -> bool;
    #[link_name = "spirula.scale.f32"]
    safe fn scale_f32(m: f32, k: f32) -> f32;
    #[link_name = "spirula.scale.f64"]
    safe fn scale_f64(m: f64, k: f64) -> f64;
}

/// Whether [`Scale`] is one instruction.
#[inline(always)]
pub(crate) fn is_quick() -> bool {
    #[cfg(spirula_bitcode)]
    return has_instruction();
    #[cfg(not(spirula_bitcode))]
    false
}

/// Powers of two, given as numbers.
pub(crate) trait Scale {
    /// self 2^k for an integer k, rounded once; self is around 1 and k below twice the exponents that normal numbers have. NaN for NaN
    /// in both.
    fn scale(self, k: Self) -> Self;
}

macro_rules! scale {
    ($float:ty, $primitive:ident, $in_two_steps:path) => {
        impl Scale for $float {
            #[inline(always)]
            fn scale(self, k: Self) -> Self {
                #[cfg(spirula_bitcode)]
                return $primitive(self, k);
                #[cfg(not(spirula_bitcode))]
                $in_two_steps(self, k as i32)
            }
        }
    };
}

scale!(f32, scale_f32, crate::exp::scaled);
scale!(f64, scale_f64, crate::double::exp::scaled);
