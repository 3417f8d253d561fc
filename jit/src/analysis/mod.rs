//! Facts about Kernel IR: pieces that change nothing, asked by the transforms.
