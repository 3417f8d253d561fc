//! Emission: stores past the caches, where the launch asks for them and the address is that of whole lines.

use super::instruction::RegionText;
use super::types::llvm_type;
use super::work_group::Writer;
use spirula_interface::program::Launch;
use spirula_kir::Value;
use std::mem::offset_of;

/// Bytes of a cache line.
const LINE: u64 = 64;

impl RegionText<'_> {
    /// Writes the store as a call, for it needs blocks of its own; LLVM inlines it.
    pub(super) fn streaming_store(&self, pointer: Value, value: Value, align: u32, out: &mut Writer) {
        let (ty, bytes) = (llvm_type(self.body.ty(value)), self.body.ty(value).size());
        let whole = bytes.min(LINE);
        let callee = format!("@\"spirula.store.{}.{align}\"", ty.replace(['<', '>', ' '], ""));
        out.declare(format!(
            "define linkonce_odr void {callee}({ty} %value, ptr %to, i64 %streams) alwaysinline nounwind {{\n  \
             %address = ptrtoint ptr %to to i64\n  %within = and i64 %address, {}\n  \
             %wrong = xor i64 %within, %streams\n  %streaming = icmp eq i64 %wrong, 0\n  \
             br i1 %streaming, label %past, label %into\npast:\n  \
             store {ty} %value, ptr %to, align {whole}, !nontemporal !{{i32 1}}\n  ret void\ninto:\n  \
             store {ty} %value, ptr %to, align {align}\n  ret void\n}}",
            whole - 1,
        ));
        let access = self.access(self.space(pointer), false);
        let (value, pointer) = (self.typed(value), self.typed(pointer));
        out.line(&format!("call void {callee}({value}, {pointer}, i64 %streams){access}"));
    }
}

/// 0 if stores are to go past the caches, else what no address's lowest bits are: in this form it decides nothing that
/// does not change in a loop, so that LLVM does not write each loop twice.
pub(super) fn read_wish(out: &mut Writer) {
    out.line(&format!("%streams.p = getelementptr i8, ptr %launch, i64 {}", offset_of!(Launch, streams)));
    out.line("%streams.i = load i32, ptr %streams.p, align 4");
    out.line("%streams.z = zext i32 %streams.i to i64");
    out.line("%streams = sub nsw i64 %streams.z, 1");
}

/// Stores past the caches are seen by others before whatever this thread does next.
pub(super) fn publish(out: &mut Writer) {
    if cfg!(target_arch = "x86_64") {
        out.declare("declare void @llvm.x86.sse.sfence()".into());
        out.line("call void @llvm.x86.sse.sfence()");
    }
}
