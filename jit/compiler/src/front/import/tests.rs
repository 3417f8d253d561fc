//! Import: tests on small kernels, one idea each.

use super::import;
use crate::front::harden::kernel_symbol;
use crate::front::{CleanModule, metadata, testing};
use crate::llvm::{self, Session};

/// The kernel `k` of a module, and the whole; or the log.
fn imported(text: &str) -> Result<(String, String), String> {
    let session = Session::new();
    let machine = llvm::machine(&llvm::host(), true).unwrap();
    let mut module = testing::module(&session, text);
    let kernels = metadata::kernels(&module).unwrap();
    llvm::set_target(&mut module, &machine, Default::default());
    module.edit(|edit| {
        for function in edit.functions().into_iter().filter(|f| !f.name().starts_with("llvm.")) {
            if kernels.iter().any(|kernel| kernel.name == function.name()) {
                edit.set_name(*function, &kernel_symbol(&function.name()));
            }
            edit.use_c_convention(function);
        }
    });
    let result = import(CleanModule { module, kernels, checks: Default::default(), left_out: Vec::new() })
        .map_err(|error| error.to_string())?
        .module;
    result.verify().unwrap_or_else(|e| {
        panic!(
            "{e}
{result}"
        )
    });
    Ok((result.kernels[0].to_string(), result.to_string()))
}

/// The body of a kernel with some parameters of every kind, without its first and last line.
fn body(instructions: &str) -> String {
    let text = format!(
        "declare i64 @spirula.global_id.0()\ndeclare i64 @spirula.local_id.2()\ndeclare i32 @spirula.work_dim()
         declare void @spirula.barrier(i32) convergent
         %S = type {{ i8, i64, [4 x <3 x float>] }}
         define spir_kernel void @k(ptr addrspace(1) %p, ptr addrspace(3) %l, i32 %a, i64 %n, <4 x float> %v, float %x) {{
         {instructions}
         }}"
    );
    let text = imported(&text).unwrap_or_else(|e| panic!("{e}")).0;
    text.lines().skip(1).filter(|line| *line != "}").map(|line| format!("{}\n", line.trim())).collect()
}

/// Checks for lines in order.
fn expect(instructions: &str, lines: &[&str]) {
    let text = body(instructions);
    let mut rest = text.as_str();
    for line in lines {
        let Some(at) = rest.find(line) else { panic!("`{line}` isn't (here) in\n{text}") };
        rest = &rest[at + line.len()..];
    }
}

fn refused(instructions: &str) -> String {
    imported(&format!("define spir_kernel void @k(ptr addrspace(1) %p, i32 %a) {{\n{instructions}\n}}"))
        .unwrap_err()
}

#[test]
fn parameters_say_how_they_are_passed() {
    let text = "%S = type { i32, i32 }
        define spir_kernel void @k(ptr addrspace(1) %p, ptr addrspace(3) %l, ptr byval(%S) %s, <3 x float> %v, i32 %sampler) {
          ret void\n}";
    let text = imported(text).unwrap().0;
    let parameters = "%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset, %2: ptr(private) @ 16 by_address, \
        %3: <3 x f32> @ 32, %4: i32 @ 48";
    assert!(text.starts_with(&format!("kernel \"k\"({parameters})")), "{text}");
}

#[test]
fn flags_survive() {
    expect(
        "%b = add nuw nsw i32 %a, 1\n%c = sdiv exact i32 %b, 4\n%d = or disjoint i32 %c, 1\n%e = zext nneg i32 %d to i64
         %f = icmp samesign ult i64 %e, %n\n%g = fmul nnan contract float %x, 2.0\n%h = select nsz i1 %f, float %g, float %x
         store float %h, ptr addrspace(1) %p\nret void",
        &[
            "add nuw nsw",
            "sdiv exact",
            "or disjoint",
            "zext nneg",
            "icmp samesign ult",
            "fmul nnan contract",
            "0x40000000:f32",
            "select nsz",
        ],
    );
}

