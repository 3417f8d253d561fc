//! The passes that make a work-group function of a kernel, in the order in which they run.

use crate::analysis::{any_order, sees_group, sees_sub_groups};
use crate::lower::{How, WorkGroupFunction, lower};
use crate::transform::widen::{
    Wanted, alternatives, call_for_elements, choose, choose_sub_groups, described, usual_sub_groups,
};
use crate::transform::{self, WorkGroup};
use crate::{Function, verify};
use spirula_interface::options::Usual;
use spirula_interface::program::Alternative;
use spirula_interface::target::TargetFacts;
use std::fmt::{self, Display, Formatter};

/// What passes go by.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The processor.
    pub facts: TargetFacts,
    /// Lanes to use wherever possible, a power of two up to 64; 1 is scalar code. None lets the cost model choose.
    pub lanes: Option<u32>,
    /// Lanes to use where the cost model has a choice that they are part of.
    pub preferred_lanes: Option<u32>,
    /// Whether passes that only serve speed run; without them each line of the source has one place in a function.
    pub optimize: bool,
    /// Whether the verifier sees what each pass yields.
    pub verify: bool,
    /// Whether remarks say what packs spend their time on, which takes some.
    pub explain: bool,
    /// Whether pointers are offsets in a block of memory that all of the program's lies in.
    pub linear_memory: bool,
    /// What launches are expected to be like; see [`How::usual`].
    pub usual: Option<Usual>,
}

/// A pass: its name, which is also `kir-opt`'s, and why it stands where it stands.
pub struct Pass {
    /// As dumps and `kir-opt` call it.
    pub name: &'static str,
    /// Why it runs at this place and no other.
    pub reason: &'static str,
    run: Run,
}

/// What a pass takes and yields.
enum Run {
    Cut(fn(Function) -> WorkGroup),
    Regions(fn(&mut WorkGroup, &Options, &mut Vec<String>)),
    Lower(fn(&WorkGroup, &str, &Options) -> WorkGroupFunction),
    Lowered(fn(&mut WorkGroupFunction, &Options)),
    Function(fn(&mut Function, &Options)),
}

