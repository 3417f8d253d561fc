//! Emission: the work-group function around the regions: the loop over groups, the loops over work-items, the way from
//! region to region.

use super::instruction::{RegionText, access_group};
use super::layout::{Layout, SCRATCH_ALIGN, SlotPlace};
use super::types::llvm_type;
use crate::kir::{Block, Function, Passing, Slot, Target, Terminator};
use crate::program::Launch;
use crate::transform::{ContextKind, ContextSlot, Region, RegionExit, WorkGroup};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::mem::offset_of;

/// LLVM IR text under construction.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    declarations: BTreeSet<String>,
    names: usize,
}

impl Writer {
    /// An instruction on a line of its own.
    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str("  ");
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn label(&mut self, name: &str) {
        self.text.push_str(name);
        self.text.push_str(":\n");
    }

    /// A declaration, once.
    pub(super) fn declare(&mut self, text: String) {
        self.declarations.insert(text);
    }

    /// A number that no name of this function has yet.
    pub(super) fn unique(&mut self) -> usize {
        self.names += 1;
        self.names
    }
}

/// The definition of `symbol` with all that it declares.
pub(super) fn emit(group: &WorkGroup, layout: &Layout, symbol: &str) -> String {
    let mut out = Writer::default();
    let _ = writeln!(
        out.text,
        "define void @\"{symbol}\"(ptr noalias nonnull readonly align 128 %arguments, ptr noalias nonnull readonly \
         align 8 %launch, i64 %first_group, i64 %end_group, ptr noalias nonnull align 128 %local_memory, ptr noalias \
         nonnull align 128 %scratch) nounwind {{\nentry:"
    );
    let Some(first) = group.regions.first() else { return String::new() };
    read_launch(&first.body, &mut out);
    read_arguments(&first.body, &mut out);
    place_context(group, layout, &first.body, &mut out);
    loop_over_groups(&mut out);
    for (number, region) in group.regions.iter().enumerate() {
        RegionWriter { number, region, group, layout }.write(&mut out);
    }
    out.label("group.end");
    next_group(&mut out);
    out.text.push_str("}\n\n");
    write_metadata(group, &mut out);
    let declarations = out.declarations.iter().fold(String::new(), |text, d| text + d + "\n");
    format!("{declarations}\n{}", out.text)
}

/// The launch's sizes; the group's are constants if the kernel requires them.
fn read_launch(body: &Function, out: &mut Writer) {
    out.line("%work_dim = load i32, ptr %launch, align 8");
    let arrays = [
        ("global_offset", offset_of!(Launch, global_offset)),
        ("global_size", offset_of!(Launch, global_size)),
        ("local_size", offset_of!(Launch, local_size)),
        ("group_count", offset_of!(Launch, group_count)),
    ];
    for (name, at) in arrays {
        for d in 0..3 {
            let required = body.required_work_group_size.filter(|_| name == "local_size");
            if let Some(size) = required {
                out.line(&format!("%{name}.{d} = add i64 {}, 0", size[d]));
            } else {
                out.line(&format!("%{name}.{d}.p = getelementptr i8, ptr %launch, i64 {}", at + 8 * d));
                out.line(&format!("%{name}.{d} = load i64, ptr %{name}.{d}.p, align 8"));
            }
        }
    }
    out.line("%items.row = mul nuw nsw i64 %local_size.0, %local_size.1");
    out.line("%items = mul nuw nsw i64 %items.row, %local_size.2");
    out.line(&format!("%items.up = add nuw nsw i64 %items, {}", SCRATCH_ALIGN - 1));
    out.line(&format!("%items.padded = and i64 %items.up, -{SCRATCH_ALIGN}"));
}

fn read_arguments(body: &Function, out: &mut Writer) {
    for (n, param) in body.params.iter().enumerate() {
        let ty = body.ty(param.value);
        let source =
            if param.passing == Passing::ByAddress { format!("%arg{n}") } else { format!("%arg{n}.p") };
        out.line(&format!("{source} = getelementptr inbounds i8, ptr %arguments, i64 {}", param.offset));
        match param.passing {
            Passing::ByAddress => {}
            Passing::Direct => {
                let offset_align = 1 << param.offset.trailing_zeros().min(7);
                let align = ty.align().min(offset_align);
                out.line(&format!("%arg{n} = load {}, ptr {source}, align {align}", llvm_type(ty)));
            }
            Passing::LocalOffset => {
                out.line(&format!("%arg{n}.o = load i64, ptr {source}, align 8"));
                out.line(&format!("%arg{n} = getelementptr inbounds i8, ptr %local_memory, i64 %arg{n}.o"));
            }
        }
    }
}

