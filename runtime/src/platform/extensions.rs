//! The names and versions of languages that the device reports; its extensions are the compiler's business, too.

use spirula_interface::address_bits::AddressBits;
pub use spirula_interface::extensions::{EXTENSIONS, Extension};
use std::sync::LazyLock;

/// CL_DEVICE_EXTENSIONS of a device with such pointers.
pub(crate) fn extensions_of(addresses: AddressBits) -> &'static [Extension] {
    /// What is about pointers that the application and kernels share.
    const SHARES_ADDRESSES: &str = "cl_intel_unified_shared_memory";
    static LINEAR: LazyLock<Vec<Extension>> = LazyLock::new(|| {
        EXTENSIONS.iter().filter(|extension| extension.name != SHARES_ADDRESSES).copied().collect()
    });
    if addresses.is_linear() { &LINEAR } else { EXTENSIONS }
}

/// CL_DEVICE_OPENCL_C_ALL_VERSIONS.
pub(crate) const OPENCL_C_VERSIONS: &[Extension] = &[
    Extension { name: "OpenCL C", version: [1, 0, 0] },
    Extension { name: "OpenCL C", version: [1, 1, 0] },
    Extension { name: "OpenCL C", version: [1, 2, 0] },
    Extension { name: "OpenCL C", version: [2, 0, 0] },
    Extension { name: "OpenCL C", version: [3, 0, 0] },
];

const fn feature(name: &'static str) -> Extension {
    Extension { name, version: [3, 0, 0] }
}

/// CL_DEVICE_OPENCL_C_FEATURES: optional features of OpenCL C 3.0. Only what works is listed.
pub(crate) const OPENCL_C_FEATURES: &[Extension] = &[
    feature("__opencl_c_3d_image_writes"),
    feature("__opencl_c_atomic_order_acq_rel"),
    feature("__opencl_c_atomic_order_seq_cst"),
    feature("__opencl_c_atomic_scope_all_devices"),
    feature("__opencl_c_atomic_scope_device"),
    feature("__opencl_c_device_enqueue"),
    feature("__opencl_c_ext_fp32_global_atomic_add"),
    feature("__opencl_c_ext_fp32_global_atomic_min_max"),
    feature("__opencl_c_ext_fp32_local_atomic_add"),
    feature("__opencl_c_ext_fp32_local_atomic_min_max"),
    feature("__opencl_c_ext_fp64_global_atomic_add"),
    feature("__opencl_c_ext_fp64_global_atomic_min_max"),
    feature("__opencl_c_ext_fp64_local_atomic_add"),
    feature("__opencl_c_ext_fp64_local_atomic_min_max"),
    feature("__opencl_c_fp64"),
    feature("__opencl_c_generic_address_space"),
    feature("__opencl_c_images"),
    feature("__opencl_c_int64"),
    feature("__opencl_c_integer_dot_product_input_4x8bit"),
    feature("__opencl_c_integer_dot_product_input_4x8bit_packed"),
    feature("__opencl_c_pipes"),
    feature("__opencl_c_program_scope_global_variables"),
    feature("__opencl_c_read_write_images"),
    feature("__opencl_c_subgroups"),
    feature("__opencl_c_work_group_collective_functions"),
];

/// How the names of cl_ext_float_atomics' features begin.
pub(crate) const FLOAT_ATOMICS: &str = "__opencl_c_ext_fp";

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

/// The features of extensions that every version of OpenCL C can use: before 3.0, clang defines no macros for features.
pub(crate) const OF_EVERY_VERSION: &[&str] =
    &["__opencl_c_integer_dot_product_input_4x8bit", "__opencl_c_integer_dot_product_input_4x8bit_packed"];
