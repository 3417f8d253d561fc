//! Vectors, arrays and structures as values, and sampled images, which are pairs.

use super::function::Body;
use super::stream::Instruction;
use super::types::Type;
use super::{Id, Result, refuse, spirv};
use spirv::Op;

/// Indices of an instruction: structures are not nested deeper.
const MAX_INDICES: usize = 64;

impl Body<'_, '_> {
    /// Instructions on composites; whether it was one.
    pub fn composite(&mut self, instruction: &Instruction) -> Result<bool> {
        let Instruction { op, result, .. } = *instruction;
        match op {
            Op::CompositeExtract => self.extract(instruction)?,
            Op::CompositeInsert => self.insert(instruction)?,
            Op::CompositeConstruct => self.construct(instruction)?,
            Op::VectorExtractDynamic => {
                let ([vector, index], _) = instruction.words()?;
                self.component(result, vector, index)?;
            }
            Op::VectorInsertDynamic => {
                let ([vector, part, index], _) = instruction.words()?;
                let (vector, part) = (self.operand(vector)?, self.operand(part)?);
                let line = format!("insertelement {vector}, {part}, {}", self.operand(index)?);
                self.set(result, &line);
            }
            Op::VectorShuffle => self.shuffle(instruction)?,
            // Of the pair that a sampled image is.
            Op::Image => {
                let line = format!("extractvalue {}, 0", self.operand(instruction.word(0)?)?);
                self.set(result, &line);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The types on the way to a part, the part's last.
    fn way(&self, whole: Id, indices: &[u32]) -> Result<Vec<Id>> {
        if indices.len() > MAX_INDICES {
            return refuse("a composite is nested too deeply");
        }
        let mut ty = self.type_of(whole)?;
        let mut way = vec![ty];
        for &index in indices {
            ty = self.types().member(ty, u64::from(index))?;
            way.push(ty);
        }
        Ok(way)
    }

    fn is_vector(&self, ty: Id) -> bool {
        matches!(self.types().get(ty), Ok(Type::Vector(..)))
    }

    fn extract(&mut self, instruction: &Instruction) -> Result<()> {
        let ([whole], indices) = instruction.words()?;
        let way = self.way(whole, indices)?;
        let value = self.operand(whole)?;
        let line = match indices {
            [] => format!("select i1 true, {value}, {value}"),
            [index] if self.is_vector(way[0]) => format!("extractelement {value}, i32 {index}"),
            [outer @ .., last] if self.is_vector(way[way.len() - 2]) => {
                let vector = self.fresh();
                self.line(&format!("{vector} = extractvalue {value}, {}", list(outer)));
                format!("extractelement {} {vector}, i32 {last}", self.types().text(way[way.len() - 2])?)
            }
            _ => format!("extractvalue {value}, {}", list(indices)),
        };
        self.set(instruction.result, &line);
        Ok(())
    }

    fn insert(&mut self, instruction: &Instruction) -> Result<()> {
        let ([part, whole], indices) = instruction.words()?;
        let way = self.way(whole, indices)?;
        let (part, value) = (self.operand(part)?, self.operand(whole)?);
        let line = match indices {
            [] => format!("select i1 true, {part}, {part}"),
            [index] if self.is_vector(way[0]) => format!("insertelement {value}, {part}, i32 {index}"),
            [outer @ .., last] if self.is_vector(way[way.len() - 2]) => {
                let ty = self.types().text(way[way.len() - 2])?.to_string();
                let [old, new] = [0; 2].map(|_| self.fresh());
                self.line(&format!("{old} = extractvalue {value}, {}", list(outer)));
                self.line(&format!("{new} = insertelement {ty} {old}, {part}, i32 {last}"));
                format!("insertvalue {value}, {ty} {new}, {}", list(outer))
            }
            _ => format!("insertvalue {value}, {part}, {}", list(indices)),
        };
        self.set(instruction.result, &line);
        Ok(())
    }

    /// Of parts that are members or, for vectors, components and vectors of them.
    fn construct(&mut self, instruction: &Instruction) -> Result<()> {
        let ty = self.types().text(instruction.ty)?.to_string();
        let is_vector = self.is_vector(instruction.ty);
        let insert = if is_vector { "insertelement" } else { "insertvalue" };
        let mut whole = "poison".to_string();
        let mut parts = Vec::new();
        for &part in instruction.operands {
            let value = self.operand(part)?;
            match *self.types().get(self.type_of(part)?)? {
                Type::Vector(element, count) if is_vector => {
                    let element = self.types().text(element)?.to_string();
                    for index in 0..count {
                        let lane = self.fresh();
                        self.line(&format!("{lane} = extractelement {value}, i32 {index}"));
                        parts.push(format!("{element} {lane}"));
                    }
                }
                _ => parts.push(value),
            }
        }
        let Some((last, first)) = parts.split_last() else {
            self.set(instruction.result, &format!("select i1 true, {ty} undef, {ty} undef"));
            return Ok(());
        };
        let place = |index: usize| if is_vector { format!("i32 {index}") } else { index.to_string() };
        for (index, part) in first.iter().enumerate() {
            let next = self.fresh();
            self.line(&format!("{next} = {insert} {ty} {whole}, {part}, {}", place(index)));
            whole = next;
        }
        self.set(instruction.result, &format!("{insert} {ty} {whole}, {last}, {}", place(first.len())));
        Ok(())
    }

    /// LLVM's takes two vectors of one size: the smaller one is made larger.
    fn shuffle(&mut self, instruction: &Instruction) -> Result<()> {
        let ([a, b], indices) = instruction.words()?;
        let (_, a_count) = self.types().lanes(self.type_of(a)?)?;
        let (_, b_count) = self.types().lanes(self.type_of(b)?)?;
        let (element, _) = self.types().lanes(instruction.ty)?;
        let element = self.types().text(element)?.to_string();
        let count = a_count.max(b_count);
        let mut sides = Vec::new();
        for (id, own) in [(a, a_count), (b, b_count)] {
            let value = self.operand(id)?;
            if own == count {
                sides.push(value);
                continue;
            }
            let wide = self.fresh();
            let mask = (0..count).map(|i| if i < own { format!("i32 {i}") } else { "i32 poison".into() });
            let mask = mask.collect::<Vec<_>>().join(", ");
            let ty = self.types().text(self.type_of(id)?)?;
            let line = format!("{wide} = shufflevector {value}, {ty} poison, <{count} x i32> <{mask}>");
            self.line(&line);
            sides.push(format!("<{count} x {element}> {wide}"));
        }
        let mask = indices.iter().map(|&index| match index {
            u32::MAX => Ok("i32 poison".to_string()),
            _ if index < a_count => Ok(format!("i32 {index}")),
            _ if index - a_count < b_count => Ok(format!("i32 {}", index - a_count + count)),
            _ => refuse("OpVectorShuffle chooses a component that isn't there"),
        });
        let mask: Vec<String> = mask.collect::<Result<_>>()?;
        let line =
            format!("shufflevector {}, {}, <{} x i32> <{}>", sides[0], sides[1], mask.len(), mask.join(", "));
        self.set(instruction.result, &line);
        Ok(())
    }
}

fn list(indices: &[u32]) -> String {
    indices.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
