//! Widening: calls. What is too large to be inlined everywhere is widened by itself: a pack calls it once, with a vector for each component
//! of an argument that differs between lanes, and a mask if not all lanes are active. After Karrenberg and Hack, "Whole-Function
//! Vectorization" (CGO 2011).
//!
//! Such a function is a region whose work-items get their arguments as what was kept for them over a barrier. Private memory lies for it as it
//! does for its caller: pointers into what is interleaved there ([`super::slots`]) lead into interleaved memory here.

use super::adjacent::{Merging, merge_adjacent};
use super::cost::{Cost, cost};
use super::schedule::schedule;
use super::slots::ArgumentAccesses;
use super::tables::Tables;
use super::values::components;
use super::{Facts, Widener, new_widener};
use crate::analysis::{ControlFlow, Loops, Shape};
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
    /// What functions access by their arguments, which are pointers; none where it isn't known, or they can't be widened.
    accesses: Mutex<HashMap<Argument, Option<Arc<ArgumentAccesses>>>>,
}

/// A function's argument, by its number.
type Argument = (Arc<str>, usize);

/// How a pack passes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Passing {
    /// It is the same in all lanes.
    Uniform,
    /// As a vector for each component.
    Varying,
    /// A pointer into private memory that is interleaved, in elements of so many bytes: the first lane's, if lanes' are neighbours.
    Interleaved { element: u64, neighbours: bool },
}

/// What a pack calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub function: Arc<str>,
    pub lanes: u32,
    /// How each is passed.
    pub arguments: Vec<Passing>,
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
        let shape = |passing: &Passing| match passing {
            Passing::Uniform => "u".into(),
            Passing::Varying => "v".into(),
            Passing::Interleaved { element, neighbours: true } => format!("n{element}"),
            Passing::Interleaved { element, neighbours: false } => format!("p{element}"),
        };
        let shapes: String = self.arguments.iter().map(shape).collect();
        let masked = if self.masked { "m" } else { "" };
        format!("{}.x{}{masked}.{shapes}", self.function, self.lanes)
    }

    /// Whether only code in lanes finds the memory that an argument leads to.
    fn must_be_in_lanes(&self) -> bool {
        self.arguments.iter().any(|passing| matches!(passing, Passing::Interleaved { .. }))
    }
}

impl Facts {
    /// How a call passes an argument.
    pub(super) fn passing(&self, argument: Value, user: Block) -> Passing {
        let shape = self.shapes.shape_at(argument, user);
        match self.slots.element(argument) {
            Some(element) => {
                let neighbours = matches!(shape, Shape::Affine { stride, .. } if stride == element as i64);
                Passing::Interleaved { element, neighbours }
            }
            None if shape == Shape::Uniform => Passing::Uniform,
            None => Passing::Varying,
        }
    }
}

