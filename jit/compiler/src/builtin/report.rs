//! `docs/builtins.md`: the page that the table writes about itself, with the accuracy that OpenCL asks and what was
//! measured. `SPIRULA_UPDATE=1 cargo test -p spirula-compiler page` writes it anew.

use super::math;
use super::pattern::{self, Generic};
use super::table::{self, ANY, FLOATS, How, INT32, INTEGERS, NARROW, Row, SECTIONS, SIGNED, SINGLE};
use super::types::{Element, opaque_name};
use spirula_builtins::accuracy;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What `builtins/tests/accuracy` measured.
const WORST: &str = include_str!("../../../../builtins/worst.txt");

const HEAD: &str = "\
# The builtin functions of OpenCL C 1.2

Written by the builtin table (`jit/compiler/src/builtin`): `SPIRULA_UPDATE=1 cargo test -p spirula-compiler page`.

*T* is a scalar or a vector of 2, 3, 4, 8 or 16 of the types named, *E* its element. *I*, *U* and *F* are the signed
integer, unsigned integer and floating-point type of *T*'s size, *W* the one of double its size, *N* `int`, all of *T*'s
width; *S* is `int`, and *R* what a relational function of *T* returns. Pointers are to private, global and local
memory, const ones to constant memory too. *n* is 2, 3, 4, 8 or 16,
each *n* of a `shuffle` for itself.

Functions are provided as an instruction of LLVM's (`llvm.`), by the library in `builtins/` (`spirula_`), or written out
where they are called (inline). Errors are in ULP, for float / double: what OpenCL 1.2 allows (7.4), and the largest
that was measured against MPFR, rounded upwards, with a star if all 2^32 arguments were tried. An error of 0 is an exact
result, of 0.50 a correctly rounded one. lgamma has no limit in OpenCL; its errors are those away from its zeros. Processors without
fused multiply-add (x86-64-v2) have other code for them, with the errors of `builtins/worst-unfused.txt`, up to 1 ULP larger.
";

const TAIL: &str = "
## printf (6.12.13)

`int printf(constant char *format, ...)` stands apart from the table (`jit/interface/src/printf.rs`, `runtime/src/execute/output`). It has
every flag, conversion and length modifier, vectors, and for `%s` any string in any memory; numbers are printed as C
prints them, exactly rounded. It returns 0, or -1 and prints nothing when the launch's buffer is full. A command's text
is on standard output, in order with what the application itself prints by C's functions, when the command ends: the
calls of a work-item in their order, each whole, those of others in between.

## Blocks, pipes and device-side enqueue of OpenCL C 2.0 (6.12.5, 6.13.16, 6.13.17)

What takes blocks, pipes, queues or device events stands apart as well (`builtin/named.rs`): producers spell these functions in several
ways, and their names and the kinds of their LLVM types tell them apart. Blocks are functions when a program is built
(`front/blocks.rs`). Pipes are rings without locks (`builtins/src/pipe.rs`); a reservation has as many packets as it asks for, or none.
Kernels that are enqueued (`builtins/src/enqueue.rs`) run when their parent's work-groups have ended, whatever the flag
(`runtime/src/execute/children.rs`).
";

const RELAXED_HEAD: &str = "
Where the exponent is a constant of the program, from -3 to 8, or -2.5 to 7.5 in halves, `pow`, `powr`, `pown` and the `native_` ones are products and
a root (`builtins/src/known_power.rs`); errors up to 8.1 ULP were measured of them.

With `-cl-unsafe-math-optimizations` or `-cl-fast-relaxed-math`, of a build or recorded in all of a program's SPIR modules,
denormal numbers are taken for zero, and these functions of float are their `native_` ones, which keep OpenCL 3.0's limits for the option but for rsqrt, whose error
is up to 2.4 ULP: `rsqrt`, ";

/// A name that stands for a family: `convert_char4_sat_rte` is `convert_charn_sat_rte`.
fn family(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("convert_") {
        let element = Element::INTEGERS.iter().chain(&Element::FLOATS).map(|e| e.name());
        let element = element.filter(|element| rest.starts_with(element)).max_by_key(|element| element.len());
        let integer = !matches!(element, Some("half" | "float" | "double"));
        return format!(
            "convert_{}[n]{}[_rte\\|_rtz\\|_rtp\\|_rtn]",
            element.unwrap_or(""),
            if integer { "[_sat]" } else { "" }
        );
    }
    let is_vector = ["vload", "vstore"].iter().any(|prefix| name.starts_with(prefix));
    if !is_vector {
        return name.to_string();
    }
    let digits: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
    let rounding = ["_rte", "_rtz", "_rtp", "_rtn"].iter().find_map(|suffix| digits.strip_suffix(suffix));
    let stem = rounding.unwrap_or(&digits);
    let width = if stem.contains("half") { "[n]" } else { "n" };
    let modes = if stem.ends_with("store_half") || stem.ends_with("storea_half") {
        "[_rte\\|_rtz\\|_rtp\\|_rtn]"
    } else {
        ""
    };
    format!("{stem}{width}{modes}")
}