/// The passes in order.
pub const PASSES: [Pass; 34] = [
    Pass {
        name: "spaces",
        reason: "first: what else is decided goes by who may share the memory that a pointer leads to",
        run: Run::Function(|function, _| transform::infer_spaces(function)),
    },
    Pass {
        name: "idle-barriers",
        reason: "behind `spaces`, which tells memories apart; before all that asks whether work-items wait for each other",
        run: Run::Function(|function, options| {
            if options.optimize {
                transform::remove_idle_barriers(function);
            }
        }),
    },
    Pass {
        name: "components",
        reason: "before all that looks into indices: they are scalars",
        run: Run::Function(|function, _| transform::compute_components(function)),
    },
    Pass {
        name: "shifted-sums",
        reason: "before `small-parameters` and all that asks whether lanes' indices are neighbours: sums and products stand in front of what cuts them",
        run: Run::Function(|function, _| transform::factor_shifts(function)),
    },
    Pass {
        name: "demanded-bits",
        reason: "behind `shifted-sums`, which makes two shifts of what cuts a sum; before all that asks whether lanes' indices are neighbours",
        run: Run::Function(|function, _| transform::count_in_demanded_bits(function)),
    },
    Pass {
        name: "narrow-loops",
        reason: "behind `demanded-bits`, which leaves out extensions; before `widen` and its cost model, for which lanes of 32 bits are cheaper",
        run: Run::Function(|function, options| {
            if options.optimize {
                transform::narrow_loops(function);
            }
        }),
    },
    Pass {
        name: "power-divisors",
        reason: "before `widen`, whose vectors can shift and not divide, and its cost model",
        run: Run::Function(|function, _| transform::shift_by_powers(function)),
    },
    Pass {
        name: "equal-ids",
        reason: "before `loop-loads`, which keeps in registers what lies at an address that is the same for all work-items",
        run: Run::Function(|function, options| {
            if options.optimize {
                transform::substitute_equal_ids(function);
            }
        }),
    },
    Pass {
        name: "small-parameters",
        reason: "before `regions`, which keeps ids and indices apart: what is added to an id is still seen",
        run: Run::Function(|function, _| transform::find_small_parameters(function)),
    },
    Pass {
        name: "row-dimension",
        reason: "behind what makes lanes' indices neighbours, before `loop-loads`, which one tier does without, and all that speaks of packs",
        run: Run::Function(|function, _| transform::choose_row_dimension(function)),
    },
    Pass {
        name: "loop-loads",
        reason: "before `widen`: what goes from iteration to iteration as a value, packs keep in registers and the cost model sees",
        run: Run::Function(|function, options| {
            if options.optimize {
                transform::eliminate_loop_loads(function);
            }
        }),
    },
    Pass {
        name: "dead-stores",
        reason: "behind `loop-loads`, which makes values of what was loaded; before `regions`, which keeps memory for each work-item, and `widen`, which scatters",
        run: Run::Function(|function, options| {
            if options.optimize {
                transform::remove_dead_stores(function);
            }
        }),
    },
    Pass {
        name: "loop-exits",
        reason: "behind `loop-loads`, which has loops yield values; before `uniform-loops` and all that asks what is the same for all work-items",
        run: Run::Function(|function, _| transform::split_loop_exits(function)),
    },
    Pass {
        name: "uniform-loops",
        reason: "behind `loop-loads`, which makes values of sums in memory; before `regions`, which cuts where it says",
        run: Run::Function(|function, _| transform::part_uniform_loops(function)),
    },
    Pass {
        name: "regions",
        reason: "behind `spaces`, before all that works on regions: what stands between two barriers runs in a loop over work-items",
        run: Run::Cut(transform::form_regions),
    },
    Pass {
        name: "contract",
        reason: "behind `regions`, which keeps a product rather than its factors; before `widen`: what it costs is known then, and all widths round alike",
        run: Run::Regions(contract),
    },
    Pass {
        name: "local-volatile",
        reason: "behind all that keeps values of memory in registers, which `volatile` forbids; before `widen`, whose packs access it lane by lane",
        run: Run::Regions(|group, options, _| {
            if options.optimize {
                transform::access_locals_plainly(group);
            }
        }),
    },
    Pass {
        name: "widen",
        reason: "on regions: packs are made of what all work-items do before any of them goes on",
        run: Run::Regions(widen),
    },
    Pass {
        name: "element-calls",
        reason: "behind `widen`, whose packs make such calls in lanes of their own; before `lower`, which keeps what is called",
        run: Run::Regions(element_calls),
    },
    Pass {
        name: "stream",
        reason: "behind `widen`: only vectors are long enough for stores past the caches",
        run: Run::Regions(stream),
    },
    Pass {
        name: "lower",
        reason: "behind all that speaks of work-items: from here on there are loops instead",
        run: Run::Lower(|group, symbol, options| {
            let Options { linear_memory, usual, .. } = *options;
            lower(group, symbol, How { linear_memory, usual })
        }),
    },
    Pass {
        name: "local-atomics",
        reason: "behind `lower`, which takes plain accesses of different work-items for independent",
        run: Run::Function(|function, _| transform::expand_local_atomics(function)),
    },
    Pass {
        name: "reciprocals",
        reason: "behind `widen`, which widens the primitives as a whole",
        run: Run::Function(|function, options| transform::expand_reciprocals(function, &options.facts)),
    },
    Pass {
        name: "scale",
        reason: "behind `widen`, for the same reason",
        run: Run::Function(|function, options| transform::expand_scales(function, &options.facts)),
    },
    Pass {
        name: "lookups",
        reason: "behind `widen`, which has tables looked up",
        run: Run::Function(|function, _| transform::expand_lookups(function)),
    },
    Pass {
        name: "high-products",
        reason: "behind `widen`, for the same reason",
        run: Run::Function(|function, _| transform::expand_high_products(function)),
    },
    Pass {
        name: "byte-division",
        reason: "behind `widen`, which makes vectors of what one work-item does",
        run: Run::Function(|function, _| transform::widen_byte_divisions(function)),
    },
    Pass {
        name: "saturation",
        reason: "behind `widen`, for the same reason",
        run: Run::Function(|function, _| transform::expand_saturation(function)),
    },
    Pass {
        name: "narrow-conversions",
        reason: "behind `saturation`, which makes some",
        run: Run::Function(|function, _| transform::widen_narrow_conversions(function)),
    },
    Pass {
        name: "minimum",
        reason: "behind `widen`, whose cost model knows the intrinsics, and `local-atomics`, which makes some",
        run: Run::Function(|function, _| transform::expand_minima(function)),
    },
    Pass {
        name: "elements",
        reason: "behind `widen` and `local-atomics`, which access memory lane by lane",
        run: Run::Function(|function, options| {
            // In linear memory sums of base and index are what is cut to 32 bits: the proof that code stays there knows lanes of sums.
            if !options.linear_memory {
                transform::access_by_elements(function, &options.facts);
            }
        }),
    },
    Pass {
        name: "shuffles",
        reason: "behind `widen`, which makes most of them",
        run: Run::Function(|function, _| transform::compose_shuffles(function)),
    },
    Pass {
        name: "dead-code",
        reason: "behind all that computes: of what the launch says most kernels ask little",
        run: Run::Function(|function, _| transform::remove_dead_code(function)),
    },
    Pass {
        name: "linear-memory",
        reason: "last: no pass behind it makes an address",
        run: Run::Lowered(linear_memory),
    },
];

