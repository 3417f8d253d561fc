//! Kernel IR: the text form, written. [`super::parse`] reads it back.

use super::{
    AddressSpace, Attributes, Block, Constant, Flags, Function, Inst, LoopHints, Op, Passing, Predicate,
    Promises, Scalar, Signature, SubGroupOp, Target, Terminator, Type, Value, ValueDef,
};
use std::fmt::{self, Display, Formatter};

impl Display for AddressSpace {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(match self {
            AddressSpace::Private => "private",
            AddressSpace::Global => "global",
            AddressSpace::Constant => "constant",
            AddressSpace::Local => "local",
            AddressSpace::Generic => "generic",
            AddressSpace::Context => "context",
        })
    }
}

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Scalar::Int(bits) => write!(f, "i{bits}"),
            Scalar::Half => f.write_str("f16"),
            Scalar::Float => f.write_str("f32"),
            Scalar::Double => f.write_str("f64"),
            Scalar::Pointer(space) => write!(f, "ptr({space})"),
        }
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Type::Scalar(s) => write!(f, "{s}"),
            Type::Vector(s, n) => write!(f, "<{n} x {s}>"),
            Type::Array(element, n) => write!(f, "[{n} x {element}]"),
            Type::Struct(fields) => write!(f, "{{{}}}", Commas(fields.iter())),
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl Display for Block {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl Display for Flags {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let names = Flags::NAMES.iter().filter(|(bit, _)| self.0 & bit != 0);
        names.into_iter().try_for_each(|(_, name)| write!(f, " {name}"))
    }
}

/// Items with ", " between them.
pub struct Commas<I>(pub I);

impl<I: Iterator<Item = T> + Clone, T: Display> Display for Commas<I> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        for (i, item) in self.0.clone().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

/// A constant with its type: `7:i32`, `0x3f800000:f32`, `[1:i32, 2:i32]:<2 x i32>`.
struct Literal<'a>(&'a Type, &'a Constant);

impl Display for Literal<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Literal(ty, constant) = self;
        match constant {
            Constant::Int(bits) => write!(f, "{bits}:{ty}"),
            Constant::Float(bits) => write!(f, "{bits:#x}:{ty}"),
            Constant::Zero => write!(f, "zero:{ty}"),
            Constant::Undef => write!(f, "undef:{ty}"),
            Constant::Poison => write!(f, "poison:{ty}"),
            Constant::Elements(elements) => {
                write!(f, "[{}]:{ty}", Commas(elements.iter().map(|(t, c)| Literal(t, c))))
            }
        }
    }
}

impl Function {
    /// An operand as text: `%n`, or a constant written out.
    fn text(&self, value: Value) -> String {
        match self.def(value) {
            ValueDef::Constant(constant) => Literal(self.ty(value), constant).to_string(),
            _ => value.to_string(),
        }
    }

    fn list(&self, values: &[Value]) -> String {
        values.iter().map(|&v| self.text(v)).collect::<Vec<_>>().join(", ")
    }

    fn target(&self, target: &Target) -> String {
        if target.arguments.is_empty() {
            target.block.to_string()
        } else {
            format!("{}({})", target.block, self.list(&target.arguments))
        }
    }

    fn declared(&self, value: Value) -> String {
        format!("{value}: {}", self.ty(value))
    }

    /// One instruction as text, without indentation.
    pub fn inst_text(&self, inst: Inst) -> String {
        let group = self.access_group(inst).map_or(String::new(), |group| format!(", parallel {}", group.0));
        let body = format!("{}{group}", self.op_text(self.op(inst)));
        match self.result(inst) {
            Some(value) => format!("{} = {body}", self.declared(value)),
            None => body,
        }
    }

