//! What generated code may use of this process, by name.

/// A function or variable outside of the program that its code may refer to: functions by calls, which go through a
/// table of ours and reach any distance, variables by their address.
#[derive(Clone, Copy, Debug)]
pub struct External<'a> {
    /// The symbol.
    pub name: &'a str,
    /// Where it is.
    pub address: usize,
}

unsafe extern "C" {
    fn fma(x: f64, y: f64, z: f64) -> f64;
    fn fmaf(x: f32, y: f32, z: f32) -> f32;
    fn fmod(x: f64, y: f64) -> f64;
    fn fmodf(x: f32, y: f32) -> f32;
}

/// All that any generated code may call: block copies, which LLVM makes of loops and aggregates, and the two operations of
/// C's mathematical library that a CPU may lack. The rest of mathematics comes from our own builtin library.
pub(super) fn runtime_functions() -> [External<'static>; 7] {
    let function = |name, address: *const ()| External { name, address: address as usize };
    [
        function("memcpy", libc::memcpy as *const ()),
        function("memmove", libc::memmove as *const ()),
        function("memset", libc::memset as *const ()),
        function("fma", fma as *const ()),
        function("fmaf", fmaf as *const ()),
        function("fmod", fmod as *const ()),
        function("fmodf", fmodf as *const ()),
    ]
}
