//! Widening: what becomes of a value. A uniform value stays as it is, of an affine one the first lane's is kept (as an i64 if
//! it is exact), and a varying one becomes a vector over the lanes for each scalar in it.

use super::Widener;
use super::variables::Variable;
use crate::analysis::Shape;
use crate::{
    BinaryOp, CastOp, Constant, Flags, IntPredicate, Intrinsic, Op, Predicate, Scalar, Type, Value, ValueDef,
};

/// The scalars in a type, in order.
pub(super) fn components(ty: &Type) -> Vec<Scalar> {
    match ty {
        Type::Scalar(s) => vec![*s],
        Type::Vector(s, n) => vec![*s; *n as usize],
        Type::Struct(fields) => fields.iter().flat_map(components).collect(),
        Type::Array(element, n) => components(element).repeat(*n as usize),
    }
}

/// The place of a field among a type's components: the first and how many.
pub(super) fn field(ty: &Type, indices: &[u32]) -> (usize, usize) {
    let Some((&index, rest)) = indices.split_first() else { return (0, components(ty).len()) };
    match ty {
        Type::Struct(fields) => {
            let before: usize = fields[..index as usize].iter().map(|f| components(f).len()).sum();
            let (start, count) = field(&fields[index as usize], rest);
            (before + start, count)
        }
        Type::Array(element, _) => {
            let (start, count) = field(element, rest);
            (components(element).len() * index as usize + start, count)
        }
        _ => (index as usize, 1),
    }
}

