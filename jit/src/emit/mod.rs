//! LLVM IR text from lowered Kernel IR.
