//! The functions on double. There is no wider type to compute in, so that sums which would lose their last bits keep
//! them in a second double (`pair`); polynomials are long enough to leave only rounding.

pub(crate) mod erf;
pub(crate) mod exp;
pub(crate) mod gamma;
pub(crate) mod hyperbolic;
pub(crate) mod inverse_trig;
pub(crate) mod log;
mod pair;
pub(crate) mod power;
pub(crate) mod sine;
mod table;
pub(crate) mod trig;
