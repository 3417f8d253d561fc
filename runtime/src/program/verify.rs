//! What the runtime relies on in the description of a compiled program, whether that comes out of a program binary, which
//! may be forged, or from the compiler process. The code itself is the loader's to check.

use crate::execute::arena::BLOCK_ALIGN;
use crate::platform::device::DeviceInfo;
use spirula_interface::printf::{Argument, Printf, conversions};
use spirula_interface::program::{
    ArgumentKind, CompiledProgram, HiddenArgument, HiddenKind, KernelInfo, KernelSignature,
};
use std::collections::HashSet;

/// Bytes of a kernel's arguments at most, those that Spirula adds and gaps included: many times what the device promises
/// (CL_DEVICE_MAX_PARAMETER_SIZE), so that nothing is refused that might work, and yet no matter for each launch.
const MAX_ARGUMENT_BLOCK: u32 = 64 << 10;
/// Work-items that run together at most: bytes in the widest registers.
const MAX_LANES: u32 = 64;
/// Bytes of what printf converts at once at most: OpenCL's largest type.
const MAX_PRINTED: u32 = 128;

/// What can't be right in the program's description, in a sentence that names the kernel.
pub(super) fn verify(compiled: &CompiledProgram, device: &DeviceInfo) -> Result<(), String> {
    let (addresses, own) = (compiled.data.addresses.number(), device.addresses.number());
    if addresses != own {
        return Err(format!("the program has pointers of {addresses} bits; the device has {own}"));
    }
    let mut names = HashSet::new();
    for kernel in &compiled.kernels {
        let name = kernel.signature.name.escape_debug();
        verify_kernel(kernel, device).map_err(|what| format!("the kernel `{name}` {what}"))?;
        if !names.insert(&kernel.signature.name) {
            return Err(format!("there are two kernels `{name}`"));
        }
    }
    Ok(())
}

fn verify_kernel(kernel: &KernelInfo, device: &DeviceInfo) -> Result<(), String> {
    let KernelInfo { signature, code } = kernel;
    if signature.name.is_empty() || signature.name.contains('\0') {
        return Err("has a name that an application can't write".into());
    }
    let end = verify_arguments(signature)?;
    verify_hidden(signature, end)?;
    verify_block(signature)?;
    if let Some(printf) = &signature.printf {
        verify_printf(printf)?;
        if signature.hidden_offset(HiddenKind::PrintfBuffer).is_none() {
            return Err("prints, but takes no buffer for it".into());
        }
    }
    if signature.required_work_group_size.is_some_and(|size| size.contains(&0)) {
        return Err("requires work-groups without work-items".into());
    }
    if !code.sub_group_size.is_power_of_two() || code.sub_group_size > MAX_LANES {
        return Err(format!("has sub-groups of {} work-items", code.sub_group_size));
    }
    if !code.lanes.is_power_of_two() || code.lanes > MAX_LANES {
        return Err(format!("runs {} work-items together", code.lanes));
    }
    if code.row_dimension > 2 {
        return Err(format!("has rows along dimension {}", code.row_dimension));
    }
    let odd = code.alternatives.iter().filter_map(|other| other.lanes);
    if let Some(lanes) = odd.into_iter().find(|lanes| !lanes.is_power_of_two() || *lanes > MAX_LANES) {
        return Err(format!("might run {lanes} work-items together"));
    }
    let memory = [
        ("local", code.static_local_size),
        ("private", code.private_size),
        // Of the smallest work-group.
        ("scratch", code.scratch_size(1)),
    ];
    let most = device.max_mem_alloc_size;
    match memory.iter().find(|(_, size)| *size > most) {
        Some((what, size)) => Err(format!("needs {size} bytes of {what} memory; the device has {most}")),
        None => Ok(()),
    }
}

