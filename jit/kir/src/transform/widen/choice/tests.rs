use super::*;
use crate::parse;
use crate::transform::form_regions;

#[test]
fn what_is_taken_apart_counts_for_each_lane() {
    let size = |ty: &str, stride: u32| {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  %1: i64 = global_id 0\n  %2: ptr(global) = address %0 + %1*{stride} + 0\n  \
             %3: {ty} = load %2, align 1\n  store %2, %3, align 1\n  return\n}}"
        );
        let group = form_regions(parse(&text).unwrap());
        packed_size(&group.regions[0], &group.context, 16)
    };
    let plain = size("i32", 4);
    assert_eq!([size("i8", 1), size("i32", 64)], [plain, plain]);
    assert_eq!(size("i8", 64), plain + 2 * (16 * FOR_EACH_LANE - 1));
}

/// Of a kernel with this attribute and so many products, each of the one before it.
fn lanes(required: &str, products: usize) -> Option<u32> {
    lanes_wanted(required, products, Wanted::default())
}

fn lanes_wanted(required: &str, products: usize, wanted: Wanted) -> Option<u32> {
    let product = |n: usize| format!("  %{}: i32 = mul %{}, %3\n", n + 4, n + 3);
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0) {{\n{required}b0:
  %1: i64 = global_id 0
  %2: ptr(global) = address %0 + %1*4 + 0
  %3: i32 = load %2, align 4
{}  store %2, %{}, align 4
  return\n}}",
        (0..products).map(product).collect::<String>(),
        products + 3
    );
    let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    choose(&group.regions[0], &group.context, &TargetFacts::with_vectors(512), wanted, false)
        .wide
        .map(|wide| wide.lanes)
}

#[test]
fn who_has_measured_gets_fewer_lanes_than_are_thought_of() {
    for preferred in [2, 4, 8, 16] {
        let wanted = Wanted { preferred: Some(preferred), ..Wanted::default() };
        assert_eq!(lanes_wanted("  work_group_size 64 1 1\n", 8, wanted), Some(preferred));
    }
}

/// Of lanes that a comparison takes several instructions for, those that leave a loop are what is left of those that were in it.
#[test]
fn who_leaves_is_not_compared_where_that_takes_long() {
    let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8) {\nb0:\n  %2: i64 = global_id 0\n  \
                %3: ptr(global) = address %1 + %2*4 + 0\n  %4: i32 = load %3, align 4\n  jump b1(0:i64)\nb1(%5: i64):\n  \
                %6: i1 = icmp ult %5, %2\n  branch %6, b2, b3(7:i32)\nb2:\n  %7: ptr(global) = address %0 + %5*4 + 0\n  \
                %8: i32 = load %7, align 4\n  %9: i1 = icmp ult %8, %4\n  %10: i64 = add %5, 1:i64\n  branch %9, b1(%10), b3(%8)\n\
                b3(%11: i32):\n  store %3, %11, align 4\n  return\n}";
    let group = form_regions(parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let opposites = |lanes: u32| {
        let wanted = Wanted { forced: Some(lanes), ..Wanted::default() };
        let facts = TargetFacts::with_vectors(512);
        let choice = choose(&group.regions[0], &group.context, &facts, wanted, false);
        let mut body = choice.wide.unwrap().body;
        remove_dead_code(&mut body);
        let of_constant = |line: &&str| line.contains(" = xor ") && line.contains("[1:i1, ");
        body.to_string().lines().filter(of_constant).count()
    };
    assert_eq!([16, 32].map(opposites), [2, 0]);
}

/// Bytes are looked up in one of four ways.
#[test]
fn slow_packs_are_thought_of_as_going_together_as_well() {
    let look_up = |n: u32, way: u32| {
        let [at, to, byte] = [1, 2, 3].map(|part| 100 * way + 10 * n + part);
        format!(
            "  %{at}: i64 = xor %4, {at}:i64\n  %{to}: ptr(global) = address %0 + %{at}*1 + 0\n  \
             %{byte}: i8 = load %{to}, align 1\n  store %2, %{byte}, align 1\n"
        )
    };
    let way = |way| format!("b{way}:\n{}  jump b7\n", (0..8).map(|n| look_up(n, way)).collect::<String>());
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  %1: i64 = global_id 0\n  %2: ptr(global) = address %0 + %1*4 + 0\n  \
         %3: i32 = load %2, align 4\n  %4: i64 = zext %3\n  %5: i1 = icmp ult %3, 9:i32\n  %6: i1 = icmp ult %3, 5:i32\n  \
         branch %5, b1, b2\nb1:\n  branch %6, b3, b4\nb2:\n  branch %6, b5, b6\n{}b7:\n  return\n}}",
        (3..7).map(way).collect::<String>()
    );
    let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let facts = TargetFacts::with_vectors(512);
    let choice = choose(&group.regions[0], &group.context, &facts, Wanted::default(), false);
    let of_each = choice.estimates.unwrap().of_each;
    let &(_, time, together) = of_each.iter().find(|(lanes, ..)| *lanes == 16).unwrap();
    assert!(together < 0.6 * time, "{of_each:?}");
}