/// Addresses of the context slots' arrays and of the private slots; uniform slots are registers to be.
fn place_context(group: &WorkGroup, layout: &Layout, body: &Function, out: &mut Writer) {
    for (i, kind) in group.context.iter().enumerate() {
        if let ContextKind::Uniform(ty) = kind {
            out.line(&format!("%context{i} = alloca {}", llvm_type(ty)));
        } else {
            let before = layout.before(ContextSlot(i as u32));
            out.line(&format!("%context{i}.o = mul nuw nsw i64 %items.padded, {before}"));
            out.line(&format!("%context{i} = getelementptr inbounds i8, ptr %scratch, i64 %context{i}.o"));
        }
    }
    for (i, slot) in body.slots.iter().enumerate() {
        match layout.slot(Slot(i as u32)) {
            SlotPlace::Nowhere => {}
            SlotPlace::Stack => {
                out.line(&format!("%slot{i} = alloca [{} x i8], align {}", slot.size, slot.align.max(1)));
            }
            SlotPlace::Scratch(at) => {
                out.line(&format!("%slot{i}.o = mul nuw nsw i64 %items.padded, {}", layout.per_item));
                out.line(&format!("%slot{i}.a = add nuw nsw i64 %slot{i}.o, {at}"));
                out.line(&format!("%slot{i} = getelementptr inbounds i8, ptr %scratch, i64 %slot{i}.a"));
            }
        }
    }
    if group.regions.iter().any(|r| r.exits.len() > 1) {
        out.line("%exit = alloca i32");
    }
}

fn loop_over_groups(out: &mut Writer) {
    for line in ["%some = icmp ult i64 %first_group, %end_group", "br i1 %some, label %groups, label %done"] {
        out.line(line);
    }
    out.label("done");
    out.line("ret void");
    out.label("groups");
    for line in [
        "%first.0 = urem i64 %first_group, %group_count.0",
        "%first.rest = udiv i64 %first_group, %group_count.0",
        "%first.1 = urem i64 %first.rest, %group_count.1",
        "%first.2 = udiv i64 %first.rest, %group_count.1",
        "br label %group.start",
    ] {
        out.line(line);
    }
    out.label("group.start");
    out.line("%group.linear = phi i64 [ %first_group, %groups ], [ %next.linear, %group.end ]");
    for d in 0..3 {
        out.line(&format!("%group.{d} = phi i64 [ %first.{d}, %groups ], [ %next.{d}, %group.end ]"));
    }
    for d in 0..3 {
        out.line(&format!("%start.{d} = mul nuw nsw i64 %group.{d}, %local_size.{d}"));
        out.line(&format!("%base.{d} = add nuw nsw i64 %start.{d}, %global_offset.{d}"));
    }
    out.line("br label %r0");
}

fn next_group(out: &mut Writer) {
    for line in [
        "%next.linear = add nuw i64 %group.linear, 1",
        "%step.0 = add nuw i64 %group.0, 1",
        "%wrap.0 = icmp eq i64 %step.0, %group_count.0",
        "%next.0 = select i1 %wrap.0, i64 0, i64 %step.0",
        "%carry.1 = zext i1 %wrap.0 to i64",
        "%step.1 = add nuw i64 %group.1, %carry.1",
        "%wrap.1 = icmp eq i64 %step.1, %group_count.1",
        "%next.1 = select i1 %wrap.1, i64 0, i64 %step.1",
        "%carry.2 = zext i1 %wrap.1 to i64",
        "%next.2 = add nuw i64 %group.2, %carry.2",
        "%more = icmp ult i64 %next.linear, %end_group",
        "br i1 %more, label %group.start, label %done",
    ] {
        out.line(line);
    }
}

struct RegionWriter<'a> {
    number: usize,
    region: &'a Region,
    group: &'a WorkGroup,
    layout: &'a Layout,
}

