//! The options about arithmetic (OpenCL 1.2, 5.6.4.2 and 5.6.4.3) as a set: from clBuildProgram and clLinkProgram, or as a
//! SPIR module's metadata recorded them. The front asks what they permit.

use serde::{Deserialize, Serialize};
use std::ops::{BitOr, BitOrAssign};

/// A set of `-cl-*` options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MathOptions(u8);

impl MathOptions {
    /// No option.
    pub const NONE: MathOptions = MathOptions(0);
    /// `-cl-mad-enable`.
    pub const MAD_ENABLE: MathOptions = MathOptions(1);
    /// `-cl-no-signed-zeros`.
    pub const NO_SIGNED_ZEROS: MathOptions = MathOptions(2);
    /// `-cl-unsafe-math-optimizations`, which includes both.
    pub const UNSAFE_MATH: MathOptions = MathOptions(4 | 2 | 1);
    /// `-cl-finite-math-only`.
    pub const FINITE_MATH_ONLY: MathOptions = MathOptions(8);
    /// `-cl-fast-relaxed-math`, which sets both of the above.
    pub const FAST_RELAXED_MATH: MathOptions = MathOptions(8 | 4 | 2 | 1);
    /// `-cl-denorms-are-zero`.
    pub const DENORMS_ARE_ZERO: MathOptions = MathOptions(16);
    /// `-cl-fp32-correctly-rounded-divide-sqrt`: the only one that asks for more, not for less.
    pub const CORRECTLY_ROUNDED: MathOptions = MathOptions(32);

    /// The options by name, without the dash.
    const NAMES: [(&str, MathOptions); 8] = [
        ("cl-mad-enable", MathOptions::MAD_ENABLE),
        ("cl-no-signed-zeros", MathOptions::NO_SIGNED_ZEROS),
        ("cl-no-signed-zeroes", MathOptions::NO_SIGNED_ZEROS),
        ("cl-unsafe-math-optimizations", MathOptions::UNSAFE_MATH),
        ("cl-finite-math-only", MathOptions::FINITE_MATH_ONLY),
        ("cl-fast-relaxed-math", MathOptions::FAST_RELAXED_MATH),
        ("cl-denorms-are-zero", MathOptions::DENORMS_ARE_ZERO),
        ("cl-fp32-correctly-rounded-divide-sqrt", MathOptions::CORRECTLY_ROUNDED),
    ];

    /// What an option means; nothing if it isn't about arithmetic. SPIR's metadata has them with and without the dash
    /// (SPIR 1.2, 2.8).
    pub fn named(option: &str) -> MathOptions {
        let name = option.strip_prefix('-').unwrap_or(option);
        let known = MathOptions::NAMES.iter().find(|(known, _)| *known == name);
        known.map_or(MathOptions::NONE, |(_, options)| *options)
    }

    /// Whether denormal numbers may be taken for zero: by their own option, or as part of what unsafe optimizations may do to the numerical
    /// requirements and their edge cases. Processors take a hundred cycles for an operation on one, or for one's division.
    pub fn flushes_denormals(self) -> bool {
        self.contains(MathOptions::DENORMS_ARE_ZERO) || self.contains(MathOptions::UNSAFE_MATH)
    }

    /// Whether all of `options` are in it.
    pub fn contains(self, options: MathOptions) -> bool {
        self.0 & options.0 == options.0
    }

    /// What holds for code that is joined of parts: liberties that all of them take, precision that any asks for.
    pub fn common(parts: impl IntoIterator<Item = MathOptions>) -> MathOptions {
        let strict = MathOptions::CORRECTLY_ROUNDED.0;
        let join = |a: MathOptions, b: MathOptions| MathOptions(a.0 & b.0 | (a.0 | b.0) & strict);
        parts.into_iter().reduce(join).unwrap_or_default()
    }
}

impl BitOr for MathOptions {
    type Output = MathOptions;

    fn bitor(self, other: MathOptions) -> MathOptions {
        MathOptions(self.0 | other.0)
    }
}

impl BitOrAssign for MathOptions {
    fn bitor_assign(&mut self, other: MathOptions) {
        *self = *self | other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_include_others() {
        let fast = MathOptions::named("-cl-fast-relaxed-math");
        assert!(fast.contains(MathOptions::UNSAFE_MATH | MathOptions::FINITE_MATH_ONLY));
        assert!(MathOptions::named("cl-unsafe-math-optimizations").contains(MathOptions::MAD_ENABLE));
        assert!(!MathOptions::MAD_ENABLE.contains(MathOptions::UNSAFE_MATH));
        assert_eq!(MathOptions::named("-cl-opt-disable"), MathOptions::NONE);
    }

    #[test]
    fn unsafe_optimizations_may_flush_denormals() {
        let flushing =
            [MathOptions::UNSAFE_MATH, MathOptions::FAST_RELAXED_MATH, MathOptions::DENORMS_ARE_ZERO];
        assert!(flushing.into_iter().all(MathOptions::flushes_denormals));
        let exact = MathOptions::MAD_ENABLE | MathOptions::NO_SIGNED_ZEROS | MathOptions::FINITE_MATH_ONLY;
        assert!(!exact.flushes_denormals() && !MathOptions::NONE.flushes_denormals());
    }

    #[test]
    fn parts_share_liberties_and_any_may_ask_for_precision() {
        let (mad, exact) = (MathOptions::MAD_ENABLE, MathOptions::CORRECTLY_ROUNDED);
        assert_eq!(MathOptions::common([mad, MathOptions::FAST_RELAXED_MATH]), mad);
        assert_eq!(MathOptions::common([mad, exact]), exact);
        assert_eq!(MathOptions::common([]), MathOptions::NONE);
    }
}
