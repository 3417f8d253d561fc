//! The names and versions of languages that the device reports; its extensions are the compiler's business, too.

pub use spirula_interface::extensions::{EXTENSIONS, Extension};

/// CL_DEVICE_OPENCL_C_ALL_VERSIONS.
pub(crate) const OPENCL_C_VERSIONS: &[Extension] = &[
    Extension { name: "OpenCL C", version: [1, 0, 0] },
    Extension { name: "OpenCL C", version: [1, 1, 0] },
    Extension { name: "OpenCL C", version: [1, 2, 0] },
    Extension { name: "OpenCL C", version: [2, 0, 0] },
    Extension { name: "OpenCL C", version: [3, 0, 0] },
];

/// CL_DEVICE_OPENCL_C_FEATURES: optional features of OpenCL C 3.0. Only what works is listed.
pub(crate) const OPENCL_C_FEATURES: &[Extension] = &[
    Extension { name: "__opencl_c_3d_image_writes", version: [3, 0, 0] },
    Extension { name: "__opencl_c_atomic_order_acq_rel", version: [3, 0, 0] },
    Extension { name: "__opencl_c_atomic_order_seq_cst", version: [3, 0, 0] },
    Extension { name: "__opencl_c_atomic_scope_all_devices", version: [3, 0, 0] },
    Extension { name: "__opencl_c_atomic_scope_device", version: [3, 0, 0] },
    Extension { name: "__opencl_c_device_enqueue", version: [3, 0, 0] },
    Extension { name: "__opencl_c_fp64", version: [3, 0, 0] },
    Extension { name: "__opencl_c_generic_address_space", version: [3, 0, 0] },
    Extension { name: "__opencl_c_images", version: [3, 0, 0] },
    Extension { name: "__opencl_c_int64", version: [3, 0, 0] },
    Extension { name: "__opencl_c_pipes", version: [3, 0, 0] },
    Extension { name: "__opencl_c_program_scope_global_variables", version: [3, 0, 0] },
    Extension { name: "__opencl_c_read_write_images", version: [3, 0, 0] },
    Extension { name: "__opencl_c_subgroups", version: [3, 0, 0] },
    Extension { name: "__opencl_c_work_group_collective_functions", version: [3, 0, 0] },
];

/// What is no option in OpenCL C 2.0: clang asks for it by the names of 3.0.
pub(crate) const OPENCL_C_20: &[&str] = &[
    "__opencl_c_atomic_order_acq_rel",
    "__opencl_c_atomic_order_seq_cst",
    "__opencl_c_atomic_scope_all_devices",
    "__opencl_c_atomic_scope_device",
    "__opencl_c_device_enqueue",
    "__opencl_c_generic_address_space",
    "__opencl_c_pipes",
    "__opencl_c_program_scope_global_variables",
    "__opencl_c_read_write_images",
    "__opencl_c_work_group_collective_functions",
];

/// CL_DEVICE_SPIR_VERSIONS: what `-spir-std=` can name.
pub(crate) const SPIR_VERSIONS: &str = "1.2 2.0";