/// A kernel on its way.
#[derive(Clone, Debug)]
pub enum Form {
    /// As it was imported, or any function.
    Function(Function),
    /// Cut at its barriers.
    Regions(WorkGroup),
    /// As it will be called.
    Lowered(WorkGroupFunction),
}

impl Display for Form {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Form::Function(function) => write!(f, "{function}"),
            Form::Regions(group) => write!(f, "{group}"),
            Form::Lowered(lowered) => lowered.functions().try_for_each(|function| write!(f, "{function}")),
        }
    }
}

/// Why a pass could not do its work, or did it wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PassError {
    /// A bug of ours.
    #[error("the pass `{pass}` broke a rule of Kernel IR: {rule}")]
    Broken {
        /// By name.
        pass: &'static str,
        /// In the verifier's words.
        rule: String,
    },
    /// The program asks for what the kernel's sub-groups can't be.
    #[error("its sub-groups can't be of {wanted} work-items, as it asks: {reason}")]
    SubGroups {
        /// Work-items.
        wanted: u32,
        /// Why.
        reason: String,
    },
    /// The passes were given in an order that makes no sense.
    #[error("the pass `{pass}` works on {wanted}, which this is not")]
    Misplaced {
        /// By name.
        pass: &'static str,
        /// What it takes.
        wanted: &'static str,
    },
}