impl RegionWriter<'_> {
    fn write(&self, out: &mut Writer) {
        let place = |slot| self.layout.slot(slot);
        let body = &self.region.body;
        let text = RegionText { number: self.number, body, context: &self.group.context, place: &place };
        let r = self.number;
        out.label(&format!("r{r}"));
        if self.region.exits.len() > 1 {
            out.line(&format!("store i32 {}, ptr %exit", self.return_exit().unwrap_or(0)));
        }
        body.block(Block(0)).insts.iter().for_each(|&inst| text.write(inst, out));
        if self.region.once {
            out.line(&format!("br label %r{r}.b1"));
        } else {
            self.open_loops(out);
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
        for d in [2, 1, 0] {
            let from = if d == 2 { format!("r{r}") } else { format!("r{r}.loop{}", d + 1) };
            let latch = if d == 0 { format!("r{r}.latch") } else { format!("r{r}.next{d}") };
            out.label(&format!("r{r}.loop{d}"));
            out.line(&format!("%r{r}.local.{d} = phi i64 [ 0, %{from} ], [ %r{r}.step.{d}, %{latch} ]"));
            if d == 1 {
                out.line(&format!("%r{r}.plane = mul nuw nsw i64 %r{r}.local.2, %local_size.1"));
                out.line(&format!("%r{r}.line = add nuw nsw i64 %r{r}.plane, %r{r}.local.1"));
                out.line(&format!("%r{r}.row = mul nuw nsw i64 %r{r}.line, %local_size.0"));
            }
            if d == 0 {
                out.line(&format!("%r{r}.item = add nuw nsw i64 %r{r}.row, %r{r}.local.0"));
            }
            let next = if d == 0 { "b1".into() } else { format!("loop{}", d - 1) };
            out.line(&format!("br label %r{r}.{next}"));
        }
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
        let r = self.number;
        out.label(&format!("r{r}.{block}"));
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
                out.line(&format!("br label %r{r}.latch"));
            }
            Terminator::Return => out.line(&format!("br label %r{r}.latch")),
            Terminator::Unreachable => out.line("unreachable"),
        }
        for k in (0..targets.len()).filter(|&k| needs_edge_block(&targets, k)) {
            out.label(&label(k));
            out.line(&format!("br label %r{r}.{}", targets[k].block));
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
                let edge = edge_label(self.number, from, &targets, k);
                let from =
                    if needs_edge_block(&targets, k) { edge } else { format!("r{}.{from}", self.number) };
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

fn edge_label(region: usize, from: Block, targets: &[&Target], k: usize) -> String {
    if needs_edge_block(targets, k) {
        format!("r{region}.{from}.e{k}")
    } else {
        format!("r{region}.{}", targets[k].block)
    }
}

/// Alias scopes 10 to 15 (the five address spaces and the context), their complements 20 to 25, and for each region an access group
/// and its loops' metadata.
fn write_metadata(group: &WorkGroup, out: &mut Writer) {
    let text = &mut out.text;
    let names = ["private", "global", "constant", "local", "generic", "context"];
    let _ = writeln!(text, "!0 = !{{}}\n!1 = distinct !{{!1, !\"spirula\"}}");
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(text, "!{} = distinct !{{!{}, !1, !\"{name}\"}}", 30 + i, 30 + i);
        let _ = writeln!(text, "!{} = !{{!{}}}", 10 + i, 30 + i);
        let others: Vec<String> =
            (0..names.len()).filter(|&o| o != i && o != 4).map(|o| format!("!{}", 30 + o)).collect();
        let _ = writeln!(text, "!{} = !{{{}}}", 20 + i, others.join(", "));
    }
    for (r, _) in group.regions.iter().enumerate().filter(|(_, region)| !region.once) {
        let (accesses, parallel) = (access_group(r), access_group(r) + 1);
        let _ = writeln!(text, "!{accesses} = distinct !{{}}");
        let _ = writeln!(text, "!{parallel} = !{{!\"llvm.loop.parallel_accesses\", !{accesses}}}");
        for d in 0..3 {
            let id = parallel + 1 + d;
            let _ = writeln!(text, "!{id} = distinct !{{!{id}, !{parallel}}}");
        }
    }
    for (r, _) in group.regions.iter().enumerate().filter(|(_, region)| region.once) {
        let _ = writeln!(text, "!{} = distinct !{{}}", access_group(r));
    }
}