/// Arguments lie in their order in the argument block, none upon another. Returns where the last one ends.
fn verify_arguments(signature: &KernelSignature) -> Result<u32, String> {
    let block = signature.argument_block_size;
    if block > MAX_ARGUMENT_BLOCK {
        return Err(format!("takes {block} bytes of arguments; {MAX_ARGUMENT_BLOCK} are possible"));
    }
    signature.arguments.iter().enumerate().try_fold(0_u32, |end, (index, argument)| {
        let (offset, size) = (argument.offset, argument.kind.block_size());
        let inside = offset.checked_add(size).filter(|&next| offset >= end && next <= block);
        inside.ok_or_else(|| {
            format!("has an argument {index} of {size} bytes at {offset}, between {end} and {block}")
        })
    })
}

/// Hidden arguments lie behind the application's in the same way, each kind once.
fn verify_hidden(signature: &KernelSignature, arguments_end: u32) -> Result<(), String> {
    let block = signature.argument_block_size;
    let mut end = arguments_end;
    for HiddenArgument { kind, offset } in &signature.hidden {
        if signature.hidden_offset(*kind) != Some(*offset) {
            return Err(format!("takes the {kind:?} twice"));
        }
        let next = offset.checked_add(HiddenArgument::BYTES);
        end = next
            .filter(|&next| *offset >= end && next <= block)
            .ok_or_else(|| format!("has the {kind:?} at {offset}, between {end} and {block}"))?;
    }
    Ok(())
}

/// A block's captures lie behind all of its arguments, which are in local memory.
fn verify_block(signature: &KernelSignature) -> Result<(), String> {
    let Some(captures) = signature.block else { return Ok(()) };
    let local = signature.arguments.iter().all(|argument| argument.kind == ArgumentKind::Local);
    match local && captures == signature.argument_block_size && captures.is_multiple_of(BLOCK_ALIGN as u32) {
        true => Ok(()),
        false => Err(format!(
            "is a block's with captures at {captures} behind {} bytes, and other arguments than blocks have",
            signature.argument_block_size
        )),
    }
}

