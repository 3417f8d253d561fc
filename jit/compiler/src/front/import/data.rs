//! Import: program-scope data. What never changes goes to the objects, which may each have a copy; variables go to one
//! block, and with them the constants that they point to or that point to them.

use super::Import;
use crate::front::limits;
use crate::llvm::{Global, Layout, Type, Value};
use inkwell::llvm_sys::LLVMOpcode::*;
use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::LLVMValueKind::*;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::program::{MAX_PROGRAM_DATA, ProgramData};
use spirula_kir::transform::check::Variable;
use spirula_kir::{ConstantData, Pointer};
use std::collections::HashMap;
use std::sync::Arc;

/// Where a program-scope variable lies.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// By itself.
    Constant(Arc<str>),
    /// So many bytes into the block.
    Block(u64),
}

/// All program-scope data of a module.
#[derive(Debug, Default)]
pub(super) struct Data<'m> {
    pub places: HashMap<Value<'m>, Place>,
    pub constants: Vec<ConstantData>,
    pub block: ProgramData,
    /// Those in the block.
    pub variables: Vec<Variable>,
}

/// A global variable's memory.
struct Datum<'m> {
    name: Arc<str>,
    mutable: bool,
    align: u64,
    size: u64,
    image: Image<'m>,
}

/// Bytes, with the addresses that lie among them.
#[derive(Default)]
struct Image<'m> {
    bytes: Vec<u8>,
    pointers: Vec<(u64, Value<'m>, i64)>,
}

/// Lays out the variables, each with the name that it is to have. Errors: in words that stand behind "the program ".
pub(super) fn lay_out<'m>(
    globals: &[(Global<'m>, Arc<str>)],
    layout: Layout<'m>,
) -> Result<Data<'m>, String> {
    let mut list = Vec::new();
    for (global, name) in globals {
        let datum = datum(*global, name.clone(), layout)
            .map_err(|what| format!("has the variable `{}`, which {what}", global.name()))?;
        list.push((***global, datum));
    }
    // Behind the variables lie the constants.
    list.sort_by_key(|(_, datum)| !datum.mutable);
    let index: HashMap<Value, usize> = list.iter().enumerate().map(|(i, (global, _))| (*global, i)).collect();
    for (_, datum) in &list {
        if let Some((_, target, _)) =
            datum.image.pointers.iter().find(|(_, target, _)| !index.contains_key(target))
        {
            return Err(format!(
                "has a variable that points to `{}`, which isn't in memory then",
                target.name()
            ));
        }
    }
    let addresses = match layout.pointer_bytes(0) {
        4 => AddressBits::Bits32,
        _ => AddressBits::Bits64,
    };
    // All that a pointer of 32 bits leads to lies in the linear memory, as the block does.
    let in_block = match addresses {
        AddressBits::Bits64 => bound_to_variables(&list, &index),
        AddressBits::Bits32 => vec![true; list.len()],
    };
    let mut data = Data::default();
    data.block.addresses = addresses;
    let mut end = 0;
    for ((global, datum), &in_block) in list.iter().zip(&in_block) {
        let place = if in_block {
            let at = u64::next_multiple_of(end, datum.align);
            end = at.saturating_add(datum.size);
            if datum.mutable {
                data.block.variables = end;
            }
            data.block.align = data.block.align.max(datum.align as u32);
            data.variables.push(Variable { name: datum.name.to_string(), offset: at, size: datum.size });
            Place::Block(at)
        } else {
            Place::Constant(datum.name.clone())
        };
        data.places.insert(*global, place);
    }
    if end > MAX_PROGRAM_DATA {
        return Err(format!("has {end} bytes of variables; the most is {MAX_PROGRAM_DATA}"));
    }
    // A variable may have no bytes at all, and is referred to all the same.
    data.block.size = if in_block.contains(&true) { end.max(1) } else { 0 };
    for (global, datum) in list {
        match data.places[&global] {
            Place::Block(at) => data.put_into_block(at, datum)?,
            Place::Constant(_) => data.add_constant(datum),
        }
    }
    Ok(data)
}

