//! Operations and terminators in text.

use super::{Parse, Parser};
use crate::{
    BinaryOp, Block, CastOp, ContextSlot, Flags, FloatPredicate, IntPredicate, Intrinsic, Op, Ordering,
    Predicate, ReduceOp, RmwOp, Slot, SubGroupOp, Target, Terminator, UnaryOp, Value, WorkItemQuery,
};
use std::sync::Arc;

impl Parser<'_> {
    fn flags(&mut self) -> Flags {
        let mut flags = Flags::NONE;
        while let Some((bit, _)) = Flags::NAMES.iter().find(|(_, name)| *name == self.peek()) {
            flags.0 |= bit;
            self.at += 1;
        }
        flags
    }

    fn align(&mut self) -> Parse<u32> {
        self.expect(",")?;
        self.expect("align")?;
        self.number()
    }

    fn ordering(&mut self) -> Parse<Ordering> {
        let text = self.next();
        Ordering::from_name(text).map_or_else(|| self.fail(format!("no memory ordering `{text}`")), Ok)
    }

    fn volatile_and_atomic(&mut self) -> Parse<(bool, Option<Ordering>)> {
        let volatile = self.accept("volatile");
        let ordering = if self.accept("atomic") { Some(self.ordering()?) } else { None };
        Ok((volatile, ordering))
    }

    pub(super) fn op(&mut self) -> Parse<Op> {
        let name = self.next();
        if let Some(op) = UnaryOp::from_name(name) {
            return Ok(Op::Unary { op, flags: self.flags(), value: self.value()? });
        }
        if let Some(op) = BinaryOp::from_name(name) {
            let flags = self.flags();
            let v = self.values(2)?;
            return Ok(Op::Binary { op, flags, lhs: v[0], rhs: v[1] });
        }
        if let Some(op) = CastOp::from_name(name) {
            return Ok(Op::Cast { op, flags: self.flags(), value: self.value()? });
        }
        if let Some(query) = WorkItemQuery::from_name(name) {
            return Ok(Op::WorkItem { query, dimension: self.number()? });
        }
        match name {
            "icmp" | "fcmp" => self.compare(name == "fcmp"),
            "select" => {
                let flags = self.flags();
                let v = self.values(3)?;
                Ok(Op::Select { flags, condition: v[0], then: v[1], otherwise: v[2] })
            }
            "address" => self.address(),
            "slot_address" => Ok(Op::SlotAddress(Slot(self.prefixed("$")?))),
            "local_address" => Ok(Op::LocalAddress { offset: self.number()? }),
            "global_address" => Ok(Op::GlobalAddress(self.quoted()?)),
            "load" | "store" | "rmw" | "cmpxchg" => self.memory(name),
            "masked_load" => {
                let v = self.values(2)?;
                Ok(Op::MaskedLoad { pointer: v[0], mask: v[1], align: self.align()? })
            }
            "masked_store" => {
                let v = self.values(3)?;
                Ok(Op::MaskedStore { pointer: v[0], value: v[1], mask: v[2], align: self.align()? })
            }
            "nontemporal_store" => {
                let v = self.values(2)?;
                Ok(Op::NontemporalStore { pointer: v[0], value: v[1], align: self.align()? })
            }
            "streaming_fence" => Ok(Op::StreamingFence),
            "set_exit" => Ok(Op::SetExit(self.number()?)),
            "fence" => Ok(Op::Fence(self.ordering()?)),
            "extract_element" => {
                let v = self.values(2)?;
                Ok(Op::ExtractElement { vector: v[0], index: v[1] })
            }
            "insert_element" => {
                let v = self.values(3)?;
                Ok(Op::InsertElement { vector: v[0], element: v[1], index: v[2] })
            }
            "shuffle" => {
                let v = self.values(2)?;
                Ok(Op::Shuffle { first: v[0], second: v[1], mask: self.numbers()? })
            }
            "extract_value" => Ok(Op::ExtractValue { aggregate: self.value()?, indices: self.numbers()? }),
            "insert_value" => {
                let v = self.values(2)?;
                Ok(Op::InsertValue { aggregate: v[0], value: v[1], indices: self.numbers()? })
            }
            "intrinsic" => {
                let flags = self.flags();
                let name = self.next();
                let Some(intrinsic) = Intrinsic::from_name(name) else {
                    return self.fail(format!("no intrinsic `{name}`"));
                };
                Ok(Op::Intrinsic { intrinsic, flags, arguments: self.arguments()? })
            }
            "call" => {
                let pure = self.accept("pure");
                let nocapture = self.accept("nocapture");
                let nosync = self.accept("nosync");
                let function = self.quoted()?;
                Ok(Op::Call { function, pure, nocapture, nosync, arguments: self.arguments()? })
            }
            "group_reduce" => Ok(Op::GroupReduce { op: self.reduction()?, value: self.value()? }),
            "group_scan" => {
                let inclusive = self.inclusive()?;
                Ok(Op::GroupScan { op: self.reduction()?, inclusive, value: self.value()? })
            }
            "context_scan" => {
                let inclusive = self.inclusive()?;
                let slot = ContextSlot(self.prefixed("#")?);
                Ok(Op::ContextScan { slot, inclusive, value: self.value()? })
            }
            "sub_group" => {
                let name = self.next();
                let op = match name {
                    "reduce" => SubGroupOp::Reduce(self.reduction()?),
                    "clustered_reduce" => SubGroupOp::ClusteredReduce(self.reduction()?),
                    "scan_inclusive" => SubGroupOp::InclusiveScan(self.reduction()?),
                    "scan_exclusive" => SubGroupOp::ExclusiveScan(self.reduction()?),
                    "shuffle" => SubGroupOp::Shuffle,
                    "ballot" => SubGroupOp::Ballot,
                    _ => return self.fail(format!("no operation of sub-groups `{name}`")),
                };
                Ok(Op::SubGroup { op, arguments: self.arguments()? })
            }
            "context_load" => Ok(Op::ContextLoad(ContextSlot(self.prefixed("#")?))),
            "context_store" => Ok(Op::ContextStore(ContextSlot(self.prefixed("#")?), self.value()?)),
            "context_address" => Ok(Op::ContextAddress(ContextSlot(self.prefixed("#")?))),
            _ => self.fail(format!("no operation `{name}`")),
        }
    }

    fn reduction(&mut self) -> Parse<ReduceOp> {
        let name = self.next();
        ReduceOp::from_name(name).map_or_else(|| self.fail(format!("no reduction `{name}`")), Ok)
    }

    fn inclusive(&mut self) -> Parse<bool> {
        match self.next() {
            "inclusive" => Ok(true),
            "exclusive" => Ok(false),
            other => self.fail(format!("expected `inclusive` or `exclusive`, found `{other}`")),
        }
    }

    fn compare(&mut self, float: bool) -> Parse<Op> {
        let flags = self.flags();
        let name = self.next();
        let predicate = if float {
            FloatPredicate::from_name(name).map(Predicate::Float)
        } else {
            IntPredicate::from_name(name).map(Predicate::Int)
        };
        let Some(predicate) = predicate else { return self.fail(format!("no predicate `{name}`")) };
        let v = self.values(2)?;
        Ok(Op::Compare { predicate, flags, lhs: v[0], rhs: v[1] })
    }

    fn address(&mut self) -> Parse<Op> {
        let inbounds = self.accept("inbounds");
        let base = self.value()?;
        self.expect("+")?;
        let has_index = self.tokens.get(self.at + 1).is_some_and(|t| matches!(t.text, "*" | ":"));
        if has_index || self.peek() == "[" {
            let index = Some(self.value()?);
            self.expect("*")?;
            let scale = self.number()?;
            self.expect("+")?;
            return Ok(Op::Address { base, index, scale, offset: self.number()?, inbounds });
        }
        Ok(Op::Address { base, index: None, scale: 0, offset: self.number()?, inbounds })
    }

    fn memory(&mut self, name: &str) -> Parse<Op> {
        if name == "cmpxchg" {
            let weak = self.accept("weak");
            let volatile = self.accept("volatile");
            let (success, failure) = (self.ordering()?, self.ordering()?);
            let v = self.values(3)?;
            let (pointer, expected, replacement) = (v[0], v[1], v[2]);
            let align = self.align()?;
            return Ok(Op::CompareExchange {
                pointer,
                expected,
                replacement,
                success,
                failure,
                weak,
                volatile,
                align,
            });
        }
        let (volatile, ordering) = self.volatile_and_atomic()?;
        if name == "load" {
            let pointer = self.value()?;
            return Ok(Op::Load { pointer, align: self.align()?, volatile, ordering });
        }
        let op = if name == "rmw" { RmwOp::from_name(self.next()) } else { None };
        let v = self.values(2)?;
        let (pointer, value, align) = (v[0], v[1], self.align()?);
        match (name, op, ordering) {
            ("store", ..) => Ok(Op::Store { pointer, value, align, volatile, ordering }),
            (_, Some(op), Some(ordering)) => {
                Ok(Op::AtomicRmw { op, pointer, value, ordering, volatile, align })
            }
            _ => self.fail("a read-modify-write has an ordering and an operation"),
        }
    }

    fn numbers<T: std::str::FromStr>(&mut self) -> Parse<Arc<[T]>> {
        self.expect(",")?;
        self.expect("[")?;
        Ok(self.list("]", Self::number)?.into())
    }

    fn arguments(&mut self) -> Parse<Vec<Value>> {
        self.expect("(")?;
        self.list(")", Self::value)
    }

    fn target(&mut self) -> Parse<Target> {
        let block = Block(self.prefixed("b")?);
        if block.index() >= self.function.blocks.len() {
            return self.fail(format!("there is no {block}"));
        }
        let arguments = if self.accept("(") { self.list(")", Self::value)? } else { Vec::new() };
        Ok(Target { block, arguments })
    }

    pub(super) fn terminator(&mut self) -> Parse<Terminator> {
        match self.next() {
            "jump" => Ok(Terminator::Jump(self.target()?)),
            "barrier" => Ok(Terminator::Barrier(self.target()?)),
            "return" => {
                let line = |at: usize| self.tokens.get(at).map(|token| token.line);
                let yields = line(self.at) == line(self.at - 1);
                Ok(Terminator::Return(if yields { Some(self.value()?) } else { None }))
            }
            "unreachable" => Ok(Terminator::Unreachable),
            "exit" => Ok(Terminator::Exit(self.number()?)),
            "branch" => {
                let condition = self.value()?;
                self.expect(",")?;
                let then = self.target()?;
                self.expect(",")?;
                Ok(Terminator::Branch { condition, then, otherwise: self.target()? })
            }
            "switch" => {
                let value = self.value()?;
                let mut cases = Vec::new();
                loop {
                    self.expect(",")?;
                    if self.accept("default") {
                        self.expect(":")?;
                        return Ok(Terminator::Switch { value, cases, default: self.target()? });
                    }
                    let case = self.number()?;
                    self.expect(":")?;
                    cases.push((case, self.target()?));
                }
            }
            other => self.fail(format!("expected a terminator, found `{other}`")),
        }
    }
}
