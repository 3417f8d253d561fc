//! Calls of one function for each element of a vector, as a sine of a `float8` is eight: where work-items run one by one, the function is called
//! once, in as many lanes as the vector has elements. (Whole-function vectorization, as of packs: see `calls`.) A few elements may be missing: a
//! `float3` has a fourth one in memory.

use super::calls::{Form, Passing};
use super::values::components;
use crate::builder::{Builder, replace_results};
use crate::{Constant, Function, Inst, Op, Scalar, Signature, Type, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// What a call yields may be an element for the next one: so often it's looked for more.
const ROUNDS: usize = 16;
/// Shorter vectors, in bits, are not worth a call in lanes.
const LEAST_BITS: u64 = 96;

/// Does so in the body of a region.
pub fn call_for_elements(body: &mut Function) {
    for _ in 0..ROUNDS {
        let found = groups(body);
        let wide: Vec<Option<Arc<Function>>> =
            found.groups.iter().map(|group| body.callees.wide(&group.form)).collect();
        if wide.iter().all(Option::is_none) {
            break;
        }
        merge(body, &found, &wide);
    }
}

/// Of calls that are made together then: what each costs a work-item, against a plain operation, and what all of them cost, for which each
/// result is waited.
pub(super) fn shares(body: &Function) -> HashMap<Inst, [f64; 2]> {
    let found = groups(body);
    let mut counts = vec![0.0; found.groups.len()];
    found.places.values().for_each(|&(number, _)| counts[number] += 1.0);
    let share = |(&inst, &(number, _)): (&Inst, &(usize, u32))| {
        let whole = found.groups[number].cost;
        (inst, [whole / counts[number], whole])
    };
    found.places.iter().map(share).collect()
}

/// Calls that become one.
struct Group {
    form: Form,
    /// What one call in lanes costs.
    cost: f64,
    arguments: Vec<Argument>,
    /// What the calls yield, by elements.
    results: Vec<Scalar>,
    /// What each lane computes: its own element, or another one where nobody asks for that.
    elements: Vec<u32>,
}

/// What calls for all elements are given.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Argument {
    Same(Value),
    ElementOf(Value),
}

/// The groups of a body, and for each call which one it belongs to, as which element.
#[derive(Default)]
struct Groups {
    groups: Vec<Group>,
    places: HashMap<Inst, (usize, u32)>,
}

fn groups(body: &Function) -> Groups {
    let mut found = Groups::default();
    for block in body.block_ids() {
        let mut calls: HashMap<Called, Vec<(Inst, u32)>> = HashMap::new();
        let mut order = Vec::new();
        for &inst in &body.block(block).insts {
            let Some((key, element)) = element_call(body, inst) else { continue };
            if !calls.contains_key(&key) {
                order.push(key.clone());
            }
            calls.entry(key).or_default().push((inst, element));
        }
        for key in order {
            let calls = &calls[&key];
            let Some(group) = group(body, calls, key.1) else { continue };
            let number = found.groups.len();
            found.groups.push(group);
            found.places.extend(calls.iter().map(|&(inst, element)| (inst, (number, element))));
        }
    }
    found
}

/// What is called for elements, and with what.
type Called<'f> = (&'f str, Vec<Argument>);

/// A call that is given elements of vectors, and of which number all of them are.
fn element_call(body: &Function, inst: Inst) -> Option<(Called<'_>, u32)> {
    let Op::Call { function, pure: true, arguments, .. } = body.op(inst) else { return None };
    let mut element = None;
    let mut argument = |value: Value| {
        let Some(Op::ExtractElement { vector, index }) = body.defining_op(value) else {
            return Some(Argument::Same(value));
        };
        let index = u32::try_from(body.constant_int(*index)?).ok()?;
        (*element.get_or_insert(index) == index).then_some(Argument::ElementOf(*vector))
    };
    let arguments = arguments.iter().map(|&value| argument(value)).collect::<Option<Vec<_>>>()?;
    Some(((function, arguments), element?))
}

