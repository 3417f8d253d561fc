use super::*;
use crate::{parse, verify};

/// The loads and stores of a kernel with these instructions, in which %2 is a work-item's id, and %3 a structure that it finds by an
/// index from memory.
fn accesses(rest: &str) -> Vec<String> {
    accesses_if(rest, false).0
}

/// The same where buffers are disjoint or not, and whether that matters.
fn accesses_if(rest: &str, disjoint: bool) -> (Vec<String>, bool) {
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8) {{
b0:
  jump b1
b1:
  %2: i64 = global_id 0
  %4: ptr(global) = address %1 + %2*4 + 0
  %5: i32 = load %4, align 4
  %6: i64 = sext %5
  %3: ptr(global) = address %0 + %6*32 + 0
{rest}  return
}}"
    );
    let body = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let facts = Facts::new(&body, &[], 16).unwrap();
    let merging = merge_adjacent(&body, &facts, disjoint);
    let matters = merging.as_ref().is_some_and(|merging| merging.disjoint);
    let merged = merging.map_or(body, |merging| merging.body);
    verify(&merged).unwrap_or_else(|e| panic!("{e}\n{merged}"));
    let shown = merged.to_string();
    let of_memory = |line: &&str| line.contains("= load ") || line.trim().starts_with("store ");
    let kind = |line: &str| match line.trim().split_once(": ") {
        Some((_, rest)) if rest.contains("= load") => rest.split(" = ").next().unwrap_or(rest).to_owned(),
        _ => "store".to_owned(),
    };
    // But for the index.
    (shown.lines().filter(of_memory).skip(1).map(kind).collect(), matters)
}

fn fields(offsets: &[i64], ty: &str) -> String {
    let load = |(number, offset): (usize, &i64)| {
        let (pointer, value) = (10 + 2 * number, 11 + 2 * number);
        format!(
            "  %{pointer}: ptr(global) = address %3 + {offset}\n  %{value}: {ty} = load %{pointer}, align 1\n"
        )
    };
    offsets.iter().enumerate().map(load).collect()
}

#[test]
fn fields_that_follow_on_each_other_are_one_access() {
    assert_eq!(accesses(&fields(&[0, 4, 8, 12], "f32")), ["<4 x f32>"]);
    assert_eq!(accesses(&fields(&[12, 0, 8, 4], "f32")), ["<4 x f32>"]);
    assert_eq!(accesses(&fields(&[0, 8], "f64")), ["<2 x f64>"]);
    assert_eq!(accesses(&fields(&[0, 4], "f32")), ["i64"]);
    assert_eq!(accesses(&fields(&[0, 4, 8], "f32")), ["i64", "f32"]);
    assert_eq!(accesses(&fields(&[0, 4, 8, 12, 16, 20], "i32")), ["<4 x i32>", "i64"]);
    assert_eq!(accesses(&fields(&[0, 1, 2, 3], "i8")), ["i32"]);
    assert_eq!(accesses(&fields(&[0, 1, 2], "i8")), ["i8", "i8", "i8"]);
    assert_eq!(accesses(&fields(&[0, 8, 16], "f32")), ["f32", "f32", "f32"]);
    assert_eq!(accesses(&fields(&[0, 0, 4], "f32")), ["i64", "f32"], "the same again is another load");
}

#[test]
fn indices_are_sums_of_which_the_constant_may_lie_deep() {
    // %5 + (8 * k | c) + n, as of a matrix's row, a column and an offset.
    let element = |number: u32, (add, constant): (&str, u32)| {
        let [column, row, sum, wide, pointer, value] = std::array::from_fn(|at| 20 + 6 * number + at as u32);
        format!(
            "  %{column}: i32 = or disjoint %11, {constant}:i32\n  %{row}: i32 = {add} %{column}, %5\n  \
             %{sum}: i32 = add nsw %{row}, %12\n  %{wide}: i64 = sext %{sum}\n  \
             %{pointer}: ptr(global) = address %0 + %{wide}*4 + 0\n  %{value}: f32 = load %{pointer}, align 4\n"
        )
    };
    let of = |all: [(&str, u32); 4]| {
        let elements: String = std::iter::zip(0.., all).map(|(number, one)| element(number, one)).collect();
        let start = "  %10: i32 = trunc %2\n  %11: i32 = shl %10, 3:i32\n  %12: i32 = sub %5, %10\n";
        accesses(&format!("{start}{elements}"))
    };
    let all = [0, 1, 2, 3];
    assert_eq!(of(all.map(|constant| ("add nsw", constant))), ["<4 x f32>"]);
    assert_eq!(of([3, 0, 2, 1].map(|constant| ("add nsw", constant))), ["<4 x f32>"]);
    assert_eq!(of(all.map(|constant| ("add", constant))), ["f32"; 4], "the sum may wrap in between");
    assert_eq!(of([0, 2, 4, 6].map(|constant| ("add nsw", constant))), ["f32"; 4]);
    // Of a long sum what is added last is seen.
    let shifts: String = (0..5).map(|n| format!("  %{}: i64 = shl %6, {}:i64\n", 20 + n, n + 1)).collect();
    let sums: String = (0..5)
        .map(|n| format!("  %{}: i64 = add %{}, %{}\n", 30 + n, [6, 30 + n - 1][n.min(1)], 20 + n))
        .collect();
    let element = |number: usize| {
        let [index, pointer, value] = std::array::from_fn(|at| 40 + 3 * number + at);
        format!(
            "  %{index}: i64 = add %34, {number}:i64\n  %{pointer}: ptr(global) = address %0 + %{index}*4 + 0\n  \
             %{value}: f32 = load %{pointer}, align 4\n"
        )
    };
    let elements: String = (0..4).map(element).collect();
    assert_eq!(accesses(&format!("{shifts}{sums}{elements}")), ["<4 x f32>"]);
}

