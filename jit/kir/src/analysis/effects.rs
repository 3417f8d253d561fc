//! Analysis: what calling a function may do, over the call graph.

use crate::analysis::ControlFlow;
use crate::{
    AddressSpace, CastOp, Effects, Function, Inst, Module, Op, Passing, Scalar, Signature, Type, Value,
};
use spirula_interface::program::DATA_SYMBOL;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Finds the effects of a module's functions, and which calls are pure and order nothing. What isn't known by name may do
/// anything, and so does what calls itself.
pub fn find_effects(module: &mut Module) {
    let mut known: HashMap<Arc<str>, Effects> = HashMap::new();
    // Each round knows what calls only what was known before it; there are as many as calls nest.
    let mut open: Vec<usize> = (0..module.functions.len()).collect();
    while !open.is_empty() {
        let before = open.len();
        open.retain(|&index| {
            let function = &module.functions[index];
            let Some(effects) = of_function(function, &known) else { return true };
            known.insert(function.name.as_str().into(), effects);
            false
        });
        if open.len() == before {
            break;
        }
    }
    let named = |is: &dyn Fn(&Function) -> bool| -> HashSet<Arc<str>> {
        module.functions.iter().filter(|f| is(f)).map(|f| f.name.as_str().into()).collect()
    };
    let found = Found { forgetful: named(&keeps_nothing), unordered: unordered(module), effects: known };
    for function in module.functions.iter_mut().chain(&mut module.kernels) {
        if function.signature != Signature::Kernel {
            let effects = found.effects.get(function.name.as_str());
            function.attributes.effects = effects.copied().unwrap_or(Effects::ANY);
        }
        mark_calls(function, &found);
    }
}

/// Whether it is given pointers, and keeps none of them anywhere.
fn keeps_nothing(function: &Function) -> bool {
    let is_pointer = |value: Value| matches!(function.ty(value).scalar(), Some(Scalar::Pointer(_)));
    let mut pointers = function.params.iter().filter(|param| is_pointer(param.value)).peekable();
    pointers.peek().is_some()
        && pointers.all(|param| matches!(param.passing, Passing::Argument(promises) if promises.nocapture))
}

/// What is known of functions, by name.
struct Found {
    effects: HashMap<Arc<str>, Effects>,
    /// Those that keep no pointer.
    forgetful: HashSet<Arc<str>>,
    /// Those that order nothing between threads.
    unordered: HashSet<Arc<str>>,
}

/// The functions without atomics and fences, which call no others: all, but for those that have any, and their callers.
fn unordered(module: &Module) -> HashSet<Arc<str>> {
    let mut names: HashSet<Arc<str>> = module.functions.iter().map(|f| f.name.as_str().into()).collect();
    loop {
        let before = names.len();
        for function in &module.functions {
            let orders = |inst: &Inst| match function.op(*inst) {
                Op::Call { function: callee, .. } => !names.contains(callee),
                op => op.is_atomic(),
            };
            if function.blocks.iter().flat_map(|block| &block.insts).any(orders) {
                names.remove(function.name.as_str());
            }
        }
        if names.len() == before {
            return names;
        }
    }
}

fn mark_calls(function: &mut Function, found: &Found) {
    let insts: Vec<Inst> = function.blocks.iter().flat_map(|block| block.insts.iter().copied()).collect();
    for inst in insts {
        if let Op::Call { function: callee, pure, nocapture, nosync, .. } = function.op_mut(inst) {
            *pure = found.effects.get(callee).is_some_and(|effects| effects.is_pure());
            *nocapture = found.forgetful.contains(callee);
            *nosync = found.unordered.contains(callee);
        }
    }
}

/// `None` if it calls what isn't known yet.
fn of_function(function: &Function, known: &HashMap<Arc<str>, Effects>) -> Option<Effects> {
    let mut effects = Effects::NONE;
    for block in &function.blocks {
        for &inst in &block.insts {
            effects = effects | of_operation(function, function.op(inst), known)?;
        }
    }
    // Nobody knows how often a loop runs.
    let flow = ControlFlow::new(function);
    let loops = flow.reverse_post_order().iter().any(|&block| flow.is_in_loop(block));
    Some(Effects { traps: effects.traps || loops, ..effects })
}

fn of_operation(function: &Function, op: &Op, known: &HashMap<Arc<str>, Effects>) -> Option<Effects> {
    let reads = Effects { reads: true, ..Effects::NONE };
    let writes = Effects { writes: true, ..Effects::NONE };
    Some(match op {
        Op::Call { function: callee, .. } => return known.get(callee).copied(),
        Op::Load { pointer, volatile: false, ordering: None, .. } => match origin(function, *pointer) {
            Origin::Own | Origin::Constant => Effects::NONE,
            Origin::Elsewhere => reads,
        },
        Op::Store { pointer, volatile: false, ordering: None, .. } => match origin(function, *pointer) {
            Origin::Own => Effects::NONE,
            _ => writes,
        },
        Op::Intrinsic { intrinsic, arguments, .. } if intrinsic.effects().writes => {
            let to_own = arguments.first().is_some_and(|&to| origin(function, to) == Origin::Own);
            // Where a copy comes from is its second operand.
            let from = arguments.get(1).filter(|_| intrinsic.effects().reads);
            let from_known = from.is_none_or(|&from| origin(function, from) != Origin::Elsewhere);
            Effects { reads: !from_known, writes: !to_own, traps: false }
        }
        _ if op.has_effect() => reads | writes,
        _ if op.reads_memory() => reads,
        _ => Effects::NONE,
    })
}

