//! Widening: calls. What is too large to be inlined everywhere is widened by itself: a pack calls it once, with a vector for each component
//! of an argument that differs between lanes, and a mask if not all lanes are active. After Karrenberg and Hack, "Whole-Function
//! Vectorization" (CGO 2011).
//!
//! Such a function is a region whose work-items get their arguments as what was kept for them over a barrier.

use super::adjacent::{Merging, merge_adjacent};
use super::cost::{Cost, cost};
use super::values::components;
use super::{Facts, Widener, new_widener, scheduled};
use crate::builder::Builder;
use crate::transform::ContextKind;
use crate::{
    Block, Constant, ContextSlot, Function, Module, Op, Promises, Scalar, Signature, Terminator, Type, Value,
};
use spirula_interface::target::TargetFacts;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// So many instructions of a program's functions are widened; each counts once for each form that packs call it in. Those of the library are
/// few, and inlined elsewhere.
const MOST_WIDENED: usize = 30_000;
/// Bytes of private memory that a function and all that it calls may have for all lanes together: threads' stacks are the application's.
const MOST_PRIVATE: u64 = 32 << 10;
/// Calls that nest deeper are made by each lane: no stack is to depend on how a program is written.
const MOST_NESTED: usize = 16;
/// What a call takes besides what the function does, against a plain operation: arguments are moved, and registers kept.
const CALLING: f64 = 20.0;

/// The functions that a program's kernels call, and what packs call instead of them. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Callees(Option<Arc<Table>>);

#[derive(Debug)]
struct Table {
    /// With the bytes of private memory that each needs for one work-item.
    functions: HashMap<String, (Function, u64)>,
    target: TargetFacts,
    /// Instructions that may still be widened.
    rest: AtomicUsize,
    estimates: Mutex<HashMap<Form, Option<Cost>>>,
    /// What a function costs one work-item: of all widths the same is said of scalar code.
    scalar: Mutex<HashMap<Arc<str>, f64>>,
    wide: Mutex<HashMap<Form, Option<Arc<Function>>>>,
}

/// What a pack calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub function: Arc<str>,
    pub lanes: u32,
    /// Which arguments are the same in all lanes.
    pub uniform: Vec<bool>,
    /// Whether the last argument says which lanes are active.
    pub masked: bool,
}

/// What a call costs for one work-item and for a pack, and whether packs call the function in lanes.
#[derive(Clone, Copy)]
pub(super) struct Estimate {
    pub cost: Cost,
    pub in_lanes: bool,
}

impl Form {
    /// What the function is called: of a form there is one.
    fn name(&self) -> String {
        let shapes: String = self.uniform.iter().map(|&uniform| if uniform { 'u' } else { 'v' }).collect();
        let masked = if self.masked { "m" } else { "" };
        format!("{}.x{}{masked}.{shapes}", self.function, self.lanes)
    }
}

impl Callees {
    /// A program's, on this processor.
    pub fn new(module: &Module, target: TargetFacts) -> Self {
        let private = module.stack_sizes();
        let private = |name: &str| private.get(name).copied().unwrap_or(u64::MAX);
        let shallow = shallow(module);
        let functions = module
            .functions
            .iter()
            .filter(|function| !function.attributes.cold && shallow.contains(function.name.as_str()));
        let functions: HashMap<String, (Function, u64)> = functions
            .map(|function| (function.name.clone(), (function.clone(), private(&function.name))))
            .collect();
        if functions.is_empty() {
            return Callees::default();
        }
        Callees(Some(Arc::new(Table {
            functions,
            target,
            rest: AtomicUsize::new(MOST_WIDENED),
            estimates: Mutex::default(),
            scalar: Mutex::default(),
            wide: Mutex::default(),
        })))
    }

    /// The functions in lanes that this one calls, and that those call, each once.
    pub fn called_by(&self, function: &Function) -> Vec<Function> {
        let Some(table) = &self.0 else { return Vec::new() };
        let wide = table.wide.lock().unwrap_or_else(PoisonError::into_inner);
        let by_name: HashMap<&str, &Arc<Function>> =
            wide.values().flatten().map(|function| (function.name.as_str(), function)).collect();
        let mut found: Vec<&Arc<Function>> = Vec::new();
        let mut open: Vec<&Function> = vec![function];
        while let Some(caller) = open.pop() {
            for callee in caller.names_used().filter_map(|name| by_name.get(name)) {
                if found.iter().all(|known| known.name != callee.name) {
                    found.push(callee);
                    open.push(callee);
                }
            }
        }
        found.into_iter().map(|function| Function::clone(function)).collect()
    }

