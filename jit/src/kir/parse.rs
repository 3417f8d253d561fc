//! Kernel IR: the text form, read.
