//! Emission: a region in the loops over a group's work-items, and the way on to the next region.

use super::instruction::{RegionText, access_group};
use super::layout::Layout;
use super::types::llvm_type;
use super::work_group::Writer;
use spirula_kir::transform::widen::VectorTarget;
use spirula_kir::transform::{ContextKind, Region, RegionExit, WorkGroup};
use spirula_kir::{Block, Target, Terminator};

/// Writes one region.
pub(super) struct RegionWriter<'a> {
    number: usize,
    region: &'a Region,
    group: &'a WorkGroup,
    layout: &'a Layout,
    target: VectorTarget,
}

impl<'a> RegionWriter<'a> {
    pub(super) fn new(
        number: usize,
        region: &'a Region,
        group: &'a WorkGroup,
        (layout, target): (&'a Layout, VectorTarget),
    ) -> Self {
        RegionWriter { number, region, group, layout, target }
    }

    pub(super) fn write(&self, out: &mut Writer) {
        let place = |slot| self.layout.slot(slot);
        let (scalar, wide) = (format!("r{}", self.number), format!("w{}", self.number));
        let text = |prefix, body| RegionText {
            number: self.number,
            prefix,
            body,
            context: &self.group.context,
            several_exits: self.region.exits.len() > 1,
            place: &place,
            approximates: self.target.approximates_roots(),
        };
        let body = &self.region.body;
        let wide = self.region.wide.as_ref().map(|w| (text(&wide, &w.body), w.lanes));
        let text = text(&scalar, body);
        let r = self.number;
        out.label(&format!("r{r}"));
        if self.region.exits.len() > 1 {
            out.line(&format!("store i32 {}, ptr %exit", self.return_exit().unwrap_or(0)));
        }
        body.block(Block(0)).insts.iter().for_each(|&inst| text.write(inst, out));
        if let Some((text, _)) = &wide {
            text.body.block(Block(0)).insts.iter().for_each(|&inst| text.write(inst, out));
        }
        if self.region.once {
            out.line(&format!("br label %r{r}.b1"));
        } else {
            self.open_loops(out);
            if let Some((text, lanes)) = &wide {
                self.packs(text, *lanes, out);
            }
            self.open_row(out);
        }
        for block in body.block_ids().skip(1) {
            self.write_block(&text, block, out);
        }
        out.label(&format!("r{r}.latch"));
        if self.region.once {
            out.line(&format!("br label %r{r}.end"));
        } else {
            self.close_loops(out);
        }
        out.label(&format!("r{r}.end"));
        self.leave(out);
    }

    fn return_exit(&self) -> Option<usize> {
        self.region.exits.iter().position(|e| *e == RegionExit::Return)
    }

    fn open_loops(&self, out: &mut Writer) {
        let r = self.number;
        out.line(&format!("br label %r{r}.loop2"));
        for d in [2, 1] {
            let from = if d == 2 { format!("r{r}") } else { format!("r{r}.loop{}", d + 1) };
            out.label(&format!("r{r}.loop{d}"));
            out.line(&format!("%r{r}.local.{d} = phi i64 [ 0, %{from} ], [ %r{r}.step.{d}, %r{r}.next{d} ]"));
            if d == 1 {
                out.line(&format!("%r{r}.plane = mul nuw nsw i64 %r{r}.local.2, %local_size.1"));
                out.line(&format!("%r{r}.line = add nuw nsw i64 %r{r}.plane, %r{r}.local.1"));
                out.line(&format!("%r{r}.row = mul nuw nsw i64 %r{r}.line, %local_size.0"));
            }
            let next = match (d, &self.region.wide) {
                (1, Some(_)) => format!("w{r}.enter"),
                _ => format!("r{r}.loop{}", d - 1),
            };
            out.line(&format!("br label %{next}"));
        }
    }

    /// The row's work-items one after the other, from the first that is in no pack.
    fn open_row(&self, out: &mut Writer) {
        let r = self.number;
        let starts = match &self.region.wide {
            Some(wide) => format!("[ 0, %w{r}.enter ], [ %packed{}, %w{r}.rest ]", wide.lanes),
            None => format!("[ 0, %r{r}.loop1 ]"),
        };
        out.label(&format!("r{r}.loop0"));
        out.line(&format!("%r{r}.local.0 = phi i64 {starts}, [ %r{r}.step.0, %r{r}.latch ]"));
        out.line(&format!("%r{r}.item = add nuw nsw i64 %r{r}.row, %r{r}.local.0"));
        out.line(&format!("br label %r{r}.b1"));
    }

    /// The row's full packs.
    fn packs(&self, text: &RegionText, lanes: u32, out: &mut Writer) {
        let r = self.number;
        out.label(&format!("w{r}.enter"));
        out.line(&format!("%w{r}.some = icmp ne i64 %packed{lanes}, 0"));
        out.line(&format!("br i1 %w{r}.some, label %w{r}.loop, label %r{r}.loop0"));
        out.label(&format!("w{r}.loop"));
        out.line(&format!("%w{r}.local.0 = phi i64 [ 0, %w{r}.enter ], [ %w{r}.step, %w{r}.latch ]"));
        for d in [1, 2] {
            out.line(&format!("%w{r}.local.{d} = add i64 %r{r}.local.{d}, 0"));
        }
        out.line(&format!("%w{r}.item = add nuw nsw i64 %r{r}.row, %w{r}.local.0"));
        out.line(&format!("br label %w{r}.b1"));
        for block in text.body.block_ids().skip(1) {
            self.write_block(text, block, out);
        }
        out.label(&format!("w{r}.latch"));
        out.line(&format!("%w{r}.step = add nuw nsw i64 %w{r}.local.0, {lanes}"));
        out.line(&format!("%w{r}.more = icmp ult i64 %w{r}.step, %packed{lanes}"));
        out.line(&format!(
            "br i1 %w{r}.more, label %w{r}.loop, label %w{r}.rest, !llvm.loop !{}",
            access_group(r) + 5
        ));
        out.label(&format!("w{r}.rest"));
        out.line(&format!("%w{r}.left = icmp ult i64 %packed{lanes}, %local_size.0"));
        out.line(&format!("br i1 %w{r}.left, label %r{r}.loop0, label %r{r}.next1"));
    }

    /// Every group has at least one work-item, so the loops test at their ends.
    fn close_loops(&self, out: &mut Writer) {
        let r = self.number;
        for d in 0..3 {
            if d > 0 {
                out.label(&format!("r{r}.next{d}"));
            }
            out.line(&format!("%r{r}.step.{d} = add nuw nsw i64 %r{r}.local.{d}, 1"));
            out.line(&format!("%r{r}.more.{d} = icmp ult i64 %r{r}.step.{d}, %local_size.{d}"));
            let out_of = if d == 2 { "end".into() } else { format!("next{}", d + 1) };
            out.line(&format!(
                "br i1 %r{r}.more.{d}, label %r{r}.loop{d}, label %r{r}.{out_of}, !llvm.loop !{}",
                access_group(r) + 2 + d
            ));
        }
    }

    fn write_block(&self, text: &RegionText, block: Block, out: &mut Writer) {
        let r = text.prefix;
        out.label(&format!("{r}.{block}"));
        self.write_phis(text, block, out);
        let data = text.body.block(block);
        data.insts.iter().for_each(|&inst| text.write(inst, out));
        let targets = data.terminator.targets();
        let label = |k: usize| edge_label(r, block, &targets, k);
        match &data.terminator {
            Terminator::Jump(_) | Terminator::Barrier(_) => out.line(&format!("br label %{}", label(0))),
            Terminator::Branch { condition, .. } => {
                let condition = text.text(*condition);
                out.line(&format!("br i1 {condition}, label %{}, label %{}", label(0), label(1)));
            }
            Terminator::Switch { value, cases, .. } => {
                let ty = llvm_type(text.body.ty(*value));
                let arms: Vec<String> = (cases.iter().enumerate())
                    .map(|(k, (case, _))| format!("{ty} {case}, label %{}", label(k)))
                    .collect();
                let (value, default) = (text.typed(*value), label(cases.len()));
                out.line(&format!("switch {value}, label %{default} [ {} ]", arms.join(" ")));
            }
            Terminator::Exit(k) => {
                if self.region.exits.len() > 1 && Some(*k as usize) != self.return_exit() {
                    out.line(&format!("store i32 {k}, ptr %exit"));
                }
                out.line(&format!("br label %{r}.latch"));
            }
            Terminator::Return(_) => out.line(&format!("br label %{r}.latch")),
            Terminator::Unreachable => out.line("unreachable"),
        }
        for k in (0..targets.len()).filter(|&k| needs_edge_block(&targets, k)) {
            out.label(&label(k));
            out.line(&format!("br label %{r}.{}", targets[k].block));
        }
    }

    fn write_phis(&self, text: &RegionText, block: Block, out: &mut Writer) {
        let params = &text.body.block(block).params;
        if params.is_empty() {
            return;
        }
        let mut incoming: Vec<Vec<String>> = vec![Vec::new(); params.len()];
        for from in text.body.block_ids() {
            let targets = text.body.block(from).terminator.targets();
            for (k, target) in targets.iter().enumerate().filter(|(_, t)| t.block == block) {
                let edge = edge_label(text.prefix, from, &targets, k);
                let from =
                    if needs_edge_block(&targets, k) { edge } else { format!("{}.{from}", text.prefix) };
                for (list, &argument) in incoming.iter_mut().zip(&target.arguments) {
                    list.push(format!("[ {}, %{from} ]", text.text(argument)));
                }
            }
        }
        for (&param, list) in params.iter().zip(incoming) {
            let ty = llvm_type(text.body.ty(param));
            out.line(&format!("{} = phi {ty} {}", text.text(param), list.join(", ")));
        }
    }

    /// From the region's end to where the group goes next.
    fn leave(&self, out: &mut Writer) {
        let r = self.number;
        match self.region.exits.as_slice() {
            // Every work-item ends in an infinite loop or in undefined behaviour.
            [] => out.line("unreachable"),
            [only] => self.go(only, "", out),
            several => {
                out.line(&format!("%r{r}.exit = load i32, ptr %exit"));
                let arms: Vec<String> =
                    (1..several.len()).map(|k| format!("i32 {k}, label %r{r}.exit{k}")).collect();
                out.line(&format!("switch i32 %r{r}.exit, label %r{r}.exit0 [ {} ]", arms.join(" ")));
                for (k, exit) in several.iter().enumerate() {
                    out.label(&format!("r{r}.exit{k}"));
                    self.go(exit, &format!(".{k}"), out);
                }
            }
        }
    }

    fn go(&self, exit: &RegionExit, suffix: &str, out: &mut Writer) {
        let r = self.number;
        match exit {
            RegionExit::Return => out.line("br label %group.end"),
            RegionExit::Region(to) => out.line(&format!("br label %r{to}")),
            RegionExit::Choice { condition, cases, default } => {
                let ContextKind::Uniform(ty) = &self.group.context[condition.0 as usize] else {
                    unreachable!("a choice depends on a uniform value")
                };
                let ty = llvm_type(ty);
                out.line(&format!("%r{r}.choice{suffix} = load {ty}, ptr %context{}", condition.0));
                let arms: Vec<String> =
                    cases.iter().map(|(value, to)| format!("{ty} {value}, label %r{to}")).collect();
                let arms = arms.join(" ");
                out.line(&format!("switch {ty} %r{r}.choice{suffix}, label %r{default} [ {arms} ]"));
            }
        }
    }
}

/// LLVM has one entry per predecessor in a phi: a second edge between two blocks gets a block of its own.
fn needs_edge_block(targets: &[&Target], k: usize) -> bool {
    let same = targets.iter().filter(|t| t.block == targets[k].block).count();
    same > 1 && !targets[k].arguments.is_empty()
}

fn edge_label(prefix: &str, from: Block, targets: &[&Target], k: usize) -> String {
    if needs_edge_block(targets, k) {
        format!("{prefix}.{from}.e{k}")
    } else {
        format!("{prefix}.{}", targets[k].block)
    }
}
