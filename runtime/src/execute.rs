//! Running kernels: a device's threads, what they call, the memory that they call it with, and what kernels print.

pub(crate) mod arena;
mod background;
pub(crate) mod check;
pub(crate) mod children;
pub(crate) mod company;
pub(crate) mod compile_time;
pub(crate) mod fault;
pub(crate) mod group_size;
pub(crate) mod group_times;
pub(crate) mod launch;
pub(crate) mod output;
pub(crate) mod pace;
pub(crate) mod scheduler;
pub(crate) mod tiers;
pub(crate) mod tuning;
mod variants;
