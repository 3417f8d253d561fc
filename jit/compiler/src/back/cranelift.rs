//! The baseline's back end: scalar Kernel IR, legalized, through Cranelift to an object of the same kind as LLVM's, in a
//! fraction of the time. Nothing is decided here, as in [`super::llvm`], and nothing is optimized but what Cranelift does by
//! itself.
//!
//! `isa` tells Cranelift the processor, `data` writes constants, `function` blocks and calls; `operation`, `memory` and
//! `intrinsic` translate one operation each. A condition is an i8 of 0 or 1, a half the 16 bits that it consists of, a
//! structure the list of its scalars.

mod data;
mod function;
mod intrinsic;
mod isa;
mod memory;
mod operation;
mod types;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, Signature as ClifSignature};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilderContext;
use cranelift_module::{DataId, FuncId, Linkage, Module as _, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule};
use spirula_interface::inputs::Inputs;
use spirula_kir::transform::legalize::Illegal;
use spirula_kir::{ConstantData, Function, Module, Op, Scalar, Signature, Type};
use std::collections::HashMap;
use std::sync::Arc;

/// Why there is no object.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BaselineError {
    /// Legalization left an operation that Cranelift doesn't have.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// Cranelift gave up.
    #[error("Cranelift can't generate code: {0}")]
    Cranelift(String),
}

impl BaselineError {
    fn of(error: impl std::fmt::Display) -> Self {
        BaselineError::Cranelift(error.to_string())
    }
}

fn illegal(what: impl Into<String>) -> BaselineError {
    BaselineError::Illegal(Illegal::new(what))
}

/// The object of some kernels, which are lowered and legalized, with the functions and constants of the module that they use;
/// those are legalized, too.
pub fn object(module: &Module, kernels: &[&Function], inputs: &Inputs) -> Result<Vec<u8>, BaselineError> {
    let isa = isa::of(&inputs.target, inputs.settings.debug_info)?;
    let builder = ObjectBuilder::new(isa, "baseline", default_libcall_names()).map_err(BaselineError::of)?;
    let mut object = Object::new(ObjectModule::new(builder));
    let used = module.reached(kernels.iter().copied());
    let constants: Vec<&ConstantData> =
        module.constants.iter().filter(|constant| used.contains(&*constant.name)).collect();
    let functions: Vec<&Function> =
        module.functions.iter().filter(|function| used.contains(function.name.as_str())).collect();
    object.constants(&constants)?;
    for function in &functions {
        object.declare(function, Linkage::Local)?;
    }
    for kernel in kernels {
        object.declare(kernel, Linkage::Export)?;
    }
    for function in functions.into_iter().chain(kernels.iter().copied()) {
        object.define(function)?;
    }
    object.module.finish().emit().map_err(BaselineError::of)
}

/// An object being written.
struct Object {
    module: ObjectModule,
    context: Context,
    builder: FunctionBuilderContext,
    functions: HashMap<String, FuncId>,
    /// Functions of this process's other end, by symbol.
    outside: HashMap<&'static str, FuncId>,
    data: HashMap<Arc<str>, DataId>,
}

impl Object {
    fn new(module: ObjectModule) -> Self {
        let context = module.make_context();
        Object {
            module,
            context,
            builder: FunctionBuilderContext::new(),
            functions: HashMap::new(),
            outside: HashMap::new(),
            data: HashMap::new(),
        }
    }

    fn declare(&mut self, function: &Function, linkage: Linkage) -> Result<(), BaselineError> {
        let signature = signature(function)?;
        let id = self.module.declare_function(&function.name, linkage, &signature);
        self.functions.insert(function.name.clone(), id.map_err(BaselineError::of)?);
        Ok(())
    }

    fn define(&mut self, function: &Function) -> Result<(), BaselineError> {
        let id = self.functions.get(&function.name).copied();
        let id = id.ok_or_else(|| illegal(format!("the function {}", function.name)))?;
        self.reserve(function)?;
        self.module.clear_context(&mut self.context);
        self.context.func.signature = signature(function)?;
        function::translate(self, function)?;
        self.module
            .define_function(id, &mut self.context)
            .map_err(|error| BaselineError::Cranelift(format!("{}: {error:?}", function.name)))
    }

    /// Declares what the function uses of the outside: while it is built, the module can't be changed.
    fn reserve(&mut self, function: &Function) -> Result<(), BaselineError> {
        for inst in function.insts() {
            if let Op::GlobalAddress(name) = function.op(inst) {
                self.declare_data(name)?;
            }
            if let Some(callee) = types::helper(function, inst) {
                self.declare_outside(callee)?;
            }
        }
        Ok(())
    }

    fn declare_outside(&mut self, helper: types::Helper) -> Result<(), BaselineError> {
        if !self.outside.contains_key(helper.symbol) {
            let mut signature = ClifSignature::new(CallConv::SystemV);
            signature.params = helper.parameters.iter().map(|&ty| AbiParam::new(ty)).collect();
            signature.returns = helper.result.iter().map(|&ty| AbiParam::new(ty)).collect();
            let id = self.module.declare_function(helper.symbol, Linkage::Import, &signature);
            self.outside.insert(helper.symbol, id.map_err(BaselineError::of)?);
        }
        Ok(())
    }
}

/// How a function is called.
fn signature(function: &Function) -> Result<ClifSignature, BaselineError> {
    let mut signature = ClifSignature::new(CallConv::SystemV);
    for param in &function.params {
        let ty =
            function.ty(param.value).scalar().filter(|_| function.ty(param.value).lane_count() == Some(None));
        let ty = ty.ok_or_else(|| illegal("a parameter that is no scalar"))?;
        signature.params.push(AbiParam::new(types::clif(ty)?));
    }
    if let Signature::Function { result: Some(ty) } = &function.signature {
        for scalar in scalars(ty)? {
            signature.returns.push(AbiParam::new(types::clif(scalar)?));
        }
    }
    Ok(signature)
}

/// The scalars of what an operation yields: one, or those of a flat structure.
fn scalars(ty: &Type) -> Result<Vec<Scalar>, BaselineError> {
    let scalar = |ty: &Type| match ty {
        Type::Scalar(scalar) => Ok(*scalar),
        _ => Err(illegal(format!("a value of type {ty}"))),
    };
    match ty {
        Type::Struct(members) => members.iter().map(scalar).collect(),
        _ => Ok(vec![scalar(ty)?]),
    }
}
