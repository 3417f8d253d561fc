//! What an instruction makes of what is known, and whether it accesses only what it may.

use super::object::Image;
use super::state::{Compared, Known, RED_ZONE, RSP, Slot, State, half};
use super::value::{Base, Value};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory};
use spirula_interface::address_bits::{GUARD_BYTES, LINEAR_BYTES};
use spirula_interface::program::{DATA_SYMBOL, Launch, MEMORY_SYMBOL};

const GUARD: i64 = GUARD_BYTES as i64;
const LINEAR: i64 = LINEAR_BYTES as i64;

/// What a function is run with besides its registers.
pub struct Machine<'a> {
    pub image: &'a Image,
    pub info: InstructionInfoFactory,
    /// Bytes above its return address that are its own: arguments on the stack.
    pub incoming: i64,
    /// Bytes that its caller gives it for results.
    pub lent: i64,
}

pub fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

pub fn bits(register: Register) -> u32 {
    register.size() as u32 * 8
}

/// Bits of an operand.
pub fn operand_bits(i: &Instruction, operand: u32) -> u32 {
    match i.op_kind(operand) {
        OpKind::Register => bits(i.op_register(operand)),
        OpKind::Memory => i.memory_size().size() as u32 * 8,
        _ => 64,
    }
}

impl State {
    /// What a register holds, in all of its bits.
    pub fn register(&self, register: Register) -> Known {
        let Some(number) = number(register) else { return Known::of(Value::ANY) };
        let known = self.registers[number];
        let is_high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
        match bits(register) {
            64 => known,
            8 if is_high => Known::of(Value::number(0, 255)),
            bits => known.zero_extended(bits),
        }
    }

    /// An address as an instruction computes it.
    pub fn address(&self, memory: &UsedMemory) -> Value {
        let base = match memory.base() {
            Register::None => Value::exact(0),
            Register::RIP => Value::ANY,
            register => self.register(register).value,
        };
        let index = match memory.index() {
            Register::None => Value::exact(0),
            register if register.is_vector_register() => match memory.vsib_size() {
                4 => Value::I32,
                _ => self.vector(register).any_lane(),
            },
            register => self.register(register).value,
        };
        let scaled = index.multiply(Value::exact(memory.scale().max(1).into()));
        let displacement = memory.displacement() as i64;
        if memory.base() == Register::None && memory.index() == Register::None {
            return Value::at(Base::Object, displacement);
        }
        let sum = base.add(scaled).add(Value::exact(displacement));
        if is_narrow([memory.base(), memory.index()]) { sum.zero_extended(32) } else { sum }
    }

    /// The address of an instruction's memory operand.
    pub fn operand_address(&self, i: &Instruction) -> Value {
        if i.is_ip_rel_memory_operand() {
            return Value::at(Base::Object, i.memory_displacement64() as i64);
        }
        let value = |register: Register| match register {
            Register::None => Value::exact(0),
            register => self.register(register).value,
        };
        let scaled = value(i.memory_index()).multiply(Value::exact(i.memory_index_scale().into()));
        // Of a `lea` of 32 bits that is all right, too: only the lower ones of the sum are taken.
        let sum = value(i.memory_base()).add(scaled).add(Value::exact(i.memory_displacement64() as i64));
        if is_narrow([i.memory_base(), i.memory_index()]) { sum.zero_extended(32) } else { sum }
    }

    /// What an operand is, with zeros above its own bits; immediates with their sign.
    pub fn read(&self, machine: &Machine, i: &Instruction, operand: u32) -> Known {
        match i.op_kind(operand) {
            OpKind::Register => self.register(i.op_register(operand)),
            OpKind::Memory => {
                let address = self.operand_address(i);
                self.load(machine, address, i.memory_size().size() as i64)
            }
            OpKind::Immediate64 => match machine.image.symbols.get(&(i.ip() as usize + 2)) {
                Some(name) => Known::of(symbol(name, (i.ip() as i64 + 2, i.immediate64()))),
                None => Known::of(Value::exact(i.immediate64() as i64)),
            },
            _ => Known::of(i.try_immediate(operand).map_or(Value::ANY, |bits| Value::exact(bits as i64))),
        }
    }

