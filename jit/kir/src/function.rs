//! Kernel IR: a kernel's body and the ways to build and change it.

use super::transform::widen::{Callees, Tables};
use super::{CastOp, Constant, Effects, Flags, Op, Target, Terminator, Type};
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};
use spirula_interface::check::Location;
use std::collections::HashMap;

/// Declares a dense index type.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index into a table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// An SSA value.
    Value
);
index!(
    /// A basic block.
    Block
);
index!(
    /// An instruction.
    Inst
);
index!(
    /// A private memory block, one for each work-item (an `alloca` of the kernel).
    Slot
);

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ValueDef {
    /// The kernel's parameter of that number.
    Param(u32),
    /// A block's parameter.
    BlockParam(Block, u32),
    /// An instruction's result.
    Inst(Inst),
    /// A constant.
    Constant(Constant),
}

/// Parameters that are called small are in `-SMALL_LIMIT..SMALL_LIMIT`: with ids and each other they have sums that fit an i32.
pub const SMALL_LIMIT: i64 = 1 << 29;

/// How a kernel parameter gets its value from the argument block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Passing {
    /// The bytes at the offset, loaded with the parameter's type.
    Direct,
    /// The same for an i32; packs are run only if it is within [`SMALL_LIMIT`].
    Small,
    /// The i64 at the offset is added to the group's local memory.
    LocalOffset,
    /// The parameter is the address of the bytes at the offset (`byval`); read-only.
    ByAddress,
    /// There is no argument block: the caller passes the value, and promises that much of it.
    Argument(Promises),
}

/// What callers promise of a pointer that they pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promises {
    /// Nothing else that the function uses leads to the memory that is used through it.
    pub noalias: bool,
    /// It is not null.
    pub nonnull: bool,
    /// The function does not write through it.
    pub readonly: bool,
    /// The function keeps no copy of it anywhere.
    pub nocapture: bool,
    /// Its alignment in bytes; 0 if nothing is promised.
    pub align: u32,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// Its value in the body.
    pub value: Value,
    /// A kernel's: bytes into the argument block.
    pub offset: u32,
    /// Where it comes from.
    pub passing: Passing,
}

/// How a function is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Signature {
    /// As a kernel, or as the body of a barrier region: its parameters lie in an argument block.
    #[default]
    Kernel,
    /// With its parameters as arguments ([`Passing::Argument`]).
    Function {
        /// What it yields.
        result: Option<Type>,
    },
}

/// What is known of a called function, or asked of an optimizer. Promises that are wrong make code wrong, as an operation's
/// flags do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// What a call may do: `traps` also stands for not returning.
    pub effects: Effects,
    /// It stays a call.
    pub noinline: bool,
    /// It is called rarely.
    pub cold: bool,
}

impl Default for Attributes {
    fn default() -> Self {
        Attributes { effects: Effects::ANY, noinline: false, cold: false }
    }
}

/// Memory accesses that belong together: see [`LoopHints::parallel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccessGroup(pub u32);

/// What is known of a loop, or asked of an optimizer. It stands at the block that leads back to the loop's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoopHints {
    /// Accesses of that group don't depend on those of other iterations.
    pub parallel: Option<AccessGroup>,
    /// Leave it scalar, or as wide as it is.
    pub no_vectorize: bool,
    /// Make no copies of its body.
    pub no_unroll: bool,
    /// Leave in it what is the same in all iterations: there is more of that than registers.
    pub no_hoist: bool,
}

/// Size and alignment of a private slot in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SlotData {
    pub size: u64,
    pub align: u32,
}

/// A block: parameters, instructions in order, and how it ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BlockData {
    pub params: Vec<Value>,
    pub insts: Vec<Inst>,
    pub terminator: Terminator,
    /// Of the loop whose last block this is.
    pub loop_hints: Option<LoopHints>,
    /// Where the source has what ends it: known of barriers.
    pub location: Option<LocationId>,
    /// Of a barrier: what it orders, with OpenCL C's flags.
    pub fences: u8,
}

