//! What instructions on vector registers make of lanes of 64 bits: addresses of gathers are computed and taken apart there.

use super::state::{Known, Lanes, Slot, State};
use super::step::{Machine, number};
use super::value::{Base, U32_MAX, Value};
use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};

impl State {
    /// The same for vectors as [`State::step`] for numbers; false if nothing is known of the instruction.
    pub fn vector_step(&mut self, machine: &Machine, i: &Instruction) -> bool {
        if is_whole_move(i.mnemonic()) {
            return self.move_vector(machine, i);
        }
        if let Some(value) = self.leaves_vector(i) {
            self.write(i, 0, Known::of(value));
            return true;
        }
        if let (Some(lanes), OpKind::Memory) = (self.extracted(i), i.op0_kind()) {
            let slot = Slot::Vector(i.memory_size().size() as i64, lanes);
            self.store(self.operand_address(i), slot);
            return i.op_mask() == Register::None;
        }
        let is_vector = i.op0_kind() == OpKind::Register && i.op0_register().is_vector_register();
        let parts = self.parts_of(machine, i);
        let Some(lanes) = is_vector.then(|| self.lanes_of(machine, i)).flatten() else { return false };
        self.set_vector(i, lanes);
        if i.op_mask() == Register::None {
            self.parts[i.op0_register().number()] = parts;
        }
        true
    }

    fn set_vector(&mut self, i: &Instruction, lanes: Lanes) {
        let others = match i.zeroing_masking() {
            true => Lanes::all(Value::exact(0)),
            false => self.vector(i.op0_register()),
        };
        let size = i.op0_register().size();
        let number = i.op0_register().number();
        let lanes = if i.op_mask() == Register::None { lanes } else { lanes.map(others, Value::join) };
        // What is behind the part of the register that is written becomes zero, or stays in the oldest encoding.
        self.behind[number] = if i.encoding() == EncodingKind::Legacy { Value::ANY } else { Value::exact(0) };
        self.widths[number] = size;
        self.vectors[number] = lanes;
        self.parts[number] = U32_MAX;
    }

    /// What no 32 bits of an instruction's result are more than.
    fn parts_of(&self, machine: &Machine, i: &Instruction) -> i64 {
        use Mnemonic::*;
        let parts = |operand: u32| match i.op_kind(operand) {
            OpKind::Register if i.op_register(operand).is_vector_register() => {
                let register = i.op_register(operand);
                self.parts_up_to(register.number(), register.size())
            }
            OpKind::Memory => self.parts_in_memory(machine, i),
            _ => U32_MAX,
        };
        match i.mnemonic() {
            Pand | Vpand | Vpandd | Vpandq => {
                parts(if i.op_count() == 3 { 1 } else { 0 }).min(parts(i.op_count() - 1))
            }
            Psrld | Vpsrld if i.op_kind(i.op_count() - 1) == OpKind::Immediate8 => {
                U32_MAX >> i.immediate(i.op_count() - 1).min(32)
            }
            Pshufd | Vpshufd | Vpermq | Vpbroadcastd | Vbroadcastss | Vpbroadcastq | Vextracti128
            | Vextractf128 | Vextracti64x4 | Vextractf64x4 | Vextracti32x4 | Vextractf32x4
            | Vextracti64x2 | Vextractf64x2 => parts(1),
            Punpckldq | Punpckhdq | Punpcklqdq | Punpckhqdq => parts(0).max(parts(1)),
            Vpunpckldq | Vpunpckhdq | Vpunpcklqdq | Vpunpckhqdq => parts(1).max(parts(2)),
            mnemonic if is_whole_move(mnemonic) => parts(1),
            _ => U32_MAX,
        }
    }