    pub fn load(&self, machine: &Machine, address: Value, size: i64) -> Known {
        if let Some(Slot::One(stored, known)) = self.slot(address)
            && size <= stored
        {
            return known.zero_extended(size as u32 * 8);
        }
        if address.base == Base::Object
            && let Some(value) = constant(machine.image, address, size)
        {
            return Known::of(value);
        }
        Known::of(Value::ANY.zero_extended(size as u32 * 8))
    }

    /// Writes an operand; what a register has above 32 bits becomes zero, above fewer it stays.
    pub fn write(&mut self, i: &Instruction, operand: u32, known: Known) {
        match i.op_kind(operand) {
            OpKind::Register => self.write_register(i, i.op_register(operand), known),
            OpKind::Memory => {
                let size = i.memory_size().size() as i64;
                let address = self.operand_address(i);
                let name = if known.name == 0 { self.named(i, 16) } else { known.name };
                self.store(address, Slot::One(size, known.named(name)));
            }
            _ => {}
        }
    }

    pub fn write_register(&mut self, i: &Instruction, register: Register, known: Known) {
        let Some(number) = number(register) else { return };
        let bits = bits(register);
        let mut value = known.value.zero_extended(bits);
        if bits < 32 {
            let old = self.registers[number].value;
            let is_small = old.is_within(0, (1 << bits) - 1) && bits == operand_width(register);
            value = match () {
                () if is_small => value,
                () if old.is_within(0, super::value::U32_MAX) => Value::U32,
                () => Value::ANY,
            };
        }
        let is_copy = known.name != 0 && value == known.value;
        let name = if is_copy { known.name } else { self.named(i, number) };
        let zeros = if bits >= 32 { known.zeros() } else { 0 };
        let byte = match () {
            () if is_low(register) => known.byte(),
            () => self.registers[number].byte(),
        };
        self.set(number, Known::of(value).named(name).aligned(zeros).with_byte(byte));
    }

    /// In a loop an instruction may find what it has put into its register before, and give that name to something else.
    pub fn keep_name(&mut self, i: &Instruction) {
        const BEFORE: u64 = 1 << 62;
        if let Some(number) = number(i.op0_register()).filter(|_| i.op0_kind() == OpKind::Register) {
            let name = name_of(i, number);
            if [name, half(name)].contains(&self.registers[number].name) {
                self.rename(name, name | BEFORE);
            }
        }
    }

    /// A name for what an instruction puts into a register.
    pub fn named(&mut self, i: &Instruction, number: usize) -> u64 {
        let name = name_of(i, number);
        self.forget(name);
        name
    }
}

fn name_of(i: &Instruction, number: usize) -> u64 {
    i.ip() << 36 | 1 << 35 | number as u64
}

/// Whether an address is computed in 32 bits.
fn is_narrow(registers: [Register; 2]) -> bool {
    registers.iter().any(|register| register.is_gpr32())
}

/// The bits of a register that begin with its lowest one.
fn operand_width(register: Register) -> u32 {
    match register {
        Register::AH | Register::BH | Register::CH | Register::DH => 0,
        register => bits(register),
    }
}

fn is_low(register: Register) -> bool {
    operand_width(register) != 0
}

/// What the loader puts in for a symbol.
fn symbol(name: &str, (place, inside): (i64, u64)) -> Value {
    match name {
        "" => Value::at(Base::Object, inside as i64),
        MEMORY_SYMBOL => Value::at(Base::Memory, 0),
        // An offset, as a number.
        DATA_SYMBOL => Value::ANY,
        _ => Value::at(Base::Function(place), 0),
    }
}

