//! Transform: checks in kernels (`SPIRULA_CHECK`), one pass a kind. They are written into work-items' code, before all other passes, so that
//! whatever becomes of a kernel checks the same; an ordinary build has none of it.
//!
//! `memory` guards each access with the bounds of what its pointer leads to, which `provenance` finds; `arithmetic` looks at divisions
//! and conversions, `nan` at what is not finite, `barriers` at who comes to them, `uninitialized` at what is done with values that nothing wrote. What is found they tell by calling [`NOTE`], on a path that nothing else takes.

mod apart;
mod arithmetic;
mod barriers;
mod bounds;
mod images;
mod memory;
mod nan;
mod provenance;
mod races;
mod shadow;
mod shadow_memory;
mod uninitialized;

use crate::builder::Builder;
use crate::{CastOp, Function, LocationId, Module, Op, Passing, Type, Value, WorkItemQuery};
use spirula_interface::check::places::Places;
use spirula_interface::check::{Checked, Checks, Site};
use spirula_interface::program::{HiddenKind, KernelSignature};
use std::collections::HashMap;
use std::sync::Arc;

/// The functions that checks call, as the module must define them, and the builtin library's names of them.
pub const FUNCTIONS: [Callee; 13] = [
    Callee { name: NOTE, symbol: "spirula_check_note", parameters: 8, yields: false },
    Callee { name: FIND, symbol: "spirula_check_find", parameters: 2, yields: true },
    Callee { name: ARRIVE, symbol: "spirula_check_arrive", parameters: 8, yields: false },
    Callee { name: races::BEGIN, symbol: "spirula_races_begin", parameters: 5, yields: false },
    Callee { name: races::WAIT, symbol: "spirula_races_wait", parameters: 3, yields: false },
    Callee { name: races::GLOBAL, symbol: "spirula_races_global", parameters: 6, yields: false },
    Callee { name: races::LOCAL, symbol: "spirula_races_local", parameters: 5, yields: false },
    Callee { name: races::ANY, symbol: "spirula_races_any", parameters: 5, yields: false },
    Callee { name: races::OBSERVE, symbol: "spirula_races_observe", parameters: 5, yields: false },
    Callee { name: races::FENCE, symbol: "spirula_races_fence", parameters: 2, yields: false },
    Callee { name: SHADOW, symbol: "spirula_check_shadow", parameters: 4, yields: true },
    Callee { name: FILL_SHADOW, symbol: "spirula_check_fill_shadow", parameters: 3, yields: false },
    Callee { name: COPY_SHADOW, symbol: "spirula_check_copy_shadow", parameters: 3, yields: true },
];
/// What is called with an image's address, whether it is written to, three coordinates and three sizes, where there is no such texel.
pub const IMAGE_OUTSIDE: &str = "spirula.image_outside";
const NOTE: &str = "spirula.check.note";
const FIND: &str = "spirula.check.find";
const ARRIVE: &str = "spirula.check.arrive";
const SHADOW: &str = "spirula.check.shadow";
const FILL_SHADOW: &str = "spirula.check.fill_shadow";
const COPY_SHADOW: &str = "spirula.check.copy_shadow";

/// A function that checks call.
#[derive(Debug)]
pub struct Callee {
    /// What they call it.
    pub name: &'static str,
    /// The builtin library's name of it.
    pub symbol: &'static str,
    /// How many there are, each an i64.
    pub parameters: usize,
    /// Whether it yields an i64.
    pub yields: bool,
}

impl Callee {
    /// Whether it stands on the way of right programs, too.
    pub fn is_hot(&self) -> bool {
        ![NOTE, FIND].contains(&self.name)
    }
}

/// A variable in a block of memory.
#[derive(Clone, Debug)]
pub struct Variable {
    /// As the source calls it, or nearly.
    pub name: String,
    /// Where it begins.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// Where a program's variables lie.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// In the program's block.
    pub program: Vec<Variable>,
    /// In each kernel's static local memory.
    pub local: Vec<Vec<Variable>>,
}