#[test]
fn addresses_are_base_index_scale_offset() {
    expect(
        "%q = getelementptr inbounds %S, ptr addrspace(1) %p, i64 %n, i32 2, i32 %a, i32 1
         store i32 1, ptr addrspace(1) %q\nret void",
        // 80 bytes a structure, member 2 at 16, 16 a vector of three, lane 1 at 4.
        &["address inbounds %0 + %3*80 + 16", "sext %2", "*16 + 4"],
    );
    expect(
        "%q = getelementptr i32, ptr addrspace(1) %p, i64 -2\nstore i32 1, ptr addrspace(1) %q\nret void",
        &["address %0 + -8"],
    );
    expect(
        "%q = getelementptr i32, ptr addrspace(1) %p, i64 0\nstore i32 1, ptr addrspace(1) %q\nret void",
        &["store %0"],
    );
}

#[test]
fn a_vector_of_addresses_is_made_lane_by_lane() {
    expect(
        "%i = insertelement <2 x i64> <i64 0, i64 8>, i64 %n, i32 0
         %q = getelementptr i16, ptr addrspace(1) %p, <2 x i64> %i
         %e = extractelement <2 x ptr addrspace(1)> %q, i32 1\nstore i16 1, ptr addrspace(1) %e\nret void",
        &[
            "extract_element",
            "*2 + 0",
            "insert_element poison",
            "extract_element",
            "*2 + 0",
            "insert_element",
        ],
    );
}

#[test]
fn phis_become_block_parameters() {
    let text = body(
        "br label %loop\nloop:\n%i = phi i32 [ 0, %0 ], [ %j, %loop ]\n%s = phi float [ %x, %0 ], [ %t, %loop ]
         %j = add i32 %i, 1\n%t = fadd float %s, 1.0\n%c = icmp slt i32 %j, %a\nbr i1 %c, label %loop, label %end
         end:\nstore float %t, ptr addrspace(1) %p\nret void",
    );
    assert!(text.contains("jump b1(0:i32, %5)\nb1(%6: i32, %7: f32):"), "{text}");
    assert!(text.contains(", b1(%10, %12), b2\nb2:"), "{text}");
}

#[test]
fn a_barrier_ends_its_block() {
    let text = body(
        "%i = call i64 @spirula.global_id.0()\ncall void @spirula.barrier(i32 1)\n%d = call i32 @spirula.work_dim()
         %j = call i64 @spirula.local_id.2()\nstore i64 %i, ptr addrspace(1) %p\nstore i32 %d, ptr addrspace(3) %l\nret void",
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..6],
        ["b0:", "%6: i64 = global_id 0", "barrier b1", "b1:", "%8: i32 = work_dim 0", "%9: i64 = local_id 2"],
        "{text}"
    );
    assert!(lines.contains(&"store %0, %6, align 8"), "{text}");
}

#[test]
fn switches_keep_their_cases() {
    expect(
        "switch i32 %a, label %d [ i32 -1, label %e\n i32 7, label %d ]\nd:\nret void\ne:\nunreachable",
        &["switch %2, 4294967295: b", "7: b", "default: b"],
    );
}

#[test]
fn private_variables_are_slots() {
    expect(
        "%s = alloca [10 x i32], align 16\n%q = getelementptr [10 x i32], ptr %s, i64 0, i32 %a
         store i32 1, ptr %q\nret void",
        &["slot $0: 40 align 16", "slot_address $0"],
    );
    assert!(refused("%s = alloca i32, i32 %a\nret void").contains("private array of variable length"));
    assert!(refused("%s = alloca [9223372036854775807 x i8]\nret void").contains("too large"));
}

#[test]
fn local_variables_are_laid_out() {
    let text = "@a = internal addrspace(3) global i8 undef\n@b = internal addrspace(3) global [4 x i32] zeroinitializer
        define spir_kernel void @k() {\nstore i8 1, ptr addrspace(3) @a
        store i32 2, ptr addrspace(3) getelementptr ([4 x i32], ptr addrspace(3) @b, i64 0, i64 3)\nret void\n}";
    let kernel = imported(text).unwrap().0;
    assert!(kernel.contains("local 20"), "{kernel}");
    assert!(kernel.contains("local_address 0") && kernel.contains("local_address 4"), "{kernel}");
    assert!(kernel.contains("+ 12"), "{kernel}");
}

#[test]
fn variables_keep_their_alignment() {
    let text = "@a = internal addrspace(3) global i8 undef\n@b = internal addrspace(3) global [4 x i32] undef, align 64
        define spir_kernel void @k() {\nstore i8 1, ptr addrspace(3) @a
        store i32 2, ptr addrspace(3) @b\nret void\n}";
    let kernel = imported(text).unwrap().0;
    assert!(kernel.contains("local 80") && kernel.contains("local_address 64"), "{kernel}");
}

