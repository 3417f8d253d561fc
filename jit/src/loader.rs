//! Objects into executable memory: one ORC instance for the process, a JITDylib on loan for each program.
//!
//! Code is trusted when it gets here. The runtime loads what its own compiler process made, or what came out of a
//! container or cache file whose integrity hash matched; the checks here catch damage and version mix-ups.
//!
//! ORC never frees a JITDylib's own record (35 kB), so that released ones are emptied and lent out again. Each
//! has its own names: the same object may be loaded any number of times.

use crate::llvm::take_error;
use crate::object_file;
use crate::program::{CompiledProgram, RawWorkGroupFn};
use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::LLVMErrorRef;
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcLLJITAddObjectFileWithRT, LLVMOrcLLJITGetExecutionSession, LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::*;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};

/// Why code could not be loaded.
#[derive(Clone, Debug, thiserror::Error)]
#[error("can't load the compiled program: {0}")]
pub struct LoadError(pub String);

/// A program in executable memory; released on drop.
#[derive(Debug)]
pub struct LoadedProgram {
    jit: &'static Jit,
    dylib: Dylib,
    tracker: LLVMOrcResourceTrackerRef,
}

// SAFETY: the tracker is only used in `drop`, by one thread, and ORC's session is thread-safe.
unsafe impl Send for LoadedProgram {}
// SAFETY: nothing is reachable through a shared reference.
unsafe impl Sync for LoadedProgram {}

/// Puts the objects into executable memory and finds its kernels; their entries are valid while the program lives.
pub fn load(compiled: &CompiledProgram) -> Result<(LoadedProgram, Vec<RawWorkGroupFn>), LoadError> {
    for object in &compiled.objects {
        object_file::check(object).map_err(|error| LoadError(error.to_string()))?;
    }
    let jit = JIT.as_ref().map_err(|error| LoadError(error.clone()))?;
    let program = jit.add(&compiled.objects)?;
    let symbols: Vec<&str> = compiled.kernels.iter().map(|kernel| kernel.symbol.as_str()).collect();
    // ORC has no answer for an empty question.
    let addresses = if symbols.is_empty() { Vec::new() } else { jit.find(program.dylib, &symbols)? };
    let entries = addresses.into_iter().map(|address| {
        // SAFETY: the address of a function that the compiler emitted with this signature (KernelInfo::symbol).
        unsafe { std::mem::transmute::<*const (), RawWorkGroupFn>(address as *const ()) }
    });
    Ok((program, entries.collect()))
}

impl Drop for LoadedProgram {
    fn drop(&mut self) {
        // SAFETY: the tracker is ours, and its code is no longer called: every caller holds the program.
        let removed = take_error(unsafe { LLVMOrcResourceTrackerRemove(self.tracker) });
        // SAFETY: our reference, given back once.
        unsafe { LLVMOrcReleaseResourceTracker(self.tracker) };
        // Else its code stays in memory, which nobody could mend.
        if removed.is_ok() {
            self.jit.give_back(self.dylib);
        }
    }
}

/// The process's ORC instance. Never destroyed: code may run until the very end.
#[derive(Debug)]
struct Jit {
    lljit: LLVMOrcLLJITRef,
    session: LLVMOrcExecutionSessionRef,
    idle: Mutex<Vec<Dylib>>,
    dylibs: AtomicUsize,
}

/// A JITDylib of the process's session, which lives as long as that: for ever.
#[derive(Clone, Copy, Debug)]
struct Dylib(LLVMOrcJITDylibRef);

// SAFETY: ORC locks its session around everything that touches a JITDylib.
unsafe impl Send for Dylib {}
// SAFETY: as above.
unsafe impl Sync for Jit {}
// SAFETY: as above.
unsafe impl Send for Jit {}

static JIT: LazyLock<Result<Jit, String>> = LazyLock::new(Jit::new);

impl Jit {
    fn new() -> Result<Self, String> {
        crate::llvm::host_machine(true).map_err(|error| error.to_string())?;
        let mut lljit = null_mut();
        // SAFETY: a null builder asks for the defaults: this process, this CPU.
        take_error(unsafe { LLVMOrcCreateLLJIT(&mut lljit, null_mut()) }).map_err(|error| error.0)?;
        // SAFETY: the instance was just made.
        let session = unsafe { LLVMOrcLLJITGetExecutionSession(lljit) };
        // SAFETY: the session is alive; the reporter needs no context.
        unsafe { LLVMOrcExecutionSessionSetErrorReporter(session, report, null_mut()) };
        Ok(Jit { lljit, session, idle: Mutex::default(), dylibs: AtomicUsize::new(0) })
    }

