use super::*;
use crate::{parse, verify};

/// How many loads a loop keeps whose body this is; %0 and %1 are pointers, %2 the counter, %3 a number.
fn loads(body: &str) -> usize {
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset, %3: i64 @ 16) {{\nb0:\n  jump b1(0:i64)\nb1(%2: i64):\n\
         {body}  %9: i64 = add %2, 1:i64\n  %10: i1 = icmp ult %9, %3\n  branch %10, b1(%9), b2\nb2:\n  return\n}}"
    );
    let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    eliminate_loop_loads(&mut function);
    verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
    let flow = ControlFlow::new(&function);
    let looping = function.block_ids().filter(|&block| flow.is_in_loop(block));
    let insts = looping.flat_map(|block| &function.block(block).insts);
    insts.filter(|&&inst| matches!(function.op(inst), Op::Load { .. })).count()
}

const SUM: &str = "  %4: i64 = load %0, align 8\n  %5: i64 = add %4, 7:i64\n  store %0, %5, align 8\n";

#[test]
fn a_sum_needs_one_load_before_the_loop() {
    assert_eq!(loads(SUM), 0);
}

#[test]
fn other_memory_may_change() {
    let elsewhere = |pointer: &str| format!("{SUM}  store {pointer}, %5, align 8\n");
    assert_eq!(loads(&elsewhere("%1")), 0, "of another address space");
    let near =
        |offset: u32| format!("{SUM}  %6: ptr(global) = address %0 + {offset}\n  store %6, %5, align 8\n");
    assert_eq!(loads(&near(8)), 0);
    assert_eq!(loads(&near(4)), 1, "a part of it is overwritten");
    let any = "  %6: ptr(global) = address %0 + %2*8 + 0\n  store %6, %5, align 8\n";
    assert_eq!(loads(&format!("{SUM}{any}")), 1);
}

#[test]
fn what_others_may_see_stays() {
    assert_eq!(loads(&SUM.replace("= load", "= load volatile")), 1);
    assert_eq!(loads(&format!("{SUM}  fence acq_rel\n")), 1);
    let narrow = SUM
        .replace("add %4, 7:i64", "add %4, 7:i64\n  %6: i32 = trunc %5")
        .replace("%0, %5, align 8", "%0, %6, align 4");
    assert_eq!(loads(&narrow), 1, "of another size");
}

/// Loads and stores in the loops of a kernel with three buffers %0 to %2 and a size %3; %4 is the counter of its one loop.
fn in_versions(body: &str) -> (usize, usize) {
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: ptr(global) @ 16, %3: i64 @ 24) {{\nb0:\n  jump b1(0:i64)\nb1(%4: i64):\n\
         %5: i1 = icmp ult %4, %3\n  branch %5, b2, b3\nb2:\n  %6: ptr(global) = address %1 + %4*8 + 0\n{body}  %9: i64 = add %4, 1:i64\n\
         jump b1(%9)\nb3:\n  store %2, %4, align 8\n  return\n}}"
    );
    let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    eliminate_loop_loads(&mut function);
    verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
    let flow = ControlFlow::new(&function);
    let looping = function.block_ids().filter(|&block| flow.is_in_loop(block));
    let insts: Vec<Inst> = looping.flat_map(|block| function.block(block).insts.clone()).collect();
    let count = |is: fn(&Op) -> bool| insts.iter().filter(|&&inst| is(function.op(inst))).count();
    (count(|op| matches!(op, Op::Load { .. })), count(|op| matches!(op, Op::Store { .. })))
}

const OTHERS: &str = "  %10: i64 = load %6, align 8\n";

#[test]
fn a_version_for_disjoint_buffers() {
    let sum = format!("{OTHERS}  %11: i64 = load %0, align 8\n  %12: i64 = add %10, %11\n");
    // One load for disjoint buffers; else one load and one store.
    assert_eq!(in_versions(&format!("{sum}  store %0, %12, align 8\n")), (2, 1));
    // What does not change is loaded in front of the loop.
    assert_eq!(in_versions(&format!("{sum}  store %6, %12, align 8\n")), (1 + 2, 2));
    assert_eq!(in_versions(&format!("{sum}  store volatile %6, %12, align 8\n")), (2, 1), "in one version");
    assert_eq!(in_versions(&sum), (1, 0), "a loop that counts waits for nobody's store");
    let near = "  %11: i64 = load %1, align 8\n  %12: i64 = add %10, %11\n  store %1, %12, align 8\n";
    assert_eq!(in_versions(&format!("{OTHERS}{near}")), (1, 1), "the sum lies in what is summed up");
}

