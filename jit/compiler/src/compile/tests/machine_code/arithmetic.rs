//! What instructions on general registers compute.

use super::state::{Compared, Known, RSP, Slot, State};
use super::step::{self, Machine, compared, number, operand_bits};
use super::value::{Base, U32_MAX, Value};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

impl State {
    /// What stands there behind an instruction that goes on to the next one.
    pub fn step(&mut self, machine: &mut Machine, i: &Instruction) {
        let flags = compared(self, machine, i);
        let changes_flags = i.rflags_modified() != 0;
        if !self.moves(machine, i) && !self.computes(machine, i) && !self.vector_step(machine, i) {
            self.anything(machine, i);
        }
        if changes_flags {
            self.compared = flags.or_else(|| self.zero_flag(i));
        }
    }

    /// The result of a sum or difference, which the flags compare with zero.
    fn zero_flag(&self, i: &Instruction) -> Option<Compared> {
        use Mnemonic::*;
        let has_zero = matches!(i.mnemonic(), Add | Sub | Inc | Dec | And | Or | Xor);
        let is_register = i.op0_kind() == OpKind::Register && operand_bits(i, 0) >= 32;
        let left = (has_zero && is_register).then(|| self.register(i.op0_register()))?;
        let bits = operand_bits(i, 0);
        Some(Compared { left, right: Known::of(Value::exact(0)), bits, is_zero_only: true, mask: None })
    }

    /// Instructions that put something where it was or elsewhere.
    fn moves(&mut self, machine: &Machine, i: &Instruction) -> bool {
        use Mnemonic::*;
        match i.mnemonic() {
            Mov | Movzx => {
                let known = self.read(machine, i, 1);
                if matches!(i.op1_kind(), OpKind::Memory)
                    && step::number(i.op0_register()).is_none()
                    && i.op0_kind() == OpKind::Register
                {
                    return false;
                }
                self.write(i, 0, known);
            }
            Movsx | Movsxd => {
                let source = operand_bits(i, 1);
                let distance = self.distance(machine, i);
                let known = self.read(machine, i, 1);
                let value = known.value.sign_extended(source);
                let copy = if value == known.value { known } else { Known::of(value) };
                self.write(i, 0, distance.map_or(copy, Known::of));
            }
            Cdqe => {
                let value = self.register(Register::EAX).value.sign_extended(32);
                self.write_register(i, Register::RAX, Known::of(value));
            }
            Lea => {
                let value = self.operand_address(i);
                self.write(i, 0, Known::of(value));
            }
            Push => {
                let known = self.read(machine, i, 0);
                let down = self.registers[RSP].value.add(Value::exact(-8));
                self.set(RSP, Known::of(down));
                self.store(down, Slot::One(8, known));
            }
            Pop => {
                let from = self.registers[RSP].value;
                let known = self.load(machine, from, 8);
                self.set(RSP, Known::of(from.add(Value::exact(8))));
                self.write(i, 0, known);
            }
            Xchg if i.op0_kind() == OpKind::Register && i.op1_kind() == OpKind::Register => {
                let both = [0, 1].map(|operand| self.read(machine, i, operand));
                self.write(i, 0, both[1]);
                self.write(i, 1, both[0]);
            }
            _ if i.condition_code() != iced_x86::ConditionCode::None && is_conditional_move(i.mnemonic()) => {
                let read = |taken: bool| {
                    let mut state = self.clone();
                    let condition = if taken { i.condition_code() } else { negated(i.condition_code()) };
                    let is_possible = state.assume(condition);
                    is_possible.then(|| state.read(machine, i, u32::from(taken)))
                };
                let known = match (read(true), read(false)) {
                    (Some(one), Some(other)) if one == other => one,
                    (Some(one), Some(other)) => Known::of(one.value.join(other.value)),
                    (one, other) => one.or(other).unwrap_or(Known::of(Value::ANY)),
                };
                self.write(i, 0, known);
            }
            _ => return false,
        }
        true
    }

    /// What is loaded from a table of distances in the code.
    fn distance(&self, machine: &Machine, i: &Instruction) -> Option<Value> {
        let is_load = i.op1_kind() == OpKind::Memory && i.memory_size().size() == 4;
        let address = is_load.then(|| self.operand_address(i))?;
        let is_code = machine.image.code.iter().any(|code| {
            address.low >= code.start as i64 && address.high.saturating_add(4) <= code.end as i64
        });
        let is_table = address.base == Base::Object && is_code && i.memory_index_scale() == 4;
        is_table.then_some(Value { base: Base::Distance, ..address })
    }