/// The arguments that a call converts have sizes that there are.
fn verify_printf(printf: &Printf) -> Result<(), String> {
    for (number, call) in &printf.calls {
        let sized = |argument: &Argument| match argument {
            Argument::Bytes(size) => (1..=MAX_PRINTED).contains(size),
            Argument::Known(_) | Argument::Copied => true,
        };
        let counted = call.arguments.len() <= conversions(&call.format).len();
        if !counted || !call.arguments.iter().all(sized) {
            return Err(format!(
                "has a call {number} of printf whose arguments and format contradict each other"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::{context, info};
    use spirula_interface::printf::Call;
    use spirula_interface::program::{Alternative, ArgumentKind, ProgramData};

    fn program(kernels: Vec<KernelInfo>) -> CompiledProgram {
        CompiledProgram { objects: Vec::new(), kernels, data: ProgramData::default(), log: String::new() }
    }

    /// Two arguments of 8 bytes at 0 and 16, and printf's buffer at 32.
    fn kernel() -> KernelInfo {
        let arguments = vec![Argument::Bytes(4), Argument::Known(b"x".to_vec()), Argument::Copied];
        let call = Call { format: b"%d%s%s".to_vec(), arguments };
        let KernelInfo { signature, code } =
            info("good", &[ArgumentKind::Buffer, ArgumentKind::Value { size: 16 }]);
        let signature = KernelSignature {
            argument_block_size: 40,
            hidden: vec![HiddenArgument { kind: HiddenKind::PrintfBuffer, offset: 32 }],
            printf: Some(Printf { calls: [(0, call)].into() }),
            required_work_group_size: Some([1, 2, 3]),
            ..signature
        };
        KernelInfo { signature, code }
    }

    fn printf(kernel: &mut KernelInfo) -> &mut Printf {
        kernel.signature.printf.as_mut().expect("it prints")
    }

    fn call(kernel: &mut KernelInfo) -> &mut Call {
        printf(kernel).calls.get_mut(&0).expect("its call")
    }

    fn other(lanes: Option<u32>) -> Alternative {
        Alternative { lanes, percent: 100 }
    }

    #[test]
    fn each_contradiction_is_named() {
        let context = context();
        let device = &context.device().info;
        assert_eq!(verify(&program(vec![kernel()]), device), Ok(()));
        let mut tuned = kernel();
        tuned.code.alternatives = vec![other(None), other(Some(1)), other(Some(64))];
        assert_eq!(verify(&program(vec![tuned]), device), Ok(()));
        type Case = (fn(&mut KernelInfo), &'static str);
        let cases: [Case; 29] = [
            (|k| k.signature.name.clear(), "a name that"),
            (|k| k.signature.name = "a\0b".into(), "the kernel `a\\0b` has a name that"),
            (|k| k.signature.arguments[0].offset = 9, "an argument 1 of 16 bytes at 16, between 17 and 40"),
            (|k| k.signature.arguments[1].offset = 0, "an argument 1 of 16 bytes at 0, between 8 and 40"),
            (|k| k.signature.arguments[1].offset = 25, "an argument 1 of 16 bytes at 25, between 8 and 40"),
            (|k| k.signature.arguments[1].offset = u32::MAX, "an argument 1"),
            (
                |k| k.signature.arguments[1].kind = ArgumentKind::Value { size: u32::MAX },
                "an argument 1 of 4294967295",
            ),
            (|k| k.signature.argument_block_size = 31, "an argument 1 of 16 bytes at 16, between 8 and 31"),
            (|k| k.signature.argument_block_size = 65537, "takes 65537 bytes of arguments; 65536"),
            (|k| k.signature.hidden[0].offset = 31, "the PrintfBuffer at 31, between 32 and 40"),
            (|k| k.signature.hidden[0].offset = 33, "the PrintfBuffer at 33, between 32 and 40"),
            (|k| k.signature.hidden[0].offset = u32::MAX, "the PrintfBuffer at 4294967295"),
            (
                |k| k.signature.hidden.push(HiddenArgument { offset: 48, ..k.signature.hidden[0] }),
                "the PrintfBuffer twice",
            ),
            (|k| k.signature.hidden.clear(), "takes no buffer"),
            (|k| call(k).arguments[0] = Argument::Bytes(0), "a call 0 of printf"),
            (|k| call(k).arguments[0] = Argument::Bytes(129), "a call 0 of printf"),
            (|k| call(k).arguments.push(Argument::Copied), "a call 0 of printf"),
            (|k| k.signature.required_work_group_size = Some([4, 0, 4]), "without work-items"),
            (|k| k.code.sub_group_size = 0, "has sub-groups of 0 work-items"),
            (|k| k.code.lanes = 0, "runs 0 work-items"),
            (|k| k.code.lanes = 48, "runs 48 work-items"),
            (|k| k.code.lanes = 128, "runs 128 work-items"),
            (|k| k.code.alternatives = vec![other(Some(16)), other(Some(0))], "might run 0 work-items"),
            (|k| k.code.alternatives = vec![other(Some(24))], "might run 24 work-items"),
            (|k| k.code.alternatives = vec![other(None), other(Some(128))], "might run 128 work-items"),
            (|k| k.code.row_dimension = 3, "rows along dimension 3"),
            (|k| k.code.static_local_size = u64::MAX, "bytes of local memory"),
            (|k| k.code.private_size = 1 << 60, "bytes of private memory"),
            (
                |k| k.code.scratch_per_item = u64::MAX / 128 + 1,
                "needs 18446744073709551615 bytes of scratch memory",
            ),
        ];
        for (number, (damage, expected)) in cases.iter().enumerate() {
            let mut bad = kernel();
            damage(&mut bad);
            let said = verify(&program(vec![kernel(), bad]), device).expect_err(expected);
            assert!(said.contains(expected), "case {number}: {said}");
        }
        let said = verify(&program(vec![kernel(), kernel()]), device).unwrap_err();
        assert_eq!(said, "there are two kernels `good`");
    }
}
