//! The LLVM back end: addresses and accesses to memory.

pub(super) mod narrow;

use super::Translator;
use super::metadata::nontemporal;
use super::types::{llvm_type, suffix};
use spirula_kir::{AddressSpace, Inst, Op, Ordering, Scalar, Type, Value};

impl Translator<'_> {
    /// The space of a pointer or of a vector of pointers.
    fn space(&self, pointer: Value) -> AddressSpace {
        match self.function.ty(pointer).scalar() {
            Some(Scalar::Pointer(space)) => space,
            _ => AddressSpace::Generic,
        }
    }

    /// The metadata of an access.
    fn access(&mut self, inst: Inst, pointer: Value, load: bool) -> String {
        let (space, group) = (self.space(pointer), self.function.access_group(inst));
        self.out.metadata.access(self.scope, space, group, load)
    }

    /// Loads, stores and atomics as text without a name; None for other operations.
    pub(super) fn plain_access(&mut self, inst: Inst, ty: &str) -> Option<String> {
        let function = self.function;
        let atomic = |o: &Option<Ordering>| if o.is_some() { " atomic" } else { "" };
        let order = |o: &Option<Ordering>| o.map_or(String::new(), |o| format!(" {}", o.name()));
        let volatile = |v: &bool| if *v { " volatile" } else { "" };
        Some(match function.op(inst) {
            Op::Load { pointer, align, volatile: v, ordering } => {
                let access = self.access(inst, *pointer, true);
                let (a, v, o) = (atomic(ordering), volatile(v), order(ordering));
                format!("load{a}{v} {ty}, {}{o}, align {align}{access}", self.typed(*pointer))
            }
            Op::Store { pointer, value, align, volatile: v, ordering } => {
                let access = self.access(inst, *pointer, false);
                let (a, v, o) = (atomic(ordering), volatile(v), order(ordering));
                format!("store{a}{v} {}{o}, align {align}{access}", self.list(&[*value, *pointer]))
            }
            Op::NontemporalStore { pointer, value, align } => {
                let access = self.access(inst, *pointer, false);
                let operands = self.list(&[*value, *pointer]);
                format!("store {operands}, align {align}{}{access}", nontemporal())
            }
            Op::AtomicRmw { op, pointer, value, ordering, volatile: v, align } => {
                let operands = self.list(&[*pointer, *value]);
                let (v, op, ordering) = (volatile(v), op.name(), ordering.name());
                format!("atomicrmw{v} {op} {operands} {ordering}, align {align}")
            }
            Op::CompareExchange {
                pointer,
                expected,
                replacement,
                success,
                failure,
                weak,
                volatile: v,
                align,
            } => {
                let weak = if *weak { " weak" } else { "" };
                let operands = self.list(&[*pointer, *expected, *replacement]);
                let (v, success, failure) = (volatile(v), success.name(), failure.name());
                format!("cmpxchg{weak}{v} {operands} {success} {failure}, align {align}")
            }
            Op::Fence(ordering) => format!("fence {}", ordering.name()),
            _ => return None,
        })
    }

    pub(super) fn address(
        &mut self,
        name: &str,
        (base, index): (Value, Option<Value>),
        (scale, offset): (i64, i64),
        inbounds: bool,
    ) {
        let lanes = |value| match self.function.ty(value) {
            Type::Vector(_, n) => Some(*n),
            _ => None,
        };
        // What lanes share comes first: gathers have one base for all.
        let is_shared = lanes(base).is_none() && index.and_then(lanes).is_some() && offset != 0;
        let inbounds = if inbounds && !is_shared { " inbounds" } else { "" };
        let mut pointer = self.typed(base);
        if is_shared {
            self.out.line(&format!("{name}.b = getelementptr i8, {pointer}, i64 {offset}"));
            pointer = format!("ptr {name}.b");
        }
        let offset = if is_shared { 0 } else { offset };
        if let Some(index) = index {
            let index_name = if offset == 0 { name.to_owned() } else { format!("{name}.i") };
            let step = self.typed(index);
            if scale > 0 {
                self.out.line(&format!(
                    "{index_name} = getelementptr{inbounds} [{scale} x i8], {pointer}, {step}"
                ));
            } else {
                let (ty, factor) = match self.function.ty(index) {
                    Type::Vector(_, n) => (format!("<{n} x i64>"), format!("splat (i64 {scale})")),
                    _ => ("i64".into(), scale.to_string()),
                };
                self.out.line(&format!("{name}.s = mul {step}, {factor}"));
                self.out
                    .line(&format!("{index_name} = getelementptr{inbounds} i8, {pointer}, {ty} {name}.s"));
            }
            pointer = match lanes(base).or(lanes(index)) {
                Some(n) => format!("<{n} x ptr> {index_name}"),
                None => format!("ptr {index_name}"),
            };
        }
        if index.is_none() || offset != 0 {
            self.out.line(&format!("{name} = getelementptr{inbounds} i8, {pointer}, i64 {offset}"));
        }
    }

    /// LLVM's masked loads and gathers.
    pub(super) fn masked_load(
        &mut self,
        inst: Inst,
        (name, ty): (&str, &Type),
        (pointer, mask): (Value, Value),
        align: u32,
    ) {
        if self.is_narrow_gather(ty, pointer, align) {
            return self.narrow_gather(inst, (name, ty), (pointer, mask));
        }
        let callee = self.masked_callee(["load", "gather"], ty, pointer);
        let (access, ty) = (self.access(inst, pointer, true), llvm_type(ty));
        let (place, mask) = (self.aligned(pointer, align), mask);
        let (pointer_type, mask_type) = (self.ty(pointer), self.ty(mask));
        let mask = self.text(mask);
        self.out.declare(&callee, format!("declare {ty} @{callee}({pointer_type}, {mask_type}, {ty})"));
        // LLVM 22.1 moves a masked load to a selection by the same mask, past stores in between; it does not look
        // through `freeze`.
        self.out.line(&format!(
            "{name}.m = call {ty} @{callee}({place}, {mask_type} {mask}, {ty} poison){access}"
        ));
        self.out.line(&format!("{name} = freeze {ty} {name}.m"));
    }

    /// LLVM's masked stores and scatters.
    pub(super) fn masked_store(
        &mut self,
        inst: Inst,
        (pointer, value, mask): (Value, Value, Value),
        align: u32,
    ) {
        let callee = self.masked_callee(["store", "scatter"], self.function.ty(value), pointer);
        let access = self.access(inst, pointer, false);
        let types = [value, pointer, mask].map(|v| self.ty(v)).join(", ");
        let (place, value, mask) = (self.aligned(pointer, align), self.typed(value), self.typed(mask));
        self.out.declare(&callee, format!("declare void @{callee}({types})"));
        self.out.line(&format!("call void @{callee}({value}, {place}, {mask}){access}"));
    }

    /// By whether the lanes lie one behind the other.
    fn masked_callee(&self, [block, lanes]: [&str; 2], ty: &Type, pointer: Value) -> String {
        match self.function.ty(pointer) {
            Type::Vector(_, n) => format!("llvm.masked.{lanes}.{}.v{n}p0", suffix(ty)),
            _ => format!("llvm.masked.{block}.{}.p0", suffix(ty)),
        }
    }

    fn aligned(&self, pointer: Value, align: u32) -> String {
        format!("{} align {align} {}", self.ty(pointer), self.text(pointer))
    }
}
