//! Contexts, queues, memory, programs, kernels and the scheduler behind the C API.
