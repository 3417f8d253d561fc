//! A module that breaks each rule. One that begins with "target" has its own triple.

use super::rules::{self, Rule};

/// What a module says of itself.
const OF_2_0: &str = "!opencl.spir.version = !{!90}\n!opencl.ocl.version = !{!90}\n!90 = !{i32 2, i32 0}\n";
const OF_1_2: &str = "!opencl.spir.version = !{!91}\n!opencl.ocl.version = !{!91}\n!91 = !{i32 1, i32 2}\n";

fn plain(body: &str) -> String {
    body.to_string()
}

fn of_2_0(body: &str) -> String {
    format!("{body}\n{OF_2_0}")
}

fn of_1_2(body: &str) -> String {
    format!("{body}\n{OF_1_2}")
}

/// A function of these instructions.
fn code(instructions: &str) -> String {
    format!(
        "define spir_func void @f(ptr %p, i32 %x, <4 x i32> %v) nounwind {{\n{instructions}\n ret void\n}}\n"
    )
}

/// A kernel of one argument, listed with this metadata.
fn kernel(nodes: &str) -> String {
    format!(
        "define spir_kernel void @k(ptr addrspace(1) %a) nounwind {{\n ret void\n}}\n!opencl.kernels = !{{!0}}\n{nodes}"
    )
}

/// A branch back, with this hint.
const LOOP: &str = "define spir_func void @f() nounwind !dbg !5 {
 br label %again
