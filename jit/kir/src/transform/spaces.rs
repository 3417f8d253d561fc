//! Address spaces: generic pointers whose space can be proved become pointers into it, with what that says of aliasing and of
//! who else may write. What comes from memory, from a parameter or from an integer stays generic, and where pointers of several
//! spaces meet.

use crate::analysis::place_count;
use crate::builder::{Builder, rewrite};
use crate::{
    AddressSpace, Block, CastOp, Flags, Function, Inst, Intrinsic, Op, Scalar, Shape, Terminator, Type,
    UnaryOp, Value, ValueDef,
};
use std::collections::HashMap;

/// What is known of a generic pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing yet, or it is null or undefined, which fits everywhere.
    Nothing,
    Space(AddressSpace),
    Generic,
}

impl Known {
    fn join(self, other: Known) -> Known {
        match (self, other) {
            (Known::Nothing, known) | (known, Known::Nothing) => known,
            (a, b) if a == b => a,
            _ => Known::Generic,
        }
    }
}

/// Gives generic pointers the address spaces that they lead to.
pub fn infer_spaces(function: &mut Function) {
    let known = solve(function);
    let mut spaces = Spaces { known, replaced: HashMap::new() };
    if !spaces.known.iter().any(|known| matches!(known, Known::Space(_))) {
        return;
    }
    spaces.find_replacements(function);
    for index in 0..spaces.known.len() as u32 {
        if let Known::Space(space) = spaces.known[index as usize] {
            function.retype(Value(index), Type::pointer(space));
        }
    }
    rewrite(function, |builder, inst| spaces.instruction(builder, inst));
    for block in function.block_ids() {
        spaces.terminator(function, block);
    }
}

const GENERIC: Type = Type::Scalar(Scalar::Pointer(AddressSpace::Generic));

fn solve(function: &Function) -> Vec<Known> {
    let mut known: Vec<Known> = function
        .value_table()
        .map(|(_, ty, def)| match def {
            ValueDef::Param(_) => Known::Generic,
            _ if *ty != GENERIC => Known::Generic,
            _ => Known::Nothing,
        })
        .collect();
    let mut changed = true;
    while std::mem::take(&mut changed) {
        let mut raise = |known: &mut Vec<Known>, value: Value, more: Known| {
            let new = known[value.index()].join(more);
            changed |= std::mem::replace(&mut known[value.index()], new) != new;
        };
        for block in &function.blocks {
            for &inst in &block.insts {
                let Some(result) = function.result(inst).filter(|&result| *function.ty(result) == GENERIC)
                else {
                    continue;
                };
                let more = transfer(function, function.op(inst), &known);
                raise(&mut known, result, more);
            }
            for target in block.terminator.targets() {
                let params = &function.block(target.block).params;
                for (&param, &argument) in params.iter().zip(&target.arguments) {
                    let more = known[argument.index()];
                    raise(&mut known, param, more);
                }
            }
        }
    }
    known
}

fn transfer(function: &Function, op: &Op, known: &[Known]) -> Known {
    let of = |value: &Value| known[value.index()];
    match op {
        Op::Cast { op: CastOp::AddrSpaceCast, value, .. } => match function.ty(*value).address_space() {
            Some(space @ (AddressSpace::Private | AddressSpace::Global | AddressSpace::Local)) => {
                Known::Space(space)
            }
            _ => Known::Generic,
        },
        Op::Address { base, .. } => of(base),
        Op::Select { then, otherwise, .. } => of(then).join(of(otherwise)),
        Op::Unary { op: UnaryOp::Freeze, value, .. } => of(value),
        _ => Known::Generic,
    }
}

struct Spaces {
    known: Vec<Known>,
    /// Values for which others stand: conversions there and back, and answered questions.
    replaced: HashMap<Value, Value>,
}