impl<'m> Data<'m> {
    fn put_into_block(&mut self, at: u64, datum: Datum<'m>) -> Result<(), String> {
        let block = &mut self.block;
        if !datum.image.bytes.is_empty() {
            block.image.resize(at as usize, 0);
            block.image.extend(&datum.image.bytes);
        }
        for (offset, target, addend) in datum.image.pointers {
            let Some(&Place::Block(base)) = self.places.get(&target) else { continue };
            let to = base.wrapping_add_signed(addend);
            if to > block.size {
                return Err(format!("has a variable that points to outside of `{}`", target.name()));
            }
            block.pointers.push((at + offset, to));
        }
        Ok(())
    }

    fn add_constant(&mut self, datum: Datum<'m>) {
        let Datum { name, align, size, image, .. } = datum;
        let pointer = |(at, target, addend): (u64, Value<'m>, i64)| match self.places.get(&target)? {
            Place::Constant(target) => Some(Pointer { at, target: target.clone(), offset: addend as u64 }),
            Place::Block(_) => None,
        };
        let pointers = image.pointers.into_iter().filter_map(pointer).collect();
        self.constants.push(ConstantData { name, align: align as u32, size, bytes: image.bytes, pointers });
    }
}

/// For each datum, whether it is a variable or joined to one by pointers, in either direction.
fn bound_to_variables<'m>(list: &[(Value<'m>, Datum<'m>)], index: &HashMap<Value<'m>, usize>) -> Vec<bool> {
    let mut neighbours = vec![Vec::new(); list.len()];
    for (from, (_, datum)) in list.iter().enumerate() {
        for to in datum.image.pointers.iter().filter_map(|(_, target, _)| index.get(target)) {
            neighbours[from].push(*to);
            neighbours[*to].push(from);
        }
    }
    let mut bound: Vec<bool> = list.iter().map(|(_, datum)| datum.mutable).collect();
    let mut open: Vec<usize> = (0..list.len()).filter(|&i| bound[i]).collect();
    while let Some(at) = open.pop() {
        for &next in &neighbours[at] {
            if !std::mem::replace(&mut bound[next], true) {
                open.push(next);
            }
        }
    }
    bound
}

fn datum<'m>(global: Global<'m>, name: Arc<str>, layout: Layout<'m>) -> Import<Datum<'m>> {
    let ty = global.value_type();
    let initializer = global.initializer().ok_or("nothing defines")?;
    let size = if ty.is_sized() { limits::bytes(layout, ty) } else { None };
    let size = size.filter(|&size| size <= MAX_PROGRAM_DATA).ok_or("is too large")?;
    // What is in constant memory doesn't change, whether the producer says so or not.
    let mutable = !global.is_constant_variable() && global.ty().address_space() != 2;
    let mut image = Image::default();
    image.write(initializer, 0, layout)?;
    let used = image.bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    image.bytes.truncate(used);
    image.pointers.sort_by_key(|(at, ..)| *at);
    let align = u64::from(global.alignment().max(layout.alignment(ty)).max(1));
    Ok(Datum { name, mutable, align, size, image })
}

impl<'m> Image<'m> {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        let (at, end) = (at as usize, at as usize + bytes.len());
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
    }

    /// Writes a constant of a sized type to its place.
    fn write(&mut self, value: Value<'m>, at: u64, layout: Layout<'m>) -> Import<()> {
        let undefined = matches!(value.kind(), LLVMUndefValueValueKind | LLVMPoisonValueKind);
        if undefined || value.is_null() {
            return Ok(());
        }
        if let Some(bytes) = value.raw_data() {
            self.put(at, &bytes);
            return Ok(());
        }
        let ty = value.ty();
        match value.kind() {
            LLVMConstantIntValueKind if !ty.is_vector() => {
                let bits = value.wide_bits().ok_or_else(|| unknown(value))?;
                self.put(at, &bits.to_le_bytes()[..ty.integer_width().div_ceil(8) as usize]);
            }
            LLVMConstantFPValueKind if !ty.is_vector() => {
                let bits = value.float_bits().ok_or_else(|| unknown(value))?;
                self.put(at, &bits.to_le_bytes()[..layout.size(ty) as usize]);
            }
            LLVMGlobalVariableValueKind | LLVMConstantExprValueKind => self.address(value, at, layout)?,
            _ => {
                for index in 0..ty.element_count() as u32 {
                    let element = value.aggregate_element(index).ok_or_else(|| unknown(value))?;
                    let offset = element_offset(ty, index, layout).ok_or_else(|| unknown(value))?;
                    self.write(element, at + offset, layout)?;
                }
            }
        }
        Ok(())
    }

    /// Writes an address, or a number that is called one.
    fn address(&mut self, value: Value<'m>, at: u64, layout: Layout<'m>) -> Import<()> {
        let pointer = 8 * layout.pointer_bytes(0);
        let bits = if value.ty().is_pointer() { pointer } else { value.ty().integer_width() };
        match resolve(value, layout) {
            Some((Some(global), offset)) if bits == pointer => self.pointers.push((at, global, offset)),
            Some((None, number)) if bits > 0 && bits <= 64 => {
                self.put(at, &number.to_le_bytes()[..bits.div_ceil(8) as usize]);
            }
            _ => return Err(unknown(value)),
        }
        Ok(())
    }
}