#[test]
fn data_and_functions_are_handed_on() {
    let text = "@table = internal addrspace(2) constant [2 x i32] [i32 5, i32 6]\n@unused = internal addrspace(2) constant i32 0
        define internal i32 @helper(i32 %x) nounwind willreturn memory(none) {\n ret i32 %x\n}
        define spir_kernel void @k(ptr addrspace(1) %p) {\n%v = load i32, ptr addrspace(2) @table\n%w = call i32 @helper(i32 %v)
        store i32 %w, ptr addrspace(1) %p\nret void\n}";
    let (kernel, rest) = imported(text).unwrap();
    assert!(kernel.contains("global_address @\"spirula.data.0.table\""), "{kernel}");
    assert!(kernel.contains("call pure nosync @\"spirula.function.0.helper\""), "{kernel}");
    assert!(rest.contains("constant \"spirula.data.0.table\" size 8 align 4 \"0500000006\""), "{rest}");
    let function = "function \"spirula.function.0.helper\"(%0: i32) yields i32 no_reads no_writes returns {\nb0:\n  return %0\n}";
    assert!(rest.contains(function), "{rest}");
    assert!(!rest.contains("unused"), "{rest}");
}

#[test]
fn variables_lie_in_one_block() {
    let text = "@counter = internal addrspace(1) global i32 7\n@wide = internal addrspace(1) global <4 x float> zeroinitializer, align 16
        @table = internal addrspace(2) constant i64 1
        define spir_kernel void @k(ptr addrspace(1) %p) {\n%a = load i32, ptr addrspace(1) @counter\nstore i32 %a, ptr addrspace(1) @wide
        %b = load i64, ptr addrspace(2) @table\nstore i64 %b, ptr addrspace(1) %p\nret void\n}";
    let (kernel, whole) = imported(text).unwrap();
    assert!(whole.contains("variables size 32 align 16 \"07\""), "{whole}");
    assert!(whole.contains("constant \"spirula.data.2.table\""), "{whole}");
    assert!(kernel.contains("global_address @\"spirula.data\"") && kernel.contains(" + 16"), "{kernel}");
}

#[test]
fn what_points_to_variables_lies_beside_them() {
    let text = "@x = internal addrspace(1) global [2 x i32] [i32 1, i32 2]
        @px = internal addrspace(2) constant ptr addrspace(1) getelementptr (i32, ptr addrspace(1) @x, i64 1)
        @far = internal addrspace(2) constant { i8, ptr addrspace(2) } { i8 3, ptr addrspace(2) @near }
        @near = internal addrspace(2) constant half 0xH3C00
        define spir_kernel void @k() {\n%a = load ptr, ptr addrspace(2) @px\n%b = load ptr, ptr addrspace(2) @far\nret void\n}";
    let whole = imported(text).unwrap().1;
    assert!(
        whole.contains("variables size 16 changing 8 align 8 \"0100000002\"\n  pointer 8 4\n"),
        "{whole}"
    );
    let far =
        "constant \"spirula.data.2.far\" size 16 align 8 \"03\"\n  pointer 8 \"spirula.data.3.near\" 0\n";
    assert!(
        whole.contains(far) && whole.contains("\"spirula.data.3.near\" size 2 align 2 \"003c\""),
        "{whole}"
    );
}

#[test]
fn initial_values_are_laid_out_as_in_memory() {
    let bytes = |ty: &str, value: &str| {
        let text = format!(
            "%P = type <{{ i8, i32 }}>\n@x = internal addrspace(2) constant {ty} {value}
             define spir_kernel void @k() {{\n%a = load i8, ptr addrspace(2) @x\nret void\n}}"
        );
        let whole = imported(&text).unwrap_or_else(|e| panic!("{e}")).1;
        whole.lines().next().unwrap().rsplit(' ').next().unwrap().trim_matches('"').to_owned()
    };
    assert_eq!(bytes("i37", "-1"), "ffffffff1f");
    assert_eq!(bytes("i128", "258"), "0201");
    assert_eq!(bytes("<3 x i16>", "<i16 1, i16 poison, i16 3>"), "0100000003");
    assert_eq!(
        bytes("{ i8, i64, [2 x float] }", "{ i8 1, i64 2, [2 x float] [float 1.0, float 0.0] }"),
        "010000000000000002000000000000000000803f"
    );
    assert_eq!(bytes("%P", "<{ i8 1, i32 2 }>"), "0102");
    assert_eq!(bytes("double", "1.0"), "000000000000f03f");
    assert_eq!(bytes("[2 x i8]", "undef"), "");
    assert_eq!(bytes("ptr", "inttoptr (i64 4096 to ptr)"), "0010");
}

