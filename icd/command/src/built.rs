//! A program that is built to be looked at, for `show` and `explain`.

use crate::Result;
use crate::arguments::{Common, Source};
use crate::client::{Context, Device, Program};
use crate::input::{Input, Kind};
use crate::library::Library;
use crate::output::Doing;
use std::ffi::OsStr;

/// Builds optimized code, with this variable set besides, and looks at the program and the names of its kernels, of which one is that
/// which is asked for.
pub fn look_at<T>(
    common: &Common,
    source: &Source,
    variable: (&str, &OsStr),
    look: impl FnOnce(&Device, &Program, &[String]) -> Result<T>,
) -> Result<T> {
    let file = source.file.display();
    let input = Input::read(&source.file)?;
    if input.kind == Kind::Binary {
        return Err(format!("{file}: is compiled already: nothing is seen of how").into());
    }
    let library = Library::load(common, &[variable, ("SPIRULA_TIER", OsStr::new("optimized"))])?;
    let device = Device::first(&library)?;
    let context = Context::new(&device)?;
    let doing = Doing::new("compiling");
    let program = Program::build(&context, &device, &[input], &source.options)?;
    drop(doing);
    let names = program.kernel_names()?;
    match &source.kernel {
        Some(kernel) if !names.contains(kernel) => {
            Err(format!("{file}: has no kernel `{kernel}`; its kernels are {}", names.join(", ")).into())
        }
        _ => look(&device, &program, &names),
    }
}
