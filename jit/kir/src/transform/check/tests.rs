use super::*;
use crate::parse_module;
use spirula_interface::check::{Access, Object, Space};
use spirula_interface::program::{
    AccessQualifier, AddressQualifier, ArgumentInfo, ArgumentKind, TypeQualifiers,
};

/// A kernel with these lines, two buffers `%0` and `%1` and the number `%2`, checked for one kind; its text and its sites.
fn checked(body: &str, checks: Checks) -> (String, Vec<Checked>) {
    let text = format!(
        "function \"spirula.check.note\"(%0: i64, %1: i64, %2: i64, %3: i64, %4: i64, %5: i64, %6: i64, %7: i64) {{\nb0:\n  return\n}}\n\
         function \"spirula.check.arrive\"(%0: i64, %1: i64, %2: i64, %3: i64, %4: i64, %5: i64, %6: i64, %7: i64) {{\nb0:\n  return\n}}\n\
         function \"spirula.check.find\"(%0: i64, %1: i64) yields i64 {{\nb0:\n  return %0\n}}\n\
         kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16, %3: ptr(global) @ 24) {{\n  slot $0: 16 align 4\nb0:\n{body}}}\n"
    );
    let mut module = parse_module(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    module.verify().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let argument = |(number, kind): (u32, ArgumentKind)| ArgumentInfo {
        kind,
        offset: 8 * number,
        address_space: AddressQualifier::Global,
        access: AccessQualifier::None,
        type_name: String::new(),
        type_qualifiers: TypeQualifiers::default(),
        name: None,
    };
    let kinds = [ArgumentKind::Buffer, ArgumentKind::Buffer, ArgumentKind::Value { size: 8 }];
    let mut signature = KernelSignature {
        arguments: (0..).zip(kinds).map(argument).collect(),
        argument_block_size: 24,
        ..KernelSignature::default()
    };
    signature.take_hidden(HiddenKind::Checks);
    let mut signatures = [signature];
    instrument(&mut module, &mut signatures, &Variables::default(), checks);
    module.verify().unwrap_or_else(|e| panic!("{e}\n{module}"));
    let [signature] = signatures;
    (module.kernels[0].to_string(), signature.sites.into_iter().map(|site| site.what).collect())
}

fn objects(body: &str) -> Vec<Object> {
    let (_, sites) = checked(body, Checks::MEMORY);
    let object = |site| match site {
        Checked::Access { object, .. } => object,
        other => panic!("{other:?}"),
    };
    sites.into_iter().map(object).collect()
}

#[test]
fn an_access_is_guarded_and_reads_zero_otherwise() {
    let body = "  %4: ptr(global) = address %0 + %2*4 + 0\n  %5: i32 = load %4, align 4\n  store %1, %5, align 4\n  return\n";
    let (text, sites) = checked(body, Checks::MEMORY);
    let access =
        |access, number| Checked::Access { access, size: 4, align: 1, object: Object::Argument(number) };
    assert_eq!(sites, [access(Access::Read, 0), access(Access::Write, 1)]);
    assert_eq!(
        (text.matches("icmp ult").count(), text.matches("spirula.check.note").count()),
        (2, 2),
        "{text}"
    );
    assert!(text.contains("zero:i32"), "{text}");
    // The offset is what was added, and no address is compared.
    assert!(!text.contains("ptrtoint %4"), "{text}");
    let (untouched, sites) = checked(body, Checks::ARITHMETIC);
    assert!(!untouched.contains("note") && sites.is_empty());
}

#[test]
fn pointers_keep_their_object() {
    let through = "  %4: ptr(global) = address %0 + %2*4 + 0\n  jump b1(%4)\nb1(%5: ptr(global)):\n  store %5, 1:i32, align 4\n  \
                   %6: ptr(global) = address %5 + 4\n  %7: i1 = icmp eq %2, 7:i64\n  branch %7, b1(%6), b2\nb2:\n  return\n";
    assert_eq!(objects(through), [Object::Argument(0)]);
    let chosen = "  %4: i1 = icmp eq %2, 7:i64\n  %5: ptr(global) = select %4, %0, %1\n  store %5, 1:i32, align 4\n  return\n";
    assert_eq!(objects(chosen), [Object::Any]);
    let merged = "  %4: i1 = icmp eq %2, 7:i64\n  branch %4, b1(%0), b1(%1)\nb1(%5: ptr(global)):\n  store %5, 1:i32, align 4\n  return\n";
    let (text, _) = checked(merged, Checks::MEMORY);
    assert!(!text.contains("check.find"), "bounds come with the pointer: {text}");
    let private = "  %4: ptr(private) = slot_address $0\n  store %4, 1:i32, align 4\n  return\n";
    assert_eq!(objects(private), [Object::Variable { space: Space::Private, name: None, size: 16 }]);
    let loaded = "  %4: ptr(global) = load %0, align 8\n  store %4, 1:i32, align 4\n  return\n";
    assert_eq!(objects(loaded), [Object::Argument(0), Object::Any]);
    assert!(checked(loaded, Checks::MEMORY).0.contains("check.find"));
}

#[test]
fn divisions_are_known_by_their_guards() {
    let guarded = "  %4: i1 = icmp eq %2, 0:i64\n  %5: i64 = select %4, 1:i64, %2\n  %6: i64 = udiv %2, %5\n  store %0, %6, align 8\n  return\n";
    assert_eq!(checked(guarded, Checks::ARITHMETIC).1, [Checked::Division]);
    let safe = "  %4: i64 = udiv %2, 3:i64\n  store %0, %4, align 8\n  return\n";
    assert!(checked(safe, Checks::ARITHMETIC).1.is_empty());
}

#[test]
fn who_waits_and_who_ends_says_so() {
    let body = "  %4: i1 = icmp eq %2, 7:i64\n  branch %4, b1, b2\nb1:\n  barrier b2\nb2:\n  return\n";
    let (text, sites) = checked(body, Checks::BARRIERS);
    assert_eq!(sites, [Checked::Barrier, Checked::End]);
    assert_eq!(text.matches("spirula.check.arrive").count(), 2, "{text}");
    assert!(checked("  return\n", Checks::BARRIERS).1.is_empty());
}
