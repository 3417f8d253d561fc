//! The OpenCL C builtin library: scalar functions in plain Rust, compiled twice. Natively they serve their own
//! tests and the host side of images; `jit`'s build script compiles the same files to LLVM bitcode that generated
//! code is linked with. Only scalar kernels live here: vector overloads and mangled names are `jit`'s business.
//!
//! The functions on float compute in double, whose spare 29 bits make short formulas right: the `narrow` kernels
//! have a relative error below 2^-36 and leave rounding to float as nearly the only error. They are free of branches
//! and calls where possible, so that LLVM can widen a loop that they are inlined into. Their polynomials
//! interpolate the functions at Chebyshev nodes, computed by us to 240 bits; each says its error.

pub mod accuracy;
pub mod check;
mod double;
pub mod enqueue;
mod erf;
mod exp;
mod gamma;
mod half_turns;
mod hyperbolic;
pub mod image;
mod inverse_hyperbolic;
mod inverse_trig;
mod known_power;
mod log;
mod modulo;
mod multiply_add;
mod native;
pub mod pipe;
mod polynomial;
mod power;
pub mod races;
mod reciprocal;
mod representation;
mod scale;
mod trig;

pub use crate::exports::*;

/// Defines the functions that generated code calls: `spirula_NAME_TYPE`, C calling convention, scalars only.
macro_rules! export {
    ($($(#[$doc:meta])* $symbol:ident($($parameter:ident: $type:ty),*) -> $result:ty = $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
            #[cfg_attr(not(spirula_bitcode), inline)]
            pub extern "C" fn $symbol($($parameter: $type),*) -> $result {
                $body
            }
        )*
    };
}
pub(crate) use export;

/// Every exported function.
mod exports {
    pub use crate::check::*;
    pub use crate::double::erf::*;
    pub use crate::double::exp::*;
    pub use crate::double::gamma::*;
    pub use crate::double::hyperbolic::*;
    pub use crate::double::inverse_trig::*;
    pub use crate::double::log::*;
    pub use crate::double::power::*;
    pub use crate::double::sine::*;
    pub use crate::double::trig::*;
    pub use crate::enqueue::*;
    pub use crate::erf::*;
    pub use crate::exp::*;
    pub use crate::gamma::*;
    pub use crate::half_turns::*;
    pub use crate::hyperbolic::*;
    pub use crate::image::access::*;
    pub use crate::image::block::*;
    pub use crate::inverse_hyperbolic::*;
    pub use crate::inverse_trig::*;
    pub use crate::log::*;
    pub use crate::modulo::*;
    pub use crate::multiply_add::*;
    pub use crate::native::*;
    pub use crate::pipe::*;
    pub use crate::power::*;
    pub use crate::races::*;
    pub use crate::representation::*;
    pub use crate::trig::*;
}
