//! Emission: one Kernel IR instruction as LLVM IR text.

use super::layout::SlotPlace;
use super::reciprocal_root::PRIMITIVE;
use super::types::{given, llvm_type, spaced_type};
use super::work_group::Writer;
use spirula_kir::ContextSlot;
use spirula_kir::transform::ContextKind;
use spirula_kir::{
    AddressSpace, CastOp, Flags, Function, Inst, Op, Predicate, Scalar, Type, Value, WorkItemQuery,
};
use std::fmt::Write;

/// A region's body being written.
pub(super) struct RegionText<'a> {
    /// The region's number.
    pub number: usize,
    /// What its names begin with.
    pub prefix: &'a str,
    /// Its body.
    pub body: &'a Function,
    /// What each context slot holds.
    pub context: &'a [ContextKind],
    /// Whether the region has more than one.
    pub several_exits: bool,
    /// Where the private slots lie.
    pub place: &'a dyn Fn(spirula_kir::Slot) -> SlotPlace,
    /// Whether the processor approximates 1/sqrt(x), as AVX-512 does.
    pub approximates: bool,
}

impl RegionText<'_> {
    /// An operand without its type.
    pub(super) fn text(&self, value: Value) -> String {
        given(self.body, value).unwrap_or_else(|| format!("%{}.{}", self.prefix, value.0))
    }

    /// An operand with its type.
    pub(super) fn typed(&self, value: Value) -> String {
        format!("{} {}", llvm_type(self.body.ty(value)), self.text(value))
    }

    fn list(&self, values: &[Value]) -> String {
        values.iter().map(|&v| self.typed(v)).collect::<Vec<_>>().join(", ")
    }

    /// The space of a pointer or of a vector of pointers.
    pub(super) fn space(&self, pointer: Value) -> AddressSpace {
        match self.body.ty(pointer).scalar() {
            Some(Scalar::Pointer(space)) => space,
            _ => AddressSpace::Generic,
        }
    }

    pub(super) fn lanes(&self, value: Value) -> Option<u32> {
        if let Type::Vector(_, n) = self.body.ty(value) { Some(*n) } else { None }
    }

    /// Appends an instruction.
    pub(super) fn write(&self, inst: Inst, out: &mut Writer) {
        let op = self.body.op(inst);
        let name = self.body.result(inst).map_or(String::new(), |v| self.text(v));
        let ty = self.body.result(inst).map_or("void".into(), |v| llvm_type(self.body.ty(v)));
        if self.local_atomic(&name, op, self.body.result(inst), out) {
            return;
        }
        if let Some(right) = self.simple(op, &ty) {
            let left = if name.is_empty() { String::new() } else { format!("{name} = ") };
            out.line(&format!("{left}{right}"));
            return;
        }
        match op {
            Op::Address { base, index, scale, offset, inbounds } => {
                self.address(&name, (*base, *index), (*scale, *offset), *inbounds, out);
            }
            Op::GlobalAddress(global) => self.global(&name, inst, global, out),
            Op::Call { function, arguments, .. } => self.call(&name, inst, function, arguments, out),
            Op::Intrinsic { name: intrinsic, arguments, .. } if intrinsic.starts_with(PRIMITIVE) => {
                self.reciprocal_root(&name, arguments[0], out);
            }
            Op::Intrinsic { name: intrinsic, flags, arguments } => {
                let left = if name.is_empty() { String::new() } else { format!("{name} = ") };
                let callee = without_address_spaces(intrinsic);
                let types: Vec<String> = arguments.iter().map(|&a| llvm_type(self.body.ty(a))).collect();
                out.declare(format!("declare {ty} @\"{callee}\"({})", types.join(", ")));
                let flags = fast_math_only(*flags);
                out.line(&format!("{left}call{flags} {ty} @\"{callee}\"({})", self.list(arguments)));
            }
            Op::WorkItem { query, dimension } => self.query(&name, *query, *dimension, out),
            Op::ContextLoad(slot) => self.context_load(&name, &ty, *slot, out),
            Op::ContextStore(slot, value) => self.context_store(*slot, *value, out),
            Op::ContextAddress(slot) => self.context_element(&name, *slot, out),
            Op::MaskedLoad { pointer, mask, align } => {
                self.masked(&name, &ty, *pointer, &[*mask], (*align, true), out);
            }
            Op::MaskedStore { pointer, value, mask, align } => {
                let ty = llvm_type(self.body.ty(*value));
                self.masked("", &ty, *pointer, &[*mask, *value], (*align, false), out);
            }
            Op::StreamingStore { pointer, value, align } => {
                self.streaming_store(*pointer, *value, *align, out)
            }
            // A region with one exit leaves by that.
            Op::SetExit(exit) if self.several_exits => out.line(&format!("store i32 {exit}, ptr %exit")),
            Op::SetExit(_) => {}
            Op::SlotAddress(slot) => {
                debug_assert!((self.place)(*slot) != SlotPlace::Nowhere);
                out.line(&format!("{name} = getelementptr i8, ptr %slot{}, i64 0", slot.0));
            }
            _ => unreachable!("`simple` writes the rest"),
        }
    }

    /// Operations that are one LLVM instruction with the same operands.
    fn simple(&self, op: &Op, ty: &str) -> Option<String> {
        let atomic = |o: &Option<spirula_kir::Ordering>| if o.is_some() { " atomic" } else { "" };
        let order = |o: &Option<spirula_kir::Ordering>| o.map_or(String::new(), |o| format!(" {}", o.name()));
        let volatile = |v: &bool| if *v { " volatile" } else { "" };
        Some(match op {
            Op::Unary { op, flags, value } => format!("{}{flags} {}", op.name(), self.typed(*value)),
            Op::Binary { op, flags, lhs, rhs } => {
                format!("{}{flags} {}, {}", op.name(), self.typed(*lhs), self.text(*rhs))
            }
            Op::Compare { predicate, flags, lhs, rhs } => {
                let (name, predicate) = match predicate {
                    Predicate::Int(p) => ("icmp", p.name()),
                    Predicate::Float(p) => ("fcmp", p.name()),
                };
                format!("{name}{flags} {predicate} {}, {}", self.typed(*lhs), self.text(*rhs))
            }
            Op::Cast { op: CastOp::AddrSpaceCast, value, .. } => {
                format!("bitcast {} to ptr", self.typed(*value))
            }
            Op::Cast { op, flags, value } => format!("{}{flags} {} to {ty}", op.name(), self.typed(*value)),
            Op::Select { flags, condition, then, otherwise } => {
                format!("select{flags} {}", self.list(&[*condition, *then, *otherwise]))
            }
            Op::LocalAddress { offset } => {
                format!("getelementptr inbounds i8, ptr %local_memory, i64 {offset}")
            }
            Op::Load { pointer, align, volatile: v, ordering } => {
                let access = self.access(self.space(*pointer), true);
                let (a, v, o) = (atomic(ordering), volatile(v), order(ordering));
                format!("load{a}{v} {ty}, {}{o}, align {align}{access}", self.typed(*pointer))
            }
            Op::Store { pointer, value, align, volatile: v, ordering } => {
                let access = self.access(self.space(*pointer), false);
                let (a, v, o) = (atomic(ordering), volatile(v), order(ordering));
                format!("store{a}{v} {}{o}, align {align}{access}", self.list(&[*value, *pointer]))
            }
            Op::AtomicRmw { op, pointer, value, ordering, volatile: v, align } => {
                let operands = self.list(&[*pointer, *value]);
                format!(
                    "atomicrmw{} {} {operands} {}, align {align}",
                    volatile(v),
                    op.name(),
                    ordering.name()
                )
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
            Op::ExtractElement { vector, index } => {
                format!("extractelement {}", self.list(&[*vector, *index]))
            }
            Op::InsertElement { vector, element, index } => {
                format!("insertelement {}", self.list(&[*vector, *element, *index]))
            }
            Op::Shuffle { first, second, mask } => {
                let lanes: Vec<String> = mask
                    .iter()
                    .map(|&lane| if lane < 0 { "i32 poison".into() } else { format!("i32 {lane}") })
                    .collect();
                let (operands, n) = (self.list(&[*first, *second]), mask.len());
                format!("shufflevector {operands}, <{n} x i32> <{}>", lanes.join(", "))
            }
            Op::ExtractValue { aggregate, indices } => {
                format!("extractvalue {}, {}", self.typed(*aggregate), spirula_kir::Commas(indices.iter()))
            }
            Op::InsertValue { aggregate, value, indices } => {
                format!(
                    "insertvalue {}, {}",
                    self.list(&[*aggregate, *value]),
                    spirula_kir::Commas(indices.iter())
                )
            }
            _ => return None,
        })
    }

    /// Metadata of an access: address spaces don't overlap, constant memory does not change, and what work-items do to
    /// shared memory between two barriers does not depend on each other.
    pub(super) fn access(&self, space: AddressSpace, load: bool) -> String {
        let mut text = match space {
            AddressSpace::Generic | AddressSpace::Context => return String::new(),
            _ => format!(", !alias.scope !{}, !noalias !{}", 10 + space as u32, 20 + space as u32),
        };
        if space == AddressSpace::Constant && load {
            text += ", !invariant.load !0";
        }
        if space != AddressSpace::Private {
            let _ = write!(text, ", !llvm.access.group !{}", access_group(self.number));
        }
        text
    }

    fn address(
        &self,
        name: &str,
        (base, index): (Value, Option<Value>),
        (scale, offset): (i64, i64),
        inbounds: bool,
        out: &mut Writer,
    ) {
        let inbounds = if inbounds { " inbounds" } else { "" };
        let mut pointer = self.typed(base);
        if let Some(index) = index {
            let index_name = if offset == 0 { name.to_owned() } else { format!("{name}.i") };
            if scale > 0 {
                let step = self.typed(index);
                out.line(&format!(
                    "{index_name} = getelementptr{inbounds} [{scale} x i8], {pointer}, {step}"
                ));
            } else {
                let (ty, factor) = match self.body.ty(index) {
                    Type::Vector(_, n) => (format!("<{n} x i64>"), format!("splat (i64 {scale})")),
                    _ => ("i64".into(), scale.to_string()),
                };
                out.line(&format!("{name}.s = mul {}, {factor}", self.typed(index)));
                out.line(&format!("{index_name} = getelementptr{inbounds} i8, {pointer}, {ty} {name}.s"));
            }
            let lanes = self.lanes(base).or(self.lanes(index));
            pointer = lanes.map_or(format!("ptr {index_name}"), |n| format!("<{n} x ptr> {index_name}"));
        }
        if index.is_none() || offset != 0 {
            out.line(&format!("{name} = getelementptr{inbounds} i8, {pointer}, i64 {offset}"));
        }
    }

    /// LLVM's masked loads and stores, gathers and scatters; `rest` holds the mask and what is stored.
    fn masked(
        &self,
        name: &str,
        ty: &str,
        pointer: Value,
        rest: &[Value],
        (align, load): (u32, bool),
        out: &mut Writer,
    ) {
        let elements = ty.trim_matches(['<', '>']).replace(" x ", "");
        let element = elements.trim_start_matches(|c: char| c.is_ascii_digit());
        let suffix = match element {
            "float" => elements.replace("float", "f32"),
            "double" => elements.replace("double", "f64"),
            "half" => elements.replace("half", "f16"),
            "ptr" => elements.replace("ptr", "p0"),
            _ => elements.clone(),
        };
        let (kind, places) = match (self.lanes(pointer), load) {
            (None, true) => ("load", "p0".to_owned()),
            (None, false) => ("store", "p0".to_owned()),
            (Some(n), true) => ("gather", format!("v{n}p0")),
            (Some(n), false) => ("scatter", format!("v{n}p0")),
        };
        let pointer_type = llvm_type(self.body.ty(pointer));
        let mask_type = llvm_type(self.body.ty(rest[0]));
        let pointer_text = format!("{pointer_type} align {align} {}", self.text(pointer));
        let (mask, access) = (self.typed(rest[0]), self.access(self.space(pointer), load));
        let callee = format!("@llvm.masked.{kind}.v{suffix}.{places}");
        if load {
            out.declare(format!("declare {ty} {callee}({pointer_type}, {mask_type}, {ty})"));
            // LLVM 22.1 moves a masked load to a selection by the same mask, past stores in between; it does not look
            // through `freeze`.
            out.line(&format!("{name}.m = call {ty} {callee}({pointer_text}, {mask}, {ty} poison){access}"));
            out.line(&format!("{name} = freeze {ty} {name}.m"));
        } else {
            out.declare(format!("declare void {callee}({ty}, {pointer_type}, {mask_type})"));
            let value = self.typed(rest[1]);
            out.line(&format!("call void {callee}({value}, {pointer_text}, {mask}){access}"));
        }
    }

    fn global(&self, name: &str, inst: Inst, global: &str, out: &mut Writer) {
        let space = self.body.result(inst).map_or(0, |v| self.space(v) as u32);
        if space == 0 {
            out.declare(format!("@\"{global}\" = external global i8"));
            out.line(&format!("{name} = getelementptr i8, ptr @\"{global}\", i64 0"));
        } else {
            out.declare(format!("@\"{global}\" = external addrspace({space}) global i8"));
            out.line(&format!("{name} = addrspacecast ptr addrspace({space}) @\"{global}\" to ptr"));
        }
    }

    /// The linked module's functions keep their address spaces: arguments and result are cast.
    fn call(&self, name: &str, inst: Inst, function: &str, arguments: &[Value], out: &mut Writer) {
        let mut list = Vec::new();
        let mut types = Vec::new();
        for (i, &argument) in arguments.iter().enumerate() {
            let spaced = spaced_type(self.body.ty(argument));
            let mut text = self.text(argument);
            if spaced != llvm_type(self.body.ty(argument)) {
                let cast = format!("%{}.c{}.{i}", self.prefix, inst.0);
                out.line(&format!("{cast} = addrspacecast ptr {text} to {spaced}"));
                text = cast;
            }
            list.push(format!("{spaced} {text}"));
            types.push(spaced);
        }
        let result = self.body.result(inst).map(|v| self.body.ty(v));
        let spaced = result.map_or("void".into(), spaced_type);
        out.declare(format!("declare {spaced} @\"{function}\"({})", types.join(", ")));
        let call = format!("call {spaced} @\"{function}\"({})", list.join(", "));
        match result {
            None => out.line(&call),
            Some(ty) if spaced == llvm_type(ty) => out.line(&format!("{name} = {call}")),
            Some(_) => {
                out.line(&format!("{name}.s = {call}"));
                out.line(&format!("{name} = addrspacecast {spaced} {name}.s to ptr"));
            }
        }
    }

    fn query(&self, name: &str, query: WorkItemQuery, dimension: u8, out: &mut Writer) {
        let r = self.prefix;
        match query {
            WorkItemQuery::GlobalId => {
                out.line(&format!("{name} = add nuw nsw i64 %base.{dimension}, %{r}.local.{dimension}"));
            }
            WorkItemQuery::LocalId => out.line(&format!("{name} = add i64 %{r}.local.{dimension}, 0")),
            WorkItemQuery::GroupId => out.line(&format!("{name} = add i64 %group.{dimension}, 0")),
            WorkItemQuery::LocalSize => out.line(&format!("{name} = add i64 %local_size.{dimension}, 0")),
            WorkItemQuery::GlobalSize => out.line(&format!("{name} = add i64 %global_size.{dimension}, 0")),
            WorkItemQuery::NumGroups => out.line(&format!("{name} = add i64 %group_count.{dimension}, 0")),
            WorkItemQuery::GlobalOffset => {
                out.line(&format!("{name} = add i64 %global_offset.{dimension}, 0"))
            }
            WorkItemQuery::WorkDim => out.line(&format!("{name} = add i32 %work_dim, 0")),
        }
    }

    /// The address of this work-item's element of a slot's array.
    fn context_element(&self, name: &str, slot: ContextSlot, out: &mut Writer) {
        let size = super::layout::element_size(&self.context[slot.0 as usize]);
        let item = format!("i64 %{}.item", self.prefix);
        out.line(&format!("{name} = getelementptr inbounds [{size} x i8], ptr %context{}, {item}", slot.0));
    }

    fn context_load(&self, name: &str, ty: &str, slot: ContextSlot, out: &mut Writer) {
        match &self.context[slot.0 as usize] {
            ContextKind::Varying(kind) => {
                self.context_element(&format!("{name}.p"), slot, out);
                let access = self.context_access(kind);
                if *kind == Type::BOOL {
                    let bytes = ty.replace("i1", "i8");
                    out.line(&format!("{name}.b = load {bytes}, ptr {name}.p{access}"));
                    out.line(&format!("{name} = trunc {bytes} {name}.b to {ty}"));
                } else {
                    out.line(&format!("{name} = load {ty}, ptr {name}.p{access}"));
                }
            }
            _ => out.line(&format!("{name} = load {ty}, ptr %context{}", slot.0)),
        }
    }

    fn context_store(&self, slot: ContextSlot, value: Value, out: &mut Writer) {
        match &self.context[slot.0 as usize] {
            ContextKind::Varying(kind) => {
                let name = format!("%{}.k{}", self.prefix, out.unique());
                self.context_element(&name, slot, out);
                let access = self.context_access(kind);
                if *kind == Type::BOOL {
                    let bytes = llvm_type(self.body.ty(value)).replace("i1", "i8");
                    out.line(&format!("{name}.b = zext {} to {bytes}", self.typed(value)));
                    out.line(&format!("store {bytes} {name}.b, ptr {name}{access}"));
                } else {
                    out.line(&format!("store {}, ptr {name}{access}", self.typed(value)));
                }
            }
            _ => out.line(&format!("store {}, ptr %context{}", self.typed(value), slot.0)),
        }
    }

    fn context_access(&self, ty: &Type) -> String {
        let align = ty.align().min(super::layout::SCRATCH_ALIGN);
        let group = access_group(self.number);
        format!(", align {align}, !alias.scope !15, !noalias !25, !llvm.access.group !{group}")
    }
}

/// The number of a region's access group in the metadata; the next four are its parallel accesses and its three loops.
pub(super) fn access_group(region: usize) -> usize {
    100 + 8 * region
}

/// `llvm.memcpy.p1.p0.i64` -> `llvm.memcpy.p0.p0.i64`.
fn without_address_spaces(name: &str) -> String {
    let plain = |part: &str| match part {
        "p1" | "p2" | "p3" | "p4" => "p0".to_owned(),
        _ => part.to_owned(),
    };
    name.split('.').map(plain).collect::<Vec<_>>().join(".")
}

fn fast_math_only(flags: Flags) -> Flags {
    Flags(flags.0 & Flags::FAST_MATH)
}