/// Whose memory a pointer leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The function's own: nobody else sees it.
    Own,
    /// What never changes.
    Constant,
    Elsewhere,
}

fn origin(function: &Function, mut pointer: Value) -> Origin {
    loop {
        if *function.ty(pointer) == Type::Scalar(Scalar::Pointer(AddressSpace::Constant)) {
            return Origin::Constant;
        }
        pointer = match function.defining_op(pointer) {
            Some(Op::SlotAddress(_)) => return Origin::Own,
            Some(Op::GlobalAddress(name)) if **name != *DATA_SYMBOL => return Origin::Constant,
            Some(Op::Address { base, .. }) => *base,
            Some(Op::Cast { op: CastOp::AddrSpaceCast, value, .. }) => *value,
            _ => return Origin::Elsewhere,
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_module;

    /// The attributes of `f`, and the call in the kernel, for a body.
    fn found(body: &str) -> String {
        let text = format!(
            "constant \"table\" size 8 align 4 \"01\"\nfunction \"f\"(%0: ptr(private), %1: i32) yields i32 {{\n  slot $0: 8 align 8\nb0:\n{body}}}\n\
             function \"g\"(%0: i32) yields i32 {{\nb0:\n  %1: i32 = call \"f\"(zero:ptr(private), %0)\n  return %1\n}}\n\
             kernel \"k\"() {{\nb0:\n  %0: i32 = call \"g\"(7:i32)\n  return\n}}\n"
        );
        let mut module = parse_module(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        module.verify().unwrap_or_else(|e| panic!("{e}\n{text}"));
        super::find_effects(&mut module);
        let effects: Vec<String> = module.functions.iter().map(|f| f.attributes.to_string()).collect();
        assert_eq!(effects[0], effects[1], "what a function calls, it does");
        let pure = module.kernels[0].to_string().contains("call pure");
        assert_eq!(pure, effects[0] == " no_reads no_writes returns");
        effects[0].clone()
    }

    #[test]
    fn own_and_constant_memory_is_nobodys_business() {
        let own = "  %2: ptr(private) = slot_address $0\n  %3: ptr(private) = address %2 + 4\n  store %3, %1, align 4\n\
                   %4: i32 = load %3, align 4\n  %5: ptr(private) = global_address @\"table\"\n  %6: i32 = load %5, align 4\n  return %6\n";
        assert_eq!(found(own), " no_reads no_writes returns");
    }

    #[test]
    fn other_memory_is_seen() {
        assert_eq!(found("  %2: i32 = load %0, align 4\n  return %2\n"), " no_writes returns");
        assert_eq!(found("  store %0, %1, align 4\n  return %1\n"), " no_reads returns");
        assert_eq!(found("  intrinsic memset(%0, 0:i8, 4:i64, 0:i1)\n  return %1\n"), " no_reads returns");
        assert_eq!(found("  %2: i32 = load volatile %0, align 4\n  return %2\n"), " returns");
    }

    #[test]
    fn who_keeps_no_pointer_is_known() {
        let call = |promises: &str| {
            let text = format!(
                "function \"f\"(%0: ptr(private){promises}) {{\nb0:\n  return\n}}\nkernel \"k\"() {{\nb0:\n  \
                 call @\"f\"(zero:ptr(private))\n  return\n}}\n"
            );
            let mut module = parse_module(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            super::find_effects(&mut module);
            module.kernels[0].to_string().contains("nocapture nosync @")
        };
        assert_eq!((call(" nocapture"), call("")), (true, false));
    }

    #[test]
    fn what_orders_threads_is_known_through_calls() {
        let nosync = |body: &str| {
            let text = format!(
                "function \"h\"(%0: ptr(global)) {{\nb0:\n  {body}\n  return\n}}\nfunction \"f\"(%0: ptr(global)) {{\nb0:\n  \
                 call @\"h\"(%0)\n  return\n}}\nkernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  call @\"f\"(%0)\n  return\n}}\n"
            );
            let mut module = parse_module(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            super::find_effects(&mut module);
            module.kernels[0].to_string().contains("call nosync @")
        };
        assert!(nosync("store %0, 1:i32, align 4") && nosync("store volatile %0, 1:i32, align 4"));
        for orders in [
            "store atomic release %0, 1:i32, align 4",
            "fence release",
            "%1: i32 = rmw atomic monotonic add %0, 1:i32, align 4",
            "call @\"f\"(%0)",
        ] {
            assert_eq!(nosync(orders), orders.starts_with("call"), "{orders}");
        }
    }

    #[test]
    fn a_loop_may_not_end() {
        let text = "  jump b1\nb1:\n  %2: i1 = icmp eq %1, 7:i32\n  branch %2, b1, b2\nb2:\n  return %1\n";
        assert_eq!(found(text), " no_reads no_writes");
    }
}
