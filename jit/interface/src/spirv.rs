//! What SPIR-V the device takes: versions, extensions and capabilities. The compiler refuses all else, and the device reports it.

use crate::extensions::Extension;

/// CL_DEVICE_ILS_WITH_VERSION.
pub const VERSIONS: &[Extension] = &[
    Extension { name: "SPIR-V", version: [1, 0, 0] },
    Extension { name: "SPIR-V", version: [1, 1, 0] },
    Extension { name: "SPIR-V", version: [1, 2, 0] },
    Extension { name: "SPIR-V", version: [1, 3, 0] },
    Extension { name: "SPIR-V", version: [1, 4, 0] },
    Extension { name: "SPIR-V", version: [1, 5, 0] },
    Extension { name: "SPIR-V", version: [1, 6, 0] },
];

/// CL_DEVICE_IL_VERSION.
pub const VERSION_NAMES: &str =
    "SPIR-V_1.0 SPIR-V_1.1 SPIR-V_1.2 SPIR-V_1.3 SPIR-V_1.4 SPIR-V_1.5 SPIR-V_1.6";

/// Sets of instructions that change what kernels compute.
pub const INSTRUCTION_SETS: &[&str] = &["OpenCL.std"];

/// Extensions of SPIR-V.
pub const EXTENSIONS: &[&str] = &[
    "SPV_KHR_no_integer_wrap_decoration",
    "SPV_KHR_linkonce_odr",
    "SPV_KHR_float_controls",
    "SPV_KHR_integer_dot_product",
    "SPV_KHR_expect_assume",
    "SPV_KHR_bit_instructions",
    "SPV_KHR_untyped_pointers",
    "SPV_KHR_subgroup_rotate",
    "SPV_KHR_non_semantic_info",
    "SPV_KHR_relaxed_extended_instruction",
    "SPV_KHR_uniform_group_instructions",
    "SPV_EXT_shader_atomic_float_add",
    "SPV_EXT_shader_atomic_float_min_max",
    "SPV_EXT_relaxed_printf_string_address_space",
    "SPV_INTEL_fp_fast_math_mode",
    "SPV_INTEL_memory_access_aliasing",
    "SPV_INTEL_subgroups",
];

/// Capabilities: SPIR-V's numbers and names. What an instruction asks for besides is refused where it stands.
pub const CAPABILITIES: &[(u32, &str)] = &[
    (0, "Matrix"),
    (4, "Addresses"),
    (5, "Linkage"),
    (6, "Kernel"),
    (7, "Vector16"),
    (8, "Float16Buffer"),
    (9, "Float16"),
    (10, "Float64"),
    (11, "Int64"),
    (12, "Int64Atomics"),
    (13, "ImageBasic"),
    (14, "ImageReadWrite"),
    (17, "Pipes"),
    (18, "Groups"),
    (19, "DeviceEnqueue"),
    (20, "LiteralSampler"),
    (22, "Int16"),
    (38, "GenericPointer"),
    (39, "Int8"),
    (43, "Sampled1D"),
    (44, "Image1D"),
    (46, "SampledBuffer"),
    (47, "ImageBuffer"),
    (58, "SubgroupDispatch"),
    (61, "GroupNonUniform"),
    (62, "GroupNonUniformVote"),
    (63, "GroupNonUniformArithmetic"),
    (64, "GroupNonUniformBallot"),
    (65, "GroupNonUniformShuffle"),
    (66, "GroupNonUniformShuffleRelative"),
    (67, "GroupNonUniformClustered"),
    (6016, "DotProductInputAll"),
    (6017, "DotProductInput4x8Bit"),
    (6018, "DotProductInput4x8BitPacked"),
    (6019, "DotProduct"),
    (6025, "BitInstructions"),
    (6026, "GroupNonUniformRotateKHR"),
    (6033, "AtomicFloat32AddEXT"),
    (6034, "AtomicFloat64AddEXT"),
    (71, "UniformDecoration"),
    (4464, "DenormPreserve"),
    (4466, "SignedZeroInfNanPreserve"),
    (4467, "RoundingModeRTE"),
    (4473, "UntypedPointersKHR"),
    (5612, "AtomicFloat32MinMaxEXT"),
    (5613, "AtomicFloat64MinMaxEXT"),
    (5568, "SubgroupShuffleINTEL"),
    (5569, "SubgroupBufferBlockIOINTEL"),
    (5570, "SubgroupImageBlockIOINTEL"),
    (5629, "ExpectAssumeKHR"),
    (5837, "FPFastMathModeINTEL"),
    (5910, "MemoryAccessAliasingINTEL"),
    (6400, "GroupUniformArithmeticKHR"),
];

/// Whether a capability is one of these.
pub fn has_capability(number: u32) -> bool {
    CAPABILITIES.iter().any(|(known, _)| *known == number)
}
