//! Clean-up: what a kernel asks of its images' formats is answered, where they are known. What the library does for any other goes then: of
//! a kernel that reads images, that is most of it.

use super::harden::kernel_symbol;
use super::import::walked;
use crate::llvm::{Edit, Module, Value};
use inkwell::llvm_sys::LLVMOpcode;
use spirula_interface::ImageDescriptor;
use spirula_interface::image_formats::ImageFormats;
use spirula_interface::program::{ArgumentKind, KernelSignature};
use std::mem::offset_of;

/// Where a descriptor has its format.
const ORDER: usize = offset_of!(ImageDescriptor, channel_order);
const TYPE: usize = offset_of!(ImageDescriptor, channel_type);

/// The formats that a kernel's images have in all launches that code is for.
#[derive(Clone, Copy, Debug)]
pub struct KnownFormats<'a> {
    /// Its name in the program.
    pub kernel: &'a str,
    /// Those that are known.
    pub formats: ImageFormats,
}

impl KnownFormats<'_> {
    /// Replaces what the kernel itself loads of the formats. (What it calls is asked again once it is inlined.)
    pub(super) fn tell(&self, module: &mut Module, kernels: &[KernelSignature]) {
        let Some(signature) = kernels.iter().find(|kernel| kernel.name == self.kernel) else { return };
        module.edit(|edit| {
            let symbol = kernel_symbol(self.kernel);
            let defined = edit.defined_functions().into_iter();
            let Some(kernel) = defined.into_iter().find(|function| function.name() == symbol) else { return };
            let arguments = std::iter::zip(&signature.arguments, kernel.parameters());
            let images =
                arguments.filter(|(argument, _)| matches!(argument.kind, ArgumentKind::Image { .. }));
            for (number, (_, image)) in images.enumerate() {
                if let Some(format) = self.formats.get(number) {
                    answer(edit, *image, format);
                }
            }
        });
    }
}

/// Replaces loads of an image's format by it.
fn answer<'e>(edit: Edit<'e>, image: Value<'e>, (order, ty): (u32, u32)) {
    let layout = edit.layout();
    let mut addresses = vec![(image, 0_i64)];
    while let Some((address, offset)) = addresses.pop() {
        for user in address.users() {
            let Some(inst) = user.as_instruction().filter(|_| user.operand(0) == Some(address)) else {
                continue;
            };
            match inst.opcode() {
                LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast => addresses.push((user, offset)),
                LLVMOpcode::LLVMGetElementPtr => {
                    addresses.extend(walked(user, layout).map(|walked| (user, offset.wrapping_add(walked))));
                }
                LLVMOpcode::LLVMLoad if user.ty().is_integer() && user.ty().integer_width() == 32 => {
                    let known = match usize::try_from(offset) {
                        Ok(ORDER) => order,
                        Ok(TYPE) => ty,
                        _ => continue,
                    };
                    edit.replace_in(&user.users(), user, user.ty().integer(known.into()));
                }
                _ => {}
            }
        }
    }
}
