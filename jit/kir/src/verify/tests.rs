//! The verifier: one broken rule each.

use crate::{parse, verify};

/// What the verifier says of a kernel's first block.
fn said(instructions: &str) -> Result<(), String> {
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %2: f32 @ 12, %3: <4 x i32> @ 16, %4: i64 @ 32, %5: ptr(local) @ 40) {{
  slot $0: 8 align 8\nb0:\n{instructions}\n  return\n}}\n"
    );
    verify(&parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")))
}

fn refused(instructions: &str) -> String {
    said(instructions).expect_err(instructions)
}

#[test]
fn operands_and_results_have_types() {
    let right = [
        "  %9: i32 = add %1, 1:i32",
        "  %9: <4 x i1> = icmp slt %3, zero:<4 x i32>",
        "  %9: i64 = bitcast zero:<2 x i32>",
        "  %9: <4 x i32> = select zero:<4 x i1>, %3, %3",
        "  %9: ptr(private) = slot_address $0",
        "  %9: <2 x i32> = shuffle %3, %3, [7, -1]",
        "  %9: {i32, i1} = cmpxchg seq_cst seq_cst %0, %1, 1:i32, align 4",
        "  %9: i32 = extract_value [1:i32, zero:[2 x i32]]:{i32, [2 x i32]}, [1, 1]",
        "  %9: <4 x i32> = masked_load %0, zero:<4 x i1>, align 4",
        "  %9: ptr(global) = address %0 + %4*4 + 0",
    ];
    right.into_iter().for_each(|line| said(line).unwrap_or_else(|e| panic!("{e} in {line}")));
    let wrong = [
        "  %9: i32 = add %1, 1:i64",
        "  %9: i64 = add %1, %1",
        "  %9: f32 = add %2, %2",
        "  %9: i32 = fadd %1, %1",
        "  %9: i1 = icmp slt %3, zero:<4 x i32>",
        "  %9: i1 = fcmp oeq %1, %1",
        "  %9: i64 = trunc %1",
        "  %9: i64 = bitcast zero:<3 x i32>",
        "  %9: ptr(local) = bitcast %0",
        "  %9: i32 = select %1, %1, %1",
        "  %9: i32 = select zero:<4 x i1>, %1, %1",
        "  %9: ptr(local) = address %0 + 4",
        "  %9: ptr(global) = address %0 + %1*4 + 0",
        "  %9: ptr(global) = slot_address $0",
        "  %9: i32 = load %1, align 4",
        "  %9: i32 = load %0, align 3",
        "  %9: i32 = load atomic release %0, align 4",
        "  %9: <4 x i32> = load atomic acquire %0, align 4",
        "  store atomic acquire %0, %1, align 4",
        "  store %1, %1, align 4",
        "  %9: f32 = rmw atomic monotonic add %0, %2, align 4",
        "  %9: i64 = rmw atomic monotonic add %0, %1, align 4",
        "  %9: {i64, i1} = cmpxchg seq_cst seq_cst %0, %1, 1:i32, align 4",
        "  %9: {i32, i1} = cmpxchg seq_cst release %0, %1, 1:i32, align 4",
        "  %9: <2 x i32> = shuffle %3, %3, [8, 0]",
        "  %9: <3 x i32> = shuffle %3, %3, [1, 0]",
        "  %9: i64 = extract_element %3, 1:i32",
        "  %9: i32 = extract_value [1:i32, zero:[2 x i32]]:{i32, [2 x i32]}, [1, 2]",
        "  %9: i32 = extract_value %1, []",
        "  %9: i64 = work_dim 0",
        "  %9: i64 = global_id 3",
        "  %9: <4 x i32> = masked_load %0, zero:<2 x i1>, align 4",
        "  %9: i32 = fence seq_cst",
        "  fence monotonic",
    ];
    let body = |line: &str| line.trim().trim_start_matches("%9: ").to_owned();
    wrong.into_iter().for_each(|line| assert!(refused(line).contains(&body(line)), "{}", refused(line)));
}

#[test]
fn intrinsics_keep_their_shape() {
    assert_eq!(said("  %9: <4 x i32> = intrinsic ctlz(%3, 1:i1)"), Ok(()));
    assert!(
        refused("  %9: i32 = intrinsic ctlz(%3, 1:i1)")
            .contains("ctlz doesn't take (<4 x i32>, i1) and yield i32")
    );
    let varying = "  %8: i1 = icmp eq %1, 0:i32\n  %9: i32 = intrinsic ctlz(%1, %8)";
    assert!(refused(varying).contains("operand 1 of ctlz must be a constant"));
}

#[test]
fn constants_fit_their_types() {
    for constant in ["256:i8", "0x10000:f16", "[1:i32]:<2 x i32>", "[1:i8, 2:i32]:{i8, i8}", "7:ptr(global)"]
    {
        assert!(
            refused(&format!("  store %0, {constant}, align 1")).contains("isn't what its definition says")
        );
    }
    assert!(refused("  store %0, zero:<70000 x i32>, align 4").contains("more than 65536 elements"));
    assert!(refused("  store %0, zero:[300 x [300 x i32]], align 4").contains("more than 65536 elements"));
}

#[test]
fn blocks_end_as_their_function_may() {
    let function = |signature: &str, end: &str| {
        let text = format!("{signature} {{\nb0:\n  {end}\nb1:\n  unreachable\n}}\n");
        verify(&parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")))
    };
    let (kernel, callable) = ("kernel \"k\"()", "function \"f\"() yields i32");
    assert_eq!(function(kernel, "barrier b1"), Ok(()));
    assert_eq!(function(callable, "return 1:i32"), Ok(()));
    let wrong = [
        (kernel, "return 1:i32", "returns what the function doesn't yield"),
        (callable, "return", "returns what the function doesn't yield"),
        (callable, "return 1:i64", "returns what the function doesn't yield"),
        (callable, "barrier b1", "ends as only a kernel's can"),
        (kernel, "jump b1(1:i32)", "don't fit the parameters of b1"),
        (kernel, "branch 1:i32, b1, b1", "no i1"),
        (kernel, "switch 0x0:f32, default: b1", "no integer"),
        (kernel, "switch 1:i8, 256: b1, default: b1", "can't have"),
        (kernel, "switch 1:i8, 2: b1, 2: b1, default: b1", "a case twice"),
    ];
    for (signature, end, expected) in wrong {
        let error = function(signature, end).expect_err(end);
        assert!(error.contains(expected), "{error} for {end}");
    }
}

#[test]
fn slots_and_local_memory_are_bounded() {
    let with = |header: &str| {
        verify(&parse(&format!("kernel \"k\"() {{\n  {header}\nb0:\n  return\n}}\n")).unwrap())
    };
    assert!(with("slot $0: 18446744073709551615 align 1").is_err());
    assert!(with("slot $0: 4 align 3").is_err());
    assert!(with("slot $0: 4 align 67108864").is_err());
    assert!(with("local 18446744073709551615").is_err());
}