#[test]
fn fields_of_several_types_are_bits() {
    let rest = "  %10: f32 = load %3, align 4
  %11: ptr(global) = address %3 + 4
  %12: i32 = load %11, align 4
  %13: f32 = sitofp %12
  %14: f32 = fadd %10, %13
  store %4, %14, align 4
";
    assert_eq!(accesses(rest), ["i64", "store"]);
}

/// A load of one field, what stands between, and a load of the next one.
fn around(between: &str) -> Vec<String> {
    accesses(&format!(
        "  %10: ptr(global) = address %3 + 4
  %12: ptr(global) = address %3 + 8
  %11: f32 = load %3, align 4
{between}  %13: f32 = load %10, align 4
"
    ))
}

#[test]
fn loads_are_not_moved_over_what_may_write_there() {
    assert_eq!(around("  store %10, 0x0:f32, align 4\n"), ["f32", "store", "f32"]);
    assert_eq!(around("  store %1, 0x0:f32, align 4\n"), ["f32", "store", "f32"]);
    assert_eq!(around("  fence acq_rel\n").len(), 2);
    assert_eq!(around("  store %12, 0x0:f32, align 4\n"), ["i64", "store"], "another field");
}

/// A store to one field, what stands between, and a store to the next one.
fn stores_around(between: &str) -> Vec<String> {
    accesses(&format!(
        "  %10: ptr(global) = address %3 + 4
  %12: ptr(global) = address %3 + 8
  store %3, 0x0:f32, align 4
{between}  store %10, 0x3f800000:f32, align 4
"
    ))
}

#[test]
fn stores_are_not_moved_over_what_may_read_there() {
    assert_eq!(stores_around(""), ["store"]);
    assert_eq!(stores_around("  %13: f32 = load %3, align 4\n"), ["store", "f32", "store"]);
    assert_eq!(stores_around("  %13: f32 = load %1, align 4\n"), ["store", "f32", "store"]);
    assert_eq!(stores_around("  %13: f32 = load %12, align 4\n"), ["f32", "store"], "another field");
    assert_eq!(stores_around("  store %3, 0x3f800000:f32, align 4\n"), ["store", "store"]);
}

#[test]
fn accesses_to_disjoint_buffers_are_moved_over_each_other() {
    let store = |between: &str| {
        format!(
            "  %10: ptr(global) = address %3 + 4
  store %3, 0x0:f32, align 4
{between}  store %10, 0x3f800000:f32, align 4
"
        )
    };
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let other = store("  %13: f32 = load %1, align 4\n");
    assert_eq!(accesses_if(&other, false), (names(&["store", "f32", "store"]), false));
    assert_eq!(accesses_if(&other, true), (names(&["f32", "store"]), true));
    assert_eq!(accesses_if(&store(""), true), (names(&["store"]), false), "it is so anyhow");
    let own = store("  %13: f32 = load %3, align 4\n");
    assert_eq!(accesses_if(&own, true), (names(&["store", "f32", "store"]), false));
    let loads = "  %10: ptr(global) = address %3 + 4
  %11: f32 = load %3, align 4
  store %1, %11, align 4
  %13: f32 = load %10, align 4
";
    assert_eq!(accesses_if(loads, true), (names(&["i64", "store"]), true));
}

#[test]
fn what_lies_in_other_address_spaces_is_somewhere_else() {
    let rest = "  %9: ptr(local) = local_address 0
  %10: ptr(global) = address %3 + 4
  store %3, 0x0:f32, align 4
  store %9, 0x0:f32, align 4
  %13: f32 = load %9, align 4
  store %10, 0x3f800000:f32, align 4
";
    assert_eq!(accesses(rest), ["store", "f32", "store"]);
}

#[test]
fn three_small_elements_that_fill_a_structure_are_a_vector() {
    let rest = "  %9: ptr(global) = address %0 + %2*3 + 0
  %10: ptr(global) = address %9 + 1
  %11: ptr(global) = address %9 + 2
  %12: i8 = load %9, align 1
  %13: i8 = load %10, align 1
  %14: i8 = load %11, align 1
";
    assert_eq!(accesses(rest), ["<3 x i8>"]);
    assert_eq!(accesses(&rest.replace("%2*3", "%2*4")), ["i8", "i8", "i8"]);
}

#[test]
fn lanes_next_to_each_other_have_whole_structures() {
    let rest = |stride: i64| {
        format!(
            "  %9: ptr(global) = address %0 + %2*{stride} + 0
  %10: ptr(global) = address %9 + 4
  store %9, 0x0:f32, align 4
  store %10, 0x3f800000:f32, align 4
"
        )
    };
    let shown = accesses(&rest(8));
    assert_eq!(shown, ["store"]);
    // Interleaved loads have pieces of their own.
    let loads = "  %9: ptr(global) = address %0 + %2*8 + 0
  %10: ptr(global) = address %9 + 4
  %11: f32 = load %9, align 4
  %12: f32 = load %10, align 4
";
    assert_eq!(accesses(loads), ["f32", "f32"]);
    assert_eq!(accesses(&loads.replace("*8 ", "*32 ")), ["i64"]);
}
