//! The end of a build: the kernels are shared out among threads, each of which makes an object of its share.

use super::{Dump, KernelText, fault};
use crate::codegen;
use crate::large_stack;
use crate::llvm::{self, Module, Session};
use spirula_interface::options::CompileError;
use spirula_interface::target::Target;
use std::cmp::Reverse;

/// Bytes of work-group functions' text that are worth a thread: its own LLVM context costs a millisecond or two.
const MIN_SHARE: usize = 16 << 10;

/// Objects that together define the work-group functions. `rest` is what they call, in the session's context.
pub fn objects<'s>(
    session: &'s Session,
    rest: &mut Module<'s>,
    kernels: &[KernelText],
    machine: (&Target, bool),
    dump: Dump,
) -> Result<Vec<Vec<u8>>, CompileError> {
    let shares = share_out(kernels, if dump.is_wanted() { 1 } else { threads(kernels, machine.0) });
    let Some((own, others)) = shares.split_first() else { return Ok(Vec::new()) };
    let bitcode = if others.is_empty() { Vec::new() } else { llvm::write_bitcode(rest) };
    let elsewhere = |share: &[&KernelText]| {
        let session = Session::new();
        let mut rest = llvm::parse_bitcode(&session, &bitcode).map_err(|error| fault("a copy", &error))?;
        object(&session, &mut rest, share, machine, dump)
    };
    std::thread::scope(|scope| {
        let spawned: Vec<_> =
            others.iter().map(|share| (share, large_stack::spawn(scope, || elsewhere(share)))).collect();
        let mut objects = vec![object(session, rest, own, machine, dump)];
        objects.extend(spawned.into_iter().map(|(share, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => elsewhere(share), // No thread to be had.
        }));
        objects.into_iter().collect()
    })
}

/// How many threads are to work on the kernels.
fn threads(kernels: &[KernelText], target: &Target) -> usize {
    let size: usize = kernels.iter().map(|kernel| kernel.ir.len()).sum();
    (target.threads as usize).min(size / MIN_SHARE).max(1)
}

/// The kernels in at most so many shares of like size, none of them empty unless there are no kernels.
fn share_out(kernels: &[KernelText], shares: usize) -> Vec<Vec<&KernelText>> {
    let mut sorted: Vec<&KernelText> = kernels.iter().collect();
    sorted.sort_by_key(|kernel| Reverse(kernel.ir.len()));
    let mut list = vec![(0, Vec::new()); shares.min(kernels.len()).max(1)];
    for kernel in sorted {
        if let Some((size, share)) = list.iter_mut().min_by_key(|(size, _)| *size) {
            *size += kernel.ir.len();
            share.push(kernel);
        }
    }
    list.into_iter().map(|(_, share)| share).collect()
}

/// The object of some kernels: their texts join what stayed LLVM.
fn object<'s>(
    session: &'s Session,
    rest: &mut Module<'s>,
    kernels: &[&KernelText],
    (target, optimize): (&Target, bool),
    dump: Dump,
) -> Result<Vec<u8>, CompileError> {
    let header = header(rest);
    for kernel in kernels {
        let parsed = llvm::parse_text(session, &[header.as_str(), &kernel.ir].concat());
        let module = parsed.map_err(|error| fault(&kernel.symbol, &error))?;
        llvm::link_in(session, rest, module).map_err(|error| fault(&kernel.symbol, &error))?;
    }
    dump.write("emitted.ll", || llvm::print_text(rest));
    let symbols: Vec<String> = kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
    let object = codegen::generate(session, rest, &symbols, target, optimize)
        .map_err(|error| CompileError::Failed(format!("error: {error}\n")))?;
    dump.write("optimized.ll", || llvm::print_text(rest));
    Ok(object)
}

/// The first lines of a text that is to join the module.
fn header(module: &Module) -> String {
    let (layout, triple) = (module.view().data_layout(), module.view().triple());
    format!("target datalayout = {layout:?}\ntarget triple = {triple:?}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lowered(size: usize) -> KernelText {
        KernelText { ir: " ".repeat(size), symbol: size.to_string(), remarks: Vec::new() }
    }

    #[test]
    fn shares_are_of_like_size() {
        let kernels: Vec<KernelText> = [1, 50, 2, 30, 3, 20].map(lowered).into();
        let sizes = |shares: usize| -> Vec<Vec<usize>> {
            let shares = share_out(&kernels, shares);
            shares.iter().map(|share| share.iter().map(|kernel| kernel.ir.len()).collect()).collect()
        };
        assert_eq!(sizes(2), [[50, 3].as_slice(), &[30, 20, 2, 1]]);
        assert_eq!(sizes(1), [[50, 30, 20, 3, 2, 1]]);
        assert_eq!(sizes(100).len(), 6);
        assert_eq!(share_out(&[], 4).len(), 1, "what stayed LLVM is compiled all the same");
    }
}