/// Writes checks into a module's kernels, and notes their sites in the kernels' signatures. The module has the [`FUNCTIONS`].
pub fn instrument(
    module: &mut Module,
    signatures: &mut [KernelSignature],
    variables: &Variables,
    checks: Checks,
) {
    let sizes: HashMap<Arc<str>, u64> =
        module.constants.iter().map(|constant| (constant.name.clone(), constant.size)).collect();
    for (number, (kernel, signature)) in module.kernels.iter_mut().zip(signatures).enumerate() {
        let Some(block) = hidden(kernel, signature) else { continue };
        let local = variables.local.get(number).map_or(&[][..], Vec::as_slice);
        let context = Context { signature, constants: &sizes, program: &variables.program, local };
        let own = (kernel.value_count(), kernel.inst_count());
        let mut checker = Checker { block, own, sites: Vec::new(), places: Vec::new() };
        if checks.contains(Checks::ARITHMETIC) {
            arithmetic::check(kernel, &mut checker);
        }
        if checks.contains(Checks::NAN) {
            nan::check(kernel, &mut checker);
        }
        // Before other checks split blocks at what they guard: it looks at the accesses as they were written.
        if checks.contains(Checks::MEMORY) {
            images::check(kernel, &mut checker, &context);
            memory::check(kernel, &mut checker, &context);
        }
        // Behind what `memory` leaves out.
        if checks.contains(Checks::RACES) {
            races::check(kernel, &mut checker, &context);
        }
        if checks.contains(Checks::BARRIERS) {
            barriers::check(kernel, &mut checker);
        }
        // Last: the others' instructions are not looked at, as far as they are known for theirs by their numbers.
        if checks.contains(Checks::UNINITIALIZED) {
            uninitialized::check(kernel, &mut checker, &context);
        }
        (signature.sites, signature.places) = (checker.sites, checker.places);
    }
}

/// What is known of a kernel and its program.
struct Context<'m> {
    signature: &'m KernelSignature,
    constants: &'m HashMap<Arc<str>, u64>,
    program: &'m [Variable],
    local: &'m [Variable],
}

/// What all checks of a kernel share.
struct Checker {
    /// The parameter that leads to the launch's block.
    block: Value,
    /// The first value and the first instruction that checks made.
    own: (usize, usize),
    sites: Vec<Site>,
    /// Where no races are looked for if work-items are apart there.
    places: Vec<Places>,
}

/// The parameter of the launch's block.
fn hidden(kernel: &Function, signature: &KernelSignature) -> Option<Value> {
    let offset = signature.hidden_offset(HiddenKind::Checks)?;
    let param = kernel.params.iter().find(|p| p.passing == Passing::Direct && p.offset == offset)?;
    Some(param.value)
}

impl Checker {
    /// A new site.
    fn site(&mut self, function: &Function, at: Option<LocationId>, what: Checked) -> u64 {
        let location = at.and_then(|at| function.location_of(at)).cloned();
        self.sites.push(Site { location, what });
        self.sites.len() as u64 - 1
    }

    /// The address of the launch's block.
    fn block_address(&self, builder: &mut Builder) -> Value {
        builder.cast(CastOp::PtrToInt, Type::I64, self.block)
    }

    /// Tells what a site found in this work-item.
    fn note(&self, builder: &mut Builder, site: u64, values: [Value; 3]) {
        let (block, site) = (self.block_address(builder), builder.int(site));
        let mut arguments = vec![block, site];
        arguments.extend(values);
        arguments.extend(item(builder));
        builder.effect(call(NOTE, arguments));
    }

    /// Goes on where `good` says so, and else tells it first.
    fn note_unless(&self, builder: &mut Builder, good: Value, site: u64) {
        let (bad, on) = (builder.function.add_block(), builder.function.add_block());
        builder.branch(good, (on, &[]), (bad, &[]));
        builder.at = bad;
        let zero = builder.int(0);
        self.note(builder, site, [zero; 3]);
        builder.jump(on, &[]);
        builder.at = on;
    }
}

/// The work-item's global id.
fn item(builder: &mut Builder) -> [Value; 3] {
    [0, 1, 2].map(|dimension| query(builder, WorkItemQuery::GlobalId, dimension))
}

fn query(builder: &mut Builder, query: WorkItemQuery, dimension: u8) -> Value {
    builder.push(Type::I64, Op::WorkItem { query, dimension })
}

fn call(function: &str, arguments: Vec<Value>) -> Op {
    Op::Call { function: function.into(), pure: false, nocapture: false, nosync: false, arguments }
}

#[cfg(test)]
mod tests;
