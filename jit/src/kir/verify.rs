//! Kernel IR: structural rules.