fn unknown(value: Value) -> String {
    let text: String = value.to_string().chars().take(200).collect();
    format!("contains `{text}`, which is not supported")
}

/// Where an element lies in its array, structure or vector.
fn element_offset<'m>(ty: Type<'m>, index: u32, layout: Layout<'m>) -> Option<u64> {
    match ty.kind() {
        LLVMTypeKind::LLVMStructTypeKind => layout.member_offset(ty, index),
        LLVMTypeKind::LLVMArrayTypeKind => Some(layout.size(ty.element()?) * u64::from(index)),
        // Lanes lie side by side; those that are no whole bytes share them.
        LLVMTypeKind::LLVMVectorTypeKind => {
            let (lane, whole) = (layout.size(ty.element()?), layout.size(ty));
            let side_by_side = lane * ty.element_count() <= whole;
            side_by_side.then_some(lane * u64::from(index))
        }
        _ => None,
    }
}

/// The variable that an address leads into and how far behind its start, by constants alone: those of an expression, and of
/// instructions that lead there.
pub(in crate::front) fn place_in_variable<'m>(
    address: Value<'m>,
    layout: Layout<'m>,
) -> Option<(Value<'m>, i64)> {
    let (mut address, mut sum) = (address, 0_i64);
    while let Some(instruction) = address.as_instruction() {
        match instruction.opcode() {
            LLVMBitCast | LLVMAddrSpaceCast => {}
            LLVMGetElementPtr => sum = sum.wrapping_add(walked(address, layout)?),
            _ => return None,
        }
        address = address.operand(0)?;
    }
    let (base, offset) = resolve(address, layout)?;
    Some((base?, sum.wrapping_add(offset)))
}

/// An address as a variable and an offset, or a number alone.
fn resolve<'m>(value: Value<'m>, layout: Layout<'m>) -> Option<(Option<Value<'m>>, i64)> {
    if value.as_global().is_some() {
        return Some((Some(value), 0));
    }
    if let Some(number) = value.constant_signed() {
        return Some((None, number));
    }
    if value.is_null() {
        return Some((None, 0));
    }
    let (base, offset) = resolve(value.operand(0)?, layout)?;
    match value.operation()? {
        LLVMBitCast | LLVMAddrSpaceCast | LLVMIntToPtr | LLVMPtrToInt | LLVMPtrToAddr => Some((base, offset)),
        LLVMAdd => Some((base, offset.wrapping_add(value.operand(1)?.constant_signed()?))),
        LLVMSub => Some((base, offset.wrapping_sub(value.operand(1)?.constant_signed()?))),
        LLVMGetElementPtr => Some((base, offset.wrapping_add(walked(value, layout)?))),
        _ => None,
    }
}

/// The bytes that a `getelementptr` of constants adds.
pub(in crate::front) fn walked<'m>(value: Value<'m>, layout: Layout<'m>) -> Option<i64> {
    let mut current = value.element_pointer_type()?;
    let mut sum = 0_i64;
    for (number, index) in value.operands().into_iter().enumerate().skip(1) {
        let index = index.constant_signed()?;
        if number > 1 && current.kind() == LLVMTypeKind::LLVMStructTypeKind {
            let member = u32::try_from(index).ok()?;
            let next = *current.members().get(member as usize)?;
            sum = sum.wrapping_add(layout.member_offset(current, member)? as i64);
            current = next;
            continue;
        }
        if number > 1 {
            current = current.element()?;
        }
        if !current.is_sized() {
            return None;
        }
        sum = sum.wrapping_add((layout.size(current) as i64).wrapping_mul(index));
    }
    Some(sum)
}
