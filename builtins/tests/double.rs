//! The double functions against values that mpmath computed (`reference/generate.py`), within the specification's
//! limits, and their special values against the platform's libm.

use spirula_builtins as library;
use spirula_builtins::accuracy;
use std::collections::BTreeMap;

type Unary = extern "C" fn(f64) -> f64;
type Binary = extern "C" fn(f64, f64) -> f64;
type Reference = fn(f64) -> f64;
type WithInteger = extern "C" fn(f64, i32) -> f64;

macro_rules! functions {
    ($kind:ty: $($name:literal $function:ident),* $(,)?) => { [$(($name, library::$function as $kind)),*] };
}

fn unary() -> BTreeMap<&'static str, Unary> {
    BTreeMap::from(functions!(Unary:
        "acos" spirula_acos_f64, "acosh" spirula_acosh_f64, "acospi" spirula_acospi_f64, "asin" spirula_asin_f64,
        "asinh" spirula_asinh_f64, "asinpi" spirula_asinpi_f64, "atan" spirula_atan_f64, "atanh" spirula_atanh_f64,
        "atanpi" spirula_atanpi_f64, "cbrt" spirula_cbrt_f64, "cos" spirula_cos_f64, "cosh" spirula_cosh_f64,
        "cospi" spirula_cospi_f64, "erf" spirula_erf_f64, "erfc" spirula_erfc_f64, "exp" spirula_exp_f64,
        "exp10" spirula_exp10_f64, "exp2" spirula_exp2_f64, "expm1" spirula_expm1_f64,
        "lgamma" spirula_lgamma_f64, "log" spirula_log_f64, "log10" spirula_log10_f64, "log1p" spirula_log1p_f64,
        "log2" spirula_log2_f64, "sin" spirula_sin_f64, "sinh" spirula_sinh_f64, "sinpi" spirula_sinpi_f64,
        "tan" spirula_tan_f64, "tanh" spirula_tanh_f64, "tanpi" spirula_tanpi_f64, "tgamma" spirula_tgamma_f64,
    ))
}

fn binary() -> BTreeMap<&'static str, Binary> {
    BTreeMap::from(functions!(Binary:
        "atan2" spirula_atan2_f64, "atan2pi" spirula_atan2pi_f64, "hypot" spirula_hypot_f64,
        "pow" spirula_pow_f64, "powr" spirula_powr_f64,
    ))
}

fn with_integer() -> BTreeMap<&'static str, WithInteger> {
    BTreeMap::from(functions!(WithInteger: "pown" spirula_pown_f64, "rootn" spirula_rootn_f64))
}

/// The distance from high + low in units of high's last place.
fn ulp(found: f64, high: f64, low: f64) -> f64 {
    if found.is_nan() || high.is_nan() {
        return if found.is_nan() && high.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if found == high && (low == 0.0 || high.is_infinite()) {
        return 0.0;
    }
    if found.is_infinite() || high.is_infinite() {
        // The largest number is next to infinity.
        return if found.abs() >= f64::MAX && high.abs() >= f64::MAX { 1.0 } else { f64::INFINITY };
    }
    let size = high.abs();
    let unit = if size < f64::MAX { size.next_up() - size } else { size - size.next_down() };
    ((found - high) - low).abs() / unit
}

fn number(hexadecimal: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(hexadecimal, 16).expect("bits"))
}

