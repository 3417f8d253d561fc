use super::*;
use crate::parse_module;
use spirula_interface::check::{Access, Object, Space, Use};
use spirula_interface::program::{
    AccessQualifier, AddressQualifier, ArgumentInfo, ArgumentKind, TypeQualifiers,
};

/// A function that checks call, in text.
fn defined(callee: &Callee) -> String {
    let parameters: Vec<String> = (0..callee.parameters).map(|number| format!("%{number}: i64")).collect();
    let (yields, value) = if callee.yields { (" yields i64", " %0") } else { ("", "") };
    format!("function {:?}({}){yields} {{\nb0:\n  return{value}\n}}\n", callee.name, parameters.join(", "))
}

/// A kernel with these lines, two buffers `%0` and `%1` and the number `%2`, checked for one kind; its text and its sites.
fn checked(body: &str, checks: Checks) -> (String, Vec<Checked>) {
    let (kernel, signature) = instrumented(body, checks);
    (kernel, signature.sites.into_iter().map(|site| site.what).collect())
}

/// The same kernel, with two variables of 64 bytes in local memory, whose barriers order that; and its signature.
fn instrumented(body: &str, checks: Checks) -> (String, KernelSignature) {
    let functions: String = FUNCTIONS.iter().map(defined).collect();
    let text = format!(
        "{functions}kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16, %3: ptr(global) @ 24) {{\n  local 128\n  slot $0: 16 align 4\nb0:\n{body}}}\n"
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
    let variable = |name: &str, offset| Variable { name: name.into(), offset, size: 64 };
    let local = vec![vec![variable("v", 0), variable("w", 64)]];
    module.kernels[0].blocks.iter_mut().for_each(|block| block.fences = 1);
    instrument(&mut module, &mut signatures, &Variables { local, ..Variables::default() }, checks);
    module.verify().unwrap_or_else(|e| panic!("{e}\n{module}"));
    let [signature] = signatures;
    (module.kernels[0].to_string(), signature)
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
    let private = |offset: &str| {
        format!(
            "  %4: ptr(private) = slot_address $0\n  %5: ptr(private) = address %4 + {offset}\n  store %5, 1:i32, align 4\n  return\n"
        )
    };
    let variable = Object::Variable { space: Space::Private, name: None, size: 16 };
    for (offset, guarded) in [("%2*4 + 0", true), ("16", true), ("14", true), ("12", false), ("0", false)] {
        assert_eq!(objects(&private(offset)) == std::slice::from_ref(&variable), guarded, "{offset}");
    }
    let loaded = "  %4: ptr(global) = load %0, align 8\n  store %4, 1:i32, align 4\n  return\n";
    assert_eq!(objects(loaded), [Object::Argument(0), Object::Any]);
    assert!(checked(loaded, Checks::MEMORY).0.contains("check.find"));
}

#[test]
fn divisions_are_known_by_their_guards() {
    let guarded = "  %4: i1 = icmp eq %2, 0:i64\n  %5: i64 = select %4, 1:i64, %2\n  %6: i64 = udiv %2, %5\n  store %0, %6, align 8\n  return\n";
    assert_eq!(checked(guarded, Checks::ARITHMETIC).1, [Checked::Division]);
    // A signed divisor is replaced wherever it is -1, which is right but for the least integer.
    let signed = "  %4: i1 = icmp eq %2, 0:i64\n  %5: i1 = icmp eq %2, 18446744073709551615:i64\n  %6: i1 = or %4, %5\n  %7: i64 = select %6, 1:i64, %2
  %8: i64 = load %0, align 8\n  %9: i64 = srem %8, %7\n  store %0, %9, align 8\n  return\n";
    let (text, sites) = checked(signed, Checks::ARITHMETIC);
    assert_eq!(sites, [Checked::Division]);
    assert!(text.contains("9223372036854775808:i64"), "{text}");
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

/// How often each function of races is called.
fn calls(text: &str, function: &str) -> usize {
    text.matches(&format!("\"spirula.races.{function}\"")).count()
}

#[test]
fn what_others_may_access_is_entered() {
    let body = "  %4: ptr(global) = address %0 + %2*4 + 0\n  %5: i32 = load %4, align 4\n  %6: i32 = load %4, align 4\n  \
                %7: i32 = add %5, %6\n  store %1, %7, align 4\n  barrier b1\nb1:\n  %8: i32 = load %4, align 4\n  store %1, %8, align 4\n  return\n";
    let (text, sites) = checked(body, Checks::RACES);
    let race = |access, number| Checked::Race { access, size: 4, object: Object::Argument(number) };
    let (read, write) = (race(Access::Read, 0), race(Access::Write, 1));
    assert_eq!(sites, [read.clone(), write.clone(), read, write], "read twice, entered once");
    assert_eq!(["begin", "wait", "global"].map(|name| calls(&text, name)), [1, 1, 4], "{text}");
    // Only the launch knows whether anybody writes there.
    assert_eq!(text.matches("icmp ne").count(), 4, "{text}");
}

#[test]
fn what_is_private_or_constant_is_not_entered() {
    let body = "  %4: ptr(private) = slot_address $0\n  store %4, 1:i32, align 4\n  %5: i32 = load %4, align 4\n  return\n";
    let (text, sites) = checked(body, Checks::RACES);
    assert!(sites.is_empty() && !text.contains("spirula.races"), "{text}");
}

#[test]
fn wide_values_are_entered_in_parts() {
    for (ty, parts) in [("4 x i32", 2), ("3 x i32", 3), ("2 x i8", 1)] {
        let body = format!("  %4: <{ty}> = load %0, align 4\n  store %1, %4, align 4\n  return\n");
        let (text, _) = checked(&body, Checks::RACES);
        assert_eq!(calls(&text, "global"), 1 + parts, "{text}");
    }
}

#[test]
fn atomics_are_looked_at_behind_if_they_order_something() {
    let body = |order: &str, fence: &str| {
        format!("  %4: i32 = rmw atomic {order} add %0, 1:i32, align 4\n{fence}  return\n")
    };
    for (order, fence, observed, fences) in
        [("monotonic", "", 0, 0), ("acq_rel", "", 1, 0), ("monotonic", "  fence acquire\n", 1, 1)]
    {
        let (text, sites) = checked(&body(order, fence), Checks::RACES);
        assert!(matches!(sites[..], [Checked::Race { access: Access::Atomic, .. }]));
        assert_eq!(["observe", "fence"].map(|name| calls(&text, name)), [observed, fences], "{text}");
    }
}

/// What is told of values that nothing wrote.
fn decided(body: &str) -> Vec<Use> {
    let (_, sites) = checked(body, Checks::UNINITIALIZED);
    let decides = |site| match site {
        Checked::Uninitialized { decides } => decides,
        other => panic!("{other:?}"),
    };
    sites.into_iter().map(decides).collect()
}

#[test]
fn what_is_read_is_looked_at_where_it_decides() {
    let unused = "  %4: i32 = load %0, align 4\n  %5: i32 = add %4, 1:i32\n  return\n";
    assert_eq!(decided(unused), []);
    let stored = "  %4: i32 = load %0, align 4\n  store %1, %4, align 4\n  return\n";
    assert_eq!(decided(stored), [Use::Output]);
    let kept = "  %4: i32 = load %0, align 4\n  %5: ptr(private) = slot_address $0\n  store %5, %4, align 4\n  return\n";
    assert_eq!(decided(kept), []);
    let index = "  %4: i64 = load %0, align 8\n  %5: ptr(global) = address %1 + %4*4 + 0\n  store %5, 1:i32, align 4\n  return\n";
    assert_eq!(decided(index), [Use::Address]);
    let branch =
        "  %4: i64 = load %0, align 8\n  %5: i1 = icmp eq %4, 7:i64\n  branch %5, b1, b1\nb1:\n  return\n";
    assert_eq!(decided(branch), [Use::Branch]);
    let undefined = "  %4: i32 = freeze poison:i32\n  store %1, %4, align 4\n  return\n";
    assert_eq!(decided(undefined), [Use::Output]);
    let given = "  %4: i1 = icmp eq %2, 7:i64\n  store %0, %2, align 8\n  branch %4, b1, b1\nb1:\n  return\n";
    assert_eq!(decided(given), []);
}

#[test]
fn the_other_checks_are_left_alone() {
    let body = "  %4: i64 = load %0, align 8\n  store %1, %4, align 8\n  return\n";
    let (text, sites) = checked(body, Checks::parse("memory,arithmetic,barriers,uninitialized").0);
    let uninitialized = |site: &&Checked| matches!(site, Checked::Uninitialized { .. });
    assert_eq!(sites.iter().filter(uninitialized).count(), 1, "{text}");
    assert!(!text.contains("poison") && text.contains("spirula.check.note"), "{text}");
}

/// How many arguments' and how many local places are the launch's to decide, and how often an access of local memory is entered.
fn apart(body: &str) -> (usize, usize, usize) {
    let (text, signature) = instrumented(body, Checks::RACES);
    let of_arguments = signature.places.iter().filter(|places| places.argument.is_some()).count();
    (of_arguments, signature.places.len() - of_arguments, calls(&text, "local"))
}

#[test]
fn each_work_items_own_element_is_the_launchs_to_decide() {
    let own =
        "  %4: i64 = global_id 0\n  %5: ptr(global) = address %0 + %4*4 + 0\n  store %5, 1:i32, align 4\n";
    assert_eq!(apart(&format!("{own}  return\n")), (1, 0, 0));
    let (_, signature) = instrumented(&format!("{own}  return\n"), Checks::RACES);
    let stride = &signature.places[0].strides[0];
    assert_eq!((stride.bytes, stride.start.0.len()), ((0, 4), 3), "item, group and offset");
    // The neighbour's as well; at another step; at a place that was loaded; atomically.
    for (other, decided) in [
        ("  %6: ptr(global) = address %0 + %4*4 + 4\n  store %6, 1:i32, align 4\n", 1),
        ("  %6: ptr(global) = address %0 + %4*8 + 0\n  store %6, 1:i32, align 4\n", 0),
        (
            "  %6: i64 = load %1, align 8\n  %7: ptr(global) = address %0 + %6*4 + 0\n  store %7, 1:i32, align 4\n",
            1,
        ),
        ("  %6: i32 = rmw atomic monotonic add %5, 1:i32, align 4\n", 0),
    ] {
        assert_eq!(apart(&format!("{own}{other}  return\n")).0, decided, "{other}");
    }
    // What leads anywhere may lead there.
    let anywhere = "  %6: ptr(global) = load %1, align 8\n  store %6, 1:i32, align 4\n";
    assert_eq!(apart(&format!("{own}{anywhere}  return\n")).0, 0);
    let narrow = "  %4: i64 = global_id 0\n  %5: i32 = trunc %4\n  %6: i64 = sext %5\n  %7: ptr(global) = address %0 + %6*4 + 0\n  \
                  store %7, 1:i32, align 4\n  return\n";
    let (_, signature) = instrumented(narrow, Checks::RACES);
    assert_eq!(signature.places[0].strides[0].fits.len(), 1);
}

#[test]
fn between_barriers_what_is_only_read_is_not_entered() {
    let write = |number, to: &str| {
        format!("  %{number}: ptr(local) = address {to} + 0\n  store %{number}, 1:i32, align 4\n")
    };
    let start = "  %4: i64 = local_id 0\n  %5: ptr(local) = local_address 0\n  %6: ptr(local) = address %5 + %4*4 + 0\n  %7: ptr(local) = local_address 64\n";
    let read = "  %9: i32 = load %5, align 4\n  store %1, %9, align 4\n";
    let own = write(8, "%6");
    assert_eq!(apart(&format!("{start}{own}  barrier b1\nb1:\n{read}  return\n")), (1, 1, 1));
    // Without a barrier, and in a loop that comes back to it.
    assert_eq!(apart(&format!("{start}{own}{read}  return\n")), (1, 0, 2));
    let again = format!(
        "{start}  jump b1\nb1:\n{own}  barrier b2\nb2:\n{read}  %10: i1 = icmp eq %2, 7:i64\n  branch %10, b1, b3\nb3:\n  return\n"
    );
    assert_eq!(apart(&again), (1, 0, 2));
    // One writes for all; the other variable is another matter.
    let one = write(8, "%5");
    let (_, signature) =
        instrumented(&format!("{start}{one}  barrier b1\nb1:\n{read}  return\n"), Checks::RACES);
    let arguments = [0_u8; 24];
    let launch = spirula_interface::program::Launch::whole(1, [0; 3], [64, 1, 1], [16, 1, 1]);
    let local = signature.places.iter().find(|places| places.argument.is_none());
    assert!(!local.expect("it is the launch's to decide").are_apart(&launch, &arguments));
    let other = write(10, "%7");
    assert_eq!(apart(&format!("{start}{own}  barrier b1\nb1:\n{read}{other}  return\n")), (1, 2, 2));
}