/// A place in the source: [`Function::location_of`] says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocationId(pub u32);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct InstData {
    op: Op,
    result: Option<Value>,
    access_group: Option<AccessGroup>,
    location: Option<LocationId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ValueData {
    ty: Type,
    def: ValueDef,
}

/// A kernel, the body of one of its barrier regions, its work-group function, or a function that is called. Block 0 is the entry and has no parameters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// How it is called.
    pub signature: Signature,
    /// What is known of calls.
    pub attributes: Attributes,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Private memory.
    pub slots: Vec<SlotData>,
    /// Bytes of static local memory.
    pub local_size: u64,
    /// `reqd_work_group_size`: the local sizes are these constants.
    pub required_work_group_size: Option<[u32; 3]>,
    /// The dimension in which a pack's work-items are neighbours.
    pub row_dimension: u8,
    /// `intel_reqd_sub_group_size`: sub-groups are packs of so many lanes, or what is left of a row.
    pub required_sub_group_size: Option<u32>,
    /// By what groups' numbers are multiplied in indices, if by constants: packs are run only if the products are ids' size.
    pub group_factors: [u32; 3],
    /// By what the ids themselves are multiplied in indices, if by a constant: the same is asked of the products.
    pub id_factor: u32,
    /// Whether groups at the ends of the NDRange may be smaller than that.
    pub remainder_groups: bool,
    /// The blocks.
    pub blocks: Vec<BlockData>,
    /// Where loops begin that the kernel's barriers lie in, of which a region has the ways past all of these: most iterations end at one.
    #[serde(skip)]
    pub cut_loops: Vec<Block>,
    /// What packs call instead of the functions that it calls.
    #[serde(skip)]
    pub callees: Callees,
    /// What packs find in registers instead of loading it.
    #[serde(skip)]
    pub tables: Tables,
    /// What instructions that are appended get as their place in the source.
    #[serde(skip)]
    pub at_location: Option<LocationId>,
    /// The places that instructions have.
    locations: Vec<Location>,
    /// Where the source declares it.
    declared_at: Option<LocationId>,
    values: Vec<ValueData>,
    insts: Vec<InstData>,
    /// Equal constants share a value. Not serialized: [`Function::index_constants`].
    #[serde(skip)]
    constants: HashMap<(Type, Constant), Value>,
}

impl Function {
    /// An empty kernel.
    pub fn new(name: &str) -> Self {
        Function { name: name.to_owned(), ..Default::default() }
    }

    /// An empty function that is called with arguments.
    pub fn callable(name: &str, result: Option<Type>) -> Self {
        Function { signature: Signature::Function { result }, ..Function::new(name) }
    }

    fn new_value(&mut self, ty: Type, def: ValueDef) -> Value {
        self.values.push(ValueData { ty, def });
        Value(self.values.len() as u32 - 1)
    }

    /// Adds a kernel parameter of type `ty`, read at `offset` of the argument block.
    pub fn add_param(&mut self, ty: Type, offset: u32, passing: Passing) -> Value {
        let value = self.new_value(ty, ValueDef::Param(self.params.len() as u32));
        self.params.push(Param { value, offset, passing });
        value
    }

    /// Adds a parameter of type `ty` that the caller passes.
    pub fn add_argument(&mut self, ty: Type, promises: Promises) -> Value {
        self.add_param(ty, 0, Passing::Argument(promises))
    }

    /// Makes a parameter the result of an operation at the end of what is written of a block; those behind it move up.
    pub(crate) fn compute_param(&mut self, number: usize, block: Block, op: Op) {
        let Param { value, .. } = self.params.remove(number);
        let inst = self.push_effect(block, op);
        self.insts[inst.index()].result = Some(value);
        self.values[value.index()].def = ValueDef::Inst(inst);
        for (number, param) in self.params.iter().enumerate().skip(number) {
            self.values[param.value.index()].def = ValueDef::Param(number as u32);
        }
    }

    /// Adds a private slot.
    pub fn add_slot(&mut self, size: u64, align: u32) -> Slot {
        self.slots.push(SlotData { size, align });
        Slot(self.slots.len() as u32 - 1)
    }