    /// What a call costs; none if that isn't known.
    pub(super) fn estimate(&self, op: &Op, lanes: u32, uniform: Vec<bool>) -> Option<Estimate> {
        let Op::Call { function, .. } = op else { return None };
        // The mask makes little difference.
        let form = Form { function: function.clone(), lanes, uniform, masked: true };
        let table = self.0.as_ref()?;
        let known = table.estimates.lock().unwrap_or_else(PoisonError::into_inner).get(&form).copied();
        let cost = known.unwrap_or_else(|| {
            let cost = self.estimate_anew(table, &form);
            table.estimates.lock().unwrap_or_else(PoisonError::into_inner).insert(form, cost);
            cost
        });
        let Cost { scalar, pack } = cost?;
        let of_instances = f64::from(lanes) * (scalar + table.target.costs.instance);
        Some(Estimate { cost: Cost { scalar, pack }, in_lanes: pack < of_instances })
    }

    fn estimate_anew(&self, table: &Table, form: &Form) -> Option<Cost> {
        let (callee, private) = table.functions.get(&*form.function)?;
        let size = if is_of_library(callee) { 0 } else { callee.insts().count() };
        let rest = &table.rest;
        if rest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rest| rest.checked_sub(size)).is_err() {
            let known = table.scalar.lock().unwrap_or_else(PoisonError::into_inner);
            return known.get(&form.function).map(|&scalar| Cost { scalar, pack: f64::INFINITY });
        }
        let Region { body, context } = self.region(callee, form)?;
        let facts = Facts::new(&body, &context, form.lanes)?;
        let Cost { scalar, pack } = cost(&body, &facts, &context, form.lanes, &table.target);
        let fits = private.saturating_mul(form.lanes.into()) <= MOST_PRIVATE;
        let pack = if fits { CALLING + pack } else { f64::INFINITY };
        let mut known = table.scalar.lock().unwrap_or_else(PoisonError::into_inner);
        let scalar = *known.entry(form.function.clone()).or_insert(CALLING + scalar);
        Some(Cost { scalar, pack })
    }

    /// The function in lanes.
    pub(super) fn wide(&self, form: &Form) -> Option<Arc<Function>> {
        let table = self.0.as_ref()?;
        if let Some(known) = table.wide.lock().unwrap_or_else(PoisonError::into_inner).get(form) {
            return known.clone();
        }
        let made = table.functions.get(&*form.function).and_then(|(callee, _)| self.widen(callee, form));
        let made = made.map(Arc::new);
        table.wide.lock().unwrap_or_else(PoisonError::into_inner).insert(form.clone(), made.clone());
        made
    }

    fn widen(&self, callee: &Function, form: &Form) -> Option<Function> {
        let Region { body, context } = self.region(callee, form)?;
        let facts = Facts::new(&body, &context, form.lanes)?;
        let plan = scheduled(&body, &facts, &context);
        let Signature::Function { result } = &callee.signature else { return None };
        let mut function =
            Function::callable(&form.name(), result.as_ref().map(|ty| wide_type(ty, form.lanes)));
        function.attributes = callee.attributes;
        for param in &body.params {
            function.add_param(body.ty(param.value).clone(), param.offset, param.passing);
        }
        let arguments = context.iter().map(|kind| {
            let ContextKind::Varying(ty) = kind else { return Vec::new() };
            let mut add =
                |scalar| function.add_argument(Type::Vector(scalar, form.lanes), Promises::default());
            components(ty).into_iter().map(&mut add).collect()
        });
        let arguments = arguments.collect();
        let mut widener = new_widener(&body, &context, form.lanes, &facts, function);
        widener.arguments = arguments;
        let results = body.block_ids().find_map(|block| match body.block(block).terminator {
            Terminator::Return(Some(result)) => Some((block, result)),
            _ => None,
        });
        widener.run(&plan, results);
        Some(widener.out.finish())
    }

    /// What work-items do in a function, with arguments that differ as their context.
    fn region(&self, callee: &Function, form: &Form) -> Option<Region> {
        let mut body = callee.clone();
        body.signature = Signature::Kernel;
        body.callees = self.clone();
        let start = body.split_head(Block(0));
        let item = body.add_block();
        body.jump(Block(0), item);
        let mut context = Vec::new();
        let varying: Vec<usize> = (0..form.uniform.len()).filter(|&number| !form.uniform[number]).collect();
        for (before, number) in varying.into_iter().enumerate() {
            let param = body.params.get(number - before)?.value;
            let slot = ContextSlot(context.len() as u32);
            context.push(ContextKind::Varying(body.ty(param).clone()));
            body.compute_param(number - before, item, Op::ContextLoad(slot));
        }
        let Signature::Function { result } = &callee.signature else { return None };
        let end = body.add_block();
        let result = result.as_ref().map(|ty| body.add_block_param(end, ty.clone()));
        for block in body.block_ids() {
            if let Terminator::Return(value) = &body.block(block).terminator {
                let arguments = value.iter().copied().collect();
                body.set_terminator(block, Terminator::Jump(crate::Target { block: end, arguments }));
            }
        }
        body.set_terminator(end, Terminator::Return(result));
        if form.masked {
            let slot = ContextSlot(context.len() as u32);
            context.push(ContextKind::Varying(Type::BOOL));
            let none = result.map(|result| {
                let ty = body.ty(result).clone();
                body.constant(ty, Constant::Poison)
            });
            let mut builder = Builder { function: &mut body, at: item };
            let active = builder.push(Type::BOOL, Op::ContextLoad(slot));
            let none: Vec<Value> = none.into_iter().collect();
            builder.branch(active, (start, &[]), (end, &none));
        } else {
            body.jump(item, start);
        }
        let facts = Facts::new(&body, &context, form.lanes)?;
        let body = match merge_adjacent(&body, &facts, false) {
            Some(Merging { body, .. }) => body,
            None => body,
        };
        Some(Region { body, context })
    }
}

