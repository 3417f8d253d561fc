//! The baseline's back end: one function, block by block.

use super::types::{clif, scalar};
use super::{BaselineError, Object, illegal, scalars};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64, I128};
use cranelift_codegen::ir::{Block as ClifBlock, Type as ClifType, Value as ClifValue};
use cranelift_codegen::ir::{
    BlockArg, FuncRef, GlobalValue, InstBuilder, StackSlot, StackSlotData, StackSlotKind, TrapCode,
};
use cranelift_frontend::{FunctionBuilder, Switch};
use cranelift_module::Module as _;
use spirula_kir::analysis::ControlFlow;
use spirula_kir::{Block, Constant, Function, Inst, Op, Scalar, Slot, Target, Terminator, Value, ValueDef};
use std::collections::HashMap;

/// What all frames are aligned to.
const FRAME_ALIGN: u32 = 16;

/// Translates the function into the object's context.
pub(super) fn translate(object: &mut Object, function: &Function) -> Result<(), BaselineError> {
    let mut calls = HashMap::new();
    let mut globals = HashMap::new();
    let clif = &mut object.context.func;
    for inst in function.insts() {
        match function.op(inst) {
            Op::Call { function: callee, .. } => {
                let id = object.functions.get(&**callee).copied();
                let id = id.ok_or_else(|| illegal(format!("the function {callee}")))?;
                calls.entry(&**callee).or_insert_with(|| object.module.declare_func_in_func(id, clif));
            }
            Op::GlobalAddress(name) => {
                let id = object.data[name];
                globals.entry(&**name).or_insert_with(|| object.module.declare_data_in_func(id, clif));
            }
            _ => {}
        }
        if let Some(helper) = super::types::helper(function, inst) {
            let id = object.outside[helper.symbol];
            calls.entry(helper.symbol).or_insert_with(|| object.module.declare_func_in_func(id, clif));
        }
    }
    let config = object.module.target_config();
    let out = FunctionBuilder::new(clif, &mut object.builder);
    let mut translator = Translator {
        function,
        out,
        values: vec![Held::Nothing; function.value_count()],
        blocks: vec![None; function.blocks.len()],
        slots: Vec::new(),
        calls,
        globals,
    };
    translator.function()?;
    translator.out.seal_all_blocks();
    translator.out.finalize(config);
    Ok(())
}

/// What a value has become.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Nothing,
    One(ClifValue),
    /// A structure's scalars.
    Many(Vec<ClifValue>),
}

/// A function on its way.
pub(super) struct Translator<'a> {
    pub function: &'a Function,
    pub out: FunctionBuilder<'a>,
    values: Vec<Held>,
    blocks: Vec<Option<ClifBlock>>,
    slots: Vec<StackSlot>,
    calls: HashMap<&'a str, FuncRef>,
    globals: HashMap<&'a str, GlobalValue>,
}

