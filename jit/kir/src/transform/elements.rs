//! Transform: accesses of single lanes. Where a lane alone accesses memory (an atomic operation, or a gather on a processor that has none),
//! its address is the base that all lanes share and this lane's index: the processor adds the two as it accesses memory, and narrow
//! indices stand in fewer registers than addresses do. (Measured on Zen 4: a histogram's increments, which now and then meet each other,
//! take a ninth of the time.)

use crate::builder::{Builder, rewrite};
use crate::{CastOp, Constant, Function, Inst, Op, Scalar, Type, Value, ValueDef};
use spirula_interface::target::TargetFacts;

/// Takes gathers and scatters of all lanes apart where LLVM would, and lanes of addresses from their base and index.
pub fn access_by_elements(function: &mut Function, facts: &TargetFacts) {
    rewrite(function, |builder, inst| match *builder.function.op(inst) {
        Op::ExtractElement { vector, index } => {
            let element = Addresses::of(builder, vector).map(|addresses| addresses.element(builder, index));
            element.map(|element| builder.replace(inst, element)).is_some()
        }
        Op::MaskedLoad { pointer, mask, align } if is_full(builder.function, mask) => {
            let scalar = builder.function.result(inst).and_then(|loaded| builder.ty(loaded).scalar());
            match (Addresses::of(builder, pointer), scalar) {
                (Some(addresses), Some(scalar)) if !(facts.gathers && is_word(scalar)) => {
                    load_elements(builder, inst, addresses, (scalar, align));
                    true
                }
                _ => false,
            }
        }
        Op::MaskedStore { pointer, value, mask, align } if is_full(builder.function, mask) => {
            match (Addresses::of(builder, pointer), builder.ty(value).scalar()) {
                (Some(addresses), Some(scalar)) if !(facts.scatters && is_word(scalar)) => {
                    store_elements(builder, inst, addresses, value, (scalar, align));
                    true
                }
                _ => false,
            }
        }
        _ => false,
    });
}

/// A vector of addresses in one block of memory: base + index*scale + offset, of which only the index differs from lane to lane.
#[derive(Clone, Copy)]
struct Addresses {
    pointer: Scalar,
    lanes: u32,
    base: Value,
    index: Value,
    scale: i64,
    offset: i64,
    inbounds: bool,
}

impl Addresses {
    fn of(builder: &Builder, vector: Value) -> Option<Self> {
        let &Op::Address { base, index: Some(index), scale, offset, inbounds } =
            builder.function.defining_op(vector)?
        else {
            return None;
        };
        let is_shared = matches!(builder.ty(base), Type::Scalar(_));
        let Type::Vector(pointer, lanes) = builder.ty(vector) else { return None };
        is_shared.then_some(Addresses { pointer, lanes, base, index, scale, offset, inbounds })
    }

    fn element(self, builder: &mut Builder, lane: Value) -> Op {
        let Addresses { base, scale, offset, inbounds, .. } = self;
        Op::Address { base, index: Some(lane_of(builder, self.index, lane)), scale, offset, inbounds }
    }

    /// Each lane's number and address.
    fn elements(self, builder: &mut Builder) -> Vec<(Value, Value)> {
        let element = |lane: u32| {
            let lane = builder.function.int(Type::I32, lane.into());
            let address = self.element(builder, lane);
            (lane, builder.push(Type::Scalar(self.pointer), address))
        };
        (0..self.lanes).map(element).collect()
    }
}

fn load_elements(builder: &mut Builder, inst: Inst, addresses: Addresses, (scalar, align): (Scalar, u32)) {
    let group = builder.function.access_group(inst);
    builder.function.set_access_group(inst, None);
    let ty = Type::Vector(scalar, addresses.lanes);
    let mut vector = builder.constant(ty.clone(), Constant::Poison);
    let elements = addresses.elements(builder);
    for (i, &(index, pointer)) in elements.iter().enumerate() {
        let element = builder.load(Type::Scalar(scalar), pointer, align);
        if let ValueDef::Inst(load) = *builder.function.def(element) {
            builder.function.set_access_group(load, group);
        }
        let op = Op::InsertElement { vector, element, index };
        if i + 1 == elements.len() {
            builder.replace(inst, op);
        } else {
            vector = builder.push(ty.clone(), op);
        }
    }
}

fn store_elements(
    builder: &mut Builder,
    inst: Inst,
    addresses: Addresses,
    vector: Value,
    (scalar, align): (Scalar, u32),
) {
    let group = builder.function.access_group(inst);
    for (index, pointer) in addresses.elements(builder) {
        let element = builder.push(Type::Scalar(scalar), Op::ExtractElement { vector, index });
        let store = builder.store(pointer, element, align);
        builder.function.set_access_group(store, group);
    }
}

/// A lane of a vector, taken where it is narrowest. (A sign costs each lane an instruction, and all of them together hardly more.)
fn lane_of(builder: &mut Builder, vector: Value, index: Value) -> Value {
    let ty = builder.ty(vector);
    let Some(scalar) = ty.scalar() else { return vector };
    match builder.function.defining_op(vector) {
        Some(&Op::Cast { op: op @ CastOp::ZExt, flags, value })
            if builder.ty(value).scalar() != Some(Scalar::Int(1)) =>
        {
            let value = lane_of(builder, value, index);
            builder.push(Type::Scalar(scalar), Op::Cast { op, flags, value })
        }
        _ => builder.push(Type::Scalar(scalar), Op::ExtractElement { vector, index }),
    }
}

/// Whether it is a constant with all lanes active.
fn is_full(function: &Function, mask: Value) -> bool {
    let ValueDef::Constant(Constant::Elements(lanes)) = function.def(mask) else { return false };
    lanes.iter().all(|(_, lane)| *lane == Constant::Int(1))
}

fn is_word(scalar: Scalar) -> bool {
    scalar.bits() >= 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_processor_gathers_and_scatters_stays() {
        for (element, apart) in [("i32", [0, 4]), ("i8", [4, 4])] {
            let text = format!(
                "function \"k\"(%0: ptr(global), %1: <4 x i64>) {{
                b0:
                  %2: <4 x ptr(global)> = address %0 + %1*4 + 0
                  %3: <4 x {element}> = masked_load %2, [1:i1, 1:i1, 1:i1, 1:i1]:<4 x i1>, align 1
                  masked_store %2, %3, [1:i1, 1:i1, 1:i1, 1:i1]:<4 x i1>, align 1
                  return
                }}"
            );
            let taken_apart = [512, 256].map(|vector_bits| {
                let mut function = crate::parse(&text).expect("it is well formed");
                access_by_elements(&mut function, &TargetFacts::with_vectors(vector_bits));
                crate::verify(&function).expect("it stays so");
                let text = function.to_string();
                let [loads, stores] = ["= load", " store"].map(|what| text.matches(what).count());
                assert_eq!(loads, stores, "{text}");
                loads
            });
            assert_eq!(taken_apart, apart, "{element}");
        }
    }
}
