//! What most tests start from.

use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Context, Device, Kernel, Program, Queue, SPIR12, code_name};
use spirula_tests::isolate::Failure;
use spirula_tests::{fixtures, isolate, supervise};
use std::ffi::CStr;
use std::time::Duration;

/// A device with a context and a profiling in-order queue.
pub struct Setup {
    pub device: Device,
    pub context: Context,
    pub queue: Queue,
}

impl Setup {
    pub fn new() -> Setup {
        let device = Device::first();
        let context = Context::new(device).expect("a context");
        Setup { device, queue: Queue::new(&context, device).expect("a queue"), context }
    }

    /// A program from a fixture, not built; its form of 32 bits on a device of as many.
    pub fn load(&self, fixture: &str) -> cl::Result<Program> {
        let bits: u32 = self.device.info(CL_DEVICE_ADDRESS_BITS)?;
        let fixture = fixture.replace(".bc64", &format!(".bc{bits}"));
        Program::from_binary(&self.context, self.device, &fixtures::load(&fixture))
    }

    /// A built program.
    pub fn program(&self, fixture: &str) -> Program {
        let program = self.load(fixture).unwrap_or_else(|e| panic!("{fixture}: {e}"));
        if let Err(e) = program.build(SPIR12) {
            panic!("{fixture}: {e}: {}", program.log(self.device).unwrap_or_default());
        }
        program
    }

    /// A kernel of a built program.
    pub fn kernel(&self, fixture: &str, name: &str) -> Kernel {
        Kernel::new(&self.program(fixture), name).unwrap_or_else(|e| panic!("{fixture}, {name}: {e}"))
    }
}

/// A built program of OpenCL C 2.0, or of what the options say; skipped on a device without a compiler.
pub fn program_of_2_0(setup: &Setup, source: &str, options: &str) -> Result<Program, Failure> {
    if setup.device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let program = Program::from_source(&setup.context, source)?;
    let log = || program.log(setup.device).unwrap_or_default();
    let version = if options.contains("-cl-std=") { "" } else { "-cl-std=CL2.0 " };
    program.build(&format!("{version}{options}")).map_err(|error| format!("{error}: {}", log()))?;
    Ok(program)
}

/// What tests of an extension start from; skipped on a device without it.
pub fn setup_with(extension: &str) -> Result<Setup, Failure> {
    let setup = Setup::new();
    match setup.device.has_extension(extension) {
        true => Ok(setup),
        false => Err(Failure::Skipped(format!("{extension} is not there"))),
    }
}

/// A function of an extension that the device has, of the type that its name has in the headers.
pub fn function<F>(setup: &Setup, name: &CStr) -> F {
    setup.device.function(name)
}

/// The status's name, for comparison.
pub fn status<T>(result: cl::Result<T>) -> String {
    code_name(result.map_or_else(|e| e.code, |_| CL_SUCCESS))
}

/// Runs a test once more, with a variable that the library reads when it is loaded.
pub fn again(test: &str, variable: &str, value: &str) {
    again_with(test, &[(variable, value)]);
}

/// As [`again`], with several variables.
pub fn again_with(test: &str, variables: &[(&str, &str)]) {
    let mut command = isolate::child(test).expect("this program");
    let command = command.envs(variables.iter().copied());
    let done = supervise::run(command, Duration::from_secs(60)).expect("a process");
    let passed = done.status.is_some_and(|status| status.success());
    assert!(passed, "{variables:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Makes tests of functions of this module.
macro_rules! tests {
    ($($function:ident),* $(,)?) => {
        pub fn tests() -> Vec<spirula_tests::isolate::Test> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$(spirula_tests::isolate::Test::new(format!("{module}::{}", stringify!($function)), $function)),*]
        }
    };
}
pub(crate) use tests;