#[test]
fn bodies_may_be_large() {
    assert_eq!(lanes("", MAX_INSTRUCTIONS - 100), Some(16));
    assert_eq!(lanes("", MAX_INSTRUCTIONS), None);
}

#[test]
fn more_lanes_than_words_in_a_register_are_for_values_that_fill_one() {
    let lanes = |ty: &str, size: usize| {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  %1: i64 = global_id 0\n  %2: ptr(global) = address %0 + %1*{size} + 0\n  \
             %3: {ty} = load %2, align 1\n  %4: {ty} = mul %3, %3\n  store %2, %4, align 1\n  return\n}}"
        );
        let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let facts = TargetFacts::with_vectors(512);
        let estimates = choose(&group.regions[0], &group.context, &facts, Wanted::default(), true).estimates;
        estimates.unwrap().of_each.iter().map(|(lanes, ..)| *lanes).max()
    };
    assert_eq!(lanes("i8", 1), Some(64));
    assert_eq!(lanes("<2 x i8>", 2), Some(32));
    assert_eq!(lanes("<16 x i8>", 16), Some(16));
}

#[test]
fn lanes_fit_the_rows_of_a_required_size() {
    assert_eq!(lanes("", 2), Some(16));
    for (row, expected) in
        [(64, Some(16)), (8, Some(8)), (24, Some(8)), (100, Some(16)), (4, Some(4)), (1, None)]
    {
        assert_eq!(lanes(&format!("  work_group_size {row} 2 1\n"), 2), expected, "{row}");
    }
}

#[test]
fn packs_that_no_row_fills_are_no_alternatives() {
    for (row, tried) in [(1, None), (3, Some(vec![2, 1])), (24, Some(vec![2, 4, 8, 16, 1]))] {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\n  work_group_size {row} 2 1\nb0:\n  %1: i64 = global_id 0\n\
             \x20 %2: ptr(global) = address %0 + %1*4 + 0\n  store %2, 0:i32, align 4\n  return\n}}"
        );
        let group = form_regions(parse(&text).unwrap());
        let facts = TargetFacts::with_vectors(512);
        let choice = choose(&group.regions[0], &group.context, &facts, Wanted::default(), false);
        let widths = |found: Estimates| found.of_each.iter().map(|(lanes, ..)| *lanes).collect::<Vec<u32>>();
        assert_eq!(choice.estimates.map(widths), tried, "{row}");
    }
}

/// A row of 64, of which each work-item has so many words for a loop in a loop, of that many iterations, in each of which are so many
/// products beside what it waits for.
fn in_a_loop(words: usize, iterations: &str, products: usize) -> u32 {
    let load = |n: usize| {
        let (at, word) = (100 + n, 200 + n);
        format!("  %{at}: ptr(global) = address %9 + {}\n  %{word}: f32 = load %{at}, align 4\n", 4096 * n)
    };
    let sum = |n: usize| {
        format!("  %{}: f32 = fadd %{}, %{}\n", 300 + n, if n == 0 { 12 } else { 299 + n }, 200 + n)
    };
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {{\n  work_group_size 64 1 1\nb0:\n  %3: i64 = global_id 0\n\
         %9: ptr(global) = address %1 + %3*4 + 0\n{}  jump b1(0:i64, 0x0:f32)\n\
         b1(%4: i64, %12: f32):\n{}  jump b2(0:i64, %{})\n\
         b2(%5: i64, %6: f32):\n  %20: ptr(global) = address %0 + %5*4 + 0\n  %21: f32 = load %20, align 4\n  %22: f32 = fmul %6, %21\n{}  \
         %23: f32 = fadd %22, %6\n  %7: i64 = add %5, 1:i64\n  %8: i1 = icmp ult %7, {iterations}\n  branch %8, b2(%7, %23), b3\n\
         b3:\n  %10: i64 = add %4, 1:i64\n  %11: i1 = icmp ult %10, %2\n  branch %11, b1(%10, %23), b4\n\
         b4:\n  store %9, %23, align 4\n  return\n}}",
        (0..words).map(load).collect::<String>(),
        (0..words).map(sum).collect::<String>(),
        299 + words,
        (0..products).map(|n| format!("  %{}: f32 = fmul %6, %21\n", 400 + n)).collect::<String>(),
    );
    let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let facts = TargetFacts::with_vectors(512);
    choose(&group.regions[0], &group.context, &facts, Wanted::default(), false).wide.unwrap().lanes
}

