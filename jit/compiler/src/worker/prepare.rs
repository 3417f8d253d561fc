//! What the first build would have to wait for, done before it comes: the pages of the program that every build needs, and the
//! tables of LLVM and Cranelift. A small program is built for it, in the baseline: optimized code takes so long that the first
//! build and launch would often share the processors with it.

use crate::compile;
use crate::compile::trace::{Dump, Stages};
use crate::llvm::{self, Session};
use spirula_interface::inputs::Inputs;
use spirula_interface::options::CompileError;
use spirula_interface::program::CompiledProgram;
use spirula_interface::target::Target;
use spirula_interface::tier::Tier;

/// Bytes of stack for a small build.
const STACK: usize = 8 << 20;

/// A program that uses a little of everything.
const SMALL: &str = r#"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024"
target triple = "spir64-unknown-unknown"
declare spir_func i64 @_Z13get_global_idj(i32)
declare spir_func float @_Z3sinf(float)
define spir_kernel void @small(ptr addrspace(1) %data) {
  %id = call spir_func i64 @_Z13get_global_idj(i32 0)
  %place = getelementptr float, ptr addrspace(1) %data, i64 %id
  %old = load float, ptr addrspace(1) %place, align 4
  %new = call spir_func float @_Z3sinf(float %old)
  store float %new, ptr addrspace(1) %place, align 4
  ret void
}
!opencl.kernels = !{!0}
!0 = !{ptr @small, !1, !2, !3, !4, !5}
!1 = !{!"kernel_arg_addr_space", i32 1}
!2 = !{!"kernel_arg_access_qual", !"none"}
!3 = !{!"kernel_arg_type", !"float*"}
!4 = !{!"kernel_arg_base_type", !"float*"}
!5 = !{!"kernel_arg_type_qual", !""}
!opencl.spir.version = !{!6}
!opencl.ocl.version = !{!6}
!6 = !{i32 1, i32 2}
"#;

/// Begins, beside whatever comes. Without a thread the first build does it.
pub fn begin(host: &Target) {
    let host = host.clone();
    let begun = std::thread::Builder::new().name("spirula-prepare".into()).stack_size(STACK);
    drop(begun.spawn(move || build_small(&host)));
}

fn build_small(host: &Target) -> Result<CompiledProgram, CompileError> {
    let session = Session::new();
    let module = llvm::parse_text(&session, SMALL).map_err(|error| CompileError::Failed(error.0))?;
    let inputs = Inputs::new(Default::default(), Default::default(), host.clone(), Tier::Baseline);
    compile::build(&[&llvm::write_bitcode(&module)], &inputs, Dump::default(), &mut Stages::begin())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_program_is_one() {
        let program = build_small(&llvm::host()).unwrap();
        assert_eq!((program.kernels[0].code.tier, program.log.as_str()), (Tier::Baseline, ""));
    }
}
