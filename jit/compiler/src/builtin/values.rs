//! What the expansions compute: calls with constants, folded by LLVM itself, must become the constants that the
//! specification says.

use super::tests::{definition, llvm, module, natural};

/// Symbol, arguments, result; arguments and results as LLVM IR writes them, without types.
type Case = (&'static str, &'static [&'static str], &'static str);

/// Calls every symbol with its constants; returns the text of the results.
fn folded(cases: &[Case]) -> Vec<String> {
    let mut text = module(
        cases
            .iter()
            .map(|case| case.0)
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .map(definition),
    );
    for (index, (symbol, arguments, _)) in cases.iter().enumerate() {
        let signature = natural(symbol);
        let typed: Vec<String> =
            signature.params.iter().zip(*arguments).map(|(ty, value)| format!("{ty} {value}")).collect();
        text += &format!(
            "define {ret} @case{index}() {{\n  %r = call spir_func {ret} @{symbol}({})\n  ret {ret} %r\n}}\n",
            typed.join(", "),
            ret = signature.ret,
        );
    }
    let output = llvm("opt", &["-O2", "-S", "-o", "-", "-"], &text);
    let output = String::from_utf8(output).expect("UTF-8");
    (0..cases.len())
        .map(|index| {
            let body = output.split_once(&format!("@case{index}()")).expect("defined").1;
            let line = body.lines().find_map(|line| line.trim().strip_prefix("ret ")).expect("a result");
            line.to_string()
        })
        .collect()
}

fn check(cases: &[Case]) {
    for ((symbol, arguments, expected), found) in cases.iter().zip(folded(cases)) {
        let expected = format!("{} {expected}", natural(symbol).ret);
        assert_eq!(found, expected, "{symbol}({})", arguments.join(", "));
    }
}

#[test]
fn integers() {
    check(&[
        ("_Z3absc", &["-128"], "-128"),
        ("_Z3absi", &["-7"], "7"),
        ("_Z8abs_diffii", &["-2147483648", "2147483647"], "-1"),
        ("_Z8abs_diffhh", &["3", "250"], "-9"),
        ("_Z7add_satcc", &["100", "100"], "127"),
        ("_Z7sub_sathh", &["3", "5"], "0"),
        ("_Z4haddii", &["-3", "-4"], "-4"),
        ("_Z5rhaddii", &["-3", "-4"], "-3"),
        ("_Z4haddhh", &["255", "254"], "-2"),
        ("_Z5rhaddjj", &["-1", "-2"], "-1"),
        ("_Z3maxhh", &["200", "100"], "-56"),
        ("_Z3maxcc", &["200", "100"], "100"),
        ("_Z5clampiii", &["9", "-1", "5"], "5"),
        ("_Z3clzs", &["1"], "15"),
        ("_Z3clzi", &["0"], "32"),
        ("_Z8popcountc", &["-1"], "8"),
        ("_Z6mul_hiii", &["-2147483648", "4"], "-2"),
        ("_Z6mul_hijj", &["-1", "-1"], "-2"),
        ("_Z6mul_himm", &["-1", "-1"], "-2"),
        ("_Z6mad_hisss", &["16384", "8", "-3"], "-1"),
        ("_Z7mad_satiii", &["65536", "65536", "5"], "2147483647"),
        ("_Z7mad_satlll", &["-9223372036854775808", "2", "-1"], "-9223372036854775808"),
        ("_Z7mad_satmmm", &["-1", "-1", "-1"], "-1"),
        ("_Z7mad_satccc", &["10", "-10", "100"], "0"),
        ("_Z6rotatejj", &["-2147483647", "33"], "3"),
        ("_Z6rotatecc", &["-127", "-1"], "-64"),
        ("_Z8upsamplech", &["-1", "1"], "-255"),
        ("_Z8upsamplejj", &["1", "-1"], "8589934591"),
        ("_Z5mad24iii", &["1000", "-1000", "1"], "-999999"),
    ]);
}

#[test]
fn fields_of_bits() {
    check(&[
        ("_Z11bit_reversej", &["1"], "-2147483648"),
        ("_Z11bit_reverseh", &["-56"], "19"),
        ("_Z15bitfield_insertjjjj", &["0", "-1", "4", "8"], "4080"),
        ("_Z15bitfield_inserthhjj", &["-1", "0", "0", "8"], "0"),
        ("_Z15bitfield_insertlljj", &["5", "-1", "63", "0"], "5"),
        ("_Z15bitfield_insertlljj", &["5", "-1", "32", "32"], "-4294967291"),
        ("_Z15bitfield_insertiijj", &["5", "7", "0", "32"], "7"),
        ("_Z23bitfield_extract_signedjjj", &["240", "4", "4"], "-1"),
        ("_Z23bitfield_extract_signedsjj", &["-32768", "15", "1"], "-1"),
        ("_Z23bitfield_extract_signedljj", &["-7", "0", "64"], "-7"),
        ("_Z25bitfield_extract_unsignedijj", &["-1", "31", "1"], "1"),
        ("_Z25bitfield_extract_unsignedcjj", &["-128", "0", "8"], "-128"),
        ("_Z25bitfield_extract_unsignedijj", &["-1", "5", "0"], "0"),
    ]);
}

#[test]
fn dot_products() {
    check(&[
        ("_Z21dot_4x8packed_uu_uintjj", &["-1", "-1"], "260100"),
        ("_Z20dot_4x8packed_ss_intjj", &["-1", "-2139062144"], "512"),
        ("_Z20dot_4x8packed_us_intjj", &["-1", "-2139062144"], "-130560"),
        ("_Z20dot_4x8packed_su_intjj", &["-1", "-1"], "-1020"),
        ("_Z29dot_acc_sat_4x8packed_uu_uintjjj", &["-1", "-1", "-5"], "-1"),
        ("_Z28dot_acc_sat_4x8packed_su_intjji", &["-1", "-1", "-2147483648"], "-2147483648"),
        ("_Z3dotDv4_cDv4_h", &["<i8 -128, i8 1, i8 2, i8 3>", "<i8 -1, i8 1, i8 1, i8 1>"], "-32634"),
        (
            "_Z11dot_acc_satDv4_cS_i",
            &["<i8 127, i8 0, i8 0, i8 0>", "<i8 127, i8 0, i8 0, i8 0>", "2147483647"],
            "2147483647",
        ),
    ]);
}

#[test]
fn conversions() {
    check(&[
        ("_Z12convert_charf", &["-1.5"], "-1"),
        ("_Z16convert_char_satf", &["1000.0"], "127"),
        ("_Z17convert_uchar_satf", &["-5.0"], "0"),
        ("_Z17convert_uchar_satf", &["0x7FF8000000000000"], "0"),
        ("_Z15convert_int_rtef", &["2.5"], "2"),
        ("_Z15convert_int_rtef", &["-3.5"], "-4"),
        ("_Z15convert_int_rtpf", &["2.25"], "3"),
        ("_Z15convert_int_rtnf", &["-2.25"], "-3"),
        ("_Z15convert_int_rtzf", &["-2.75"], "-2"),
        ("_Z15convert_int_satf", &["0x4450000000000000"], "2147483647"),
        ("_Z16convert_uint_satl", &["-1"], "0"),
        ("_Z16convert_uint_satl", &["4294967296"], "-1"),
        ("_Z16convert_char_sath", &["200"], "127"),
        ("_Z17convert_ulong_sati", &["-5"], "0"),
        ("_Z13convert_shorti", &["65537"], "1"),
        ("_Z12convert_longj", &["-1"], "4294967295"),
        ("_Z17convert_float_rtzi", &["16777217"], "0x4170000000000000"),
        ("_Z17convert_float_rtpi", &["16777217"], "0x4170000020000000"),
        ("_Z17convert_float_rtni", &["-16777217"], "0xC170000020000000"),
        ("_Z17convert_float_rtpi", &["-16777217"], "0xC170000000000000"),
        ("_Z17convert_float_rtpm", &["-1"], "0x43F0000000000000"),
        ("_Z17convert_float_rtzm", &["-1"], "0x43EFFFFFE0000000"),
        ("_Z18convert_double_rtnl", &["-9007199254740993"], "0xC340000000000001"),
        ("_Z17convert_float_rted", &["0x3FF0000010000000"], "1.000000e+00"),
        ("_Z17convert_float_rtpd", &["0x3FF0000000000001"], "0x3FF0000020000000"),
        ("_Z17convert_float_rtnd", &["0xBFF0000000000001"], "0xBFF0000020000000"),
        ("_Z17convert_float_rtzd", &["0x7FE0000000000000"], "0x47EFFFFFE0000000"),
        ("_Z17convert_float_rtnd", &["0x8000000000000001"], "0xB6A0000000000000"),
        ("_Z17convert_float_rtpd", &["0x8000000000000001"], "-0.000000e+00"),
        (
            "_Z22convert_uchar4_sat_rteDv4_f",
            &["<float 0.5, float 1.5, float 300.0, float -1.0>"],
            "<i8 0, i8 2, i8 -1, i8 0>",
        ),
    ]);
}

#[test]
fn relations() {
    check(&[
        ("_Z7isequalff", &["1.0", "1.0"], "1"),
        ("_Z7isequalDv2_fS_", &["<float 1.0, float 2.0>", "<float 1.0, float 3.0>"], "<i32 -1, i32 0>"),
        ("_Z10isnotequalff", &["0x7FF8000000000000", "1.0"], "1"),
        ("_Z13islessgreaterff", &["0x7FF8000000000000", "1.0"], "0"),
        ("_Z5isnanDv2_d", &["<double 0x7FF8000000000000, double 1.0>"], "<i64 -1, i64 0>"),
        ("_Z5isinff", &["0xFFF0000000000000"], "1"),
        ("_Z8isfinitef", &["0x7FF8000000000000"], "0"),
        ("_Z8isnormalf", &["0x36A0000000000000"], "0"),
        ("_Z8isnormalf", &["-1.0"], "1"),
        ("_Z7signbitf", &["-0.0"], "1"),
        ("_Z3anyDv3_i", &["<i32 1, i32 2, i32 -3>"], "1"),
        ("_Z3allDv3_i", &["<i32 -1, i32 -2, i32 3>"], "0"),
        ("_Z3allc", &["-1"], "1"),
        ("_Z9bitselectccc", &["15", "85", "-16"], "95"),
        ("_Z9bitselectfff", &["1.0", "-1.0", "-0.0"], "-1.000000e+00"),
        ("_Z6selectffi", &["1.0", "2.0", "1"], "2.000000e+00"),
        (
            "_Z6selectDv2_fS_Dv2_i",
            &["splat (float 1.0)", "splat (float 2.0)", "<i32 1, i32 -1>"],
            "<float 1.000000e+00, float 2.000000e+00>",
        ),
    ]);
}

#[test]
fn common_and_geometric() {
    check(&[
        ("_Z4signf", &["-0.0"], "-0.000000e+00"),
        ("_Z4signf", &["0x7FF8000000000000"], "0.000000e+00"),
        ("_Z4signd", &["-3.0"], "-1.000000e+00"),
        ("_Z4stepff", &["1.0", "1.0"], "1.000000e+00"),
        ("_Z10smoothstepfff", &["0.0", "2.0", "1.0"], "5.000000e-01"),
        (
            "_Z5clampDv2_fff",
            &["<float -1.0, float 9.0>", "0.0", "1.0"],
            "<float 0.000000e+00, float 1.000000e+00>",
        ),
        ("_Z3mixfff", &["1.0", "3.0", "0.5"], "2.000000e+00"),
        ("_Z4fmaxff", &["0x7FF8000000000000", "1.0"], "1.000000e+00"),
        ("_Z6maxmagff", &["-3.0", "2.0"], "-3.000000e+00"),
        ("_Z6minmagff", &["-2.0", "2.0"], "-2.000000e+00"),
        ("_Z4fdimff", &["0x7FF0000000000000", "0x7FF0000000000000"], "0.000000e+00"),
        ("_Z4fdimff", &["5.0", "3.0"], "2.000000e+00"),
        ("_Z3nanj", &["1"], "0x7FF8000020000000"),
        ("_Z3dotDv3_fS_", &["<float 1.0, float 2.0, float 3.0>", "splat (float 2.0)"], "1.200000e+01"),
        (
            "_Z5crossDv3_fS_",
            &["<float 1.0, float 0.0, float 0.0>", "<float 0.0, float 1.0, float 0.0>"],
            "<float 0.000000e+00, float 0.000000e+00, float 1.000000e+00>",
        ),
        ("_Z6lengthDv2_f", &["<float 0x4648000000000000, float 0x4650000000000000>"], "0x4654000000000000"),
        ("_Z6lengthDv2_d", &["<double 3.0e300, double 4.0e300>"], "5.000000e+300"),
        ("_Z8distancedd", &["-1.0", "3.0"], "4.000000e+00"),
        ("_Z9normalizeDv2_f", &["zeroinitializer"], "zeroinitializer"),
        (
            "_Z9normalizeDv2_f",
            &["<float 0xFFF0000000000000, float 1.0>"],
            "<float -1.000000e+00, float 0.000000e+00>",
        ),
    ]);
}

#[test]
fn shuffles() {
    check(&[
        ("_Z7shuffleDv4_iDv2_j", &["<i32 10, i32 11, i32 12, i32 13>", "<i32 3, i32 4>"], "<i32 13, i32 10>"),
        (
            "_Z8shuffle2Dv2_iS_Dv4_j",
            &["<i32 10, i32 11>", "<i32 20, i32 21>", "<i32 3, i32 0, i32 6, i32 1>"],
            "<i32 21, i32 10, i32 20, i32 11>",
        ),
    ]);
}

/// What is stored through a pointer, loaded again.
fn stored(symbol: &str, store: &str, load: &str) -> String {
    let text = format!(
        "{}define {load} @result() {{\n  %p = alloca [64 x i8], align 16\n  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 64, i1 false)\n  {}\n  %r = load {load}, ptr %p\n  ret {load} %r\n}}\n\
         declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n",
        module([definition(symbol)].into_iter()),
        store.replace('@', &format!("@{symbol}")),
    );
    let output = String::from_utf8(llvm("opt", &["-O2", "-S", "-o", "-", "-"], &text)).expect("UTF-8");
    let body = output.split_once("@result()").expect("defined").1;
    body.lines().find_map(|line| line.trim().strip_prefix("ret ")).expect("a result").to_string()
}

#[test]
fn stores() {
    let half = |suffix: &str, value: &str| {
        let symbol = format!("_Z{}vstore_half{suffix}fmPDh", 11 + suffix.len());
        stored(&symbol, &format!("call spir_func void @(float {value}, i64 0, ptr %p)"), "i16")
    };
    // 1 + 2^-12 lies between 0x3C00 and 0x3C01.
    for (suffix, up, down) in [
        ("", 0x3C00, 0xBC00u16),
        ("_rte", 0x3C00, 0xBC00),
        ("_rtz", 0x3C00, 0xBC00),
        ("_rtp", 0x3C01, 0xBC00),
        ("_rtn", 0x3C00, 0xBC01),
    ] {
        assert_eq!(half(suffix, "0x3FF0010000000000"), format!("i16 {up}"), "{suffix}");
        assert_eq!(half(suffix, "0xBFF0010000000000"), format!("i16 {}", down as i16), "{suffix}");
    }
    // Rounding twice, over float, must not show: 1 + 2^-11 + 2^-40 is above the middle.
    let double = stored(
        "_Z11vstore_halfdmPDh",
        "call spir_func void @(double 0x3FF0020000001000, i64 1, ptr %p)",
        "<2 x i16>",
    );
    assert_eq!(double, "<2 x i16> <i16 0, i16 15361>");
    let three = stored(
        "_Z7vstore3Dv3_imPi",
        "call spir_func void @(<3 x i32> <i32 1, i32 2, i32 3>, i64 1, ptr %p)",
        "<8 x i32>",
    );
    assert_eq!(three, "<8 x i32> <i32 0, i32 0, i32 0, i32 1, i32 2, i32 3, i32 0, i32 0>");
    let aligned = stored(
        "_Z13vstorea_half3Dv3_fmPDh",
        "call spir_func void @(<3 x float> splat (float 1.0), i64 1, ptr %p)",
        "<8 x i16>",
    );
    assert_eq!(aligned, "<8 x i16> <i16 0, i16 0, i16 0, i16 0, i16 15360, i16 15360, i16 15360, i16 0>");
    let modf = stored("_Z4modffPf", "%m = call spir_func float @(float -2.75, ptr %p)", "float");
    assert_eq!(modf, "float -2.000000e+00");
    let fract =
        stored("_Z5fractfPf", "%m = call spir_func float @(float 0xBE70000000000000, ptr %p)", "float");
    assert_eq!(fract, "float -1.000000e+00");
}