impl Translator<'_> {
    fn function(&mut self) -> Result<(), BaselineError> {
        let function = self.function;
        self.slots = function
            .slots
            .iter()
            .map(|slot| {
                let align = slot.align.max(1);
                // Beyond a frame's own alignment, an aligned address is looked for within.
                let spare = if align > FRAME_ALIGN { u64::from(align) } else { 0 };
                let shift = align.min(FRAME_ALIGN).trailing_zeros() as u8;
                let size = u32::try_from(slot.size.saturating_add(spare)).unwrap_or(u32::MAX);
                self.out.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, shift))
            })
            .collect();
        let flow = ControlFlow::new(function);
        let order = flow.reverse_post_order();
        for &block in order {
            let made = self.out.create_block();
            self.blocks[block.index()] = Some(made);
            if block.0 == 0 {
                self.out.append_block_params_for_function_params(made);
                let given = self.out.block_params(made).to_vec();
                for (param, value) in function.params.iter().zip(given) {
                    self.values[param.value.index()] = Held::One(value);
                }
            }
            for &param in &function.block(block).params {
                let made_of = scalars(function.ty(param))?;
                let values =
                    made_of.iter().map(|&scalar| Ok(self.out.append_block_param(made, clif(scalar)?)));
                let values = values.collect::<Result<Vec<_>, BaselineError>>()?;
                self.hold(param, values);
            }
        }
        for &block in order {
            let made = self.target_block(block)?;
            self.out.switch_to_block(made);
            for &inst in &function.block(block).insts {
                self.instruction(inst)?;
            }
            self.terminator(&function.block(block).terminator)?;
        }
        Ok(())
    }

    pub(super) fn hold(&mut self, value: Value, parts: Vec<ClifValue>) {
        let is_structure = matches!(self.function.ty(value), spirula_kir::Type::Struct(_));
        self.values[value.index()] = match parts[..] {
            [one] if !is_structure => Held::One(one),
            _ => Held::Many(parts),
        };
    }

    fn instruction(&mut self, inst: Inst) -> Result<(), BaselineError> {
        let made = self.operation(inst)?;
        if let Some(result) = self.function.result(inst) {
            self.hold(result, made);
        }
        Ok(())
    }

    /// A scalar operand.
    pub(super) fn get(&mut self, value: Value) -> Result<ClifValue, BaselineError> {
        match &self.values[value.index()] {
            Held::One(value) => Ok(*value),
            Held::Many(_) => Err(illegal(format!("{value}, a structure,"))),
            Held::Nothing => self.constant(value),
        }
    }

    /// An operand's scalars.
    pub(super) fn get_all(&mut self, value: Value) -> Result<Vec<ClifValue>, BaselineError> {
        if let Held::Many(values) = &self.values[value.index()] {
            return Ok(values.clone());
        }
        let is_any = matches!(
            self.function.def(value),
            ValueDef::Constant(Constant::Poison | Constant::Undef | Constant::Zero)
        );
        match self.function.ty(value) {
            spirula_kir::Type::Struct(_) if is_any => {
                let scalars = scalars(self.function.ty(value))?;
                scalars.into_iter().map(|scalar| self.number(scalar, 0)).collect()
            }
            _ => Ok(vec![self.get(value)?]),
        }
    }

    fn constant(&mut self, value: Value) -> Result<ClifValue, BaselineError> {
        let ValueDef::Constant(constant) = self.function.def(value) else {
            return Err(illegal(format!("{value}, which is not there yet,")));
        };
        let bits = match constant {
            Constant::Int(bits) => *bits,
            Constant::Float(bits) => (*bits).into(),
            Constant::Zero | Constant::Undef | Constant::Poison => 0,
            Constant::Elements(_) => return Err(illegal("a constant of several scalars")),
        };
        self.number(scalar(self.function, value)?, bits)
    }

    /// A constant of those bits.
    pub(super) fn number(&mut self, scalar: Scalar, bits: u128) -> Result<ClifValue, BaselineError> {
        let ty = clif(scalar)?;
        Ok(match scalar {
            Scalar::Float => self.out.ins().f32const(f32::from_bits(bits as u32)),
            Scalar::Double => self.out.ins().f64const(f64::from_bits(bits as u64)),
            _ if ty == I128 => {
                let low = self.out.ins().iconst(I64, bits as u64 as i64);
                let high = self.out.ins().iconst(I64, (bits >> 64) as u64 as i64);
                self.out.ins().iconcat(low, high)
            }
            _ => self.int(ty, bits as u64),
        })
    }

    /// An integer constant of at most 64 bits.
    pub(super) fn int(&mut self, ty: ClifType, bits: u64) -> ClifValue {
        let mask = u64::MAX >> (64 - ty.bits());
        self.out.ins().iconst(ty, (bits & mask) as i64)
    }

    pub(super) fn call(
        &mut self,
        name: &str,
        arguments: &[ClifValue],
    ) -> Result<Vec<ClifValue>, BaselineError> {
        let callee = self.calls.get(name).copied().ok_or_else(|| illegal(format!("a call of {name}")))?;
        let call = self.out.ins().call(callee, arguments);
        Ok(self.out.inst_results(call).to_vec())
    }

    pub(super) fn global(&mut self, name: &str) -> Result<ClifValue, BaselineError> {
        let global =
            self.globals.get(name).copied().ok_or_else(|| illegal(format!("the constant {name}")))?;
        Ok(self.out.ins().symbol_value(I64, global))
    }

    pub(super) fn slot(&mut self, slot: Slot) -> ClifValue {
        let address = self.out.ins().stack_addr(I64, self.slots[slot.index()], 0);
        let align = self.function.slots[slot.index()].align;
        if align <= FRAME_ALIGN {
            return address;
        }
        let (most, mask) =
            (self.int(I64, u64::from(align) - 1), self.int(I64, u64::from(align).wrapping_neg()));
        let up = self.out.ins().iadd(address, most);
        self.out.ins().band(up, mask)
    }

    fn target_block(&self, block: Block) -> Result<ClifBlock, BaselineError> {
        self.blocks[block.index()].ok_or_else(|| illegal(format!("{block}, which nothing leads to,")))
    }

    fn target(&mut self, target: &Target) -> Result<(ClifBlock, Vec<BlockArg>), BaselineError> {
        let mut arguments = Vec::new();
        for &argument in &target.arguments {
            arguments.extend(self.get_all(argument)?.into_iter().map(BlockArg::Value));
        }
        Ok((self.target_block(target.block)?, arguments))
    }

    fn terminator(&mut self, terminator: &Terminator) -> Result<(), BaselineError> {
        match terminator {
            Terminator::Jump(target) => {
                let (block, arguments) = self.target(target)?;
                self.out.ins().jump(block, &arguments);
            }
            Terminator::Branch { condition, then, otherwise } => {
                let condition = self.get(*condition)?;
                let (then, given) = self.target(then)?;
                let (otherwise, others) = self.target(otherwise)?;
                self.out.ins().brif(condition, then, &given, otherwise, &others);
            }
            Terminator::Switch { value, cases, default } => self.switch(*value, cases, default)?,
            Terminator::Return(value) => {
                let values = value.map(|value| self.get_all(value)).transpose()?.unwrap_or_default();
                self.out.ins().return_(&values);
            }
            Terminator::Unreachable => {
                self.out.ins().trap(TrapCode::unwrap_user(1));
            }
            Terminator::Barrier(_) | Terminator::Exit(_) => return Err(illegal("a barrier")),
        }
        Ok(())
    }

    /// Each way out goes through a block of its own, which passes the arguments.
    fn switch(
        &mut self,
        value: Value,
        cases: &[(u128, Target)],
        default: &Target,
    ) -> Result<(), BaselineError> {
        let value = self.get(value)?;
        if self.out.func.dfg.value_type(value) == I8 && cases.len() == 1 {
            // Conditions, for the most part.
            let number = self.int(I8, cases[0].0 as u64);
            let is_case = self.out.ins().icmp(IntCC::Equal, value, number);
            let (then, given) = self.target(&cases[0].1)?;
            let (otherwise, others) = self.target(default)?;
            self.out.ins().brif(is_case, then, &given, otherwise, &others);
            return Ok(());
        }
        let mut switch = Switch::new();
        let mut ways = Vec::new();
        for (number, target) in cases {
            let way = self.out.create_block();
            switch.set_entry(*number, way);
            ways.push((way, self.target(target)?));
        }
        let otherwise = self.out.create_block();
        ways.push((otherwise, self.target(default)?));
        switch.emit(&mut self.out, value, otherwise);
        for (way, (block, arguments)) in ways {
            self.out.switch_to_block(way);
            self.out.ins().jump(block, &arguments);
        }
        Ok(())
    }
}