/// Whether a function is one of the builtin library's.
fn is_of_library(function: &Function) -> bool {
    function.name.rsplit('.').next().is_some_and(|name| name.starts_with("spirula_"))
}

/// A function as a region.
struct Region {
    body: Function,
    context: Vec<ContextKind>,
}

/// The functions whose calls nest no deeper than that.
fn shallow(module: &Module) -> HashSet<&str> {
    let mut known: HashSet<&str> = HashSet::new();
    for _ in 0..MOST_NESTED {
        let calls_known = |function: &&Function| {
            function.insts().all(|inst| match function.op(inst) {
                Op::Call { function, .. } => known.contains(&**function),
                _ => true,
            })
        };
        let more: Vec<&str> =
            module.functions.iter().filter(calls_known).map(|function| function.name.as_str()).collect();
        known.extend(more);
    }
    known
}

/// What a function in lanes yields: a vector for each component.
fn wide_type(ty: &Type, lanes: u32) -> Type {
    match components(ty)[..] {
        [only] => Type::Vector(only, lanes),
        ref all => Type::Struct(all.iter().map(|&scalar| Type::Vector(scalar, lanes)).collect()),
    }
}

impl Widener<'_> {
    /// What a called function yields.
    pub(super) fn returned(&mut self, value: Value) -> Value {
        let lanes = self.lanes_of(value);
        if let [only] = lanes[..] {
            return only;
        }
        let ty = wide_type(self.body.ty(value), self.lanes);
        let none = self.constant(ty.clone(), Constant::Poison);
        (0..).zip(lanes).fold(none, |aggregate, (number, value)| {
            let indices = vec![number].into();
            self.push(ty.clone(), Op::InsertValue { aggregate, value, indices })
        })
    }

    /// A call in lanes; none if each lane is to make its own.
    pub(super) fn call(&mut self, op: &Op, result: Option<Value>) -> Option<Vec<Value>> {
        let Op::Call { function, pure, nocapture, nosync, arguments } = op else { return None };
        let uniform: Vec<bool> = arguments.iter().map(|&argument| self.is_uniform(argument)).collect();
        self.body.callees.estimate(op, self.lanes, uniform.clone()).filter(|estimate| estimate.in_lanes)?;
        let mask = self.mask();
        let form = Form { function: function.clone(), lanes: self.lanes, uniform, masked: mask.is_some() };
        let wide = self.body.callees.wide(&form)?;
        let (same, other): (Vec<_>, Vec<_>) =
            arguments.iter().partition(|&&argument| self.is_uniform(argument));
        let mut passed: Vec<Value> = same.into_iter().map(|argument| self.first_lane(argument)).collect();
        passed.extend(other.into_iter().flat_map(|argument| self.lanes_of(argument)));
        passed.extend(mask);
        let call = Op::Call {
            function: wide.name.as_str().into(),
            pure: *pure,
            nocapture: *nocapture,
            nosync: *nosync,
            arguments: passed,
        };
        let (Some(result), Signature::Function { result: Some(ty) }) = (result, &wide.signature) else {
            self.out.function.push_effect(self.at, call);
            return Some(Vec::new());
        };
        let scalars = components(self.body.ty(result));
        let all = self.push(ty.clone(), call);
        if scalars.len() == 1 {
            return Some(vec![all]);
        }
        let part = |(number, scalar): (usize, Scalar)| {
            let indices = vec![number as u32].into();
            self.push(self.wide(scalar), Op::ExtractValue { aggregate: all, indices })
        };
        Some(scalars.into_iter().enumerate().map(part).collect())
    }
}