#[test]
fn functions_return_values_of_any_type() {
    let text = "define internal { i32, <2 x float> } @f(i128 %a, [2 x i16] %b, i1 %c) noinline cold {
         br i1 %c, label %x, label %y\nx:\n%t = trunc i128 %a to i32
         %r = insertvalue { i32, <2 x float> } zeroinitializer, i32 %t, 0\nret { i32, <2 x float> } %r\ny:\nunreachable\n}
         define spir_kernel void @k(ptr addrspace(1) %p) {\n%r = call { i32, <2 x float> } @f(i128 5, [2 x i16] zeroinitializer, i1 true)
         %v = extractvalue { i32, <2 x float> } %r, 1\nstore <2 x float> %v, ptr addrspace(1) %p\nret void\n}";
    let whole = imported(text).unwrap().1;
    let head = "(%0: i128, %1: [2 x i16], %2: i1) yields {i32, <2 x f32>} no_reads no_writes returns noinline cold {";
    assert!(whole.contains(head), "{whole}");
    assert!(whole.contains("= call pure nosync @\"spirula.function.0.f\"(5:i128"), "{whole}");
}

#[test]
fn what_a_function_contains_is_named_with_it() {
    let function = |body: &str| {
        imported(&format!(
            "define internal void @helper(i32 %a) {{\n{body}\nret void\n}}
             define spir_kernel void @k() {{\ncall void @helper(i32 1)\nret void\n}}\ndeclare void @llvm.trap()"
        ))
        .unwrap_err()
    };
    let log = function("%v = alloca i32, i32 %a");
    assert!(
        log.contains("the function `helper` can't be compiled: it has a private array of variable"),
        "{log}"
    );
    let log = function("call void @llvm.trap()");
    assert!(log.contains("`helper` can't be compiled: it calls the intrinsic `llvm.trap`"), "{log}");
}

#[test]
fn small_copies_become_loads_and_stores() {
    let copy = |bytes: u32, to: u32, from: u32| {
        body(&format!(
            "%s = alloca [64 x i64], align 16\ncall void @llvm.memcpy.p0.p1.i64(ptr align {to} %s, ptr addrspace(1) align {from} %p, \
             i64 {bytes}, i1 false)\nret void\n}}\ndeclare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)\ndefine void @f() {{ ret void"
        ))
    };
    let text = copy(13, 8, 8);
    for piece in ["i64 = load %0, align 8", "i32 = load %8, align 8", "i8 = load %10, align 4"] {
        assert!(text.contains(piece), "{piece} in\n{text}");
    }
    assert_eq!(text.matches("store").count(), 3, "{text}");
    assert_eq!(copy(16, 1, 1).matches("i32 = load").count(), 4);
    assert!(copy(512, 1, 1).contains("intrinsic memcpy"));
}

#[test]
fn small_fills_become_stores() {
    expect(
        "%s = alloca [2 x i64], align 8\ncall void @llvm.memset.p0.i64(ptr align 8 %s, i8 -1, i64 12, i1 false)\nret void
         }\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\ndefine void @f() {\nret void",
        &["18446744073709551615:i64, align 8", "4294967295:i32, align 8"],
    );
}

#[test]
fn constants_of_every_kind() {
    expect(
        "%a1 = add i128 170141183460469231731687303715884105727, -1\nstore i128 %a1, ptr addrspace(1) %p
         store <2 x float> <float 1.0, float poison>, ptr addrspace(1) %p\nstore [2 x i16] zeroinitializer, ptr addrspace(1) %p
         store half 0xH3C00, ptr addrspace(1) %p\nstore double 0x7FF8000000000001, ptr addrspace(1) %p
         store ptr addrspace(1) null, ptr addrspace(1) %p\nstore i37 -1, ptr addrspace(1) %p\nstore { i8, i32 } { i8 1, i32 undef }, ptr addrspace(1) %p
         store <4 x i32> splat (i32 7), ptr addrspace(1) %p\nret void",
        &[
            "add 170141183460469231731687303715884105727:i128, 340282366920938463463374607431768211455:i128",
            "[0x3f800000:f32, poison:f32]:<2 x f32>",
            "zero:[2 x i16]",
            "0x3c00:f16",
            "0x7ff8000000000001:f64",
            "zero:ptr(global)",
            "137438953471:i37",
            "[1:i8, undef:i32]:{i8, i32}",
            "[7:i32, 7:i32, 7:i32, 7:i32]:<4 x i32>",
        ],
    );
}