/// Calls as a group, if they are for most elements of vectors of one length.
fn group(body: &Function, calls: &[(Inst, u32)], arguments: Vec<Argument>) -> Option<Group> {
    let mut lengths = arguments.iter().filter_map(|argument| match argument {
        Argument::ElementOf(vector) => Some(body.ty(*vector)),
        Argument::Same(_) => None,
    });
    let &Type::Vector(scalar, length) = lengths.next()? else { return None };
    let present: BTreeSet<u32> = calls.iter().map(|&(_, element)| element).collect();
    let count = present.range(..length).count() as u64;
    let is_enough = count == present.len() as u64 && 2 * count > u64::from(length);
    if !is_enough || !lengths.all(|ty| ty.lanes() == length) || count * scalar.bits() < LEAST_BITS {
        return None;
    }
    let &(first, any) = calls.first()?;
    let op = body.op(first);
    let Op::Call { function, .. } = op else { return None };
    let lanes = length.next_power_of_two();
    let passing = |argument: &Argument| match argument {
        Argument::Same(_) => Passing::Uniform,
        Argument::ElementOf(_) => Passing::Varying,
    };
    let arguments_passed: Vec<Passing> = arguments.iter().map(passing).collect();
    let estimate = body.callees.estimate(op, lanes, arguments_passed.clone()).filter(|e| e.in_lanes)?;
    let form = Form { function: function.clone(), lanes, arguments: arguments_passed, masked: false };
    let results = components(body.ty(body.result(first)?));
    let elements = (0..lanes).map(|lane| if present.contains(&lane) { lane } else { any }).collect();
    Some(Group { form, cost: estimate.cost.pack, arguments, results, elements })
}

/// Makes those groups one call that have a function in lanes.
fn merge(body: &mut Function, found: &Groups, wide: &[Option<Arc<Function>>]) {
    let mut vectors: HashMap<usize, Vec<Value>> = HashMap::new();
    replace_results(body, |builder, inst| {
        let &(number, element) = found.places.get(&inst)?;
        let group = &found.groups[number];
        let results = match vectors.get(&number) {
            Some(results) => results.clone(),
            None => call(builder, inst, group, wide[number].as_deref()?)?,
        };
        let ty = builder.ty(builder.function.result(inst)?);
        let index = builder.function.int(Type::I32, element.into());
        let elements = results.iter().zip(&group.results).map(|(&vector, &scalar)| {
            builder.push(Type::Scalar(scalar), Op::ExtractElement { vector, index })
        });
        let elements = elements.collect();
        vectors.insert(number, results);
        Some(whole(builder, &ty, elements))
    });
}

/// The call in lanes: what it yields, a vector for each component.
fn call(builder: &mut Builder, of: Inst, group: &Group, wide: &Function) -> Option<Vec<Value>> {
    let Op::Call { pure, nocapture, nosync, .. } = *builder.function.op(of) else { return None };
    let Signature::Function { result: Some(result) } = &wide.signature else { return None };
    let same = group.arguments.iter().filter_map(|argument| match argument {
        Argument::Same(value) => Some(*value),
        Argument::ElementOf(_) => None,
    });
    let mut passed: Vec<Value> = same.collect();
    for argument in &group.arguments {
        if let Argument::ElementOf(vector) = argument {
            passed.push(in_lanes(builder, *vector, &group.elements));
        }
    }
    let function = wide.name.as_str().into();
    let all = builder.push(result.clone(), Op::Call { function, pure, nocapture, nosync, arguments: passed });
    if group.results.len() == 1 {
        return Some(vec![all]);
    }
    let part = |(number, &scalar): (u32, &Scalar)| {
        let ty = Type::Vector(scalar, group.form.lanes);
        builder.push(ty, Op::ExtractValue { aggregate: all, indices: vec![number].into() })
    };
    Some((0..).zip(&group.results).map(part).collect())
}

/// A vector with these of its elements.
fn in_lanes(builder: &mut Builder, vector: Value, elements: &[u32]) -> Value {
    let Type::Vector(scalar, length) = builder.ty(vector) else { return vector };
    if (0..length).eq(elements.iter().copied()) {
        return vector;
    }
    let ty = Type::Vector(scalar, elements.len() as u32);
    let mask: Vec<i32> = elements.iter().map(|&element| element as i32).collect();
    builder.push(ty, Op::Shuffle { first: vector, second: vector, mask: mask.into() })
}

/// A value of its components.
fn whole(builder: &mut Builder, ty: &Type, elements: Vec<Value>) -> Value {
    if let (Type::Scalar(_), [only]) = (ty, &elements[..]) {
        return *only;
    }
    let none = builder.constant(ty.clone(), Constant::Poison);
    (0..).zip(elements).fold(none, |whole, (number, value)| {
        if matches!(ty, Type::Vector(..)) {
            let index = builder.function.int(Type::I32, number.into());
            return builder.push(ty.clone(), Op::InsertElement { vector: whole, element: value, index });
        }
        let indices = vec![number].into();
        builder.push(ty.clone(), Op::InsertValue { aggregate: whole, value, indices })
    })
}