impl Callees {
    /// A program's, on this processor, whose tables are these.
    pub fn new(module: &Module, target: TargetFacts, tables: &Tables) -> Self {
        let private = module.stack_sizes();
        let private = |name: &str| private.get(name).copied().unwrap_or(u64::MAX);
        let shallow = shallow(module);
        let with_tables = |function: &Function| {
            let mut function = function.clone();
            function.tables = tables.clone();
            function
        };
        let functions = module
            .functions
            .iter()
            .filter(|function| !function.attributes.cold && shallow.contains(function.name.as_str()));
        let functions: HashMap<String, (Function, u64)> = functions
            .map(|function| (function.name.clone(), (with_tables(function), private(&function.name))))
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
            accesses: Mutex::default(),
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

    /// What a function accesses by an argument, which is a pointer. None if that isn't known, or packs of so many lanes don't call it in lanes
    /// whatever it costs.
    pub(super) fn accesses(
        &self,
        function: &Arc<str>,
        argument: usize,
        lanes: Option<u32>,
    ) -> Option<Arc<ArgumentAccesses>> {
        let table = self.0.as_ref()?;
        let (callee, private) = table.functions.get(&**function)?;
        if lanes.is_some_and(|lanes| private.saturating_mul(lanes.into()) > MOST_PRIVATE) {
            return None;
        }
        let key = (function.clone(), argument);
        if let Some(known) = table.accesses.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        let can_be_widened = || Loops::new(&ControlFlow::new(callee)).is_some();
        let parameter = callee.params.get(argument).filter(|_| can_be_widened());
        let accesses = parameter.and_then(|parameter| {
            let mut body = callee.clone();
            body.callees = self.clone();
            ArgumentAccesses::new(&body, parameter.value).map(Arc::new)
        });
        table.accesses.lock().unwrap_or_else(PoisonError::into_inner).insert(key, accesses.clone());
        accesses
    }

    /// What a call costs; none if that isn't known.
    pub(super) fn estimate(&self, op: &Op, lanes: u32, arguments: Vec<Passing>) -> Option<Estimate> {
        let Op::Call { function, .. } = op else { return None };
        // The mask makes little difference.
        let form = Form { function: function.clone(), lanes, arguments, masked: true };
        let must_be_in_lanes = form.must_be_in_lanes();
        let table = self.0.as_ref()?;
        let known = table.estimates.lock().unwrap_or_else(PoisonError::into_inner).get(&form).copied();
        let cost = known.unwrap_or_else(|| {
            let cost = self.estimate_anew(table, &form);
            table.estimates.lock().unwrap_or_else(PoisonError::into_inner).insert(form, cost);
            cost
        });
        let Cost { scalar, pack } = cost?;
        let of_instances = f64::from(lanes) * (scalar + table.target.costs.instance);
        Some(Estimate { cost: Cost { scalar, pack }, in_lanes: must_be_in_lanes || pack < of_instances })
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
        let plan = schedule(&body, &facts, &context);
        let Signature::Function { result } = &callee.signature else { return None };
        let mut function =
            Function::callable(&form.name(), result.as_ref().map(|ty| wide_type(ty, form.lanes)));
        function.attributes = callee.attributes;
        for param in &body.params {
            function.add_param(body.ty(param.value).clone(), param.offset, param.passing);
        }
        let arguments = context.iter().map(|kind| {
            let types = match kind {
                ContextKind::Interleaved { ty, neighbours: true, .. } => vec![ty.clone()],
                ContextKind::Varying(ty) | ContextKind::Interleaved { ty, .. } => {
                    components(ty).into_iter().map(|scalar| Type::Vector(scalar, form.lanes)).collect()
                }
                _ => Vec::new(),
            };
            types.into_iter().map(|ty| function.add_argument(ty, Promises::default())).collect()
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
        for (number, &passing) in form.arguments.iter().enumerate() {
            let slot = ContextSlot(context.len() as u32);
            let number = number - context.len();
            let param = body.params.get(number)?.value;
            let ty = body.ty(param).clone();
            context.push(match passing {
                Passing::Uniform => continue,
                Passing::Varying => ContextKind::Varying(ty),
                Passing::Interleaved { element, neighbours } => {
                    ContextKind::Interleaved { ty, element, neighbours }
                }
            });
            body.compute_param(number, item, Op::ContextLoad(slot));
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
        let passing: Vec<Passing> = arguments.iter().map(|&v| self.facts.passing(v, self.user)).collect();
        let mask = self.mask();
        let form = Form {
            function: function.clone(),
            lanes: self.lanes,
            arguments: passing.clone(),
            masked: mask.is_some(),
        };
        if !form.must_be_in_lanes() {
            let estimate = self.body.callees.estimate(op, self.lanes, passing.clone());
            estimate.filter(|estimate| estimate.in_lanes)?;
        }
        let wide = self.body.callees.wide(&form)?;
        let (same, other): (Vec<_>, Vec<_>) =
            arguments.iter().zip(passing).partition(|&(_, passing)| passing == Passing::Uniform);
        let mut passed: Vec<Value> = same.into_iter().map(|(&v, _)| self.first_lane(v)).collect();
        passed.extend(other.into_iter().flat_map(|(&argument, passing)| match passing {
            Passing::Interleaved { neighbours: true, .. } => vec![self.first_lane(argument)],
            _ => self.lanes_of(argument),
        }));
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