again:
 br label %again, !llvm.loop !0, !dbg !9
}
!0 = distinct !{!0, !1}
!1 = !{!\"opencl.loop.unroll_hint\", i64 4}
!llvm.module.flags = !{!2}
!llvm.dbg.cu = !{!3}
!2 = !{i32 2, !\"Debug Info Version\", i32 3}
!3 = distinct !DICompileUnit(language: DW_LANG_C99, file: !4, emissionKind: FullDebug)
!4 = !DIFile(filename: \"loop.cl\", directory: \"/\")
!5 = distinct !DISubprogram(name: \"f\", file: !4, line: 6, type: !6, unit: !3, spFlags: DISPFlagDefinition)
!6 = !DISubroutineType(types: !7)
!7 = !{null}
!9 = !DILocation(line: 7, scope: !5)
";

pub(super) fn all() -> Vec<(&'static Rule, String)> {
    vec![
        (&rules::TYPES, plain("define spir_func void @f(x86_fp80 %x) {\n ret void\n}")),
        (&rules::TYPES, code(" %y = zext i32 %x to i256")),
        (&rules::INTEGER_WIDTH, code(" %y = zext i32 %x to i48")),
        (&rules::VECTOR_LENGTH, plain("@g = addrspace(1) global <5 x i32> zeroinitializer")),
        (&rules::BOOL_VECTORS, code(" %c = icmp eq <4 x i32> %v, zeroinitializer\n %s = select <4 x i1> %c, <4 x i32> %v, <4 x i32> %v")),
        (&rules::OPAQUE_TYPES, plain("%opencl.event_t = type { i32 }\n@g = addrspace(1) global %opencl.event_t zeroinitializer")),
        (
            &rules::SAMPLER_VALUE,
            plain(
                "declare spir_func <4 x float> @_Z11read_imagef11ocl_image2d11ocl_samplerDv2_i(ptr addrspace(1), i32, <2 x i32>)
                 define spir_func void @f(ptr addrspace(1) %i) {
                  %t = call spir_func <4 x float> @_Z11read_imagef11ocl_image2d11ocl_samplerDv2_i(ptr addrspace(1) %i, i32 255, <2 x i32> zeroinitializer)
                  ret void\n}",
            ),
        ),
        (&rules::NDRANGE, plain("%opencl.ndrange_t = type { i32, i32 }\n@g = addrspace(1) global %opencl.ndrange_t zeroinitializer")),
        (
            &rules::BLOCK_SIZES,
            of_2_0(
                "declare ptr @spir_block_bind(ptr, i32, i32, ptr)\ndefine internal spir_func void @b(ptr %c) {\n ret void\n}
                 define spir_func void @f(i32 %n) {\n %b = call ptr @spir_block_bind(ptr @b, i32 %n, i32 4, ptr null)\n ret void\n}",
            ),
        ),
        (
            &rules::BLOCK_CONTEXT,
            of_2_0(
                "declare ptr @spir_block_bind(ptr, i32, i32, ptr)\ndefine internal spir_func void @b(ptr %c) {\n ret void\n}
                 define spir_func void @f(ptr %c) {\n %b = call ptr @spir_block_bind(ptr @b, i32 4, i32 4, ptr %c)\n ret void\n}",
            ),
        ),
        (
            &rules::BLOCK_INVOKE,
            of_2_0(
                "declare ptr @spir_get_block_invoke(ptr)\ndefine spir_func void @f(ptr %b, ptr %p) {
                  %i = call ptr @spir_get_block_invoke(ptr %b)\n store ptr %i, ptr %p\n ret void\n}",
            ),
        ),
        (
            &rules::BLOCK_ARGUMENT,
            of_2_0(
                "declare ptr @spir_get_block_context(ptr)\ndefine spir_func void @f(ptr %b, ptr %p) {
                  %c = call ptr @spir_get_block_context(ptr %b)\n store ptr %c, ptr %p\n ret void\n}",
            ),
        ),
        (&rules::VARIABLE_ALIGNMENT, code(" %a = alloca <4 x i32>, align 4")),
        (&rules::VARIABLE_ALIGNMENT, plain("@g = addrspace(1) global i64 0, align 2")),
        (&rules::ACCESS_ALIGNMENT, code(" %a = load i64, ptr %p, align 1\n store i64 %a, ptr %p, align 1")),
        (&rules::ADDRESS_SPACE, plain("@g = addrspace(5) global i32 0")),
        (&rules::GENERIC_SPACE, of_1_2(&code(" %a = addrspacecast ptr %p to ptr addrspace(4)"))),
        (&rules::SPACE_CAST, code(" %a = addrspacecast ptr %p to ptr addrspace(1)")),
        (&rules::PRIVATE_VARIABLE, plain("@g = global i32 0")),
        (&rules::CONSTANT_VARIABLE, plain("@g = addrspace(2) global i32 0")),
        (&rules::GLOBAL_VARIABLE, of_1_2("@g = addrspace(1) global i32 0")),
        (&rules::LOCAL_NAME, plain("@l = internal addrspace(3) global i32 undef\ndefine spir_func void @f() {\n store i32 1, ptr addrspace(3) @l\n ret void\n}")),
        (&rules::LOCAL_INITIALIZER, plain("@f.l = internal addrspace(3) global i32 7")),
        (
            &rules::KERNEL_LOCAL,
            plain(
                "@k.l = internal addrspace(3) global i32 undef\ndefine spir_kernel void @k() {\n store i32 1, ptr addrspace(3) @k.l\n ret void\n}
                 define spir_kernel void @j() {\n call spir_func void @k()\n ret void\n}",
            ),
        ),
        (&rules::KERNEL_ENTRY, plain("!opencl.kernels = !{!0}\n!0 = !{!\"k\"}")),
        (&rules::KERNEL_UNLISTED, plain("define spir_kernel void @k() {\n ret void\n}")),
        (&rules::KERNEL, plain("define spir_func i32 @k() {\n ret i32 0\n}\n!opencl.kernels = !{!0}\n!0 = !{ptr @k}")),
        (&rules::KERNEL, plain("define spir_kernel void @k(ptr %p) {\n ret void\n}")),
        (&rules::KERNEL, kernel("!0 = !{ptr @k, !1}\n!1 = !{!\"kernel_arg_type\"}")),
        (&rules::WORK_GROUP_SIZE, kernel("!0 = !{ptr @k, !1}\n!1 = !{!\"reqd_work_group_size\", i32 8}")),
        (&rules::KERNEL_ATTRIBUTE, plain("define spir_func void @f() !reqd_work_group_size !0 {\n ret void\n}\n!0 = !{i32 1, i32 1, i32 1}")),
        (&rules::VECTOR_HINT, kernel("!0 = !{ptr @k, !1}\n!1 = !{!\"vec_type_hint\", i32 7}")),
        (&rules::ARGUMENT_INFO, kernel("!0 = !{ptr @k}")),
        (&rules::ARGUMENT_SPACE, kernel("!0 = !{ptr @k, !1}\n!1 = !{!\"kernel_arg_addr_space\", i32 3}")),
        (&rules::ARGUMENT_ACCESS, kernel("!0 = !{ptr @k, !1}\n!1 = !{!\"kernel_arg_access_qual\", !\"execute\"}")),
        (&rules::ARGUMENT_TYPE, kernel("!0 = !{ptr @k, !1}\n!1 = !{!\"kernel_arg_type\", !\"unsigned int*\"}")),
        (&rules::ARGUMENT_QUALIFIER, kernel("!0 = !{ptr @k, !1}\n!1 = !{!\"kernel_arg_type_qual\", !\"const register\"}")),
        (&rules::UNROLL_HINT, plain(LOOP)),
        (&rules::COMPILER_OPTIONS, plain("!opencl.compiler.options = !{!0, !0}\n!0 = !{!\"-cl-fast\", i32 7}")),
        (&rules::CONTRACTION, plain("!opencl.enable.FP_CONTRACT = !{!0}\n!0 = !{}")),
        (&rules::MANGLED_NAME, plain("declare spir_func void @_Z3sinw(i32)")),
        (&rules::FENCE_FLAGS, plain("declare spir_func void @_Z7barrierj(i32)\ndefine spir_func void @f() {\n call spir_func void @_Z7barrierj(i32 8)\n ret void\n}")),
        (
            &rules::MEMORY_ORDER,
            plain(
                "declare spir_func void @_Z22atomic_work_item_fencej12memory_order12memory_scope(i32, i32, i32)
                 define spir_func void @f(i32 %o) {\n call spir_func void @_Z22atomic_work_item_fencej12memory_order12memory_scope(i32 1, i32 %o, i32 1)\n ret void\n}",
            ),
        ),
        (
            &rules::MEMORY_SCOPE,
            plain(
                "declare spir_func void @_Z22atomic_work_item_fencej12memory_order12memory_scope(i32, i32, i32)
                 define spir_func void @f() {\n call spir_func void @_Z22atomic_work_item_fencej12memory_order12memory_scope(i32 1, i32 1, i32 9)\n ret void\n}",
            ),
        ),
        (&rules::PRINTF_FORMAT, code(" %n = call i32 (ptr, ...) @printf(ptr %p)") + "declare i32 @printf(ptr, ...)"),
        (
            &rules::PRINTF_FLOAT,
            code(" %n = call i32 (ptr addrspace(2), ...) @printf(ptr addrspace(2) null, float 1.0)") + "declare i32 @printf(ptr addrspace(2), ...)",
        ),
        (
            &rules::ENQUEUE_FLAGS,
            of_2_0(
                "declare spir_func i32 @_Z14enqueue_kernel9ocl_queuei9ndrange_tU13block_pointerFvvE(ptr, i32, ptr, ptr)
                 define spir_func void @f(ptr %q, ptr %r, ptr %b) {
                  %e = call spir_func i32 @_Z14enqueue_kernel9ocl_queuei9ndrange_tU13block_pointerFvvE(ptr %q, i32 7, ptr %r, ptr %b)\n ret void\n}",
            ),
        ),
        (
            &rules::PIPE_PACKET,
            of_2_0(
                "declare spir_func i32 @_Z9read_pipePU3AS18ocl_pipePU3AS4vjj(ptr addrspace(1), ptr addrspace(4), i32, i32)
                 define spir_func void @f(ptr addrspace(1) %p, ptr addrspace(4) %q, i32 %n) {
                  %e = call spir_func i32 @_Z9read_pipePU3AS18ocl_pipePU3AS4vjj(ptr addrspace(1) %p, ptr addrspace(4) %q, i32 %n, i32 4)\n ret void\n}",
            ),
        ),
        (&rules::FEATURES, plain("!opencl.used.optional.core.features = !{!0}\n!0 = !{!\"cl_tensors\"}")),
        (&rules::FEATURE_UNDECLARED, code(" %d = sitofp i32 %x to double\n store double %d, ptr %p")),
        (&rules::EXTENSIONS, plain("!opencl.used.extensions = !{!0}\n!0 = !{!\"cl_khr_mipmap_image\"}")),
        (&rules::EXTENSION_NAMES, plain("!opencl.used.extensions = !{!0}\n!0 = !{!\"cl_khr_fp64\", !\"cl_khr_3d_image_writes\"}")),
        (&rules::SPIR_VERSION, plain("!opencl.spir.version = !{!0}\n!0 = !{i32 7, i32 1}")),
        (&rules::LANGUAGE_VERSION, plain("!opencl.ocl.version = !{!0}\n!0 = !{i32 7}")),
        (&rules::VERSION_COUNT, plain("!opencl.spir.version = !{!0, !0}\n!0 = !{i32 1, i32 2}")),
        (&rules::RECURSION, code(" call spir_func void @f(ptr %p, i32 %x, <4 x i32> %v)")),
        (&rules::FUNCTION_POINTER, code(" store ptr @f, ptr %p")),
        (&rules::FUNCTION_POINTER, code(" call void %p()")),
        (&rules::SIGNATURE, code(" call spir_func void @g(i64 1)") + "declare spir_func void @g(i32)"),
        (&rules::VARIADIC, plain("define spir_func void @f(i32 %a, ...) {\n ret void\n}")),
        (&rules::VARIABLE_LENGTH, code(" %a = alloca i32, i32 %x")),
        (&rules::TRIPLE, plain("target triple = \"x86_64-unknown-linux-gnu\"")),
        (&rules::TRIPLE, plain("target triple = \"spir-unknown-unknown\"")),
        (&rules::DATA_LAYOUT, plain("target triple = \"spir64-unknown-unknown\"\ntarget datalayout = \"E-p:64:64:64\"")),
        (&rules::IDENTIFIER, plain("@\"a b\" = addrspace(1) global i32 0")),
        (&rules::RESERVED_NAME, plain("@spir.x = addrspace(1) global i32 0")),
        (&rules::INSTRUCTION, code(" %a = va_arg ptr %p, i32")),
        (&rules::NEWER_INSTRUCTION, code(" %a = freeze i32 %x")),
        (&rules::EXACT_SHIFT, code(" %a = ashr exact i32 %x, 1")),
        (&rules::SHIFT_AMOUNT, code(" %a = shl i32 %x, 32")),
        (&rules::VECTOR_CONVERSION, code(" %a = sitofp <4 x i32> %v to <4 x float>")),
        (&rules::UNKNOWN_INTRINSIC, code(" call void @llvm.trap()") + "declare void @llvm.trap()"),
        (&rules::INTRINSIC, code(" %a = call i32 @llvm.ctpop.i32(i32 %x)") + "declare i32 @llvm.ctpop.i32(i32)"),
        (&rules::AGGREGATE, plain("define spir_func void @f({ i32, i32 } %s) {\n ret void\n}")),
        (&rules::PROMOTION, plain("define spir_func i8 @f(i8 %c) {\n ret i8 %c\n}")),
        (&rules::LINKAGE, plain("@g = weak addrspace(1) global i32 0")),
        (
            &rules::GLOBAL_CONSTRUCTOR,
            plain("define spir_func void @c() {\n ret void\n}\n@llvm.global_ctors = appending addrspace(1) global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @c, ptr null }]"),
        ),
        (&rules::ALIAS, plain("@g = addrspace(1) global i32 0\n@a = alias i32, ptr addrspace(1) @g")),
        (&rules::IFUNC, plain("@i = ifunc void (), ptr @r\ndefine ptr @r() {\n ret ptr null\n}")),
        (&rules::THREAD_LOCAL, plain("@g = thread_local addrspace(1) global i32 0")),
        (&rules::SECTION, plain("@g = addrspace(1) global i32 0, section \".init_array\"")),
        (&rules::COMDAT, plain("$g = comdat any\n@g = addrspace(1) global i32 0, comdat")),
        (&rules::CALLING_CONVENTION, plain("define void @f() {\n ret void\n}")),
        (&rules::CALL_CONVENTION, code(" call void @g()") + "declare spir_func void @g()"),
        (&rules::VISIBILITY, plain("@g = hidden addrspace(1) global i32 0")),
        (&rules::PARAMETER_ATTRIBUTE, plain("define spir_func void @f(ptr nonnull %p) {\n ret void\n}")),
        (&rules::GARBAGE_COLLECTOR, plain("define spir_func void @f() gc \"shadow-stack\" {\n ret void\n}")),
        (&rules::PREFIX_DATA, plain("define spir_func void @f() prefix i32 7 {\n ret void\n}")),
        (&rules::PERSONALITY, plain("declare i32 @g(...)\ndefine spir_func void @f() personality ptr @g {\n ret void\n}")),
        (&rules::NO_UNWIND, plain("define spir_func void @f() {\n ret void\n}")),
        (&rules::FUNCTION_ATTRIBUTE, plain("define spir_func void @f() noreturn \"mine\"=\"1\" {\n ret void\n}")),
        (&rules::ASSEMBLY, plain("module asm \"nop\"")),
        (&rules::ASSEMBLY, code(" call void asm \"nop\", \"\"()")),
        (&rules::ATOMIC, code(" %a = load atomic i32, ptr %p seq_cst, align 4\n fence seq_cst")),
        (&rules::POISON, code(" store i32 poison, ptr %p")),
        (&rules::SIZE, code(" %a = alloca [1152921504606846976 x i128]")),
        (&rules::ALIGNMENT, plain("@g = addrspace(1) global i32 0, align 1048576")),
    ]
}