/// A number or an address that stands in the object.
fn constant(image: &Image, address: Value, size: i64) -> Option<Value> {
    let place = address.low;
    if address.low != address.high {
        return None;
    }
    if size == 8
        && let Some(name) = image.symbols.get(&(place as usize))
    {
        return Some(symbol(name, (place, 0))).filter(|_| !name.is_empty());
    }
    let bytes = image.constant(place, size as usize)?;
    let mut whole = [0; 8];
    whole[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
    (size <= 8).then(|| Value::exact(i64::from_le_bytes(whole)))
}

impl Machine<'_> {
    /// Whether an access of so many bytes is one that the code may make.
    pub fn permit(&self, state: &State, address: Value, size: i64, writes: bool) -> Result<(), String> {
        let Value { base, low, high } = address;
        let end = high.saturating_add(size);
        // An aligned frame's end is where it was aligned; what lies above is known from where the function was entered.
        let stack = state.registers[RSP].value;
        let is_permitted = match base {
            Base::Memory => low >= -GUARD && end <= LINEAR + GUARD,
            Base::Stack => {
                let lowest = if stack.base == Base::Stack { stack.low - RED_ZONE } else { state.stack_low };
                let is_own = low >= lowest && end <= 0;
                is_own || low >= 8 && end <= 8 + self.incoming && !writes
            }
            Base::Frame => stack.base == Base::Frame && low >= stack.low - RED_ZONE && end <= 0,
            Base::Lent => low >= 0 && end <= self.lent,
            Base::Launch => !writes && low >= 0 && end <= size_of::<Launch>() as i64,
            Base::Object => !writes && self.image.is_constant(low, end),
            _ => false,
        };
        if is_permitted {
            return Ok(());
        }
        let verb = if writes { "written" } else { "read" };
        Err(format!("{size} bytes are {verb} at {base:?} + [{low:#x}, {high:#x}]"))
    }

    /// Whether all that an instruction accesses is permitted.
    pub fn permit_all(&mut self, state: &State, i: &Instruction) -> Result<(), String> {
        let is_odd = match i.mnemonic() {
            Mnemonic::Std => true,
            // Its address is computed with another stack pointer.
            Mnemonic::Pop => i.op0_kind() == OpKind::Memory,
            _ => false,
        };
        if is_odd {
            return Err("an instruction that no compiler makes".to_owned());
        }
        let repeats = i.has_rep_prefix() || i.has_repne_prefix();
        let used: Vec<UsedMemory> = self.info.info(i).used_memory().to_vec();
        for memory in used {
            let writes = writes(memory.access());
            if memory.access() == OpAccess::NoMemAccess || memory.access() == OpAccess::None {
                continue;
            }
            if matches!(memory.segment(), Register::FS | Register::GS) {
                return Err("memory of the thread is accessed".to_owned());
            }
            if matches!(i.mnemonic(), Mnemonic::Call | Mnemonic::Push)
                && memory.base() == Register::RSP
                && writes
            {
                // By what moves the stack pointer: below it.
                continue;
            }
            let size = memory.memory_size().size() as i64;
            let size = match (repeats, state.register(Register::RCX).value) {
                (true, count) if count.is_within(0, LINEAR) => size.saturating_mul(count.high),
                (true, _) => return Err("a string of any length is accessed".to_owned()),
                (false, _) => size,
            };
            let address = match i.is_ip_rel_memory_operand() && memory.base() == Register::None {
                true => Value::at(Base::Object, memory.displacement() as i64),
                false => state.address(&memory),
            };
            self.permit(state, address, size, writes)?;
        }
        Ok(())
    }
}

pub fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// What the flags tell behind an instruction, if it says anything of interest.
pub fn compared(state: &State, machine: &Machine, i: &Instruction) -> Option<Compared> {
    let bits = operand_bits(i, 0);
    let zero = Known::of(Value::exact(0));
    let masked = |known: Known| match known.value.as_exact() {
        // Immediates have signs.
        Some(number) if bits < 64 => Known::of(Value::exact(number & ((1 << bits) - 1))),
        _ => known,
    };
    match i.mnemonic() {
        Mnemonic::Cmp => {
            let [left, right] = [0, 1].map(|operand| masked(state.read(machine, i, operand)));
            Some(Compared { left, right, bits, is_zero_only: false, mask: None })
        }
        Mnemonic::Test if i.op0_kind() == OpKind::Register && i.op1_kind() == OpKind::Register => {
            (i.op0_register() == i.op1_register()).then(|| Compared {
                left: state.read(machine, i, 0),
                right: zero,
                bits,
                is_zero_only: false,
                mask: None,
            })
        }
        Mnemonic::Test if i.op0_kind() == OpKind::Register && is_low(i.op0_register()) => {
            let left = state.registers[number(i.op0_register())?];
            let mask = masked(Known::of(Value::exact(i.immediate(1) as i64))).value.as_exact();
            Some(Compared { left, right: zero, bits: 64, is_zero_only: true, mask })
        }
        _ => None,
    }
}