    /// The block in which each value is computed, or whose parameter it is; none for what is given.
    pub fn homes(&self) -> Vec<Option<Block>> {
        let mut homes = vec![None; self.value_count()];
        for block in self.block_ids() {
            let data = self.block(block);
            let results = data.insts.iter().filter_map(|&inst| self.result(inst));
            for value in results.chain(data.params.iter().copied()) {
                homes[value.index()] = Some(block);
            }
        }
        homes
    }

    /// Adds an empty block that ends in `unreachable` until [`Function::set_terminator`] is called.
    pub fn add_block(&mut self) -> Block {
        self.blocks.push(BlockData {
            params: Vec::new(),
            insts: Vec::new(),
            terminator: Terminator::Unreachable,
            loop_hints: None,
            location: None,
            fences: 0,
        });
        Block(self.blocks.len() as u32 - 1)
    }

    /// Moves a block's contents, its parameters among them, into a new block. The old one, which others still lead to, gets
    /// parameters of the same types, and ends in `unreachable`.
    pub fn split_head(&mut self, block: Block) -> Block {
        let new = self.add_block();
        self.blocks.swap(block.index(), new.index());
        for (number, param) in self.blocks[new.index()].params.clone().into_iter().enumerate() {
            self.values[param.index()].def = ValueDef::BlockParam(new, number as u32);
            self.add_block_param(block, self.ty(param).clone());
        }
        new
    }

    /// Adds a parameter to a block. Its predecessors must pass one more argument.
    pub fn add_block_param(&mut self, block: Block, ty: Type) -> Value {
        let number = self.blocks[block.index()].params.len() as u32;
        let value = self.new_value(ty, ValueDef::BlockParam(block, number));
        self.blocks[block.index()].params.push(value);
        value
    }

    /// The value of a constant; equal constants share one value.
    pub fn constant(&mut self, ty: Type, constant: Constant) -> Value {
        let key = (ty, constant);
        if let Some(&value) = self.constants.get(&key) {
            return value;
        }
        let value = self.new_value(key.0.clone(), ValueDef::Constant(key.1.clone()));
        self.constants.insert(key, value);
        value
    }

    /// Finds the constants again in a function that was deserialized.
    pub(crate) fn index_constants(&mut self) {
        let constants = self.values.iter().enumerate().filter_map(|(number, data)| match &data.def {
            ValueDef::Constant(constant) => Some(((data.ty.clone(), constant.clone()), Value(number as u32))),
            _ => None,
        });
        self.constants = constants.collect();
    }

    /// An integer constant of `ty`.
    pub fn int(&mut self, ty: Type, bits: u128) -> Value {
        self.constant(ty, Constant::Int(bits))
    }

    /// Appends an instruction without a result.
    pub fn push_effect(&mut self, block: Block, op: Op) -> Inst {
        self.insts.push(InstData { op, result: None, access_group: None, location: self.at_location });
        let inst = Inst(self.insts.len() as u32 - 1);
        self.blocks[block.index()].insts.push(inst);
        inst
    }

    /// Appends an instruction and returns its result of type `ty`.
    pub fn push(&mut self, block: Block, ty: Type, op: Op) -> Value {
        let inst = self.push_effect(block, op);
        let value = self.new_value(ty, ValueDef::Inst(inst));
        self.insts[inst.index()].result = Some(value);
        value
    }

    /// Appends an instruction that stands in no block, such as one that a transform took out of a block's list.
    pub fn append(&mut self, block: Block, inst: Inst) {
        self.blocks[block.index()].insts.push(inst);
    }

    /// The group that a memory access belongs to.
    pub fn access_group(&self, inst: Inst) -> Option<AccessGroup> {
        self.insts[inst.index()].access_group
    }

    /// Puts a memory access into a group, or into none.
    pub fn set_access_group(&mut self, inst: Inst, group: Option<AccessGroup>) {
        self.insts[inst.index()].access_group = group;
    }

    /// The number of a place in the source. Places that follow each other are often the same.
    pub fn add_location(&mut self, location: Location) -> LocationId {
        if self.locations.last() != Some(&location) {
            self.locations.push(location);
        }
        LocationId(self.locations.len() as u32 - 1)
    }

