//! Emission: the work-group function around the regions: arguments, memory, the loop over groups.

use super::instruction::access_group;
use super::layout::{Layout, SCRATCH_ALIGN, SlotPlace};
use super::region::RegionWriter;
use super::streaming::{publish, read_wish};
use super::types::llvm_type;
use spirula_interface::program::Launch;
use spirula_kir::ContextSlot;
use spirula_kir::analysis::ID_LIMIT;
use spirula_kir::transform::widen::VectorTarget;
use spirula_kir::transform::{ContextKind, WorkGroup};
use spirula_kir::{Function, Passing, Slot};
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

    /// Begins a block.
    pub(super) fn label(&mut self, name: &str) {
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
pub(super) fn emit(group: &WorkGroup, layout: &Layout, symbol: &str, target: VectorTarget) -> String {
    let mut out = Writer::default();
    let _ = writeln!(
        out.text,
        "define void @\"{symbol}\"(ptr noalias nonnull readonly align 128 %arguments, ptr noalias nonnull readonly \
         align 8 %launch, i64 %first_group, i64 %end_group, ptr noalias nonnull align 128 %local_memory, ptr noalias \
         nonnull align 128 %scratch) nounwind {{\nentry:"
    );
    let Some(first) = group.regions.first() else { return String::new() };
    read_launch(&first.body, &mut out);
    if group.streams {
        read_wish(&mut out);
    }
    read_arguments(&first.body, &mut out);
    place_context(group, layout, &first.body, &mut out);
    count_packs(group, &mut out);
    loop_over_groups(group, &mut out);
    for (number, region) in group.regions.iter().enumerate() {
        RegionWriter::new(number, region, group, (layout, target)).write(&mut out);
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
    for i in 0..body.slots.len() {
        match layout.slot(Slot(i as u32)) {
            SlotPlace::Nowhere => {}
            SlotPlace::Stack { size, align } => {
                out.line(&format!("%slot{i} = alloca [{size} x i8], align {align}"));
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

/// How many work-items of a row go in packs, for each number of lanes: all that fill one, if ids fit 32-bit arithmetic.
fn count_packs(group: &WorkGroup, out: &mut Writer) {
    let lanes: BTreeSet<u32> =
        group.regions.iter().filter_map(|r| r.wide.as_ref()).map(|wide| wide.lanes).collect();
    if lanes.is_empty() {
        return;
    }
    out.line("%small.0 = add i1 true, false");
    let sizes = (0..3).flat_map(|d| [format!("%global_offset.{d}"), format!("%global_size.{d}")]);
    for (i, size) in sizes.enumerate() {
        out.line(&format!("%small.{i}.c = icmp ule i64 {size}, {}", ID_LIMIT / 2));
        out.line(&format!("%small.{} = and i1 %small.{i}, %small.{i}.c", i + 1));
    }
    for n in lanes {
        out.line(&format!("%packed{n}.all = and i64 %local_size.0, -{n}"));
        out.line(&format!("%packed{n} = select i1 %small.6, i64 %packed{n}.all, i64 0"));
    }
}

fn loop_over_groups(group: &WorkGroup, out: &mut Writer) {
    for line in ["%some = icmp ult i64 %first_group, %end_group", "br i1 %some, label %groups, label %done"] {
        out.line(line);
    }
    out.label("done");
    if group.streams {
        publish(out);
    }
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

/// Alias scopes 10 to 15 (the five address spaces and the context), their complements 20 to 25, and for each region an access group
/// and its loops' metadata.
fn write_metadata(group: &WorkGroup, out: &mut Writer) {
    let text = &mut out.text;
    let names = ["private", "global", "constant", "local", "generic", "context"];
    let _ = writeln!(text, "!0 = !{{}}\n!1 = distinct !{{!1, !\"spirula\"}}");
    let _ = writeln!(text, "!2 = !{{!\"llvm.loop.vectorize.enable\", i1 false}}");
    let _ = writeln!(text, "!3 = !{{!\"llvm.loop.unroll.disable\"}}");
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(text, "!{} = distinct !{{!{}, !1, !\"{name}\"}}", 30 + i, 30 + i);
        let _ = writeln!(text, "!{} = !{{!{}}}", 10 + i, 30 + i);
        let others: Vec<String> =
            (0..names.len()).filter(|&o| o != i && o != 4).map(|o| format!("!{}", 30 + o)).collect();
        let _ = writeln!(text, "!{} = !{{{}}}", 20 + i, others.join(", "));
    }
    for (r, region) in group.regions.iter().enumerate().filter(|(_, region)| !region.once) {
        let (accesses, parallel) = (access_group(r), access_group(r) + 1);
        let _ = writeln!(text, "!{accesses} = distinct !{{}}");
        let _ = writeln!(text, "!{parallel} = !{{!\"llvm.loop.parallel_accesses\", !{accesses}}}");
        for d in 0..3 {
            let id = parallel + 1 + d;
            // The rest of a row that goes in packs is short, and copies of the loops around would be twice as long.
            let rest = match (d, &region.wide) {
                (_, None) => "",
                (0, _) => ", !2, !3",
                _ => ", !3",
            };
            let _ = writeln!(text, "!{id} = distinct !{{!{id}, !{parallel}{rest}}}");
        }
    }
    for (r, _) in group.regions.iter().enumerate().filter(|(_, region)| region.wide.is_some()) {
        let id = access_group(r) + 5;
        let _ = writeln!(text, "!{id} = distinct !{{!{id}, !2}}");
    }
    for (r, _) in group.regions.iter().enumerate().filter(|(_, region)| region.once) {
        let _ = writeln!(text, "!{} = distinct !{{}}", access_group(r));
    }
}
