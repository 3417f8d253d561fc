//! Back ends: from Kernel IR to what a code generator takes. They translate operation by operation and decide nothing.

pub mod cranelift;
pub mod llvm;

#[cfg(test)]
mod tests;