#[test]
fn errors_are_within_the_limits() {
    let file =
        std::env::var("SPIRULA_REFERENCE").ok().map(|path| std::fs::read_to_string(path).expect("there"));
    let text = file.as_deref().unwrap_or(include_str!("reference/double.txt"));
    let (unary, binary, with_integer) = (unary(), binary(), with_integer());
    let mut worst: BTreeMap<&str, (f64, &str)> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (name, truth) = (fields[0], &fields[fields.len() - 2..]);
        let x = number(fields[1]);
        let found = match (unary.get(name), binary.get(name), with_integer.get(name)) {
            (Some(function), ..) => function(x),
            (_, Some(function), _) => function(x, number(fields[2])),
            (.., Some(function)) => function(x, fields[2].parse().expect("an integer")),
            _ => panic!("{name} is not known"),
        };
        let (high, low) = (number(truth[0]), number(truth[1]));
        // log Γ near its zeros has no relative accuracy.
        let absolute = if name == "lgamma" && ((found - high) - low).abs() < 1e-15 { 0.0 } else { 1.0 };
        let error = absolute * ulp(found, high, low);
        let entry = worst.entry(name).or_insert((0.0, line));
        if error >= entry.0 {
            *entry = (error, line);
        }
    }
    assert_eq!(worst.len(), unary.len() + binary.len() + with_integer.len());
    let mut failures = Vec::new();
    for (name, (error, line)) in &worst {
        println!("{name}: {error:.3} ULP in {line}");
        if *error > accuracy::of(name).unwrap_or_else(|| panic!("{name} has no limit")).double {
            failures.push(format!("{name}: {error} ULP in {line}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Zeros, ones, infinities, NaN, the ends of the range.
fn edges() -> impl Iterator<Item = f64> + Clone {
    let sizes = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 1e-310, f64::MIN_POSITIVE, f64::MAX, 1e300, 1e16, 5e-324];
    let sizes = sizes.into_iter().chain([f64::INFINITY, f64::NAN, 710.0, 746.0, 9007199254740992.0, 171.7]);
    sizes.flat_map(|x| [x, -x])
}

/// Equal up to some ULP, with the same sign of zeros.
fn agrees(found: f64, truth: f64, limit: f64) -> bool {
    let zeros = found == 0.0 && truth == 0.0 && found.is_sign_negative() != truth.is_sign_negative();
    ulp(found, truth, 0.0) <= limit && !zeros
}

#[test]
fn special_values_are_those_of_c() {
    let references: [(&str, Reference); 24] = [
        ("acos", f64::acos),
        ("acosh", libm::acosh),
        ("asin", f64::asin),
        ("asinh", libm::asinh),
        ("atan", f64::atan),
        ("atanh", libm::atanh),
        ("cbrt", f64::cbrt),
        ("cos", f64::cos),
        ("cosh", f64::cosh),
        ("erf", libm::erf),
        ("erfc", libm::erfc),
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("exp10", libm::exp10),
        ("expm1", f64::exp_m1),
        ("lgamma", libm::lgamma),
        ("log", f64::ln),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("log2", f64::log2),
        ("sin", f64::sin),
        ("sinh", f64::sinh),
        ("tan", f64::tan),
        ("tanh", f64::tanh),
    ];
    let functions = unary();
    for (name, reference) in references {
        let limit = accuracy::of(name).expect("a limit").double + 1.0;
        for x in edges() {
            let (found, truth) = (functions[name](x), reference(x));
            assert!(agrees(found, truth, limit), "{name}({x:e}) = {found:e}, should be {truth:e}");
        }
    }
    for (x, truth) in
        [(0.0, f64::INFINITY), (-0.0, f64::NEG_INFINITY), (-1.0, f64::NAN), (f64::INFINITY, f64::INFINITY)]
    {
        assert!(agrees(library::spirula_tgamma_f64(x), truth, 0.0), "tgamma({x})");
    }
    assert!(
        library::spirula_tgamma_f64(f64::NEG_INFINITY).is_nan()
            && library::spirula_tgamma_f64(f64::NAN).is_nan()
    );
    assert!(agrees(library::spirula_tgamma_f64(1e-310), f64::INFINITY, 0.0));
    assert!(agrees(library::spirula_tgamma_f64(5.0), 24.0, 4.0));
}

#[test]
fn special_pairs_are_those_of_c() {
    for x in edges() {
        for y in edges() {
            let pairs: [(&str, f64, f64); 3] = [
                ("pow", library::spirula_pow_f64(x, y), x.powf(y)),
                ("atan2", library::spirula_atan2_f64(x, y), x.atan2(y)),
                ("hypot", library::spirula_hypot_f64(x, y), x.hypot(y)),
            ];
            for (name, found, truth) in pairs {
                assert!(agrees(found, truth, 16.0), "{name}({x:e}, {y:e}) = {found:e}, should be {truth:e}");
            }
            let found = library::spirula_fmod_f64(x, y);
            assert!(agrees(found, x % y, 0.0), "fmod({x:e}, {y:e}) = {found:e}, should be {:e}", x % y);
            let (found, truth) = (library::spirula_remainder_f64(x, y), libm::remquo(x, y).0);
            assert!(
                found == truth || found.is_nan() && truth.is_nan(),
                "remainder({x:e}, {y:e}) = {found:e}, not {truth:e}"
            );
        }
        for n in [0, 1, -1, 2, -2, 3, i32::MAX, i32::MIN] {
            let (found, truth) = (library::spirula_pown_f64(x, n), x.powf(n.into()));
            assert!(agrees(found, truth, 16.0), "pown({x:e}, {n}) = {found:e}, should be {truth:e}");
            let (found, truth) = (library::spirula_ldexp_f64(x, n), libm::ldexp(x, n.clamp(-5000, 5000)));
            assert!(agrees(found, truth, 0.0), "ldexp({x:e}, {n}) = {found:e}, should be {truth:e}");
        }
        assert!(library::spirula_rootn_f64(x, 0).is_nan());
    }
    for (x, n, truth) in
        [(-8.0, 3, -2.0), (0.0, -2, f64::INFINITY), (-0.0, -3, f64::NEG_INFINITY), (-1.0, 2, f64::NAN)]
    {
        assert!(agrees(library::spirula_rootn_f64(x, n), truth, 1.0), "rootn({x}, {n})");
    }
    for (x, y) in [(0.0, 0.0), (f64::INFINITY, 0.0), (1.0, f64::INFINITY), (-1.0, 2.0), (f64::NAN, 0.0)] {
        assert!(library::spirula_powr_f64(x, y).is_nan(), "powr({x}, {y})");
    }
}

#[test]
fn halves_and_wholes_of_pi_are_exact() {
    for n in -9..9 {
        let (x, odd) = (f64::from(n), n & 1 == 1);
        assert!(agrees(library::spirula_sinpi_f64(x), 0.0f64.copysign(x), 0.0));
        assert_eq!(library::spirula_cospi_f64(x), if odd { -1.0 } else { 1.0 });
        assert!(agrees(library::spirula_cospi_f64(x + 0.5), 0.0, 0.0));
        let zero = if odd { 0.0f64.copysign(-x) } else { 0.0f64.copysign(x) };
        assert!(agrees(library::spirula_tanpi_f64(x), zero, 0.0), "tanpi({x})");
        let pole = if odd { f64::NEG_INFINITY } else { f64::INFINITY };
        assert_eq!(library::spirula_tanpi_f64(x + 0.5), pole, "tanpi({x} + 1/2)");
    }
    assert!(
        library::spirula_sinpi_f64(f64::INFINITY).is_nan() && library::spirula_cospi_f64(f64::NAN).is_nan()
    );
    assert_eq!(library::spirula_cospi_f64(1e300), 1.0);
}