    /// Its places in the source are known by the same numbers as those of a function that it is made of.
    pub(crate) fn take_locations(&mut self, other: &Function) {
        self.locations.clone_from(&other.locations);
        self.declared_at = other.declared_at;
    }

    /// Says where the source declares it.
    pub fn declare_at(&mut self, location: Location) {
        self.declared_at = Some(self.add_location(location));
    }

    /// Where the source declares it, or where what it does begins if only that is known.
    pub fn declared_at(&self) -> Option<&Location> {
        self.declared_at.map_or_else(|| self.locations.first(), |at| self.location_of(at))
    }

    /// A place in the source.
    pub fn location_of(&self, id: LocationId) -> Option<&Location> {
        self.locations.get(id.0 as usize)
    }

    /// Where the source has what became an instruction, as far as that is known: programs have such places if they were compiled with
    /// debug information and it was asked for.
    pub fn location(&self, inst: Inst) -> Option<LocationId> {
        self.insts[inst.index()].location
    }

    /// Ends a block.
    pub fn set_terminator(&mut self, block: Block, terminator: Terminator) {
        self.blocks[block.index()].terminator = terminator;
    }

    /// Ends a block with a jump to a block without parameters.
    pub fn jump(&mut self, block: Block, to: Block) {
        self.set_terminator(block, Terminator::Jump(Target::to(to)));
    }

