//! Transform: small vectors that are put together of scalars and taken apart again, such as coordinates of images, are computed
//! component by component. Of `(int2)(get_global_id(0), get_global_id(1)) + (int2)(i, j)` one component is the next one in the next
//! work-item and the other is the same in all of them, which is seen of scalars only.

use crate::analysis::ControlFlow;
use crate::builder::{Builder, Ending, replace_uses};
use crate::{Block, Constant, Function, Inst, Op, Type, Value, ValueDef};
use std::collections::{HashMap, HashSet};

/// Larger vectors are data.
const MOST_COMPONENTS: u32 = 4;
/// A component is looked for behind so many operations that only move it.
const MOST_MOVES: u32 = 16;
/// What is used both as a whole and by component is sorted out in so many rounds, or nothing is changed.
const MOST_ROUNDS: u32 = 8;

/// Replaces operations on vectors that nobody uses as a whole, and extractions of what is known.
pub fn compute_components(function: &mut Function) {
    let order: Vec<Block> = ControlFlow::new(function).reverse_post_order().to_vec();
    let apart = taken_apart(function, &order);
    if apart.is_empty() {
        return;
    }
    let mut components = HashMap::new();
    let mut replaced = HashMap::new();
    for &at in &order {
        let (insts, ending) = Ending::take(function, at);
        for inst in insts {
            let mut builder = Builder { function, at };
            builder.function.at_location = builder.function.location(inst);
            match builder.function.result(inst) {
                Some(result) if apart.contains(&result) => {
                    let parts = compute(&mut builder, inst, &components);
                    components.insert(result, parts);
                }
                Some(result) => {
                    let known = extracted(builder.function, inst)
                        .and_then(|(vector, number)| find(builder.function, &components, vector, number));
                    match known {
                        Some(known) => _ = replaced.insert(result, known),
                        None => builder.function.append(at, inst),
                    }
                }
                None => builder.function.append(at, inst),
            }
        }
        function.at_location = None;
        ending.put(function, at);
    }
    replace_uses(function, &replaced);
}

/// A vector and the number of the component that is taken of it.
fn extracted(function: &Function, inst: Inst) -> Option<(Value, u32)> {
    let &Op::ExtractElement { vector, index } = function.op(inst) else { return None };
    let number = u32::try_from(function.constant_int(index)?).ok()?;
    (number < function.ty(vector).lanes()).then_some((vector, number))
}

/// The results of operations by component whose operands' components are known, and of which nothing but components is asked.
fn taken_apart(function: &Function, order: &[Block]) -> HashSet<Value> {
    let mut apart = HashSet::new();
    let insts = || order.iter().flat_map(|&block| &function.block(block).insts).copied();
    for inst in insts() {
        let Some(result) = function.result(inst).filter(|_| by_component(function, inst)) else { continue };
        if operands_are_known(function, &apart, inst) {
            apart.insert(result);
        }
    }
    // Whoever uses one as a whole has it and what it comes of kept; so does what control never comes to.
    let mut whole: Vec<Value> = insts().flat_map(|inst| wholes(function, &apart, inst)).collect();
    let reached: HashSet<Block> = order.iter().copied().collect();
    for block in function.block_ids() {
        let data = function.block(block);
        whole.extend(data.terminator.operands());
        let unreached = data.insts.iter().filter(|_| !reached.contains(&block));
        whole.extend(unreached.flat_map(|&inst| function.op(inst).operands()));
    }
    let mut seen = HashSet::new();
    for _ in 0..MOST_ROUNDS {
        keep_whole(function, &mut apart, &mut seen, whole);
        // The components of what is kept are no longer known to those that were computed of them, which may be whole for others.
        whole = Vec::new();
        for inst in insts() {
            let Some(result) = function.result(inst).filter(|result| apart.contains(result)) else {
                continue;
            };
            if !operands_are_known(function, &apart, inst) {
                apart.remove(&result);
                whole.extend(vectors(function, inst));
            }
        }
        if whole.is_empty() {
            return apart;
        }
    }
    HashSet::new()
}

/// Takes values out of what is taken apart, and all that they come of.
fn keep_whole(
    function: &Function,
    apart: &mut HashSet<Value>,
    seen: &mut HashSet<Value>,
    mut whole: Vec<Value>,
) {
    while let Some(value) = whole.pop() {
        if let ValueDef::Inst(inst) = *function.def(value)
            && seen.insert(value)
            && (apart.remove(&value) || moves(function.op(inst)))
        {
            whole.extend(vectors(function, inst));
        }
    }
}

/// Whether each component of each vector that an operation takes is known.
fn operands_are_known(function: &Function, apart: &HashSet<Value>, inst: Inst) -> bool {
    let count = function.result(inst).map_or(0, |result| function.ty(result).lanes());
    let known = |operand: &Value| (0..count).all(|number| is_known(function, apart, *operand, number));
    vectors(function, inst).iter().all(known)
}