#[test]
fn what_an_outer_loop_keeps_takes_no_registers_from_packs() {
    assert!(in_a_loop(1, "%2", 0) > 16);
    assert!(in_a_loop(12, "%2", 0) > 16);
}

#[test]
fn known_rows_want_more_of_packs_where_loops_are_short() {
    let lanes = |iterations: &str| in_a_loop(1, iterations, 24);
    assert!(lanes("%2") > 16);
    assert_eq!(lanes("9:i64"), 16);
}

#[test]
fn loops_that_wait_for_themselves_have_several_chains() {
    let lanes = |unseen: bool, required: &str, links: usize| {
        let link = |n: usize| format!("  %{}: f32 = fadd %{}, %23\n", n + 101, n + 100);
        let chain: String = (0..links).map(link).collect();
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {{\n{required}b0:\n  %3: i64 = global_id 0\n  jump b1(0:i64, 0x0:f32)\n\
             b1(%4: i64, %5: f32):\n  %9: i1 = icmp ult %4, %2\n  branch %9, b2, b3\nb2:\n  %20: i64 = mul %4, %2\n  %21: i64 = add %20, %3\n\
             %22: ptr(global) = address %0 + %21*4 + 0\n  %23: f32 = load %22, align 4\n  %100: f32 = fadd %5, %23\n{chain}  %8: i64 = add %4, 1:i64\n  jump b1(%8, %{last})\n\
             b3:\n  %7: ptr(global) = address %1 + %3*4 + 0\n  store %7, %5, align 4\n  return\n}}",
            last = links + 100
        );
        let group = form_regions(parse(&text).unwrap());
        let chosen = choose(
            &group.regions[0],
            &group.context,
            &TargetFacts::with_vectors(512),
            Wanted::default(),
            unseen,
        );
        let wide = chosen.wide.unwrap();
        assert_eq!(chosen.tail.is_some(), wide.lanes > 16 && required.is_empty());
        wide.lanes
    };
    for links in [0, 1000] {
        assert!(lanes(true, "", links) > 16);
        assert_eq!(lanes(false, "", links), 16);
    }
    assert_eq!(lanes(true, "", MAX_CHAINED), 16);
    let of_row = |row: u32| lanes(false, &format!("  work_group_size {row} 1 1\n"), 100);
    assert!(of_row(256) > 16, "rows that such packs fill");
    assert_eq!([of_row(16), of_row(48), of_row(96)], [16, 16, 32]);
}

/// Lanes of packs whose work-items walk along rows of `length`, which is a parameter (%2) or loaded (%5), in a recurrence with so many
/// products that wait for nothing.
fn along_rows(length: &str, products: usize) -> u32 {
    let product = |n: usize| format!("  %{}: f32 = fmul %{}, %29\n", 30 + n, 29 + n);
    let products: String = (0..products).map(product).collect();
    let last = 29 + products.lines().count();
    let text = format!(
        "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16, %3: i64 @ 24) {{\nb0:\n  %4: i64 = global_id 0\n  \
         %5: i64 = load %1, align 8\n  %6: i64 = mul %4, {length}\n  jump b1(0:i64, 0x0:f32)\nb1(%7: i64, %12: f32):\n  \
         %8: i64 = add %6, %7\n  %9: ptr(global) = address %0 + %8*4 + 0\n  %29: f32 = load %9, align 4\n{products}  \
         %13: f32 = fsub %{last}, %12\n  store %9, %13, align 4\n  %10: i64 = add %7, 1:i64\n  %11: i1 = icmp ult %10, %3\n  \
         branch %11, b1(%10, %13), b2\nb2:\n  return\n}}"
    );
    let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
    let facts = TargetFacts::with_vectors(512);
    choose(&group.regions[0], &group.context, &facts, Wanted::default(), false)
        .wide
        .map_or(1, |wide| wide.lanes)
}

#[test]
fn rows_that_may_conflict_want_more_of_more_lanes() {
    let chosen = |products| [along_rows("%5", products), along_rows("%2", products)];
    let all: Vec<[u32; 2]> = (0..40).map(|n| chosen(4 * n)).collect();
    assert!(all.contains(&[16, 8]) && all.contains(&[16, 16]), "{all:?}");
}
