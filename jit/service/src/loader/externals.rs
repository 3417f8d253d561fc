//! What generated code may use of this process, by name.

use half::f16;

/// A function or variable outside of the program that its code may refer to: functions by calls, which go through a
/// table of ours and reach any distance, variables by their address.
#[derive(Clone, Copy, Debug)]
pub struct External<'a> {
    /// The symbol.
    pub name: &'a str,
    /// Where it is.
    pub address: usize,
}

#[expect(unsafe_code, reason = "declarations, of which only the addresses are used")]
unsafe extern "C" {
    fn fma(x: f64, y: f64, z: f64) -> f64;
    fn fmaf(x: f32, y: f32, z: f32) -> f32;
    fn fmod(x: f64, y: f64) -> f64;
    fn fmodf(x: f32, y: f32) -> f32;
    fn ceil(x: f64) -> f64;
    fn ceilf(x: f32) -> f32;
    fn floor(x: f64) -> f64;
    fn floorf(x: f32) -> f32;
    fn nearbyint(x: f64) -> f64;
    fn nearbyintf(x: f32) -> f32;
    fn trunc(x: f64) -> f64;
    fn truncf(x: f32) -> f32;
}

const FUNCTIONS: usize = 29;

/// Bytes of a jump to one of them.
const JUMP: usize = 16;

/// The same functions in an executor: jumps to its own, which lie at an address that all executors agree on.
pub(super) fn executors_functions(jumps: usize) -> [External<'static>; FUNCTIONS] {
    let mut functions = runtime_functions();
    for (number, function) in functions.iter_mut().enumerate() {
        function.address = jumps + number * JUMP;
    }
    functions
}

/// The code of an executor's jumps to the functions that generated code may call, for the beginning of its region of code.
pub fn jumps() -> Vec<u8> {
    let jump = |function: External| {
        // movabs r11, address; jmp r11; int3. The register is nobody's at a call.
        let mut code = [0xcc; JUMP];
        code[..2].copy_from_slice(&[0x49, 0xbb]);
        code[2..10].copy_from_slice(&(function.address as u64).to_le_bytes());
        code[10..13].copy_from_slice(&[0x41, 0xff, 0xe3]);
        code
    };
    runtime_functions().into_iter().flat_map(jump).collect()
}

/// All that any generated code may call: block copies, which LLVM makes of loops and aggregates, operations that a CPU may
/// lack, and in the baseline those that Cranelift has no instruction for. The rest of mathematics comes from our own builtin
/// library.
pub(super) fn runtime_functions() -> [External<'static>; FUNCTIONS] {
    let function = |name, address: *const ()| External { name, address: address as usize };
    [
        function("memcpy", libc::memcpy as *const ()),
        function("memmove", libc::memmove as *const ()),
        function("memset", libc::memset as *const ()),
        function("fma", fma as *const ()),
        function("fmaf", fmaf as *const ()),
        function("fmod", fmod as *const ()),
        function("fmodf", fmodf as *const ()),
        function("ceil", ceil as *const ()),
        function("ceilf", ceilf as *const ()),
        function("floor", floor as *const ()),
        function("floorf", floorf as *const ()),
        function("nearbyint", nearbyint as *const ()),
        function("nearbyintf", nearbyintf as *const ()),
        function("trunc", trunc as *const ()),
        function("truncf", truncf as *const ()),
        function("spirula.half_to_float", half_to_float as *const ()),
        function("spirula.float_to_half", float_to_half as *const ()),
        function("spirula.double_to_half", double_to_half as *const ()),
        function("spirula.rsqrt14", rsqrt14()),
        function("spirula.rsqrt14.f64", rsqrt14_of_doubles()),
        function("spirula.rcp14", rcp14()),
        function("spirula.rcp14.f64", rcp14_of_doubles()),
        function("__extendhfsf2", extend_half as *const ()),
        function("__truncsfhf2", truncate_float as *const ()),
        function("__truncdfhf2", truncate_double as *const ()),
        function("__udivti3", divide as *const ()),
        function("__umodti3", remainder as *const ()),
        function("__divti3", signed_divide as *const ()),
        function("__modti3", signed_remainder as *const ()),
    ]
}

extern "C" fn half_to_float(bits: u32) -> f32 {
    f16::from_bits(bits as u16).to_f32()
}

extern "C" fn float_to_half(value: f32) -> u32 {
    f16::from_f32(value).to_bits().into()
}

/// Rounded once: what the float in between loses is kept in its last bit (rounding to odd).
extern "C" fn double_to_half(value: f64) -> u32 {
    let near = value as f32;
    if value.is_nan() || f64::from(near) == value {
        return float_to_half(near);
    }
    let is_too_far = f64::from(near).abs() > value.abs();
    float_to_half(f32::from_bits((near.to_bits() - u32::from(is_too_far)) | 1))
}