impl Spaces {
    fn space(&self, value: Value) -> Option<AddressSpace> {
        match self.known.get(value.index()) {
            Some(Known::Space(space)) => Some(*space),
            _ => None,
        }
    }

    fn find_replacements(&mut self, function: &mut Function) {
        for inst in function.insts().collect::<Vec<_>>() {
            let Some(result) = function.result(inst) else { continue };
            let answer = match function.op(inst) {
                Op::Cast { op: CastOp::AddrSpaceCast, value, .. } => {
                    let there = self.space(result).is_some();
                    let back = self
                        .space(*value)
                        .is_some_and(|space| function.ty(result).address_space() == Some(space));
                    if !there && !back {
                        continue;
                    }
                    *value
                }
                Op::Intrinsic { intrinsic, arguments, .. } if intrinsic.shape() == Shape::SpaceTest => {
                    let Some(space) = self.space(arguments[0]) else { continue };
                    let asked = match intrinsic {
                        Intrinsic::IsLocal => AddressSpace::Local,
                        _ => AddressSpace::Private,
                    };
                    function.int(Type::BOOL, u128::from(space == asked))
                }
                _ => continue,
            };
            self.replaced.insert(result, answer);
        }
    }

    /// What stands for a value now.
    fn resolve(&self, mut value: Value) -> Value {
        while let Some(&other) = self.replaced.get(&value) {
            value = other;
        }
        value
    }

    /// A value as a pointer of this type, if it is a null or undefined one.
    fn typed(&self, function: &mut Function, value: Value, ty: &Type) -> Value {
        let value = self.resolve(value);
        match function.def(value) {
            ValueDef::Constant(constant) if function.ty(value) != ty => {
                let constant = constant.clone();
                function.constant(ty.clone(), constant)
            }
            _ => value,
        }
    }

    /// A value as its user knows it: generic again, if it was.
    fn generic(&self, function: &mut Function, at: Block, value: Value) -> Value {
        let resolved = self.resolve(value);
        match self.space(value) {
            Some(_) => {
                let op = Op::Cast { op: CastOp::AddrSpaceCast, flags: Flags::NONE, value: resolved };
                function.push(at, GENERIC, op)
            }
            None => resolved,
        }
    }

    /// False if it stays as it is.
    fn instruction(&self, builder: &mut Builder, inst: Inst) -> bool {
        let result = builder.function.result(inst);
        if result.is_some_and(|result| self.replaced.contains_key(&result)) {
            return true;
        }
        let mut op = builder.function.op(inst).clone();
        let is_concerned = |value: Value| self.space(value).is_some() || self.replaced.contains_key(&value);
        if !op.operands().into_iter().any(is_concerned) {
            return false;
        }
        let leads_on = result.and_then(|result| self.space(result)).map(Type::pointer);
        let compared = self.compared(builder.function, &op);
        let places = place_count(&op);
        for (number, operand) in op.operands_mut().into_iter().enumerate() {
            let is_number = builder.function.ty(*operand).address_space().is_none();
            *operand = match (&leads_on, &compared) {
                _ if is_number || number < places => self.resolve(*operand),
                (Some(ty), _) | (None, Some(ty)) => self.typed(builder.function, *operand, ty),
                (None, None) => self.generic(builder.function, builder.at, *operand),
            };
        }
        builder.replace(inst, op);
        true
    }

    /// The type as which two pointers can be compared that lead into one space; also that of a cast's operand.
    fn compared(&self, function: &Function, op: &Op) -> Option<Type> {
        match op {
            Op::Compare { lhs, rhs, .. } => {
                let is_constant = |value: Value| matches!(function.def(value), ValueDef::Constant(_));
                let space = self.space(*lhs).or(self.space(*rhs))?;
                let fits = |value: Value| self.space(value) == Some(space) || is_constant(value);
                (fits(*lhs) && fits(*rhs)).then(|| Type::pointer(space))
            }
            Op::Cast { value, .. } => self.space(*value).map(Type::pointer),
            _ => None,
        }
    }

