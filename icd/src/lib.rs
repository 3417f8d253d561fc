//! libspirula.so: the OpenCL C API. Validates, calls `runtime`, maps errors.