/// The operands that an instruction uses as a whole. What moves components is asked for itself.
fn wholes(function: &Function, apart: &HashSet<Value>, inst: Inst) -> Vec<Value> {
    let is_apart = function.result(inst).is_some_and(|result| apart.contains(&result));
    if is_apart || moves(function.op(inst)) || extracted(function, inst).is_some() {
        return Vec::new();
    }
    function.op(inst).operands()
}

fn moves(op: &Op) -> bool {
    matches!(op, Op::InsertElement { .. } | Op::Shuffle { .. })
}

/// Whether an operation makes each component of a small vector of the same component of its operands.
fn by_component(function: &Function, inst: Inst) -> bool {
    let small = |value: Value| matches!(function.ty(value), Type::Vector(_, 2..=MOST_COMPONENTS));
    let lanes = |value: Value| function.ty(value).lanes();
    let Some(result) = function.result(inst).filter(|&result| small(result)) else { return false };
    match function.op(inst) {
        Op::Unary { .. } | Op::Binary { .. } | Op::Compare { .. } | Op::Select { .. } => true,
        Op::Cast { value, .. } => lanes(*value) == lanes(result),
        Op::Intrinsic { intrinsic, .. } => intrinsic.is_elementwise() && !function.op(inst).has_effect(),
        _ => false,
    }
}

/// An operation's vectors.
fn vectors(function: &Function, inst: Inst) -> Vec<Value> {
    let mut operands = function.op(inst).operands();
    operands.retain(|&operand| matches!(function.ty(operand), Type::Vector(..)));
    operands
}

/// Where a component comes from, behind what only moves it: a scalar, or a vector's component.
enum Origin {
    Scalar(Value),
    Component(Value, u32),
}

fn origin(function: &Function, mut vector: Value, mut number: u32) -> Option<Origin> {
    for _ in 0..MOST_MOVES {
        match function.defining_op(vector) {
            Some(&Op::InsertElement { vector: rest, element, index }) => {
                if function.constant_int(index)? == u128::from(number) {
                    return Some(Origin::Scalar(element));
                }
                vector = rest;
            }
            Some(Op::Shuffle { first, second, mask }) => {
                let from = u32::try_from(*mask.get(number as usize)?).ok()?;
                let count = function.ty(*first).lanes();
                (vector, number) = if from < count { (*first, from) } else { (*second, from - count) };
            }
            _ => return Some(Origin::Component(vector, number)),
        }
    }
    None
}

fn is_known(function: &Function, apart: &HashSet<Value>, vector: Value, number: u32) -> bool {
    match origin(function, vector, number) {
        Some(Origin::Scalar(_)) => true,
        Some(Origin::Component(vector, _)) => {
            apart.contains(&vector)
                || matches!(function.def(vector), ValueDef::Constant(Constant::Zero | Constant::Elements(_)))
        }
        None => false,
    }
}

/// A component of a vector, if it is known.
fn find(
    function: &mut Function,
    components: &HashMap<Value, Vec<Value>>,
    vector: Value,
    number: u32,
) -> Option<Value> {
    let (vector, number) = match origin(function, vector, number)? {
        Origin::Scalar(scalar) => return Some(scalar),
        Origin::Component(vector, number) => (vector, number),
    };
    let scalar = Type::Scalar(function.ty(vector).scalar()?);
    match function.def(vector).clone() {
        ValueDef::Constant(Constant::Zero) => Some(function.constant(scalar, Constant::Zero)),
        ValueDef::Constant(Constant::Elements(all)) => {
            let (ty, constant) = all.get(number as usize)?.clone();
            Some(function.constant(ty, constant))
        }
        _ => components.get(&vector)?.get(number as usize).copied(),
    }
}

