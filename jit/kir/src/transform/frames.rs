//! Transform: private variables of functions that stay calls, in memory that the kernel has: each such function takes one more
//! argument, the address of its frame, which its callers keep room for behind their own variables. There is no recursion.

use crate::{AddressSpace, Function, Module, Op, Promises, Slot, Type, Value};
use std::collections::HashMap;

/// What frames and all that is in them are aligned to at most.
const ALIGN: u64 = 128;

/// Where a function's variables lie in its frame.
#[derive(Clone, Default)]
struct Frame {
    slots: Vec<u64>,
    /// Bytes of the variables; what is called has its frame behind them.
    own: u64,
    /// With the frames of all that is called.
    whole: u64,
}

/// Makes called functions do without variables of their own.
pub fn pass_frames(module: &mut Module) {
    let mut frames = frames(module);
    // Neither these nor what they call have any.
    frames.retain(|_, frame| frame.whole > 0);
    for function in &mut module.functions {
        let Some(frame) = frames.get(&function.name).cloned() else { continue };
        let ty = Type::pointer(AddressSpace::Private);
        let place = function.add_argument(ty, Promises { align: ALIGN as u32, ..Promises::default() });
        rewrite(function, &frames, |function, block, what| {
            let at = match what {
                What::Slot(slot) => frame.slots[slot.index()],
                What::Calls => frame.own,
            };
            address(function, block, place, at)
        });
        function.slots.clear();
    }
    for kernel in &mut module.kernels {
        let callees = kernel.names_used().filter_map(|name| frames.get(name));
        let Some(size) = callees.map(|frame| frame.whole).max() else { continue };
        let slot = kernel.add_slot(size, ALIGN as u32);
        rewrite(kernel, &frames, |function, block, what| {
            let slot = if let What::Slot(slot) = what { slot } else { slot };
            function.push(block, Type::PRIVATE_POINTER, Op::SlotAddress(slot))
        });
    }
}

/// What an address is asked of.
enum What {
    Slot(Slot),
    Calls,
}

fn frames(module: &Module) -> HashMap<String, Frame> {
    let mut known: HashMap<String, Frame> = HashMap::new();
    let mut open: Vec<&Function> = module.functions.iter().collect();
    let is_function = |name: &str| module.functions.iter().any(|function| function.name == name);
    while !open.is_empty() {
        let before = open.len();
        open.retain(|function| {
            let callees: Vec<&str> = function.names_used().filter(|name| is_function(name)).collect();
            let sizes: Option<Vec<u64>> =
                callees.iter().map(|&name| known.get(name).map(|frame| frame.whole)).collect();
            let Some(sizes) = sizes else { return true };
            let mut frame = Frame::default();
            for slot in &function.slots {
                let at = frame.own.next_multiple_of(u64::from(slot.align.max(1)).min(ALIGN));
                frame.slots.push(at);
                frame.own = at.saturating_add(slot.size.max(1));
            }
            frame.own = frame.own.next_multiple_of(ALIGN);
            frame.whole = frame.own.saturating_add(sizes.into_iter().max().unwrap_or(0));
            known.insert(function.name.clone(), frame);
            false
        });
        if open.len() == before {
            unreachable!("the verifier refuses recursion");
        }
    }
    known
}

fn address(function: &mut Function, block: crate::Block, base: Value, at: u64) -> Value {
    let (index, scale, offset, inbounds) = (None, 0, at as i64, true);
    function.push(block, Type::PRIVATE_POINTER, Op::Address { base, index, scale, offset, inbounds })
}

/// Asks for the addresses of slots and of frames to pass.
fn rewrite(
    function: &mut Function,
    frames: &HashMap<String, Frame>,
    mut address: impl FnMut(&mut Function, crate::Block, What) -> Value,
) {
    let is_callable = function.signature != crate::Signature::Kernel;
    let mut replaced = HashMap::new();
    for block in function.block_ids() {
        for inst in std::mem::take(&mut function.blocks[block.index()].insts) {
            match function.op(inst).clone() {
                Op::SlotAddress(slot) if is_callable => {
                    let place = address(function, block, What::Slot(slot));
                    replaced.extend(function.result(inst).map(|result| (result, place)));
                    continue;
                }
                Op::Call { function: callee, .. } if frames.contains_key(&*callee) => {
                    let place = address(function, block, What::Calls);
                    if let Op::Call { arguments, .. } = function.op_mut(inst) {
                        arguments.push(place);
                    }
                }
                _ => {}
            }
            function.append(block, inst);
        }
    }
    crate::builder::replace_uses(function, &replaced);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_module;

    #[test]
    fn variables_of_called_functions_lie_behind_each_other() {
        let text = r#"function "inner"(%0: i32) yields i32 {
  slot $0: 40 align 16
b0:
  %1: ptr(private) = slot_address $0
  store %1, %0, align 4
  %2: i32 = load %1, align 4
  return %2
}
function "outer"(%0: i32) yields i32 {
  slot $0: 4 align 4
  slot $1: 8 align 8
b0:
  %1: ptr(private) = slot_address $1
  store %1, %0, align 4
  %2: i32 = call @"inner"(%0)
  return %2
}
kernel "k"(%0: i32 @ 0) {
  slot $0: 4 align 4
b0:
  %1: ptr(private) = slot_address $0
  %2: i32 = call @"outer"(%0)
  store %1, %2, align 4
  return
}
kernel "calls_nothing"(%0: i32 @ 0) {
b0:
  return
}"#;
        let mut module = parse_module(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        pass_frames(&mut module);
        module.verify().unwrap_or_else(|e| panic!("{e}\n{module}"));
        assert!(module.functions.iter().all(|function| function.slots.is_empty()), "{module}");
        let sizes =
            |number: usize| module.kernels[number].slots.iter().map(|slot| slot.size).collect::<Vec<_>>();
        assert_eq!((sizes(0), sizes(1)), (vec![4, 256], vec![]), "{module}");
        let written = module.to_string();
        // Its second variable, and behind both the frame of what it calls.
        assert!(
            written.contains("address inbounds %3 + 8") && written.contains("address inbounds %3 + 128"),
            "{written}"
        );
    }
}
