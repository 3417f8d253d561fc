//! LLVM's intrinsics by name: those that Kernel IR has, those that only advise an optimizer, and no others.

use spirula_kir::Intrinsic;

/// What the import makes of an intrinsic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An operation of Kernel IR.
    Operation(Intrinsic),
    /// It only tells optimizers something.
    Hint,
    /// It yields its first argument.
    Transparent,
    /// Whether the argument is a constant: not by now.
    IsConstant,
    /// The size of what a pointer points to: unknown by now.
    ObjectSize,
}

/// All that aren't operations, without types.
const OTHERS: [(&str, Meaning); 22] = [
    ("annotation", Meaning::Transparent),
    ("assume", Meaning::Hint),
    ("dbg.assign", Meaning::Hint),
    ("dbg.declare", Meaning::Hint),
    ("dbg.label", Meaning::Hint),
    ("dbg.value", Meaning::Hint),
    ("donothing", Meaning::Hint),
    ("expect", Meaning::Transparent),
    ("expect.with.probability", Meaning::Transparent),
    ("experimental.noalias.scope.decl", Meaning::Hint),
    ("invariant.end", Meaning::Hint),
    ("invariant.start", Meaning::Hint),
    ("is.constant", Meaning::IsConstant),
    ("launder.invariant.group", Meaning::Transparent),
    ("lifetime.end", Meaning::Hint),
    ("lifetime.start", Meaning::Hint),
    ("objectsize", Meaning::ObjectSize),
    ("ptr.annotation", Meaning::Transparent),
    ("sideeffect", Meaning::Hint),
    ("ssa.copy", Meaning::Transparent),
    ("strip.invariant.group", Meaning::Transparent),
    ("var.annotation", Meaning::Hint),
];

/// What an intrinsic means; `None` of one that isn't known here, which no SPIR module has.
pub(crate) fn meaning(name: &str) -> Option<Meaning> {
    let base = without_types(name.strip_prefix("llvm.")?);
    let other = || OTHERS.iter().find(|(name, _)| *name == base).map(|(_, meaning)| *meaning);
    let operation = Intrinsic::from_name(base).filter(|intrinsic| !intrinsic.is_internal());
    operation.map(Meaning::Operation).or_else(other)
}

/// `fma` of `fma.v4f32`: types are lower-case letters and digits, and end in a digit, which no part of a name does.
fn without_types(name: &str) -> &str {
    let mut rest = name;
    while let Some((front, part)) = rest.rsplit_once('.')
        && part.ends_with(|c: char| c.is_ascii_digit())
        && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    {
        rest = front;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_cut_off() {
        let meant = |name: &str| match meaning(name) {
            Some(Meaning::Operation(intrinsic)) => intrinsic,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(meant("llvm.fma.v4f32"), Intrinsic::FusedMultiplyAdd);
        assert_eq!(meant("llvm.fptosi.sat.i32.f64"), Intrinsic::FloatToSignedSaturating);
        assert_eq!(meant("llvm.vector.reduce.or.v4i32"), Intrinsic::ReduceOr);
        assert_eq!(meant("llvm.memcpy.p0.p1.i64"), Intrinsic::CopyMemory);
        assert_eq!(meaning("llvm.lifetime.start.p0"), Some(Meaning::Hint));
        assert_eq!(meaning("llvm.expect.i32"), Some(Meaning::Transparent));
    }

    #[test]
    fn what_is_not_on_the_list_is_unknown() {
        let names = [
            "llvm.trap",
            "llvm.stackrestore.p0",
            "llvm.returnaddress",
            "llvm.x86.rdtsc",
            "llvm.memcpy.inline.p0.p0.i64",
            "llvm.memcpy.element.unordered.atomic.p0.p0.i64",
            "llvm.exp2.f32", // It would become a call of libm.
            "llvm.spirula.reciprocal_root.f32",
            "llvm.spirula.reciprocal.f64",
            "llvm.x86.avx512.rsqrt14.ps.512",
            "llvm.x86.avx512.rcp14.ps.512",
            "llvm.x86.avx512.rcp14.pd.512",
            "llvm.",
            "llvm",
            "fma.f32",
        ];
        names.into_iter().for_each(|name| assert_eq!(meaning(name), None, "{name}"));
    }
}