impl Widener<'_> {
    pub(super) fn wide(&self, scalar: Scalar) -> Type {
        Type::Vector(scalar, self.lanes)
    }

    /// Appends an instruction with a result.
    pub(super) fn push(&mut self, ty: Type, op: Op) -> Value {
        self.out.function.push(self.at, ty, op)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, lhs: Value, rhs: Value) -> Value {
        let ty = self.ty(lhs);
        self.push(ty, Op::Binary { op, flags: Flags::NONE, lhs, rhs })
    }

    pub(super) fn intrinsic_of(&mut self, intrinsic: Intrinsic, ty: Type, arguments: Vec<Value>) -> Value {
        self.push(ty, Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments })
    }

    pub(super) fn cast(&mut self, op: CastOp, ty: Type, value: Value) -> Value {
        self.push(ty, Op::Cast { op, flags: Flags::NONE, value })
    }

    pub(super) fn compare(&mut self, predicate: IntPredicate, lhs: Value, rhs: Value) -> Value {
        let ty = self.ty(lhs).with_scalar(Scalar::Int(1));
        self.push(ty, Op::Compare { predicate: Predicate::Int(predicate), flags: Flags::NONE, lhs, rhs })
    }

    pub(super) fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        if self.out.is_poison(otherwise) {
            return then;
        }
        let ty = self.ty(then);
        self.push(ty, Op::Select { flags: Flags::NONE, condition, then, otherwise })
    }

    /// The type of a value of the new function.
    pub(super) fn ty(&self, value: Value) -> Type {
        self.out.function.ty(value).clone()
    }

    pub(super) fn constant(&mut self, ty: Type, constant: Constant) -> Value {
        self.out.function.constant(ty, constant)
    }

    /// A vector over the lanes of one scalar.
    pub(super) fn splat(&mut self, value: Value) -> Value {
        let ty = self.ty(value);
        let Type::Scalar(scalar) = ty else { unreachable!("only scalars are spread over the lanes") };
        let wide = self.wide(scalar);
        if let ValueDef::Constant(constant) = self.out.function.def(value).clone() {
            let elements = Constant::Elements(vec![(ty, constant); self.lanes as usize]);
            return self.constant(wide, elements);
        }
        let poison = self.constant(wide.clone(), Constant::Poison);
        let zero = self.constant(Type::I32, Constant::Int(0));
        let first =
            self.push(wide.clone(), Op::InsertElement { vector: poison, element: value, index: zero });
        let mask = vec![0; self.lanes as usize].into();
        self.push(wide, Op::Shuffle { first, second: poison, mask })
    }

    /// The vector 0, stride, 2*stride, …
    fn steps(&mut self, bits: u32, stride: i64) -> Value {
        let all = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
        let step = |lane: u32| Constant::Int((i128::from(stride) * i128::from(lane)) as u128 & all);
        let elements = (0..self.lanes).map(|lane| (Type::int(bits), step(lane))).collect();
        self.constant(self.wide(Scalar::Int(bits)), Constant::Elements(elements))
    }

    pub(super) fn shape(&self, value: Value) -> Shape {
        self.facts.shapes.shape_at(value, self.user)
    }

    pub(super) fn is_uniform(&self, value: Value) -> bool {
        self.shape(value) == Shape::Uniform
    }

    /// Whether the kept form of a value is an i64 although its type is narrower.
    fn is_kept_extended(&self, value: Value) -> bool {
        let narrow = matches!(self.body.ty(value), Type::Scalar(Scalar::Int(bits)) if *bits < 64);
        narrow && matches!(self.facts.shapes.shape(value), Shape::Affine { exact: true, .. })
    }

    /// The types of a value's variables.
    pub(super) fn kept_types(&self, value: Value) -> Vec<Type> {
        let ty = self.body.ty(value);
        match self.facts.shapes.shape(value) {
            Shape::Varying => components(ty).into_iter().map(|s| self.wide(s)).collect(),
            _ if self.is_kept_extended(value) => vec![Type::I64],
            _ => vec![ty.clone()],
        }
    }

    fn given(&mut self, value: Value) -> Option<Value> {
        match self.body.def(value) {
            ValueDef::Param(n) => Some(self.out.function.params[*n as usize].value),
            ValueDef::Constant(constant) => {
                let (ty, constant) = (self.body.ty(value).clone(), constant.clone());
                Some(self.constant(ty, constant))
            }
            _ => None,
        }
    }

    /// The first lane's value, in the value's own type. Not for varying values.
    pub(super) fn first_lane(&mut self, value: Value) -> Value {
        if let Some(given) = self.given(value) {
            return given;
        }
        let kept = self.out.read(self.at, Variable::Value(value, 0));
        if self.is_kept_extended(value) {
            let ty = self.body.ty(value).clone();
            return self.cast(CastOp::Trunc, ty, kept);
        }
        kept
    }

    /// The first lane's value of an exact integer, extended to an i64.
    pub(super) fn extended(&mut self, value: Value) -> Value {
        if let (Some(given), Type::Scalar(Scalar::Int(bits))) = (self.given(value), self.body.ty(value))
            && let ValueDef::Constant(Constant::Int(c)) = *self.out.function.def(given)
        {
            let unused = 128 - bits.clamp(&1, &128);
            let extended = ((c << unused) as i128) >> unused;
            return self.constant(Type::I64, Constant::Int(extended as u64 as u128));
        }
        if self.is_kept_extended(value) {
            return self.out.read(self.at, Variable::Value(value, 0));
        }
        let own = self.first_lane(value);
        if self.ty(own) == Type::I64 { own } else { self.cast(CastOp::SExt, Type::I64, own) }
    }

    /// A value of any shape as vectors over the lanes, one for each component.
    pub(super) fn lanes_of(&mut self, value: Value) -> Vec<Value> {
        if let Some(known) = self.spread.get(&(self.at, self.user, value)) {
            return known.clone();
        }
        let count = components(self.body.ty(value)).len() as u32;
        let lanes = if self.facts.shapes.leaves_divergent_loop(value, self.user) {
            (0..count).map(|c| self.out.read(self.at, Variable::Left(value, c))).collect()
        } else {
            match self.facts.shapes.shape(value) {
                Shape::Varying if self.facts.aos.contains(value) => self.components_in_order(value),
                Shape::Varying => {
                    return (0..count).map(|c| self.out.read(self.at, Variable::Value(value, c))).collect();
                }
                Shape::Uniform => {
                    let value = self.first_lane(value);
                    self.take_apart(value).into_iter().map(|c| self.splat(c)).collect()
                }
                Shape::Affine { stride, .. } => {
                    let first = self.first_lane(value);
                    vec![self.affine(first, stride)]
                }
            }
        };
        self.spread.insert((self.at, self.user, value), lanes);
        self.spread[&(self.at, self.user, value)].clone()
    }

    pub(super) fn affine(&mut self, first: Value, stride: i64) -> Value {
        match self.ty(first) {
            Type::Scalar(Scalar::Int(bits)) => {
                let (steps, first) = (self.steps(bits, stride), self.splat(first));
                self.binary(BinaryOp::Add, first, steps)
            }
            Type::Scalar(pointer) => {
                let index = self.steps(64, stride);
                let op =
                    Op::Address { base: first, index: Some(index), scale: 1, offset: 0, inbounds: false };
                self.push(self.wide(pointer), op)
            }
            _ => unreachable!("only integers and pointers are affine"),
        }
    }

    /// The components of a value of the new function whose type is one of the body.
    pub(super) fn take_apart(&mut self, value: Value) -> Vec<Value> {
        let ty = self.ty(value);
        match &ty {
            Type::Scalar(_) => vec![value],
            Type::Vector(s, n) => {
                if let ValueDef::Constant(Constant::Elements(elements)) = self.out.function.def(value).clone()
                {
                    return elements.into_iter().map(|(ty, c)| self.constant(ty, c)).collect();
                }
                (0..*n)
                    .map(|i| {
                        let index = self.constant(Type::I32, Constant::Int(i.into()));
                        self.push(Type::Scalar(*s), Op::ExtractElement { vector: value, index })
                    })
                    .collect()
            }
            Type::Struct(fields) => {
                let fields: Vec<Type> = fields.to_vec();
                (fields.into_iter().enumerate())
                    .flat_map(|(i, f)| self.take_field(value, i as u32, f))
                    .collect()
            }
            Type::Array(element, n) => {
                (0..*n as u32).flat_map(|i| self.take_field(value, i, (**element).clone())).collect()
            }
        }
    }

    fn take_field(&mut self, aggregate: Value, index: u32, ty: Type) -> Vec<Value> {
        let field = self.push(ty, Op::ExtractValue { aggregate, indices: vec![index].into() });
        self.take_apart(field)
    }

    /// The inverse of [`Widener::take_apart`]; takes what it needs from the front of `components`.
    pub(super) fn put_together(&mut self, ty: &Type, components: &mut dyn Iterator<Item = Value>) -> Value {
        let whole = self.constant(ty.clone(), Constant::Poison);
        match ty {
            Type::Scalar(_) => components.next().unwrap_or(whole),
            Type::Vector(_, n) => (0..*n).fold(whole, |vector, i| {
                let Some(element) = components.next() else { return vector };
                let index = self.constant(Type::I32, Constant::Int(i.into()));
                self.push(ty.clone(), Op::InsertElement { vector, element, index })
            }),
            Type::Struct(fields) => (fields.iter().enumerate())
                .fold(whole, |aggregate, (i, f)| self.put_field(ty, aggregate, i as u32, f, components)),
            Type::Array(element, n) => (0..*n as u32)
                .fold(whole, |aggregate, i| self.put_field(ty, aggregate, i, element, components)),
        }
    }

    fn put_field(
        &mut self,
        ty: &Type,
        aggregate: Value,
        index: u32,
        field: &Type,
        components: &mut dyn Iterator<Item = Value>,
    ) -> Value {
        let value = self.put_together(field, components);
        self.push(ty.clone(), Op::InsertValue { aggregate, value, indices: vec![index].into() })
    }

    /// Defines a value that is not varying by its first lane's.
    pub(super) fn define_first_lane(&mut self, value: Value, first: Value) {
        let kept = if self.is_kept_extended(value) && self.ty(first) != Type::I64 {
            self.cast(CastOp::SExt, Type::I64, first)
        } else {
            first
        };
        self.out.write(self.at, Variable::Value(value, 0), kept);
        self.leave(value);
    }

    /// Defines a varying value.
    pub(super) fn define_lanes(&mut self, value: Value, lanes: Vec<Value>) {
        debug_assert_eq!(lanes.len(), components(self.body.ty(value)).len());
        for (c, lane) in lanes.into_iter().enumerate() {
            self.out.write(self.at, Variable::Value(value, c as u32), lane);
        }
        self.leave(value);
    }

    /// Keeps a value for users behind a divergent loop, lane by lane.
    pub(super) fn leave(&mut self, value: Value) {
        if self.left.contains(&value) {
            let mask = self.mask();
            self.keep(value, mask);
        }
    }

    /// Keeps it for those lanes.
    pub(super) fn keep(&mut self, value: Value, lanes: Option<Value>) {
        for (c, new) in self.lanes_of(value).into_iter().enumerate() {
            let variable = Variable::Left(value, c as u32);
            let old = self.out.read(self.at, variable);
            let kept = match lanes {
                Some(mask) => self.push(
                    self.ty(new),
                    Op::Select { flags: Flags::NONE, condition: mask, then: new, otherwise: old },
                ),
                None => new,
            };
            self.out.write(self.at, variable, kept);
        }
    }
}