#[test]
fn members_of_a_structure_are_sums_of_their_own() {
    let structure = "  %11: ptr(global) = address %0 + %3*16 + 0\n";
    let member = |n: u32| {
        let (pointer, old, new) = (20 + 10 * n, 21 + 10 * n, 22 + 10 * n);
        let offset = 8 * n;
        format!(
            "  %{pointer}: ptr(global) = address %11 + {offset}\n  %{old}: i64 = load %{pointer}, align 8\n\
             %{new}: i64 = add %10, %{old}\n  store %{pointer}, %{new}, align 8\n"
        )
    };
    let both = format!("{OTHERS}{structure}{}{}", member(0), member(1));
    // Neither load stays, but of what is summed up; the copy keeps the stores.
    assert_eq!(in_versions(&both), (1 + 1, 2));
    // One of them might be the next structure's.
    let next = "  %12: ptr(global) = address %0 + %4*16 + 8\n  store %12, %10, align 8\n";
    assert_eq!(in_versions(&format!("{both}{next}")).1, 3);
}

#[test]
fn what_comes_behind_a_branch_is_certain_where_its_ways_meet() {
    let mut function = parse(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {
b0:
  jump b1(0:i64)
b1(%3: i64):
  %4: i1 = icmp ult %3, %2
  branch %4, b2, b5
b2:
  %5: i1 = icmp ult %3, 7:i64
  branch %5, b3, b4(%3)
b3:
  %6: i64 = mul %3, %3
  jump b4(%6)
b4(%7: i64):
  %8: i64 = load %1, align 8
  %9: i64 = add %7, %8
  store %1, %9, align 8
  %10: i64 = add %3, 1:i64
  jump b1(%10)
b5:
  return
}",
    )
    .unwrap();
    eliminate_loop_loads(&mut function);
    verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
    let flow = ControlFlow::new(&function);
    let looping = function.block_ids().filter(|&block| flow.is_in_loop(block));
    let insts: Vec<Inst> = looping.flat_map(|block| function.block(block).insts.clone()).collect();
    assert!(!insts.iter().any(|&inst| matches!(function.op(inst), Op::Load { .. })), "{function}");
    assert_eq!(insts.iter().filter(|&&inst| matches!(function.op(inst), Op::Store { .. })).count(), 1);
}

#[test]
fn what_does_not_change_is_loaded_before_a_loop_that_counts() {
    let search = |header: &str, next: &str| {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {{\nb0:\n  jump b1(0:i64)\nb1(%3: i64):\n\
             {header}b2:\n  %5: ptr(global) = address %0 + %3*8 + 0\n  %6: i64 = load %5, align 8\n  %7: i64 = load %1, align 8\n\
             %8: i1 = icmp eq %6, %7\n  branch %8, b4, b3\nb3:\n  %9: i64 = add %3, 1:i64\n  jump b1({next})\nb4:\n  return\n}}"
        );
        let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        eliminate_loop_loads(&mut function);
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        let flow = ControlFlow::new(&function);
        let looping = function.block_ids().filter(|&block| flow.is_in_loop(block));
        let insts = looping.flat_map(|block| function.block(block).insts.clone());
        insts.filter(|&inst| matches!(function.op(inst), Op::Load { .. })).count()
    };
    let counted = "  %4: i1 = icmp ult %3, %2\n  branch %4, b2, b4\n";
    assert_eq!(search(counted, "%9"), 1);
    assert_eq!(search(counted, "%7"), 2, "it ends when another work-item has stored");
    assert_eq!(search("  jump b2\n", "%9"), 2, "the same");
}

#[test]
fn a_load_that_comes_last_is_never_made_before() {
    assert_eq!(loads("  store %0, %3, align 8\n  %4: i64 = load %0, align 8\n  store %1, %4, align 8\n"), 1);
}
