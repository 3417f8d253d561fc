//! Metadata, to read.

use super::copy_text;
use super::function::Function;
use super::value::{Value, narrower};
use super::view::View;
use inkwell::llvm_sys::core::*;
use std::ffi::{CStr, c_uint};

narrower!(
    /// A metadata node: a list of values, strings and nodes.
    Node: Value
);

impl<'m> Value<'m> {
    pub(crate) fn as_node(self) -> Option<Node<'m>> {
        // SAFETY: may be asked of any value; null for what is no node.
        unsafe { !LLVMIsAMDNode(self.raw()).is_null() }.then_some(Node(self))
    }

    /// The text of a metadata string.
    pub(crate) fn metadata_string(self) -> Option<String> {
        let mut length = 0;
        // SAFETY: a string, whose bytes live with the context.
        unsafe {
            if LLVMIsAMDString(self.raw()).is_null() {
                return None;
            }
            let pointer = LLVMGetMDString(self.raw(), &mut length);
            Some(copy_text(pointer, length as usize))
        }
    }
}

impl<'m> Node<'m> {
    /// The operands; an absent one is `None`.
    pub(crate) fn operands(self) -> Vec<Option<Value<'m>>> {
        // SAFETY: a node; LLVM writes one entry for each counted operand.
        unsafe {
            let mut raw = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(self.raw()) as usize];
            LLVMGetMDNodeOperands(self.raw(), raw.as_mut_ptr());
            raw.into_iter().map(|raw| Value::from_raw(raw)).collect()
        }
    }

    /// Whether one of a loop's hints has a name that begins so.
    pub(crate) fn names_a_hint(self, prefix: &str) -> bool {
        let hints =
            self.operands().into_iter().flatten().filter_map(Value::as_node).filter(|&hint| hint != self);
        let mut names = hints.filter_map(|hint| hint.operands().first().copied()??.metadata_string());
        names.any(|name| name.starts_with(prefix))
    }
}

impl<'m> View<'m> {
    /// The nodes of named metadata such as `opencl.kernels`; empty if there is none.
    pub(crate) fn named_metadata(self, name: &CStr) -> Vec<Node<'m>> {
        // SAFETY: LLVM fills as many entries as it counts; nodes live as long as the context.
        let nodes: Vec<Value> = unsafe {
            let count = LLVMGetNamedMetadataNumOperands(self.raw(), name.as_ptr()) as usize;
            let mut operands = vec![std::ptr::null_mut(); count];
            LLVMGetNamedMetadataOperands(self.raw(), name.as_ptr(), operands.as_mut_ptr());
            operands.into_iter().filter_map(|raw| Value::from_raw(raw)).collect()
        };
        nodes.into_iter().filter_map(Value::as_node).collect()
    }

    /// Whether there is such named metadata, with nodes or without.
    pub(crate) fn has_named_metadata(self, name: &CStr) -> bool {
        // SAFETY: the name is passed with its length.
        unsafe { !LLVMGetNamedMetadata(self.raw(), name.as_ptr(), name.count_bytes()).is_null() }
    }
}

impl<'m> Function<'m> {
    /// The metadata attached to the function under a name.
    pub(crate) fn attachment(self, kind: &str) -> Option<Node<'m>> {
        let context = self.ty().context();
        let mut count = 0;
        // SAFETY: the kind is passed with its length; the list is the function's own attachments, disposed of once.
        let found = unsafe {
            let id = LLVMGetMDKindIDInContext(context, kind.as_ptr().cast(), kind.len() as c_uint);
            let entries = LLVMGlobalCopyAllMetadata(self.raw(), &mut count);
            let found = (0..count as c_uint)
                .find(|&i| LLVMValueMetadataEntriesGetKind(entries, i) == id)
                .map(|i| LLVMMetadataAsValue(context, LLVMValueMetadataEntriesGetMetadata(entries, i)));
            LLVMDisposeValueMetadataEntries(entries);
            found.and_then(|raw| Value::from_raw(raw))
        };
        found.and_then(Value::as_node)
    }
}
