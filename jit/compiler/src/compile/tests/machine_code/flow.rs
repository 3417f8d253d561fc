//! Follows the code of an object from its kernels' entries, and finds out what each access may access.

use super::arithmetic::negated;
use super::object::Image;
use super::state::{KEPT, Known, RSP, State};
use super::step::{Machine, number};
use super::value::{Base, Value};
use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Formatter as _, Instruction, InstructionInfoFactory,
    IntelFormatter, Mnemonic, OpKind, Register,
};
use std::collections::{BTreeMap, BTreeSet};

/// Changes of what is known at a place, after which bounds grow at once.
const PATIENCE: usize = 3;
/// Far more than any function needs.
const MOST_STEPS: usize = 1_000_000;
/// Where functions with many results are told where to leave them.
const RDI: usize = 7;
/// How often what is known is made more exact after that.
const NARROWINGS: usize = 2;

/// Functions of the outside that copy or fill memory, and those that touch none.
const COPIES: [&str; 3] = ["memcpy", "memmove", "memset"];
const PURE: [&str; 26] = [
    "fma",
    "fmaf",
    "fmod",
    "fmodf",
    "ceil",
    "ceilf",
    "floor",
    "floorf",
    "nearbyint",
    "nearbyintf",
    "trunc",
    "truncf",
    "spirula.half_to_float",
    "spirula.float_to_half",
    "spirula.double_to_half",
    "spirula.rsqrt14",
    "spirula.rsqrt14.f64",
    "spirula.rcp14",
    "spirula.rcp14.f64",
    "__extendhfsf2",
    "__truncsfhf2",
    "__truncdfhf2",
    "__udivti3",
    "__umodti3",
    "__divti3",
    "__modti3",
];

/// What is known where a function is entered.
#[derive(Clone, PartialEq)]
struct Entry {
    registers: [Value; 16],
    incoming: i64,
    lent: i64,
}

/// A block, and of flags whether they are zero or one, if they are.
type Way = (u64, Vec<Option<i64>>);

/// Where control goes from an instruction.
enum Next {
    Falls,
    To(Vec<(u64, State)>),
}

/// What is not known to be permitted, and the function that does it.
pub struct Refused {
    pub function: String,
    pub why: String,
}

/// What all of an object's code that a kernel's entry leads to, called with a launch, does besides what it may.
pub fn check(image: &Image, entry: &str) -> Vec<Refused> {
    let launch: [Value; 16] = std::array::from_fn(|number| match number {
        6 => Value::at(Base::Launch, 0),
        _ => Value::ANY,
    });
    let mut known: BTreeMap<usize, Entry> = BTreeMap::new();
    let mut waiting = BTreeSet::new();
    // Functions may be looked at again, with less known: what is found then counts.
    let mut refused: BTreeMap<usize, Vec<Refused>> = BTreeMap::new();
    let at = image.functions[entry];
    known.insert(at, Entry { registers: launch, incoming: 0, lent: 0 });
    waiting.insert(at);
    while let Some(at) = waiting.pop_first() {
        let mut function = Function::new(image, at, known[&at].clone());
        if let Err(why) = function.check() {
            function.refused.push(why);
        }
        let name = function.name().to_owned();
        let of_it = function.refused.into_iter().map(|why| Refused { function: name.clone(), why });
        refused.insert(at, of_it.collect());
        for (callee, entry) in function.called {
            let joined = match known.get(&callee) {
                Some(old) => Entry {
                    registers: std::array::from_fn(|n| old.registers[n].widen(entry.registers[n], &[])),
                    incoming: old.incoming.min(entry.incoming),
                    lent: old.lent.min(entry.lent),
                },
                None => entry,
            };
            if known.get(&callee) != Some(&joined) {
                known.insert(callee, joined);
                waiting.insert(callee);
            }
        }
    }
    refused.into_values().flatten().collect()
}

struct Function<'a> {
    machine: Machine<'a>,
    start: u64,
    entry: Entry,
    /// Where blocks begin.
    leaders: BTreeSet<u64>,
    /// Numbers that loops are bounded by, in order.
    bounds: Vec<i64>,
    /// Loops that run once more if a register is zero: where they begin and end, and the register.
    flags: BTreeSet<(u64, u64, usize)>,
    called: Vec<(usize, Entry)>,
    refused: Vec<String>,
    decoded: BTreeMap<u64, Instruction>,
}