    fn terminator(&self, function: &mut Function, block: Block) {
        let mut terminator =
            std::mem::replace(&mut function.blocks[block.index()].terminator, Terminator::Unreachable);
        if let Some(condition) = terminator.condition_mut() {
            *condition = self.resolve(*condition);
        }
        if let Terminator::Return(Some(value)) = &mut terminator {
            *value = self.generic(function, block, *value);
        }
        for target in terminator.targets_mut() {
            let params = function.block(target.block).params.clone();
            for (argument, param) in target.arguments.iter_mut().zip(params) {
                *argument = match self.space(param).map(Type::pointer) {
                    Some(ty) => self.typed(function, *argument, &ty),
                    None => self.generic(function, block, *argument),
                };
            }
        }
        function.set_terminator(block, terminator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, verify};

    fn inferred(body: &str) -> String {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset, %2: i1 @ 16) {{\n  slot $0: 16 align 8\nb0:\n{body}}}\n"
        );
        let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{text}"));
        infer_spaces(&mut function);
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        let text = function.to_string();
        text.split_once("b0:\n").unwrap().1.to_string()
    }

    const CAST: &str = "  %3: ptr(generic) = addrspacecast %0\n";

    #[test]
    fn accesses_take_the_space_that_the_pointer_has() {
        let text = inferred(&format!(
            "{CAST}  %4: ptr(generic) = address %3 + 4\n  %5: i32 = load %4, align 4\n  store %4, %5, align 4\n  return\n"
        ));
        assert!(!text.contains("generic"), "{text}");
    }

    #[test]
    fn a_loop_walks_in_one_space() {
        let text = inferred(&format!(
            "{CAST}  jump b1(%3)\nb1(%4: ptr(generic)):\n  %5: i32 = load %4, align 4\n  %6: ptr(generic) = address %4 + 4\n  \
             %7: ptr(generic) = select %2, %6, zero:ptr(generic)\n  %8: i1 = icmp eq %7, zero:ptr(generic)\n  branch %8, b2, b1(%7)\nb2:\n  return\n"
        ));
        assert!(!text.contains("generic"), "{text}");
    }

    #[test]
    fn where_spaces_meet_the_pointer_stays_generic() {
        let text = inferred(&format!(
            "{CAST}  %4: ptr(generic) = addrspacecast %1\n  %5: ptr(generic) = select %2, %3, %4\n  %6: i32 = load %5, align 4\n  \
             %7: i32 = load %3, align 4\n  return\n"
        ));
        assert_eq!(text.matches("ptr(generic) = addrspacecast").count(), 2, "{text}");
        assert!(text.contains("load %0"), "{text}");
    }

    #[test]
    fn what_is_kept_is_generic_again() {
        let text = inferred(&format!(
            "{CAST}  %4: ptr(generic) = address %3 + 8\n  store %4, %4, align 8\n  %5: ptr(generic) = load %4, align 8\n  store %5, 1:i32, align 4\n  return\n"
        ));
        assert!(text.contains("ptr(global) = address %0 + 8"), "{text}");
        assert_eq!(text.matches("ptr(generic) = addrspacecast").count(), 1, "{text}");
        assert!(text.contains("ptr(generic) = load"), "{text}");
    }

    #[test]
    fn questions_are_answered() {
        let text = inferred(
            "  %3: ptr(private) = slot_address $0\n  %4: ptr(generic) = addrspacecast %3\n  %5: i1 = intrinsic spirula.is_private(%4)\n  \
             %6: ptr(private) = addrspacecast %4\n  branch %5, b1, b2\nb1:\n  store %6, 1:i32, align 4\n  return\nb2:\n  return\n",
        );
        assert!(
            text.contains("branch 1:i1") && !text.contains("is_private") && !text.contains("addrspacecast"),
            "{text}"
        );
    }
}