    /// The bytes of an operand that is a constant in memory.
    fn constant_bytes<'a>(&self, machine: &Machine<'a>, i: &Instruction) -> Option<&'a [u8]> {
        let address = self.operand_address(i);
        let is_constant = address.base == Base::Object && address.low == address.high;
        is_constant.then(|| machine.image.constant(address.low, i.memory_size().size())).flatten()
    }

    /// What lanes are in which a constant puts bytes of others, or zeros.
    fn chosen_bytes(&self, machine: &Machine, i: &Instruction) -> Option<Value> {
        let is_memory = i.op_kind(i.op_count() - 1) == OpKind::Memory && !i.is_broadcast();
        let bytes = is_memory.then(|| self.constant_bytes(machine, i)).flatten()?;
        let used =
            bytes.chunks(8).map(|lane| lane.iter().rposition(|&byte| byte < 0x80).map_or(0, |last| last + 1));
        let most = used.max().filter(|most| *most < 8)?;
        Some(Value::number(0, (1 << (8 * most)) - 1))
    }

    /// What no 32 bits of a constant are more than.
    fn parts_in_memory(&self, machine: &Machine, i: &Instruction) -> i64 {
        let Some(bytes) = self.constant_bytes(machine, i) else { return U32_MAX };
        let parts = bytes.chunks(4).map(|part| match part.try_into() {
            Ok(part) => u32::from_le_bytes(part).into(),
            Err(_) => U32_MAX,
        });
        parts.max().unwrap_or(U32_MAX)
    }

    fn move_vector(&mut self, machine: &Machine, i: &Instruction) -> bool {
        match (i.op0_kind(), i.op_mask()) {
            (OpKind::Register, _) if i.op0_register().is_vector_register() => {
                let (lanes, parts) = (self.lanes(machine, i, 1), self.parts_of(machine, i));
                self.set_vector(i, lanes);
                if i.op_mask() == Register::None {
                    self.parts[i.op0_register().number()] = parts;
                }
                true
            }
            (OpKind::Memory, Register::None) => {
                let lanes = self.vector(i.op1_register());
                let address = self.operand_address(i);
                self.store(address, Slot::Vector(i.memory_size().size() as i64, lanes));
                true
            }
            _ => false,
        }
    }

    /// A vector operand.
    fn lanes(&self, machine: &Machine, i: &Instruction, operand: u32) -> Lanes {
        match i.op_kind(operand) {
            OpKind::Register if i.op_register(operand).is_vector_register() => {
                self.vector(i.op_register(operand))
            }
            OpKind::Register => {
                Lanes { first: self.register(i.op_register(operand)).value, rest: Value::exact(0) }
            }
            OpKind::Memory => {
                let (address, size) = (self.operand_address(i), i.memory_size().size() as i64);
                if i.is_broadcast() {
                    return Lanes::all(if size == 8 {
                        self.load(machine, address, 8).value
                    } else {
                        Value::ANY
                    });
                }
                self.load_lanes(machine, address, size)
            }
            _ => Lanes::ANY,
        }
    }

    fn load_lanes(&self, machine: &Machine, address: Value, size: i64) -> Lanes {
        match self.slot(address) {
            Some(Slot::Vector(stored, lanes)) if size == stored => return lanes,
            Some(Slot::Vector(_, lanes)) if size == 8 => {
                return Lanes { first: lanes.first, rest: Value::exact(0) };
            }
            _ => {}
        }
        let lane = |at: i64| self.load(machine, address.add(Value::exact(at)), 8).value;
        match size {
            8 => Lanes { first: lane(0), rest: Value::exact(0) },
            16 | 32 | 64 => {
                let rest = (1..size / 8).map(|number| lane(number * 8)).reduce(Value::join);
                Lanes { first: lane(0), rest: rest.unwrap_or(Value::ANY) }
            }
            _ => Lanes::ANY,
        }
    }

    /// What goes from a vector to a general register or to memory as one number.
    fn leaves_vector(&mut self, i: &Instruction) -> Option<Value> {
        use Mnemonic::*;
        let source = i.op1_register();
        if i.op1_kind() != OpKind::Register || !source.is_vector_register() {
            return None;
        }
        let to_general = i.op0_kind() == OpKind::Memory || number(i.op0_register()).is_some();
        let lanes = self.vector(source);
        match i.mnemonic() {
            Movq | Vmovq | Movlps | Vmovlps | Movlpd | Vmovlpd | Movsd | Vmovsd if to_general => {
                Some(lanes.first)
            }
            Movhps | Vmovhps | Movhpd | Vmovhpd if to_general => Some(lanes.rest),
            Movd | Vmovd | Movss | Vmovss if to_general => {
                let value = lanes.first.zero_extended(32);
                Some(value.meet(0, self.parts[source.number()]).unwrap_or(value))
            }
            Pextrq | Vpextrq => Some(if i.immediate(2) & 1 == 0 { lanes.first } else { lanes.rest }),
            Pextrb | Vpextrb => Some(Value::number(0, 0xff)),
            Pextrw | Vpextrw => Some(Value::number(0, 0xffff)),
            Pextrd | Vpextrd | Extractps | Vextractps => Some(Value::number(0, self.parts[source.number()])),
            _ => None,
        }
    }

    /// What a vector register becomes.
    fn lanes_of(&self, machine: &Machine, i: &Instruction) -> Option<Lanes> {
        use Mnemonic::*;
        let (first, second) = if i.op_count() >= 3 && is_register(i, 1) { (1, 2) } else { (0, 1) };
        let operand = |number: u32| self.lanes(machine, i, number);
        let is_same = is_register(i, second) && i.op_register(first) == i.op_register(second);
        let last = i.op_count() - 1;
        let count = || match i.op_kind(last) {
            OpKind::Immediate8 => Value::exact(i.immediate(last) as i64),
            _ => Value::ANY,
        };
        let lanes =
            match i.mnemonic() {
                Pxor | Vpxor | Xorps | Vxorps | Xorpd | Vxorpd | Vpxord | Vpxorq if is_same => {
                    Lanes::all(Value::exact(0))
                }
                Movd | Vmovd | Movq | Vmovq => {
                    let bits = if matches!(i.mnemonic(), Movd | Vmovd) { 32 } else { 64 };
                    Lanes { first: operand(1).first.zero_extended(bits), rest: Value::exact(0) }
                }
                Movsd | Vmovsd if i.op1_kind() == OpKind::Memory => {
                    Lanes { first: operand(1).first, rest: Value::exact(0) }
                }
                Pmovsxdq | Vpmovsxdq => Lanes::all(Value::I32),
                Pmovzxdq | Vpmovzxdq if is_register(i, 1) => {
                    let source = i.op1_register();
                    Lanes::all(Value::number(0, self.parts_up_to(source.number(), source.size())))
                }
                Pmovzxdq | Vpmovzxdq => Lanes::all(Value::U32),
                Psrld | Vpsrld | Vpbroadcastd | Vbroadcastss => Lanes::ANY,
                Pshufb | Vpshufb => Lanes::all(self.chosen_bytes(machine, i)?),
                Pmovzxwq | Vpmovzxwq => Lanes::all(Value::number(0, 0xffff)),
                Pmovzxbq | Vpmovzxbq => Lanes::all(Value::number(0, 0xff)),
                Pmovsxwq | Vpmovsxwq => Lanes::all(Value::number(-0x8000, 0x7fff)),
                Pmovsxbq | Vpmovsxbq => Lanes::all(Value::number(-0x80, 0x7f)),
                Paddq | Vpaddq => operand(first).map(operand(second), Value::add),
                Psubq | Vpsubq => operand(first).map(operand(second), Value::subtract),
                Psllq | Vpsllq => {
                    let value = if i.op_count() == 3 { operand(1) } else { operand(0) };
                    value.map(Lanes::all(count()), Value::shift_left)
                }
                Psrlq | Vpsrlq => {
                    let value = if i.op_count() == 3 { operand(1) } else { operand(0) };
                    value.map(Lanes::all(count()), |value, by| value.shift_right(by, false))
                }
                Pand | Vpand | Vpandq | Vpandd | Andps | Vandps | Andpd | Vandpd => {
                    operand(first).map(operand(second), Value::and)
                }
                Por | Vpor | Vporq | Vpord | Orps | Vorps | Orpd | Vorpd => {
                    operand(first).map(operand(second), Value::or)
                }
                Pxor | Vpxor | Xorps | Vxorps | Xorpd | Vxorpd | Vpxord | Vpxorq => {
                    operand(first).map(operand(second), Value::xor)
                }
                Pmuludq | Vpmuludq => operand(first)
                    .map(operand(second), |a, b| a.zero_extended(32).multiply(b.zero_extended(32))),
                Pmuldq | Vpmuldq => operand(first)
                    .map(operand(second), |a, b| a.sign_extended(32).multiply(b.sign_extended(32))),
                // Each lane is all ones or zero.
                Pcmpgtq | Vpcmpgtq | Pcmpeqq | Vpcmpeqq => Lanes::all(Value::number(-1, 0)),
                Vpmaxuq => operand(1).map(operand(2), |a, b| a.extreme(b, true)),
                Vpminuq => operand(1).map(operand(2), |a, b| a.extreme(b, false)),
                Vpsraq => operand(1).map(Lanes::all(count()), |value, by| value.shift_right(by, true)),
                // The upper half of each lane is a number of fewer bits.
                Psrad | Vpsrad => {
                    let Some(by @ 0..=31) = count().as_exact() else { return None };
                    Lanes::all(Value::number(i64::MIN >> by, i64::MAX >> by))
                }
                Vpbroadcastq | Vbroadcastsd | Movddup | Vmovddup => Lanes::all(operand(1).first),
                Punpcklqdq | Vpunpcklqdq | Unpcklpd | Vunpcklpd => {
                    let (a, b) = (operand(first), operand(second));
                    let others =
                        if i.op0_register().size() == 16 { b.first } else { a.any_lane().join(b.any_lane()) };
                    Lanes { first: a.first, rest: others }
                }
                Movlhps | Vmovlhps => Lanes { first: operand(first).first, rest: operand(second).first },
                Movhlps | Vmovhlps => Lanes { first: operand(second).rest, rest: operand(first).rest },
                Punpckhqdq | Vpunpckhqdq | Unpckhpd | Vunpckhpd => {
                    let (a, b) = (operand(first), operand(second));
                    Lanes { first: a.rest, rest: a.rest.join(b.rest) }
                }
                Punpckldq | Vpunpckldq | Punpckhdq | Vpunpckhdq
                    if operand(second) == Lanes::all(Value::exact(0)) =>
                {
                    let source = i.op_register(first);
                    Lanes::all(Value::number(0, self.parts_up_to(source.number(), source.size())))
                }
                Pinsrq | Vpinsrq => {
                    let into = operand(first);
                    let value = self.read(machine, i, last - 1).value;
                    match i.immediate(last) & 1 {
                        0 => Lanes { first: value, ..into },
                        _ => Lanes { rest: value, ..into },
                    }
                }
                Pblendw | Vpblendw | Vpblendd | Blendps | Vblendps => {
                    self.blended(machine, i, (first, second))?
                }
                Pshufd | Vpshufd | Vpermilps => {
                    let lanes = operand(1);
                    match i.immediate(last) {
                        // Whole lanes of 64 bits.
                        0xee => Lanes::all(lanes.rest),
                        0x44 if i.op0_register().size() == 16 => Lanes::all(lanes.first),
                        0x44 | 0x4e | 0xe4 => Lanes::all(lanes.any_lane()),
                        _ => return None,
                    }
                }
                Vinserti128 | Vinsertf128 | Vinserti64x4 | Vinsertf64x4 | Vinserti32x4 | Vinsertf32x4
                | Vinserti64x2 | Vinsertf64x2 => {
                    let (into, what) = (operand(1), operand(2));
                    let first = if i.immediate(last) == 0 { what.first } else { into.first };
                    Lanes { first, rest: into.rest.join(what.any_lane()) }
                }
                Vpermq | Vpermpd | Vperm2i128 | Vperm2f128 | Vshufpd | Shufpd | Blendpd | Vblendpd
                | Vpermt2q | Vpermi2q | Vblendvpd | Blendvpd | Vpblendmq | Vblendmpd | Vpermilpd
                | Valignq | Vshufi64x2 | Vshuff64x2 | Vbroadcasti128 | Vbroadcasti64x4 | Vbroadcastf128
                | Vbroadcastf64x4 | Vbroadcasti64x2 | Vbroadcastf64x2 => {
                    let vectors = (0..i.op_count()).filter(|&number| is_vector(i, number));
                    let all = vectors.map(|number| operand(number).any_lane()).reduce(Value::join)?;
                    // A zero of `vperm2i128` stands in place of what is not chosen.
                    let may_zero = matches!(i.mnemonic(), Vperm2i128 | Vperm2f128);
                    Lanes::all(if may_zero { all.join(Value::exact(0)) } else { all })
                }
                _ => return self.extracted(i),
            };
        Some(lanes)
    }

    /// A part of a vector.
    fn extracted(&self, i: &Instruction) -> Option<Lanes> {
        use Mnemonic::*;
        let is_part = matches!(
            i.mnemonic(),
            Vextracti128
                | Vextractf128
                | Vextracti64x4
                | Vextractf64x4
                | Vextracti32x4
                | Vextractf32x4
                | Vextracti64x2
                | Vextractf64x2
        );
        let lanes = is_part.then(|| self.vector(i.op1_register()))?;
        let is_behind = i.immediate(2) != 0;
        Some(Lanes { first: if is_behind { lanes.rest } else { lanes.first }, rest: lanes.rest })
    }

    /// Halves of lanes from one vector or the other: known where the upper halves are zeros.
    fn blended(&self, machine: &Machine, i: &Instruction, (first, second): (u32, u32)) -> Option<Lanes> {
        use Mnemonic::*;
        let (a, b) = (self.lanes(machine, i, first), self.lanes(machine, i, second));
        let mask = i.immediate(i.op_count() - 1) as u8;
        let is_words = matches!(i.mnemonic(), Pblendw | Vpblendw);
        // Upper halves of lanes, and lower ones, as one bit for each part that the mask chooses.
        let (upper, lower) = if is_words { (0xcc, 0x33) } else { (0xaa, 0x55) };
        let used = if i.op0_register().size() == 16 && !is_words { 0x0f } else { 0xff };
        let both = |a: Lanes, b: Lanes| Lanes::all(a.any_lane().join(b.any_lane()));
        // Anything, below the upper half of a number.
        let below = |upper: Lanes| {
            upper.map(upper, |value, _| match value.is_number() {
                true => Value::number(value.low >> 32 << 32, value.high >> 32 << 32 | 0xffff_ffff),
                false => Value::ANY,
            })
        };
        match mask & used {
            mask if mask == upper & used => Some(below(b)),
            mask if mask == lower & used => Some(below(a)),
            // Each lane is whole.
            mask if is_words && [0x0f, 0xf0].contains(&mask) => Some(both(a, b)),
            mask if !is_words && (mask & 0x55) << 1 == mask & 0xaa => Some(both(a, b)),
            _ => None,
        }
    }
}

fn is_register(i: &Instruction, operand: u32) -> bool {
    i.op_kind(operand) == OpKind::Register && i.op_register(operand).is_vector_register()
}

fn is_vector(i: &Instruction, operand: u32) -> bool {
    // The first is only written by most.
    let is_read = operand > 0 || is_old(i.mnemonic());
    is_read && (is_register(i, operand) || i.op_kind(operand) == OpKind::Memory)
}

/// Those that read what they write.
fn is_old(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(mnemonic, Shufpd | Blendpd | Blendvpd | Vpermt2q | Vpermi2q)
}

fn is_whole_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Movaps
            | Vmovaps
            | Movups
            | Vmovups
            | Movapd
            | Vmovapd
            | Movupd
            | Vmovupd
            | Movdqa
            | Vmovdqa
            | Movdqu
            | Vmovdqu
            | Vmovdqa32
            | Vmovdqa64
            | Vmovdqu32
            | Vmovdqu64
            | Vmovdqu8
            | Vmovdqu16
    )
}