// The same as LLVM calls them for processors without the instructions: a half is the low bits of a vector register, as which a
// float is passed and returned, too (System V ABI, 3.2.3).

extern "C" fn extend_half(half: f32) -> f32 {
    half_to_float(half.to_bits())
}

extern "C" fn truncate_float(value: f32) -> f32 {
    f32::from_bits(float_to_half(value))
}

extern "C" fn truncate_double(value: f64) -> f32 {
    f32::from_bits(double_to_half(value))
}

// Integers wider than registers, which LLVM divides by calls. What nobody defines is 0.

extern "C" fn divide(a: u128, b: u128) -> u128 {
    a.checked_div(b).unwrap_or(0)
}

extern "C" fn remainder(a: u128, b: u128) -> u128 {
    a.checked_rem(b).unwrap_or(0)
}

extern "C" fn signed_divide(a: i128, b: i128) -> i128 {
    a.checked_div(b).unwrap_or(0)
}

extern "C" fn signed_remainder(a: i128, b: i128) -> i128 {
    a.checked_rem(b).unwrap_or(0)
}

/// AVX-512's approximations, for code that is made where the processor has it; NaN elsewhere. The very instructions: loops call them
/// that do little else.
macro_rules! approximation {
    ($name:ident, $float:ty, $set:ident, $instruction:ident, $get:ident) => {
        fn $name() -> *const () {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx512f") {
                #[target_feature(enable = "avx512f")]
                extern "C" fn approximate(value: $float) -> $float {
                    use std::arch::x86_64::{$get, $instruction, $set};
                    $get($instruction($set(0.0), $set(value)))
                }
                return approximate as *const ();
            }
            extern "C" fn none(_: $float) -> $float {
                <$float>::NAN
            }
            none as *const ()
        }
    };
}

approximation!(rsqrt14, f32, _mm_set_ss, _mm_rsqrt14_ss, _mm_cvtss_f32);
approximation!(rsqrt14_of_doubles, f64, _mm_set_sd, _mm_rsqrt14_sd, _mm_cvtsd_f64);
approximation!(rcp14, f32, _mm_set_ss, _mm_rcp14_ss, _mm_cvtss_f32);
approximation!(rcp14_of_doubles, f64, _mm_set_sd, _mm_rcp14_sd, _mm_cvtsd_f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_once() {
        assert_eq!(half_to_float(0x3c00), 1.0);
        assert_eq!(half_to_float(0x0001), 2f32.powi(-24));
        assert_eq!((float_to_half(65520.0), float_to_half(65519.0)), (0x7c00, 0x7bff));
        // Just above the middle of 1 and the next half: a float in between would round to even.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!((double_to_half(above), double_to_half(1.0 + 2f64.powi(-11))), (0x3c01, 0x3c00));
        // As LLVM calls them: what lies above a half in its register is anything.
        assert_eq!(extend_half(f32::from_bits(0x1234_3c00)), 1.0);
        assert_eq!((truncate_float(1.0).to_bits(), truncate_double(above).to_bits()), (0x3c00, 0x3c01));
    }

    #[test]
    fn wide_integers_are_divided_without_traps() {
        assert_eq!((divide(u128::MAX, 3), remainder(u128::MAX, 7)), (u128::MAX / 3, u128::MAX % 7));
        assert_eq!((divide(1, 0), remainder(1, 0)), (0, 0));
        assert_eq!((signed_divide(i128::MIN, -1), signed_remainder(i128::MIN, -1)), (0, 0));
        assert_eq!((signed_divide(-7, 2), signed_remainder(-7, 2)), (-3, -1));
    }

    #[test]
    fn approximations_have_their_bits_where_there_are_some() {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            #[expect(unsafe_code, reason = "as generated code calls them")]
            // SAFETY: they are functions of one number of that type, which is what they yield, and the processor has AVX-512.
            let (root, root_of_doubles, reciprocal, reciprocal_of_doubles) = unsafe {
                (
                    std::mem::transmute::<*const (), extern "C" fn(f32) -> f32>(rsqrt14()),
                    std::mem::transmute::<*const (), extern "C" fn(f64) -> f64>(rsqrt14_of_doubles()),
                    std::mem::transmute::<*const (), extern "C" fn(f32) -> f32>(rcp14()),
                    std::mem::transmute::<*const (), extern "C" fn(f64) -> f64>(rcp14_of_doubles()),
                )
            };
            for x in [1e-30_f32, 0.3, 1.0, 7.0, 1e20] {
                let (single, x) = (x, f64::from(x));
                let errors = [
                    f64::from(root(single)) * x.sqrt(),
                    root_of_doubles(x) * x.sqrt(),
                    f64::from(reciprocal(single)) * x,
                    reciprocal_of_doubles(x) * x,
                ];
                assert!(errors.iter().all(|error| (error - 1.0).abs() < 2f64.powi(-13)), "{x}: {errors:?}");
            }
        }
    }
}