impl Pass {
    /// The pass of that name.
    pub fn named(name: &str) -> Option<&'static Pass> {
        PASSES.iter().find(|pass| pass.name == name)
    }

    /// Does its work; adds lines for the build log. `symbol` is what the work-group function is called.
    pub fn apply(
        &self,
        form: Form,
        symbol: &str,
        options: &Options,
        remarks: &mut Vec<String>,
    ) -> Result<Form, PassError> {
        let misplaced = |wanted| Err(PassError::Misplaced { pass: self.name, wanted });
        let form = match (&self.run, form) {
            (Run::Cut(run), Form::Function(kernel)) => Form::Regions(run(kernel)),
            (Run::Regions(run), Form::Regions(mut group)) => {
                run(&mut group, options, remarks);
                Form::Regions(group)
            }
            (Run::Lower(run), Form::Regions(group)) => Form::Lowered(run(&group, symbol, options)),
            (Run::Lowered(run), Form::Lowered(mut lowered)) => {
                run(&mut lowered, options);
                Form::Lowered(lowered)
            }
            (Run::Function(run), Form::Function(mut function)) => {
                run(&mut function, options);
                Form::Function(function)
            }
            (Run::Function(run), Form::Lowered(mut lowered)) => {
                lowered.functions_mut().for_each(|function| run(function, options));
                Form::Lowered(lowered)
            }
            (Run::Cut(_), _) => return misplaced("a kernel"),
            (Run::Regions(_) | Run::Lower(_), _) => return misplaced("regions"),
            (Run::Lowered(_), _) => return misplaced("a work-group function"),
            (Run::Function(_), _) => return misplaced("a function"),
        };
        if options.verify {
            if let (Run::Lowered(_), Form::Lowered(lowered), true) = (&self.run, &form, options.linear_memory)
            {
                let check = |function: &Function| {
                    transform::check_linear_memory(
                        function,
                        Some(function.params[WorkGroupFunction::LAUNCH].value),
                    )
                };
                lowered
                    .functions()
                    .try_for_each(check)
                    .map_err(|rule| PassError::Broken { pass: self.name, rule })?;
            }
            verify_form(&form).map_err(|rule| PassError::Broken { pass: self.name, rule })?;
        }
        Ok(form)
    }
}

/// Verifies every function of a kernel on its way.
fn verify_form(form: &Form) -> Result<(), String> {
    match form {
        Form::Function(function) => verify(function),
        Form::Lowered(lowered) => lowered.functions().try_for_each(verify),
        Form::Regions(group) => group.regions.iter().try_for_each(|region| {
            verify(&region.body)?;
            region.wide.iter().chain(&region.tail).try_for_each(|wide| verify(&wide.body))
        }),
    }
}

/// A kernel's work-group function and what the host must know of it.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The function and the memory that it needs.
    pub group: WorkGroupFunction,
    /// Bytes of static local memory.
    pub static_local_size: u64,
    /// See [`spirula_interface::program::KernelInfo::sees_group`].
    pub sees_group: bool,
    /// See [`spirula_interface::program::KernelCode::any_order`].
    pub any_order: bool,
    /// See [`spirula_interface::program::KernelInfo::lanes`].
    pub lanes: u32,
    /// See [`spirula_interface::program::KernelCode::alternatives`].
    pub alternatives: Vec<Alternative>,
    /// See [`spirula_interface::program::KernelCode::sub_group_size`].
    pub sub_group_size: u32,
    /// See [`spirula_interface::program::KernelCode::row_dimension`].
    pub row_dimension: u8,
    /// What was decided, a line each.
    pub remarks: Vec<String>,
}