    fn op_text(&self, op: &Op) -> String {
        let operands = self.list(&op.operands());
        let ordered = |volatile: &bool, ordering: &Option<super::Ordering>| {
            let volatile = if *volatile { " volatile" } else { "" };
            ordering.map_or(volatile.to_owned(), |o| format!("{volatile} atomic {}", o.name()))
        };
        match op {
            Op::Unary { op, flags, .. } => format!("{}{flags} {operands}", op.name()),
            Op::Binary { op, flags, .. } => format!("{}{flags} {operands}", op.name()),
            Op::Cast { op, flags, .. } => format!("{}{flags} {operands}", op.name()),
            Op::Compare { predicate, flags, .. } => match predicate {
                Predicate::Int(p) => format!("icmp{flags} {} {operands}", p.name()),
                Predicate::Float(p) => format!("fcmp{flags} {} {operands}", p.name()),
            },
            Op::Select { flags, .. } => format!("select{flags} {operands}"),
            Op::Address { index, scale, offset, inbounds, base } => {
                let inbounds = if *inbounds { " inbounds" } else { "" };
                let index = index.map_or(String::new(), |i| format!(" + {}*{scale}", self.text(i)));
                format!("address{inbounds} {}{index} + {offset}", self.text(*base))
            }
            Op::SlotAddress(slot) => format!("slot_address ${}", slot.0),
            Op::LocalAddress { offset } => format!("local_address {offset}"),
            Op::GlobalAddress(name) => format!("global_address @\"{name}\""),
            Op::Load { align, volatile, ordering, .. } => {
                format!("load{} {operands}, align {align}", ordered(volatile, ordering))
            }
            Op::Store { align, volatile, ordering, .. } => {
                format!("store{} {operands}, align {align}", ordered(volatile, ordering))
            }
            Op::MaskedLoad { align, .. } => format!("masked_load {operands}, align {align}"),
            Op::NontemporalStore { align, .. } => format!("nontemporal_store {operands}, align {align}"),
            Op::StreamingFence => "streaming_fence".to_owned(),
            Op::MaskedStore { align, .. } => format!("masked_store {operands}, align {align}"),
            Op::SetExit(exit) => format!("set_exit {exit}"),
            Op::AtomicRmw { op, ordering, volatile, align, .. } => {
                format!("rmw{} {} {operands}, align {align}", ordered(volatile, &Some(*ordering)), op.name())
            }
            Op::CompareExchange { success, failure, weak, volatile, align, .. } => {
                let weak = if *weak { " weak" } else { "" };
                let volatile = if *volatile { " volatile" } else { "" };
                format!(
                    "cmpxchg{weak}{volatile} {} {} {operands}, align {align}",
                    success.name(),
                    failure.name()
                )
            }
            Op::Fence(ordering) => format!("fence {}", ordering.name()),
            Op::ExtractElement { .. } => format!("extract_element {operands}"),
            Op::InsertElement { .. } => format!("insert_element {operands}"),
            Op::Shuffle { mask, .. } => format!("shuffle {operands}, [{}]", Commas(mask.iter())),
            Op::ExtractValue { indices, .. } => {
                format!("extract_value {operands}, [{}]", Commas(indices.iter()))
            }
            Op::InsertValue { indices, .. } => {
                format!("insert_value {operands}, [{}]", Commas(indices.iter()))
            }
            Op::Intrinsic { intrinsic, flags, .. } => {
                format!("intrinsic{flags} {}({operands})", intrinsic.name())
            }
            Op::Call { function, pure, nocapture, nosync, .. } => {
                let words = [(pure, " pure"), (nocapture, " nocapture"), (nosync, " nosync")];
                let words: String = words.into_iter().filter(|(is, _)| **is).map(|(_, word)| word).collect();
                format!("call{words} @\"{function}\"({operands})")
            }
            Op::WorkItem { query, dimension } => format!("{} {dimension}", query.name()),
            Op::GroupReduce { op, .. } => format!("group_reduce {} {operands}", op.name()),
            Op::GroupScan { op, inclusive, .. } => {
                format!("group_scan {} {} {operands}", inclusion(*inclusive), op.name())
            }
            Op::ContextScan { slot, inclusive, .. } => {
                format!("context_scan {} #{} {operands}", inclusion(*inclusive), slot.0)
            }
            Op::SubGroup { op, .. } => {
                let (name, reduction) = match op {
                    SubGroupOp::Reduce(op) => ("reduce", Some(op)),
                    SubGroupOp::ClusteredReduce(op) => ("clustered_reduce", Some(op)),
                    SubGroupOp::InclusiveScan(op) => ("scan_inclusive", Some(op)),
                    SubGroupOp::ExclusiveScan(op) => ("scan_exclusive", Some(op)),
                    SubGroupOp::Shuffle => ("shuffle", None),
                    SubGroupOp::Ballot => ("ballot", None),
                };
                let reduction = reduction.map_or(String::new(), |op| format!(" {}", op.name()));
                format!("sub_group {name}{reduction} ({operands})")
            }
            Op::ContextLoad(slot) => format!("context_load #{}", slot.0),
            Op::ContextStore(slot, _) => format!("context_store #{} {operands}", slot.0),
            Op::ContextAddress(slot) => format!("context_address #{}", slot.0),
        }
    }