impl<'a> Function<'a> {
    fn new(image: &'a Image, start: usize, entry: Entry) -> Self {
        let Entry { incoming, lent, .. } = entry;
        let machine = Machine { image, info: InstructionInfoFactory::new(), incoming, lent };
        let start = start as u64;
        let bounds = vec![i64::from(i32::MIN), 0, 1, i64::from(i32::MAX), super::value::U32_MAX];
        let leaders = BTreeSet::from([start]);
        let mut function = Function {
            machine,
            start,
            entry,
            leaders,
            bounds,
            flags: BTreeSet::new(),
            called: Vec::new(),
            refused: Vec::new(),
            decoded: BTreeMap::new(),
        };
        function.find_leaders(vec![start]);
        function
    }

    fn decode(&mut self, at: u64) -> Result<Instruction, String> {
        if let Some(known) = self.decoded.get(&at) {
            return Ok(*known);
        }
        let is_code = |code: &&std::ops::Range<usize>| code.contains(&(at as usize));
        let code = self.machine.image.code.iter().find(is_code).ok_or("control leaves the code")?;
        let bytes = &self.machine.image.bytes[at as usize..code.end];
        let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return Err(format!("no instruction at {at:#x}"));
        }
        self.decoded.insert(at, instruction);
        Ok(instruction)
    }

    /// Blocks that jumps lead to, and the numbers that code compares with.
    fn find_leaders(&mut self, mut waiting: Vec<u64>) {
        let mut seen: BTreeSet<u64> = BTreeSet::new();
        while let Some(mut at) = waiting.pop() {
            let mut tested = None;
            while seen.insert(at) {
                let Ok(i) = self.decode(at) else { break };
                if i.mnemonic() == Mnemonic::Cmp
                    && i.op1_kind() != OpKind::Register
                    && i.op1_kind() != OpKind::Memory
                {
                    let number = i.immediate(1) as i64;
                    self.bounds.extend([-1, 0, 1].map(|by| number.saturating_add(by)));
                }
                if i.rflags_modified() != 0 {
                    let is_of_one = i.mnemonic() == Mnemonic::Test && i.op0_register() == i.op1_register();
                    tested = is_of_one.then(|| number(i.op0_register())).flatten();
                }
                let flow = i.flow_control();
                if flow == FlowControl::ConditionalBranch
                    && i.condition_code() == ConditionCode::e
                    && i.near_branch_target() <= at
                {
                    self.flags.extend(tested.map(|register| (i.near_branch_target(), at, register)));
                }
                if matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
                    let target = i.near_branch_target();
                    self.leaders.insert(target);
                    waiting.push(target);
                    if flow == FlowControl::ConditionalBranch {
                        self.leaders.insert(i.next_ip());
                    }
                }
                if !matches!(
                    flow,
                    FlowControl::Next
                        | FlowControl::Call
                        | FlowControl::ConditionalBranch
                        | FlowControl::IndirectCall
                ) {
                    break;
                }
                at = i.next_ip();
            }
        }
        self.bounds.sort_unstable();
        self.bounds.dedup();
    }

    /// Finds what is known at each block, and with this what is called and refused. An error is that nothing of it is complete.
    fn check(&mut self) -> Result<(), String> {
        let first = State::entered(&self.entry.registers);
        let start = self.way(self.start, &first);
        let mut at_blocks = BTreeMap::from([(start.clone(), first.clone())]);
        let mut changes: BTreeMap<Way, usize> = BTreeMap::new();
        let mut waiting = BTreeSet::from([start.clone()]);
        let mut steps = 0;
        while let Some(way) = waiting.pop_first() {
            steps += 1;
            if steps > MOST_STEPS {
                return Err("what is known doesn't settle".to_owned());
            }
            for (source, target, state) in self.run(way.0, at_blocks[&way].clone(), false)? {
                let way = self.way(target, &state);
                let joined = match at_blocks.get(&way) {
                    None => state,
                    Some(old) => {
                        let count = changes.entry(way.clone()).or_default();
                        let is_loop = target <= source && *count >= PATIENCE;
                        let joined = old.join(&state, target, is_loop.then_some(&self.bounds[..]));
                        if joined == *old {
                            continue;
                        }
                        *count += 1;
                        joined
                    }
                };
                at_blocks.insert(way.clone(), joined);
                waiting.insert(way);
            }
        }
        for _ in 0..NARROWINGS {
            let mut narrower = BTreeMap::from([(start.clone(), first.clone())]);
            for ((block, _), state) in &at_blocks {
                for (_, target, state) in self.run(*block, state.clone(), false)? {
                    let way = self.way(target, &state);
                    let joined = match narrower.get(&way) {
                        Some(other) => other.join(&state, target, None),
                        None => state,
                    };
                    narrower.insert(way, joined);
                }
            }
            at_blocks = narrower;
        }
        for ((block, _), state) in &at_blocks {
            self.run(*block, state.clone(), true)?;
        }
        Ok(())
    }

    /// What is known at a block is known for each run of the loops that flags end.
    fn way(&self, block: u64, state: &State) -> Way {
        let run = |(from, to, register): &(u64, u64, usize)| {
            let is_within = (*from..=*to).contains(&block);
            let run = is_within.then(|| state.registers[*register].value.as_exact()).flatten();
            run.filter(|run| (0..=1).contains(run))
        };
        (block, self.flags.iter().map(run).collect())
    }

    /// Runs a block; yields where it leads, from where, and with what. Only at the end it must be permitted.
    fn run(
        &mut self,
        block: u64,
        mut state: State,
        is_final: bool,
    ) -> Result<Vec<(u64, u64, State)>, String> {
        let mut at = block;
        loop {
            let i = self.decode(at)?;
            // What a return reads, `next` looks at.
            let is_checked = is_final && i.flow_control() != FlowControl::Return;
            let permitted = if is_checked { self.machine.permit_all(&state, &i) } else { Ok(()) };
            if let Err(why) = permitted {
                self.refused.push(self.describe(&i, &state, &why));
            }
            match self.next(&i, &mut state, is_final) {
                Ok(Next::Falls) => {}
                Ok(Next::To(targets)) => {
                    return Ok(targets.into_iter().map(|(target, state)| (at, target, state)).collect());
                }
                Err(why) => {
                    if is_final {
                        self.refused.push(self.describe(&i, &state, &why));
                    }
                    return Ok(Vec::new());
                }
            }
            at = i.next_ip();
            if self.leaders.contains(&at) {
                return Ok(vec![(i.ip(), at, state)]);
            }
        }
    }

    fn next(&mut self, i: &Instruction, state: &mut State, is_final: bool) -> Result<Next, String> {
        match i.flow_control() {
            FlowControl::Next => {
                state.step(&mut self.machine, i);
                let stack = state.registers[RSP].value;
                if !matches!(stack.base, Base::Stack | Base::Frame) || stack.low != stack.high {
                    return Err(format!("the stack pointer is lost: {stack:?}"));
                }
                Ok(Next::Falls)
            }
            FlowControl::UnconditionalBranch if self.field(i).is_some() => {
                self.call(i, state, is_final)?;
                returns(state)
            }
            FlowControl::ConditionalBranch if self.field(i).is_some() => {
                Err("jumps to the outside".to_owned())
            }
            FlowControl::UnconditionalBranch => Ok(Next::To(vec![(i.near_branch_target(), state.clone())])),
            FlowControl::ConditionalBranch => {
                let ways = [
                    (i.near_branch_target(), i.condition_code()),
                    (i.next_ip(), negated(i.condition_code())),
                ];
                let ways = ways.into_iter().filter_map(|(target, condition): (u64, ConditionCode)| {
                    let mut state = state.clone();
                    state.assume(condition).then_some((target, state))
                });
                Ok(Next::To(ways.collect()))
            }
            FlowControl::IndirectBranch => self.indirect(i, state),
            FlowControl::Call | FlowControl::IndirectCall => {
                self.call(i, state, is_final)?;
                Ok(Next::Falls)
            }
            FlowControl::Return if i.op_count() == 0 => returns(state),
            // They trap.
            FlowControl::Exception => Ok(Next::To(Vec::new())),
            FlowControl::Interrupt if i.mnemonic() == Mnemonic::Int3 => Ok(Next::To(Vec::new())),
            other => Err(format!("{other:?}")),
        }
    }

    /// The name of the outside that stands in an instruction.
    fn field(&self, i: &Instruction) -> Option<&'a String> {
        (i.ip()..i.next_ip()).find_map(|at| self.machine.image.symbols.get(&(at as usize)))
    }

    /// A jump to where a table leads: to all of what may be chosen.
    fn indirect(&mut self, i: &Instruction, state: &State) -> Result<Next, String> {
        let Value { base: Base::Target(table), low, high } = state.read(&self.machine, i, 0).value else {
            return Err("jumps anywhere".to_owned());
        };
        let mut targets = Vec::new();
        for place in (low..=high).step_by(4) {
            let bytes = self.machine.image.constant(place, 4).ok_or("the table is not in the code")?;
            let distance = i32::from_le_bytes(bytes.try_into().unwrap_or_default());
            let target = (table + i64::from(distance)) as u64;
            if self.leaders.insert(target) {
                self.find_leaders(vec![target]);
            }
            targets.push((target, state.clone()));
        }
        Ok(Next::To(targets))
    }

    fn call(&mut self, i: &Instruction, state: &mut State, is_final: bool) -> Result<(), String> {
        let symbols = &self.machine.image.symbols;
        let field = self.field(i);
        let target = match i.op0_kind() {
            OpKind::NearBranch64 => field.map_or(Ok(i.near_branch_target()), Err),
            OpKind::Memory if i.is_ip_rel_memory_operand() => {
                let slot = symbols.get(&(i.memory_displacement64() as usize));
                Err(slot.ok_or("calls anything")?)
            }
            OpKind::Register => match state.register(i.op0_register()).value {
                Value { base: Base::Function(place), .. } => Err(&symbols[&(place as usize)]),
                Value { base: Base::Object, low, high } if low == high => Ok(low as u64),
                _ => return Err("calls anything".to_owned()),
            },
            _ => return Err("calls anything".to_owned()),
        };
        let stack = state.registers[RSP].value;
        let results = state.registers[RDI].value;
        let lent = state.lendable(results);
        match target {
            Err(name) if COPIES.contains(&name.as_str()) => self.copy(name, state)?,
            Err(name) if PURE.contains(&name.as_str()) => {}
            Err(name) => return Err(format!("calls {name}")),
            Ok(target) if is_final => {
                let given = std::array::from_fn(|n| match state.registers[n].value {
                    _ if n == RDI && lent > 0 => Value::at(Base::Lent, 0),
                    value if matches!(value.base, Base::Zero | Base::Launch | Base::Memory) => value,
                    _ => Value::ANY,
                });
                self.called.push((target as usize, Entry { registers: given, incoming: -stack.low, lent }));
            }
            Ok(_) => {}
        }
        if lent > 0 {
            state.overwrite(results, lent);
        }
        state.leave_call(i);
        Ok(())
    }

    /// `memcpy` and its like.
    fn copy(&self, name: &str, state: &State) -> Result<(), String> {
        let [to, from, length] =
            [Register::RDI, Register::RSI, Register::RDX].map(|register| state.register(register).value);
        if !length.is_within(0, 1 << 32) {
            return Err(format!("{name} of {length:?}"));
        }
        self.machine.permit(state, to, length.high, true)?;
        if name == "memset" { Ok(()) } else { self.machine.permit(state, from, length.high, false) }
    }

    fn name(&self) -> &'a str {
        let mut functions = self.machine.image.functions.iter();
        functions.find(|(_, at)| **at as u64 == self.start).map_or("?", |(name, _)| name)
    }

    fn describe(&self, i: &Instruction, state: &State, why: &str) -> String {
        let mut text = String::new();
        IntelFormatter::new().format(i, &mut text);
        let used = [i.memory_base(), i.memory_index()].map(|register| state.register(register).value);
        let offset = i.ip() - self.start;
        format!("{} + {offset:#x}: {text}: {why} ({used:?})", self.name())
    }
}

/// The end of a function, with the stack and registers that it was entered with.
fn returns(state: &State) -> Result<Next, String> {
    let stack = state.registers[RSP].value;
    if stack != Value::at(Base::Stack, 0) {
        return Err(format!("returns with another stack: {stack:?}"));
    }
    match KEPT.iter().find(|number| state.registers[**number].value != Value::at(Base::Kept(**number), 0)) {
        Some(number) => Err(format!("register {number} is not as it was")),
        None => Ok(Next::To(Vec::new())),
    }
}

impl State {
    /// What a call leaves: registers that functions keep, and the caller's own part of the stack.
    fn leave_call(&mut self, i: &Instruction) {
        for number in (0..16).filter(|number| !KEPT.contains(number) && *number != RSP) {
            let name = self.named(i, number);
            self.set(number, Known::of(Value::ANY).named(name));
        }
        self.vectors = [super::state::Lanes::ANY; 32];
        self.widths = [64; 32];
        self.parts = [super::value::U32_MAX; 32];
        self.compared = None;
        self.forget_below();
    }
}