    /// A value's type.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.index()].ty
    }

    /// Whether groups may have more than one work-item in that dimension.
    pub fn extends_in(&self, dimension: u8) -> bool {
        self.required_work_group_size
            .is_none_or(|sizes| sizes.get(usize::from(dimension)).is_none_or(|&size| size != 1))
    }

    /// The dimensions from the one that rows lie in outwards.
    pub fn dimension_order(&self) -> [usize; 3] {
        match self.row_dimension {
            1 => [1, 0, 2],
            2 => [2, 0, 1],
            _ => [0, 1, 2],
        }
    }

    /// Changes a value's type; who uses it must be changed too.
    pub(crate) fn retype(&mut self, value: Value, ty: Type) {
        self.values[value.index()].ty = ty;
    }

    /// Makes a constant another one, of another type. It is not shared with its equals.
    pub(crate) fn replace_constant(&mut self, value: Value, ty: Type, constant: Constant) {
        self.constants.retain(|_, known| *known != value);
        self.values[value.index()] = ValueData { ty, def: ValueDef::Constant(constant) };
    }

    /// A value's type, if there is such a value.
    pub(crate) fn type_of(&self, value: Value) -> Option<&Type> {
        self.values.get(value.index()).map(|data| &data.ty)
    }

    /// Where a value comes from.
    pub fn def(&self, value: Value) -> &ValueDef {
        &self.values[value.index()].def
    }

    /// The operation that computes a value, if an instruction does.
    pub fn defining_op(&self, value: Value) -> Option<&Op> {
        if let ValueDef::Inst(inst) = self.def(value) { Some(self.op(*inst)) } else { None }
    }

    /// A constant integer's bits.
    pub fn constant_int(&self, value: Value) -> Option<u128> {
        match self.def(value) {
            ValueDef::Constant(Constant::Int(bits)) => Some(*bits),
            ValueDef::Constant(Constant::Zero) => Some(0),
            _ => None,
        }
    }

    /// Whether an operation may be done where it was not asked for: divisions only by a constant that never traps.
    pub fn may_speculate(&self, op: &Op) -> bool {
        use crate::BinaryOp::{SDiv, SRem, UDiv, URem};
        let divides = |rhs: Value| {
            let Type::Scalar(crate::Scalar::Int(bits @ 1..=64)) = *self.ty(rhs) else { return false };
            let ones = (1_u128 << bits) - 1;
            self.constant_int(rhs).is_some_and(|number| number & ones != 0 && number & ones != ones)
        };
        op.is_speculatable()
            || matches!(*op, Op::Binary { op: SDiv | SRem | UDiv | URem, rhs, .. } if divides(rhs))
    }

    /// Whether a value is what it is without being frozen: a kernel's parameter, a work-item's place, or either in another width. Divisors
    /// and what is divided are frozen, and whether lanes' ids are neighbours is to be seen behind that, too.
    pub fn is_never_poison(&self, value: Value) -> bool {
        match self.def(value) {
            ValueDef::Constant(Constant::Int(_) | Constant::Zero) => true,
            ValueDef::Param(_) => self.signature == Signature::Kernel,
            ValueDef::Inst(inst) => match *self.op(*inst) {
                Op::WorkItem { .. } => true,
                Op::Cast { op: CastOp::Trunc | CastOp::SExt | CastOp::ZExt, flags: Flags::NONE, value } => {
                    self.is_never_poison(value)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether a value is known before the kernel starts: a parameter or constant.
    pub fn is_given(&self, value: Value) -> bool {
        matches!(self.def(value), ValueDef::Param(_) | ValueDef::Constant(_))
    }

    /// An instruction's operation.
    pub fn op(&self, inst: Inst) -> &Op {
        &self.insts[inst.index()].op
    }

    /// An instruction's operation, to be changed.
    pub fn op_mut(&mut self, inst: Inst) -> &mut Op {
        &mut self.insts[inst.index()].op
    }

    /// An instruction's result.
    pub fn result(&self, inst: Inst) -> Option<Value> {
        self.insts[inst.index()].result
    }

    /// Every value ever made, with its type and definition.
    pub(crate) fn value_table(&self) -> impl Iterator<Item = (Value, &Type, &ValueDef)> {
        self.values.iter().enumerate().map(|(number, data)| (Value(number as u32), &data.ty, &data.def))
    }

    /// Number of values ever made; values index tables of that length.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Number of instructions ever made.
    pub fn inst_count(&self) -> usize {
        self.insts.len()
    }

    /// Whether some instruction takes the slot's address.
    pub fn uses_slot(&self, slot: Slot) -> bool {
        self.blocks.iter().flat_map(|b| &b.insts).any(|&i| *self.op(i) == Op::SlotAddress(slot))
    }

    /// All instructions in blocks.
    pub fn insts(&self) -> impl Iterator<Item = Inst> {
        self.blocks.iter().flat_map(|block| block.insts.iter().copied())
    }

    /// The values that instructions and terminators read.
    pub fn used_values(&self) -> FixedBitSet {
        let mut used = FixedBitSet::with_capacity(self.value_count());
        for data in &self.blocks {
            data.insts.iter().for_each(|&i| self.op(i).visit_operands(|v| used.insert(v.index())));
            data.terminator.operands().iter().for_each(|v| used.insert(v.index()));
        }
        used
    }

    /// What it refers to outside of itself.
    pub(crate) fn names_used(&self) -> impl Iterator<Item = &str> {
        self.insts().filter_map(|inst| match self.op(inst) {
            Op::Call { function: name, .. } | Op::GlobalAddress(name) => Some(&**name),
            _ => None,
        })
    }

    /// Bytes of its own private memory and of the deepest calls that it makes; `None` if it calls what isn't known.
    pub fn stack_size(&self, known: &HashMap<&str, u64>) -> Option<u64> {
        let slots = self.slots.iter().map(|slot| slot.size.next_multiple_of(u64::from(slot.align.max(1))));
        self.call_stack_size(known).map(|calls| calls.saturating_add(slots.sum()))
    }

    /// Bytes of private memory of the deepest calls that it makes.
    pub fn call_stack_size(&self, known: &HashMap<&str, u64>) -> Option<u64> {
        let mut deepest = 0;
        for inst in self.insts() {
            if let Op::Call { function, .. } = self.op(inst) {
                deepest = deepest.max(*known.get(&**function)?);
            }
        }
        Some(deepest)
    }

    /// All blocks in order.
    pub fn block_ids(&self) -> impl DoubleEndedIterator<Item = Block> + use<> {
        (0..self.blocks.len() as u32).map(Block)
    }

    /// A block.
    pub fn block(&self, block: Block) -> &BlockData {
        &self.blocks[block.index()]
    }
}