/// The operation once for each component.
fn compute(builder: &mut Builder, inst: Inst, components: &HashMap<Value, Vec<Value>>) -> Vec<Value> {
    let op = builder.function.op(inst).clone();
    let Some(Type::Vector(scalar, count)) = builder.function.result(inst).map(|result| builder.ty(result))
    else {
        return Vec::new();
    };
    (0..count)
        .map(|number| {
            let mut copy = op.clone();
            for operand in copy.operands_mut() {
                if matches!(builder.function.ty(*operand), Type::Vector(..)) {
                    let component = find(builder.function, components, *operand, number);
                    *operand = component.unwrap_or(*operand);
                }
            }
            builder.push(Type::Scalar(scalar), copy)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::remove_dead_code;
    use crate::{parse, verify};

    /// The instructions of the first block that are left of a kernel that makes %4 and %5 of its ids 0 and 1, as i32, and %7 = (%4, %5).
    fn left(rest: &str) -> Vec<String> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {{
b0:
  %2: i64 = global_id 0
  %3: i64 = global_id 1
  %4: i32 = trunc %2
  %5: i32 = trunc %3
  %6: <2 x i32> = insert_element poison:<2 x i32>, %4, 0:i64
  %7: <2 x i32> = insert_element %6, %5, 1:i64
{rest}  return
}}"
        );
        let mut kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        compute_components(&mut kernel);
        remove_dead_code(&mut kernel);
        verify(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        let shown = kernel.to_string();
        shown
            .lines()
            .skip(2)
            .map(str::trim)
            .filter(|line| *line != "return" && *line != "}")
            .map(str::to_owned)
            .collect()
    }

    fn count(lines: &[String], name: &str) -> usize {
        lines.iter().filter(|line| line.contains(name)).count()
    }

    #[test]
    fn what_is_put_together_and_taken_apart_is_no_vector() {
        let lines = left(
            "  %8: <2 x i32> = add nsw %7, [1:i32, 2:i32]:<2 x i32>
  %9: <2 x i32> = shuffle %8, poison:<2 x i32>, [1, 0]
  %10: <2 x i32> = intrinsic smax(%9, zero:<2 x i32>)
  %11: i32 = extract_element %10, 1:i64
  %12: i32 = extract_element %10, 0:i64
  %13: i32 = sub %11, %12
  store %0, %13, align 4
",
        );
        assert_eq!(count(&lines, "<2 x"), 0, "{lines:?}");
        assert_eq!(count(&lines, "add nsw"), 2, "{lines:?}");
        // The one that was made of dimension 0 is the second now.
        let sum = lines.iter().find(|line| line.contains("= add nsw %4")).unwrap();
        let sum = sum.split(':').next().unwrap();
        let greatest = lines.iter().find(|line| line.contains(&format!("smax({sum},"))).unwrap();
        let greatest = greatest.split(':').next().unwrap();
        assert!(lines.iter().any(|line| line.contains(&format!("= sub {greatest},"))), "{lines:?}");
    }

    #[test]
    fn what_is_used_as_a_whole_stays_with_all_that_it_comes_of() {
        let lines = left(
            "  %8: <2 x i32> = add %7, [1:i32, 2:i32]:<2 x i32>
  %9: <2 x i32> = mul %8, %8
  %10: i32 = extract_element %9, 1:i64
  %11: <2 x i32> = shuffle %9, poison:<2 x i32>, [1, 0]
  store %0, %11, align 8
  store %0, %10, align 4
",
        );
        assert_eq!((count(&lines, "<2 x i32> = add"), count(&lines, "<2 x i32> = mul")), (1, 1), "{lines:?}");
        assert_eq!(count(&lines, " = mul"), 1, "not twice: {lines:?}");
    }

    #[test]
    fn others_of_what_is_used_as_a_whole_use_the_whole_too() {
        let lines = left(
            "  %8: <2 x i32> = shl %7, [1:i32, 2:i32]:<2 x i32>
  %9: <2 x i32> = shuffle %8, poison:<2 x i32>, [1, 0]
  %10: <2 x i1> = icmp sle %9, %7
  %11: <2 x i32> = sext %10
  %12: i32 = extract_element %11, 0:i64
  store %0, %9, align 8
  store %0, %12, align 4
",
        );
        assert_eq!(count(&lines, "<2 x i1> = icmp sle"), 1, "{lines:?}");
        assert_eq!(count(&lines, "<2 x i32> = sext"), 1, "{lines:?}");
    }

    #[test]
    fn what_comes_from_memory_is_data() {
        let lines = left(
            "  %8: <2 x i32> = load %0, align 8
  %9: <2 x i32> = add %7, %8
  %10: i32 = extract_element %9, 1:i64
  store %0, %10, align 4
",
        );
        assert_eq!(count(&lines, "<2 x i32> = add"), 1, "{lines:?}");
    }

    #[test]
    fn components_by_a_variable_number_ask_for_the_vector() {
        let lines = left(
            "  %8: <2 x i32> = add %7, %7
  %9: i32 = extract_element %8, %1
  store %0, %9, align 4
",
        );
        assert_eq!(count(&lines, "<2 x i32> = add"), 1, "{lines:?}");
    }

    #[test]
    fn selections_by_one_condition_and_by_several() {
        let lines = left(
            "  %8: i1 = icmp slt %1, 0:i32
  %9: <2 x i1> = icmp slt %7, zero:<2 x i32>
  %10: <2 x i32> = select %8, %7, [3:i32, 4:i32]:<2 x i32>
  %11: <2 x i32> = select %9, %7, %10
  %12: i32 = extract_element %11, 0:i64
  store %0, %12, align 4
",
        );
        assert_eq!(count(&lines, "<2 x"), 0, "{lines:?}");
        assert_eq!(count(&lines, " = select"), 2, "one of each for what is stored: {lines:?}");
    }
}