#[test]
fn constant_expressions_become_instructions() {
    let text = "@t = internal addrspace(2) constant [4 x i8] zeroinitializer
        define spir_kernel void @k(ptr addrspace(1) %p) {
        store i64 ptrtoint (ptr addrspace(2) getelementptr (i8, ptr addrspace(2) @t, i64 3) to i64), ptr addrspace(1) %p
        store [2 x ptr addrspace(2)] [ptr addrspace(2) @t, ptr addrspace(2) null], ptr addrspace(1) %p\nret void\n}";
    let kernel = imported(text).unwrap().0;
    for part in ["global_address", "+ 3", "ptrtoint", "insert_value poison:[2 x ptr(constant)]"] {
        assert!(kernel.contains(part), "{part} in\n{kernel}");
    }
}

#[test]
fn atomics_keep_order_and_operation() {
    expect(
        "%o = atomicrmw volatile umax ptr addrspace(1) %p, i32 %a monotonic
         %c = cmpxchg weak ptr addrspace(1) %p, i32 %o, i32 %a acq_rel acquire\n%e = extractvalue { i32, i1 } %c, 0
         fence release\n%r = load atomic i32, ptr addrspace(1) %p acquire, align 4\nstore volatile i32 %e, ptr addrspace(1) %p\nret void",
        &[
            "rmw volatile atomic monotonic umax %0, %2, align 4",
            "cmpxchg weak acq_rel acquire %0, %6, %2, align 4",
            "extract_value %7, [0]",
            "fence release",
            "load atomic acquire %0, align 4",
            "store volatile %0, %8, align 4",
        ],
    );
}

#[test]
fn buffers_may_be_less_aligned_than_their_vectors() {
    expect(
        "%w = load <4 x float>, ptr addrspace(1) %p, align 16\nstore <4 x float> %w, ptr addrspace(3) %l, align 16\nret void",
        &["load %0, align 4", "store %1, %6, align 16"],
    );
}

#[test]
fn what_is_never_poison_is_not_frozen() {
    let frozen = body(
        "%i = call i64 @spirula.global_id.0()\n%f = freeze i64 %i\n%t = trunc i64 %f to i32\n%g = freeze i32 %t\n%b = freeze i32 %a
         %s = add nsw i32 %g, %b\n%h = freeze i32 %s\nstore i32 %h, ptr addrspace(1) %p\nret void",
    );
    assert_eq!(frozen.matches("freeze").count(), 1, "{frozen}");
    // The sum may be.
    assert!(frozen.find("add nsw") < frozen.find("freeze"), "{frozen}");
}

#[test]
fn hints_vanish_and_intrinsics_stay() {
    expect(
        "call void @llvm.assume(i1 true)\n%e = call i32 @llvm.expect.i32(i32 %a, i32 1)\n%f = call float @llvm.fma.f32(float %x, float %x, float 1.0)
         store i32 %e, ptr addrspace(1) %p\nstore float %f, ptr addrspace(1) %p\nret void\n}
         declare void @llvm.assume(i1)\ndeclare i32 @llvm.expect.i32(i32, i32)\ndeclare float @llvm.fma.f32(float, float, float)\ndefine void @f() {\nret void",
        &["b0:\n%7: f32 = intrinsic fma(%5, %5, 0x3f800000:f32)\nstore %0, %2"],
    );
}

#[test]
fn what_is_not_supported_is_named_with_its_kernel() {
    let log = refused("%x = atomicrmw uinc_wrap ptr addrspace(1) %p, i32 %a monotonic\nret void");
    assert!(log.contains("`k` can't be compiled: it contains `%x = atomicrmw uinc_wrap"), "{log}");
    let log = refused("%x = load <{ i8, i32 }>, ptr addrspace(1) %p\nret void");
    assert!(log.contains("<{ i8, i32 }>, which is not supported"), "{log}");
}
