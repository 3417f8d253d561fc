//! Modules: text and bytes, there and back, and what the verifier says of broken ones.

use crate::{Module, parse_module};

const PROGRAM: &str = r#"constant "table" size 12 align 4 "0100000002000000"
constant "names" size 16 align 8 "00000000000000000000000000000000"
  pointer 0 "table" 4
  pointer 8 "names" 0
variables size 64 align 16 "0102"
  pointer 8 32
function "leaf"(%0: f32, %1: <4 x f32>) yields f32 no_reads no_writes returns noinline cold {
b0:
  %2: f32 = extract_element %1, 2:i32
  %3: f32 = intrinsic fma(%0, %2, 0x3f800000:f32)
  return %3
}
function "f"(%0: ptr(private) nocapture align 4, %1: {i32, [3 x i8]}) {
  slot $0: 16 align 4
b0:
  %2: ptr(private) = slot_address $0
  %3: i32 = extract_value %1, [0]
  %4: i128 = sext %3
  store %2, %4, align 16
  intrinsic memcpy(%0, %2, 16:i64, 0:i1)
  %5: f32 = call "leaf"(zero:f32, zero:<4 x f32>)
  %6: {i32, i1} = intrinsic sadd.with.overflow(%3, 5:i32)
  switch %3, 7: b1, default: b2
b1:
  store %0, %5, align 4
  jump b2
b2:
  return
}
kernel "k"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset) {
  slot $0: 16 align 16
b0:
  %2: i64 = global_id 0
  %3: ptr(global) = global_address @"spirula.data"
  %4: ptr(global) = address inbounds %3 + %2*4 + 16
  %5: i32 = rmw atomic monotonic add %4, 1:i32, align 4
  %6: ptr(constant) = global_address @"names"
  %7: ptr(private) = slot_address $0
  call "f"(%7, [1:i32, zero:[3 x i8]]:{i32, [3 x i8]})
  barrier b1
b1:
  %8: f32 = load %7, align 4
  store %0, %8, align 4
  return
}
host function "spirula.group.0.k"(%0: ptr(context) noalias nonnull readonly, %1: i64) {
b0:
  return
}
"#;

/// The program with one thing replaced.
fn with(old: &str, new: &str) -> Module {
    assert!(PROGRAM.contains(old), "{old}");
    parse_module(&PROGRAM.replacen(old, new, 1)).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn text_and_bytes_round_trip() {
    let module = with("", "");
    module.verify().unwrap_or_else(|e| panic!("{e}"));
    let text = module.to_string();
    assert_eq!(text, parse_module(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).to_string());
    let read = Module::from_bytes(&module.to_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read.to_string(), text);
}

#[test]
fn a_module_that_was_read_shares_its_constants() {
    let mut read = Module::from_bytes(&with("", "").to_bytes()).unwrap();
    let kernel = &mut read.kernels[0];
    let values = kernel.value_count();
    kernel.int(crate::Type::I32, 1);
    assert_eq!(kernel.value_count(), values);
}

#[test]
fn errors_name_the_line_in_the_module() {
    let text = PROGRAM.replace("fma(%0", "fma(%9");
    let error = parse_module(&text).unwrap_err().to_string();
    assert_eq!(error, "Kernel IR, line 10: %9 is not defined");
    assert!(parse_module("nonsense\n").unwrap_err().to_string().contains("line 1: expected"));
}

#[test]
fn broken_rules_between_parts_are_named() {
    let cases = [
        (r#"call "leaf"(zero:f32, "#, r#"call "leef"(zero:f32, "#, "no such function"),
        (r#"call "leaf"(zero:f32, "#, r#"call "leaf"(zero:f64, "#, "another signature"),
        (r#"%5: f32 = call "leaf""#, r#"%5: f64 = call "leaf""#, "another signature"),
        (r#"function "leaf""#, r#"function "f""#, "two `f`"),
        (r#"function "leaf""#, r#"function "spirula.data""#, "no name"),
        (r#"@"names""#, r#"@"f""#, "no such constant"),
        (r#"pointer 0 "table""#, r#"pointer 0 "f""#, "points to what is no constant"),
        ("pointer 8 \"names\"", "pointer 4 \"names\"", "overlap"),
        ("pointer 8 \"names\"", "pointer 9 \"names\"", "don't fit"),
        ("size 12 align 4", "size 7 align 4", "more bytes"),
        ("size 12 align 4", "size 12 align 3", "alignment"),
        ("size 12 align 4", "size 99999999999 align 4", "bytes of constants"),
        ("variables size 64", "variables size 1", "1 bytes, 2 of them given"),
        ("pointer 8 32", "pointer 60 32", "isn't inside"),
        ("align 16 \"0102\"", "align 16777216 \"0102\"", "aligned to 16777216"),
    ];
    for (old, new, expected) in cases {
        let error = with(old, new).verify().expect_err(new);
        assert!(error.contains(expected), "{error} for {new}");
    }
}

#[test]
fn recursion_is_found() {
    let body = r#"  %3: f32 = intrinsic fma(%0, %2, 0x3f800000:f32)"#;
    let call = format!("{body}\n  call \"f\"(zero:ptr(private), zero:{{i32, [3 x i8]}})");
    let error = with(body, &call).verify().unwrap_err();
    assert!(error.contains("calls itself"), "{error}");
}

/// A generator that is the same everywhere (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Bytes are changed, removed, doubled and moved. What is read nevertheless keeps all rules: it can be printed, written
/// and read again, and analysed.
#[test]
fn no_bytes_make_the_reader_panic() {
    let good = with("", "").to_bytes();
    let mut random = Random(1);
    let mut accepted = 0;
    for _ in 0..60_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            match random.below(6) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] = bytes[at].wrapping_add(1),
                2 => bytes[at] = bytes[at].wrapping_sub(1),
                3 => bytes[at] = 0xff,
                4 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random.next() as u8),
            }
        }
        let Ok(module) = Module::from_bytes(&bytes) else { continue };
        accepted += 1;
        let again = Module::from_bytes(&module.to_bytes()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(again.to_string(), module.to_string());
        for function in module.all_functions() {
            let flow = crate::analysis::ControlFlow::new(function);
            crate::analysis::Dominators::new(&flow);
        }
    }
    assert!(accepted > 1000, "only {accepted} were accepted: nothing was tested behind the reader");
}

#[test]
fn nesting_is_bounded() {
    let deep = |levels: usize| {
        let ty = format!("{}i8{}", "[1 x ".repeat(levels), "]".repeat(levels));
        with("[3 x i8]}) {", &format!("[3 x i8]}}, %99: {ty}) {{"))
    };
    // The types alone are read: the calls don't fit any more.
    assert!(Module::from_bytes(&deep(60).to_bytes()).unwrap_err().to_string().contains("signature"));
    let error = Module::from_bytes(&deep(2000).to_bytes()).unwrap_err().to_string();
    assert!(error.contains("no Kernel IR"), "{error}");
}