/// Makes a kernel's work-group function of that name. `observe` sees what each pass yields.
pub fn run(
    kernel: Function,
    symbol: &str,
    options: &Options,
    mut observe: impl FnMut(&Pass, &Form),
) -> Result<Lowered, PassError> {
    let (name, static_local_size) = (kernel.name.clone(), kernel.local_size);
    let (sees_group, any_order) = (sees_group(&kernel), any_order(&kernel));
    let mut decisions = Vec::new();
    let mut remarks = Vec::new();
    let (mut lanes, mut alternatives, mut sub_group_size, mut row_dimension) = (1, Vec::new(), 1, 0);
    let (required, sees_sub_groups) = (kernel.required_sub_group_size, sees_sub_groups(&kernel));
    let mut form = Form::Function(kernel);
    if options.verify {
        verify_form(&form).map_err(|rule| PassError::Broken { pass: "import", rule })?;
    }
    for pass in &PASSES {
        form = pass.apply(form, symbol, options, &mut decisions)?;
        observe(pass, &form);
        if let Form::Regions(group) = &form {
            let (count, kept) = (group.regions.len(), group.context.len());
            remarks = vec![format!("kernel {name}: {count} barrier region(s), {kept} context slot(s)")];
            let wide = group.regions.iter().filter_map(|region| region.wide.as_ref());
            lanes = wide.map(|wide| wide.lanes).max().unwrap_or(1);
            alternatives.clone_from(&group.alternatives);
            sub_group_size = group.sub_group_size;
            row_dimension = group.regions.first().map_or(0, |region| region.body.row_dimension);
        }
    }
    match required {
        Some(wanted) if sees_sub_groups && wanted != sub_group_size => {
            return Err(PassError::SubGroups { wanted, reason: decisions.join("; ") });
        }
        _ if sees_sub_groups => {}
        // Nothing in it could tell. SYCL's programs choose their work-groups by it: of one work-item, they would be small.
        wanted => sub_group_size = wanted.unwrap_or(usual_sub_groups(&options.facts)),
    }
    remarks.extend(decisions.iter().map(|decision| format!("kernel {name}: {decision}")));
    match form {
        Form::Lowered(group) => {
            if row_dimension > 0 && lanes > 1 {
                remarks.push(format!("kernel {name}: its rows lie along dimension {row_dimension}"));
            }
            Ok(Lowered {
                group,
                static_local_size,
                sees_group,
                any_order,
                lanes,
                alternatives,
                sub_group_size,
                row_dimension,
                remarks,
            })
        }
        _ => unreachable!("the passes yield a work-group function"),
    }
}

fn widen(group: &mut WorkGroup, options: &Options, remarks: &mut Vec<String>) {
    if group.regions.iter().any(|region| sees_sub_groups(&region.body)) {
        let (size, reason) = choose_sub_groups(group, &options.facts, options.lanes);
        group.sub_group_size = size;
        return remarks.push(reason);
    }
    let unseen = group.regions.len() == 1 && group.context.is_empty() && !sees_group(&group.regions[0].body);
    let wanted = Wanted {
        forced: options.lanes,
        preferred: options.preferred_lanes,
        explained: options.explain,
        disjoint: options.usual.is_some_and(|usual| usual.disjoint),
    };
    let mut estimates = Vec::new();
    for (number, region) in group.regions.iter_mut().enumerate() {
        let choice = choose(region, &group.context, &options.facts, wanted, unseen);
        remarks.push(format!("region {number}: {}", choice.reason));
        (region.wide, region.tail) = (choice.wide, choice.tail);
        estimates.extend(choice.estimates);
    }
    // Who asks for a size of sub-groups may ask what came of it.
    if group.regions.iter().all(|region| region.body.required_sub_group_size.is_none()) {
        group.alternatives = alternatives(&estimates, options.preferred_lanes);
        remarks.extend(described(&group.alternatives));
    }
}

fn contract(group: &mut WorkGroup, options: &Options, _: &mut Vec<String>) {
    for region in &mut group.regions {
        transform::decide_contraction(&mut region.body, &options.facts);
    }
}

fn element_calls(group: &mut WorkGroup, options: &Options, _: &mut Vec<String>) {
    // Beside packs, baseline code may do what is left of a row, which calls nothing in lanes.
    for region in group.regions.iter_mut().filter(|region| options.optimize && region.wide.is_none()) {
        call_for_elements(&mut region.body);
    }
}

fn stream(group: &mut WorkGroup, options: &Options, remarks: &mut Vec<String>) {
    transform::stream_stores(group, &options.facts);
    if group.streams {
        remarks.push("stores to buffers that are never read may go past the caches".to_owned());
    }
}

fn linear_memory(lowered: &mut WorkGroupFunction, options: &Options) {
    if options.linear_memory {
        for function in lowered.functions_mut() {
            let launch = function.params[WorkGroupFunction::LAUNCH].value;
            transform::enter_linear_memory(function, Some(launch));
        }
    }
}