    /// Instructions that compute something of one or two numbers.
    fn computes(&mut self, machine: &Machine, i: &Instruction) -> bool {
        use Mnemonic::*;
        let is_general = i.op0_kind() == OpKind::Memory || number(i.op0_register()).is_some();
        if !is_general || i.has_lock_prefix() || i.op_count() == 0 {
            return false;
        }
        let bits = operand_bits(i, 0);
        let is_same =
            i.op_count() == 2 && i.op1_kind() == OpKind::Register && i.op0_register() == i.op1_register();
        if i.mnemonic() == And && i.op0_register() == Register::RSP {
            let mask = self.read(machine, i, 1).value;
            self.aligns(mask);
            return true;
        }
        self.keep_name(i);
        let operand = |number: u32| self.read(machine, i, number).value;
        let low = |value: Value| if bits < 64 { narrow(value, bits) } else { value };
        // The processor takes so many bits of it.
        let count = |value: Value| match value.as_exact() {
            Some(number) => Value::exact(number & if bits == 64 { 63 } else { 31 }),
            None => value,
        };
        let before = self.read(machine, i, 0);
        let second = if i.op_count() > 1 { self.read(machine, i, 1) } else { Known::of(Value::exact(1)) };
        let zeros = match i.mnemonic() {
            Add | Sub => before.zeros().min(second.zeros()),
            And => before.zeros().max(second.zeros()),
            _ => 0,
        };
        let value = match i.mnemonic() {
            Xor | Sub if is_same => Value::exact(0),
            Sbb if is_same => Value::number(-1, 0),
            _ if sets_by_condition(i) => Value::number(0, 1),
            Add => operand(0).add(operand(1)),
            Sub => operand(0).subtract(operand(1)),
            Inc => operand(0).add(Value::exact(1)),
            Dec => operand(0).add(Value::exact(-1)),
            Neg => Value::exact(0).subtract(operand(0)),
            And => operand(0).and(low(operand(1))),
            Or => operand(0).or(low(operand(1))),
            Xor => operand(0).xor(low(operand(1))),
            Imul if i.op_count() == 2 => operand(0).multiply(operand(1)),
            Imul if i.op_count() == 3 => operand(1).multiply(operand(2)),
            Shl | Sal => operand(0).shift_left(count(operand(1))),
            Shr => operand(0).shift_right(count(operand(1)), false),
            Sar => match bits {
                64 => operand(0).shift_right(count(operand(1)), true),
                _ if operand(0).is_within(0, (1 << (bits - 1)) - 1) => {
                    operand(0).shift_right(count(operand(1)), true)
                }
                _ => Value::ANY,
            },
            Shrx => operand(1).shift_right(count(operand(2)), false),
            Shlx => operand(1).shift_left(count(operand(2))),
            Bzhi if operand(1).is_within(0, i64::MAX) => operand(1),
            Popcnt | Lzcnt | Tzcnt => Value::number(0, 64),
            Andn if operand(2).is_within(0, i64::MAX) => Value::number(0, operand(2).high),
            Blsr | Blsmsk | Blsi if operand(1).is_within(0, i64::MAX) => operand(1),
            _ => return false,
        };
        self.write(i, 0, Known::of(value).aligned(zeros));
        self.learn(i, before, (value, second.value.as_exact()));
        true
    }

    /// Notes how a register's new value is related to the old one.
    fn learn(&mut self, i: &Instruction, before: Known, (computed, number): (Value, Option<i64>)) {
        use Mnemonic::*;
        let (Some(number), Some(register)) = (number, step::number(i.op0_register())) else { return };
        let Known { value, name, .. } = self.registers[register];
        // A sum that wrapped is another number.
        if i.op0_kind() != OpKind::Register || value != computed || computed == Value::ANY {
            return;
        }
        match i.mnemonic() {
            Add | Inc => self.facts.add(name, before.name, number),
            Sub | Dec => self.facts.add(name, before.name, -number),
            And if number != 0 => self.facts.mask(name, before, number),
            _ => {}
        }
    }

    /// `and rsp, -N`: from here on the stack is counted from where it was aligned.
    fn aligns(&mut self, mask: Value) {
        let stack = self.registers[RSP].value;
        let is_alignment =
            mask.as_exact().is_some_and(|mask| mask < 0 && mask.wrapping_neg().count_ones() == 1);
        let is_first = stack.base == Base::Stack && stack.low == stack.high;
        // What lay below is written by other addresses from now on.
        self.forget_below();
        let value = if is_alignment && is_first { Value::at(Base::Frame, 0) } else { Value::ANY };
        self.set(RSP, Known::of(value));
    }

    /// Nothing is known of what an instruction writes.
    pub fn anything(&mut self, machine: &mut Machine, i: &Instruction) {
        let info = machine.info.info(i);
        for used in info.used_registers().iter().filter(|used| step::writes(used.access())) {
            let register = used.register();
            if register.is_vector_register() {
                self.vectors[register.number()] = super::state::Lanes::ANY;
                self.widths[register.number()] = 64;
                self.parts[register.number()] = U32_MAX;
            } else if number(register).is_some() {
                self.write_register(i, register, Known::of(Value::ANY));
            }
        }
        let used: Vec<_> = info.used_memory().to_vec();
        for memory in used.iter().filter(|memory| step::writes(memory.access())) {
            let address = match i.is_ip_rel_memory_operand() {
                true => Value::at(Base::Object, memory.displacement() as i64),
                false => self.address(memory),
            };
            let repeats = i.has_rep_prefix() || i.has_repne_prefix();
            let size = if repeats { i64::MAX >> 8 } else { memory.memory_size().size() as i64 };
            self.overwrite(address, size);
        }
    }
}

/// The lowest bits of an immediate, which comes with its sign.
fn narrow(value: Value, bits: u32) -> Value {
    match value.as_exact() {
        Some(number) => Value::exact(number & ((1 << bits) - 1)),
        None => value,
    }
}

fn sets_by_condition(i: &Instruction) -> bool {
    i.condition_code() != iced_x86::ConditionCode::None && i.op_count() == 1 && operand_bits(i, 0) == 8
}

fn is_conditional_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}

pub fn negated(condition: iced_x86::ConditionCode) -> iced_x86::ConditionCode {
    use iced_x86::ConditionCode::*;
    match condition {
        None => None,
        o => no,
        no => o,
        b => ae,
        ae => b,
        e => ne,
        ne => e,
        be => a,
        a => be,
        s => ns,
        ns => s,
        p => np,
        np => p,
        l => ge,
        ge => l,
        le => g,
        g => le,
    }
}