/// What `T` ranges over.
fn types(generic: Generic) -> String {
    let same = |other: Generic| generic.elements == other.elements;
    let known = [
        (ANY, "any number"),
        (FLOATS, "half, float, double"),
        (SINGLE, "float"),
        (INTEGERS, "any integer"),
        (SIGNED, "any signed integer"),
        (NARROW, "any integer up to 32 bits"),
        (INT32, "int, uint"),
    ];
    let names = || generic.elements.iter().map(|e| e.name()).collect::<Vec<_>>().join(", ");
    known.iter().find(|(other, _)| same(*other)).map_or_else(names, |(_, text)| (*text).to_string())
}

fn provided(how: &How) -> String {
    match how {
        How::Intrinsic(name) => format!("`llvm.{name}`"),
        How::Library(name) | How::Power(name) => format!("`spirula_{name}`"),
        How::Expand(_) => "inline".to_string(),
    }
}

/// The limits of a row, and the errors measured.
fn errors(row: &Row) -> (String, String) {
    let has_double = row.generic.elements.contains(&Element::Double);
    let both =
        |single: String, double: String| if has_double { format!("{single} / {double}") } else { single };
    let name = match &row.how {
        How::Library(name) | How::Power(name) => name,
        // Part of what a library function yields.
        How::Expand(_) if row.pattern == "T(T)" => row.name.as_ref(),
        _ => return Default::default(),
    };
    let limits = accuracy::of(name).map(|limit| both(limit.single.to_string(), limit.double.to_string()));
    let measured =
        WORST.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| fields[0] == name);
    let measured = measured.map(|fields| both(fields[1].to_string(), fields[2].to_string()));
    (limits.unwrap_or_default(), measured.unwrap_or_default())
}

/// Lines of the page: family to its patterns' lines, with the numbers of overloads.
type Lines = BTreeMap<(String, String), usize>;

fn line(section: &str, row: &Row) -> (String, String) {
    let name = family(&row.name);
    let is_family = name != row.name || section.starts_with("Vectors");
    let tokens = row.pattern.replace(['@', '#'], "").replace(['(', ',', ')'], " ");
    let shown = |token: &str| if is_family { without_width(token) } else { token.to_string() };
    let signature: Vec<String> = tokens.split_whitespace().map(|token| type_name(&shown(token))).collect();
    let (result, parameters) = signature.split_first().expect("a result");
    let types =
        if row.generic.elements.is_empty() { String::new() } else { format!("; T: {}", types(row.generic)) };
    let (limits, measured) = errors(row);
    let text = format!(
        "`{result} ({})`{types} | {} | {limits} | {measured}",
        parameters.join(", "),
        provided(&row.how)
    );
    (name, text)
}

/// A token of a pattern as OpenCL C might write it.
fn type_name(token: &str) -> String {
    let base = token.rsplit('*').next().unwrap_or(token);
    let opaque = base.starts_with("image") || matches!(base, "event" | "sampler");
    let name = match opaque {
        true => opaque_name(base),
        false => base.to_string(),
    };
    match token.strip_suffix(base).unwrap_or_default() {
        "" => name,
        "atomic*" => format!("volatile {name} *"),
        pointer => {
            format!("{} {name} *", pointer.trim_end_matches('*').replace('-', " ")).trim_start().to_string()
        }
    }
}

/// `float4` as `floatn`, `T2` as `Tn`.
fn without_width(token: &str) -> String {
    let element = token.trim_end_matches(|c: char| c.is_ascii_digit());
    if element.len() == token.len() { token.to_string() } else { format!("{element}n") }
}

fn page() -> String {
    let mut page = HEAD.to_string();
    let names: BTreeSet<&str> = table::all().map(|row| row.name.as_ref()).collect();
    let overloads = |row: &Row| pattern::overloads(&row.pattern, row.generic).len();
    let total: usize = table::all().map(overloads).sum();
    page += &format!("\n{} names, {total} overloads.\n", names.len());
    let relaxed: Vec<String> = math::RELAXED.iter().map(|(full, _)| format!("`{full}`")).collect();
    page += &format!("{RELAXED_HEAD}{}.\n", relaxed.join(", "));
    for section in &SECTIONS {
        let title = section.0;
        page += &format!(
            "\n## {title}\n\n| function | signature | provided | allowed | measured | overloads |\n|---|---|---|---|---|---|\n"
        );
        let mut lines = Lines::new();
        for row in table::rows_of_section(section) {
            *lines.entry(line(title, &row)).or_default() += overloads(&row);
        }
        for ((name, text), count) in lines {
            page += &format!("| {name} | {text} | {count} |\n");
        }
    }
    page + TAIL
}

#[test]
fn the_page_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/builtins.md");
    let page = page();
    if std::env::var_os("SPIRULA_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("docs/builtins.md is writable");
    }
    let found = std::fs::read_to_string(&path).expect("docs/builtins.md is there");
    assert!(
        found == page,
        "docs/builtins.md is out of date: SPIRULA_UPDATE=1 cargo test -p spirula-compiler page"
    );
}

#[test]
fn every_library_function_is_measured() {
    // Exact ones, and the quick ones, have tests of their own.
    const EXACT: [&str; 3] = ["ilogb", "logb", "nextafter"];
    for row in table::all() {
        let (How::Library(name) | How::Power(name)) = row.how else { continue };
        let quick = name.starts_with("native_") || name.starts_with("half_");
        let known = accuracy::of(name).is_some() || EXACT.contains(&name) || quick;
        assert!(known, "{name} has no limit in spirula_builtins::accuracy");
    }
}