    fn terminator_text(&self, terminator: &Terminator) -> String {
        match terminator {
            Terminator::Jump(t) => format!("jump {}", self.target(t)),
            Terminator::Barrier(t) => format!("barrier {}", self.target(t)),
            Terminator::Branch { condition, then, otherwise } => {
                format!("branch {}, {}, {}", self.text(*condition), self.target(then), self.target(otherwise))
            }
            Terminator::Switch { value, cases, default } => {
                let cases: String = cases.iter().map(|(v, t)| format!(", {v}: {}", self.target(t))).collect();
                format!("switch {}{cases}, default: {}", self.text(*value), self.target(default))
            }
            Terminator::Return(None) => "return".to_owned(),
            Terminator::Return(Some(value)) => format!("return {}", self.text(*value)),
            Terminator::Unreachable => "unreachable".to_owned(),
            Terminator::Exit(n) => format!("exit {n}"),
        }
    }
}

fn inclusion(inclusive: bool) -> &'static str {
    if inclusive { "inclusive" } else { "exclusive" }
}

impl Display for LoopHints {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str("loop")?;
        if let Some(group) = self.parallel {
            write!(f, " parallel {}", group.0)?;
        }
        let words = [
            (self.no_vectorize, " no_vectorize"),
            (self.no_unroll, " no_unroll"),
            (self.no_hoist, " no_hoist"),
        ];
        words.iter().filter(|(on, _)| *on).try_for_each(|(_, word)| f.write_str(word))
    }
}

impl Display for Promises {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let words = [(self.noalias, " noalias"), (self.nonnull, " nonnull"), (self.readonly, " readonly")];
        words.iter().filter(|(on, _)| *on).try_for_each(|(_, word)| f.write_str(word))?;
        if self.nocapture {
            f.write_str(" nocapture")?;
        }
        if self.align > 0 { write!(f, " align {}", self.align) } else { Ok(()) }
    }
}

impl Display for Attributes {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Attributes { effects, noinline, cold } = *self;
        let words = [
            (!effects.reads, " no_reads"),
            (!effects.writes, " no_writes"),
            (!effects.traps, " returns"),
            (noinline, " noinline"),
            (cold, " cold"),
        ];
        words.iter().filter(|(on, _)| *on).try_for_each(|(_, word)| f.write_str(word))
    }
}

impl Display for Passing {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Passing::Direct => Ok(()),
            Passing::Small => f.write_str(" small"),
            Passing::LocalOffset => f.write_str(" local_offset"),
            Passing::ByAddress => f.write_str(" by_address"),
            Passing::Argument(promises) => write!(f, "{promises}"),
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let params = self.params.iter().map(|p| match p.passing {
            Passing::Argument(promises) => format!("{}{promises}", self.declared(p.value)),
            passing => format!("{} @ {}{passing}", self.declared(p.value), p.offset),
        });
        let params = Commas(params);
        match &self.signature {
            Signature::Kernel => writeln!(f, "kernel \"{}\"({params}) {{", self.name)?,
            Signature::Function { result: None } => {
                writeln!(f, "function \"{}\"({params}){} {{", self.name, self.attributes)?;
            }
            Signature::Function { result: Some(ty) } => {
                writeln!(f, "function \"{}\"({params}) yields {ty}{} {{", self.name, self.attributes)?;
            }
        }
        for (i, slot) in self.slots.iter().enumerate() {
            writeln!(f, "  slot ${i}: {} align {}", slot.size, slot.align)?;
        }
        if self.local_size > 0 {
            writeln!(f, "  local {}", self.local_size)?;
        }
        if let Some([x, y, z]) = self.required_work_group_size {
            let remainder = if self.remainder_groups { " or_remainder" } else { "" };
            writeln!(f, "  work_group_size {x} {y} {z}{remainder}")?;
        }
        if self.row_dimension > 0 {
            writeln!(f, "  rows_along {}", self.row_dimension)?;
        }
        if let Some(size) = self.required_sub_group_size {
            writeln!(f, "  sub_group_size {size}")?;
        }
        if let [x, y, z] = self.group_factors
            && x.max(y).max(z) > 0
        {
            writeln!(f, "  group_factors {x} {y} {z}")?;
        }
        if self.id_factor > 0 {
            writeln!(f, "  id_factor {}", self.id_factor)?;
        }
        for (i, block) in self.blocks.iter().enumerate() {
            if block.params.is_empty() {
                writeln!(f, "b{i}:")?;
            } else {
                writeln!(f, "b{i}({}):", Commas(block.params.iter().map(|&p| self.declared(p))))?;
            }
            for &inst in &block.insts {
                writeln!(f, "  {}", self.inst_text(inst))?;
            }
            write!(f, "  {}", self.terminator_text(&block.terminator))?;
            match &block.loop_hints {
                Some(hints) => writeln!(f, ", {hints}")?,
                None => writeln!(f)?,
            }
        }
        f.write_str("}\n")
    }
}