    fn add(&'static self, objects: &[Vec<u8>]) -> Result<LoadedProgram, LoadError> {
        let dylib = match self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            Some(dylib) => dylib,
            None => self.new_dylib()?,
        };
        // SAFETY: the JITDylib is alive.
        let tracker = unsafe { LLVMOrcJITDylibCreateResourceTracker(dylib.0) };
        let program = LoadedProgram { jit: self, dylib, tracker };
        for object in objects {
            // SAFETY: copies the bytes; the name is a C string.
            let buffer = unsafe {
                LLVMCreateMemoryBufferWithMemoryRangeCopy(
                    object.as_ptr().cast(),
                    object.len(),
                    c"program".as_ptr(),
                )
            };
            // SAFETY: everything is alive; ORC takes the buffer over whatever happens.
            take_error(unsafe { LLVMOrcLLJITAddObjectFileWithRT(self.lljit, tracker, buffer) })
                .map_err(|error| LoadError(error.0))?;
        }
        Ok(program)
    }

    fn give_back(&self, dylib: Dylib) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(dylib);
        // SAFETY: the session is alive. Names of released kernels would pile up otherwise.
        unsafe {
            LLVMOrcSymbolStringPoolClearDeadEntries(LLVMOrcExecutionSessionGetSymbolStringPool(self.session));
        }
    }

    /// A JITDylib in which the runtime functions are defined, and nothing else of this process.
    fn new_dylib(&self) -> Result<Dylib, LoadError> {
        let name = format!("program {}\0", self.dylibs.fetch_add(1, Ordering::Relaxed));
        // SAFETY: the session is alive and the name is unique and ends in a zero byte.
        let dylib = unsafe { LLVMOrcExecutionSessionCreateBareJITDylib(self.session, name.as_ptr().cast()) };
        let exported = LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8;
        let callable = LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8;
        let mut symbols = Vec::new();
        for function in object_file::runtime_functions() {
            symbols.push(LLVMOrcCSymbolMapPair {
                Name: self.intern(function.name)?,
                Sym: LLVMJITEvaluatedSymbol {
                    Address: function.address as u64,
                    Flags: LLVMJITSymbolFlags { GenericFlags: exported | callable, TargetFlags: 0 },
                },
            });
        }
        // SAFETY: the pairs are alive during the call; their names pass to the unit.
        let unit = unsafe { LLVMOrcAbsoluteSymbols(symbols.as_mut_ptr(), symbols.len()) };
        // SAFETY: JITDylib and unit are alive; a unit that was not accepted stays ours, and leaks with the process.
        take_error(unsafe { LLVMOrcJITDylibDefine(dylib, unit) }).map_err(|error| LoadError(error.0))?;
        Ok(Dylib(dylib))
    }

    /// An entry of the string pool that the caller owns.
    fn intern(&self, name: &str) -> Result<LLVMOrcSymbolStringPoolEntryRef, LoadError> {
        let name = CString::new(name).map_err(|error| LoadError(error.to_string()))?;
        // SAFETY: the session is alive, and ORC copies the name.
        Ok(unsafe { LLVMOrcExecutionSessionIntern(self.session, name.as_ptr()) })
    }

    /// Links what was added and returns the symbols' addresses in their order.
    fn find(&self, dylib: Dylib, symbols: &[&str]) -> Result<Vec<u64>, LoadError> {
        let names = symbols.iter().map(|name| self.intern(name)).collect::<Result<Vec<_>, _>>()?;
        let mut wanted: Vec<_> = names
            .iter()
            .map(|&name| LLVMOrcCLookupSetElement {
                Name: name,
                LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
            })
            .collect();
        let mut order = [LLVMOrcCJITDylibSearchOrderElement {
            JD: dylib.0,
            JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly,
        }];
        let (sender, receiver) = mpsc::sync_channel::<LookupResult>(1);
        let request = Box::into_raw(Box::new(sender));
        // SAFETY: session and arrays are alive during the call; the names pass to it; `receive` takes the box.
        unsafe {
            LLVMOrcExecutionSessionLookup(
                self.session,
                LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
                order.as_mut_ptr(),
                order.len(),
                wanted.as_mut_ptr(),
                wanted.len(),
                receive,
                request.cast(),
            );
        }
        let found = receiver.recv().map_err(|error| LoadError(error.to_string()))?.map_err(LoadError)?;
        // Entries are unique in the pool: the same name is the same pointer.
        let address = |name: usize| found.iter().find(|pair| pair.0 == name).map(|pair| pair.1);
        std::iter::zip(symbols, &names)
            .map(|(symbol, &name)| {
                address(name as usize).ok_or_else(|| LoadError(format!("it has no symbol {symbol}")))
            })
            .collect()
    }
}

/// Pool entry and address of every symbol asked for.
type LookupResult = Result<Vec<(usize, u64)>, String>;

extern "C" fn receive(
    error: LLVMErrorRef,
    pairs: LLVMOrcCSymbolMapPairs,
    count: usize,
    request: *mut c_void,
) {
    // SAFETY: the box that `find` passed; ORC calls back exactly once.
    let sender = unsafe { Box::from_raw(request.cast::<mpsc::SyncSender<LookupResult>>()) };
    let result = take_error(error).map_err(|error| error.0).map(|()| {
        (0..count)
            .map(|index| {
                // SAFETY: `pairs` holds `count` pairs when there is no error.
                let pair = unsafe { &*pairs.add(index) };
                (pair.Name as usize, pair.Sym.Address)
            })
            .collect()
    });
    // The receiver waits in `find`; if it is gone there is nobody to tell.
    let _ = sender.send(result);
}

/// What ORC can tell no caller: nobody is told, but LLVM's own reporter would write to standard error.
extern "C" fn report(_: *mut c_void, error: LLVMErrorRef) {
    let _ = take_error(error);
}

#[cfg(test)]
mod tests;
