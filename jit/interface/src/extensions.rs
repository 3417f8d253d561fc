//! The extensions that the device has: what it reports, and what a module may say that it uses.

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

/// CL_DEVICE_EXTENSIONS. Only what works is listed.
pub const EXTENSIONS: &[Extension] = &[
    v1("cl_khr_icd"),
    v1("cl_khr_extended_versioning"),
    v1("cl_khr_spir"),
    v1("cl_khr_byte_addressable_store"),
    v1("cl_khr_fp16"),
    v1("cl_khr_fp64"),
    v1("cl_khr_global_int32_base_atomics"),
    v1("cl_khr_global_int32_extended_atomics"),
    v1("cl_khr_local_int32_base_atomics"),
    v1("cl_khr_local_int32_extended_atomics"),
    v1("cl_khr_int64_base_atomics"),
    v1("cl_khr_int64_extended_atomics"),
    v1("cl_khr_3d_image_writes"),
    v1("cl_khr_depth_images"),
    v1("cl_khr_image2d_from_buffer"),
    v1("cl_khr_srgb_image_writes"),
    Extension { name: "cl_khr_command_buffer", version: [0, 9, 8] },
    v1("cl_khr_create_command_queue"),
    v1("cl_khr_device_uuid"),
    v1("cl_khr_expect_assume"),
    v1("cl_khr_extended_async_copies"),
    v1("cl_khr_extended_bit_ops"),
    Extension { name: "cl_khr_integer_dot_product", version: [2, 0, 0] },
    v1("cl_ext_float_atomics"),
    v1("cl_intel_required_subgroup_size"),
    v1("cl_intel_subgroups"),
    v1("cl_intel_subgroups_char"),
    v1("cl_intel_subgroups_long"),
    v1("cl_intel_subgroups_short"),
    v1("cl_intel_subgroup_local_block_io"),
    v1("cl_intel_spirv_subgroups"),
    v1("cl_intel_unified_shared_memory"),
    // `cl_khr_subgroups` isn't here: it promises that sub-groups make progress independently of each other, where `cl_intel_subgroups` doesn't.
    v1("cl_khr_subgroup_ballot"),
    v1("cl_khr_subgroup_clustered_reduce"),
    v1("cl_khr_subgroup_extended_types"),
    v1("cl_khr_subgroup_non_uniform_arithmetic"),
    v1("cl_khr_subgroup_non_uniform_vote"),
    v1("cl_khr_subgroup_rotate"),
    v1("cl_khr_subgroup_shuffle"),
    v1("cl_khr_subgroup_shuffle_relative"),
    v1("cl_khr_semaphore"),
    v1("cl_khr_suggested_local_work_size"),
    v1("cl_khr_il_program"),
    v1("cl_khr_spirv_queries"),
];

/// What a module may name besides: optional features of the core, what concerns the host alone, as sharing with other
/// interfaces does, and what asks for nothing of code.
const NOT_REPORTED: [&str; 11] = [
    "cl_doubles",
    "cl_images",
    "cl_khr_d3d10_sharing",
    "cl_khr_d3d11_sharing",
    "cl_khr_egl_event",
    "cl_khr_gl_depth_images",
    "cl_khr_gl_event",
    "cl_khr_gl_sharing",
    "cl_khr_media_sharing",
    "cl_khr_select_fprounding_mode",
    // Only without the promise of independent progress, which code can't be seen to rely on.
    "cl_khr_subgroups",
];

/// Whether a module can be taken that says in `opencl.used.extensions` or `opencl.used.optional.core.features` that it
/// uses this (SPIR 1.2 and 2.0, 2.11).
pub fn is_provided(name: &str) -> bool {
    EXTENSIONS.iter().any(|extension| extension.name == name) || NOT_REPORTED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_listed_once_and_by_khronoss_names() {
        let names: Vec<&str> = EXTENSIONS.iter().map(|extension| extension.name).collect();
        for (index, name) in names.iter().enumerate() {
            let again = names[..index].contains(name) || NOT_REPORTED.contains(name);
            let prefixed = ["cl_khr_", "cl_ext_", "cl_intel_"].iter().any(|prefix| name.starts_with(prefix));
            assert!(prefixed && !again, "{name}");
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

    #[test]
    fn what_the_device_lacks_is_not_provided() {
        for name in ["cl_khr_mipmap_image", "cl_khr_gl_msaa_sharing", "cl_khr_sub", ""] {
            assert!(!is_provided(name), "{name}");
        }
    }
}
