//! What an application needs to drive a built `libspirula.so` through the real ICD loader, and to do so many times
//! under supervision. Serves the tests, the demo and `khronos-cts`; knows nothing of Spirula's inside.

pub mod bitstream;
pub mod cases;
pub mod cl;
pub mod cycle;
pub mod dispatch;
pub mod fixtures;
pub mod fuzz;
pub mod icd;
pub mod isolate;
mod lent;
pub mod mutate;
pub mod running;
pub mod shuffle;
pub mod soak;
pub mod supervise;
