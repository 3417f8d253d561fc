//! The names and versions that the platform and its device report: extensions, versions of languages.

/// An extension, or something else that has a name and a version, as `CL_MAKE_VERSION` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Such as `cl_khr_spir`.
    pub name: &'static str,
    /// major, minor, patch.
    pub version: [u32; 3],
}

const fn v1(name: &'static str) -> Extension {
    Extension { name, version: [1, 0, 0] }
}

/// CL_PLATFORM_EXTENSIONS: those that concern the platform, and those that every device of it has.
pub(crate) const PLATFORM_EXTENSIONS: &[Extension] = &[
    v1("cl_khr_icd"),
    v1("cl_khr_extended_versioning"),
    v1("cl_khr_spir"),
    v1("cl_khr_byte_addressable_store"),
    v1("cl_khr_fp64"),
    v1("cl_khr_global_int32_base_atomics"),
    v1("cl_khr_global_int32_extended_atomics"),
    v1("cl_khr_local_int32_base_atomics"),
    v1("cl_khr_local_int32_extended_atomics"),
    v1("cl_khr_int64_base_atomics"),
    v1("cl_khr_int64_extended_atomics"),
    v1("cl_khr_3d_image_writes"),
    v1("cl_khr_image2d_from_buffer"),
    v1("cl_khr_create_command_queue"),
    v1("cl_khr_device_uuid"),
    // `cl_khr_subgroups` isn't here: it promises that sub-groups make progress independently of each other.
    v1("cl_khr_subgroup_ballot"),
    v1("cl_khr_subgroup_clustered_reduce"),
    v1("cl_khr_subgroup_extended_types"),
    v1("cl_khr_subgroup_non_uniform_arithmetic"),
    v1("cl_khr_subgroup_non_uniform_vote"),
    v1("cl_khr_subgroup_rotate"),
    v1("cl_khr_subgroup_shuffle"),
    v1("cl_khr_subgroup_shuffle_relative"),
    v1("cl_khr_suggested_local_work_size"),
];

/// CL_DEVICE_OPENCL_C_ALL_VERSIONS.
pub(crate) const OPENCL_C_VERSIONS: &[Extension] = &[
    Extension { name: "OpenCL C", version: [1, 0, 0] },
    Extension { name: "OpenCL C", version: [1, 1, 0] },
    Extension { name: "OpenCL C", version: [1, 2, 0] },
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

/// CL_DEVICE_EXTENSIONS in the same form. Only what works is listed.
pub(crate) const DEVICE_EXTENSIONS: &[Extension] = PLATFORM_EXTENSIONS;

/// CL_DEVICE_SPIR_VERSIONS: what is taken whole.
pub(crate) const SPIR_VERSIONS: &str = "1.2";

/// What `-spir-std=` can name.
pub(crate) const ACCEPTED_SPIR_VERSIONS: &str = "1.2 2.0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_listed_once_and_by_khronoss_names() {
        let names: Vec<&str> = DEVICE_EXTENSIONS.iter().map(|extension| extension.name).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(name.starts_with("cl_khr_") && !names[..index].contains(name), "{name}");
        }
        // What OpenCL 1.2 asks of every full profile device (9.1), and what SPIR needs.
        let needed = [
            "cl_khr_global_int32_base_atomics",
            "cl_khr_byte_addressable_store",
            "cl_khr_icd",
            "cl_khr_spir",
        ];
        assert!(needed.iter().all(|name| names.contains(name)));
    }
}
