//! The sections of a module: what is said of it as a whole, what is said of ids, globals and functions.

use super::stream::{self, Instruction};
use super::{Id, Result, refuse, spirv, support};
use spirula_interface::address_bits::AddressBits;
use spirv::{Decoration, ExecutionMode, Op};
use std::collections::{HashMap, HashSet};

/// A module, read but not understood.
#[derive(Debug, Default)]
pub struct Module<'a> {
    /// What pointers are.
    pub addresses: AddressBits,
    /// The sets of extended instructions.
    pub sets: HashMap<Id, Set>,
    /// Functions and the names that kernels have of them.
    pub entry_points: Vec<(Id, String)>,
    /// Execution modes with their operands.
    pub modes: Vec<(Id, u32, Vec<u32>)>,
    pub names: HashMap<Id, String>,
    pub strings: HashMap<Id, String>,
    /// The strings that are the files' names of debug information's sources.
    sources: HashMap<Id, Id>,
    decorations: HashMap<Id, Vec<(u32, Vec<u32>)>>,
    /// The language's number and version of `OpSource`.
    pub source: Option<(u32, u32)>,
    /// Types, constants, and variables of the module.
    pub globals: Vec<Instruction<'a>>,
    pub functions: Vec<Function<'a>>,
    /// What each id's instruction is.
    pub types_of: HashMap<Id, Id>,
}

/// The extended instruction DebugSource: a file's name and text.
const DEBUG_SOURCE: u32 = 35;

/// A set of extended instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    OpenCl,
    /// NonSemantic.Shader.DebugInfo.100, which has lines.
    Lines,
    /// What it says changes no result: debug information and the like.
    Silent,
}

/// A function, with its lines.
#[derive(Debug)]
pub struct Function<'a> {
    pub head: Instruction<'a>,
    pub parameters: Vec<Instruction<'a>>,
    pub body: Vec<Instruction<'a>>,
}

impl Module<'_> {
    /// The file's name, line and column, these as constants, that an instruction says those behind it are of.
    pub fn line(&self, instruction: &Instruction) -> Option<(Id, Id, Id)> {
        /// The extended instruction DebugLine: source, first and last line, first and last column.
        const DEBUG_LINE: u32 = 103;
        match *instruction.operands {
            [set, DEBUG_LINE, source, line, _, column, ..] if instruction.op == Op::ExtInst => {
                let file = self.sources.get(&source).copied().unwrap_or(0);
                (self.sets.get(&set) == Some(&Set::Lines)).then_some((file, line, column))
            }
            _ => None,
        }
    }

    /// The operands of an id's decoration; the first one's, if there are several.
    pub fn decoration(&self, id: Id, decoration: Decoration) -> Option<&[u32]> {
        let own = self.decorations.get(&id)?;
        own.iter().find(|(known, _)| *known == decoration as u32).map(|(_, operands)| operands.as_slice())
    }

    pub fn has(&self, id: Id, decoration: Decoration) -> bool {
        self.decoration(id, decoration).is_some()
    }

    /// All operands of decorations of this kind.
    pub fn decorations(&self, id: Id, decoration: Decoration) -> impl Iterator<Item = &[u32]> {
        let own = self.decorations.get(&id).into_iter().flatten();
        own.filter(move |(known, _)| *known == decoration as u32).map(|(_, operands)| operands.as_slice())
    }

    /// The symbol that an id is known by to other modules, and whether it's imported (1), or may be defined by several (2).
    pub fn linkage(&self, id: Id) -> Option<(String, u32)> {
        let operands = self.decoration(id, Decoration::LinkageAttributes)?;
        let text = Instruction { op: Op::Decorate, ty: 0, result: 0, operands };
        let (name, next) = text.string(0).ok()?;
        Some((name, *operands.get(next)?))
    }

    /// The operands of a function's mode.
    pub fn mode(&self, function: Id, mode: ExecutionMode) -> Option<&[u32]> {
        let own = self.modes.iter().find(|(id, known, _)| *id == function && *known == mode as u32);
        own.map(|(.., operands)| operands.as_slice())
    }
}

/// Sorts a module's instructions. Refuses what isn't supported.
pub fn read(words: &[u32]) -> Result<Module<'_>> {
    let mut module = Module::default();
    let mut groups: HashMap<Id, Vec<Id>> = HashMap::new();
    let mut results = HashSet::new();
    let mut has_model = false;
    let mut function: Option<Function> = None;
    for instruction in stream::instructions(words)? {
        if instruction.result != 0 && !results.insert(instruction.result) {
            return refuse(format!("the id {} is defined twice", instruction.result));
        }
        if instruction.ty != 0 && instruction.result != 0 {
            module.types_of.insert(instruction.result, instruction.ty);
        }
        match (instruction.op, &mut function) {
            (Op::Function, None) => {
                let (parameters, body) = (Vec::new(), Vec::new());
                function = Some(Function { head: instruction, parameters, body });
            }
            (Op::Function, Some(_)) => return refuse("a function begins within another"),
            (Op::FunctionEnd, Some(_)) => module.functions.extend(function.take()),
            (Op::FunctionParameter, Some(own)) => own.parameters.push(instruction),
            (_, Some(own)) => own.body.push(instruction),
            (Op::MemoryModel, None) => {
                module.addresses = support::memory_model(&instruction)?;
                has_model = true;
            }
            (_, None) => global(&mut module, &instruction, &mut groups)?,
        }
    }
    if function.is_some() {
        return refuse("its last function has no end");
    }
    if !has_model {
        return refuse("it has no OpMemoryModel");
    }
    for (group, targets) in groups {
        let Some(own) = module.decorations.get(&group).cloned() else { continue };
        for target in targets {
            module.decorations.entry(target).or_default().extend(own.iter().cloned());
        }
    }
    Ok(module)
}

fn global<'a>(
    module: &mut Module<'a>,
    instruction: &Instruction<'a>,
    groups: &mut HashMap<Id, Vec<Id>>,
) -> Result<()> {
    match instruction.op {
        Op::Capability => support::capability(instruction.word(0)?)?,
        Op::Extension => support::extension(&instruction.string(0)?.0)?,
        Op::ExtInstImport => {
            let set = support::instruction_set(&instruction.string(0)?.0)?;
            module.sets.insert(instruction.result, set);
        }
        Op::EntryPoint => {
            let ([model, function], _) = instruction.words()?;
            if model != spirv::ExecutionModel::Kernel as u32 {
                let model = spirv::ExecutionModel::from_u32(model);
                return refuse(format!("it has an entry point for {model:?}; only Kernel is supported"));
            }
            module.entry_points.push((function, instruction.string(2)?.0));
        }
        Op::ExecutionMode | Op::ExecutionModeId => {
            let ([function, mode], operands) = instruction.words()?;
            support::mode(mode)?;
            module.modes.push((function, mode, operands.to_vec()));
        }
        Op::Source => module.source = Some((instruction.word(0)?, instruction.word(1)?)),
        Op::Name => {
            module.names.insert(instruction.word(0)?, instruction.string(1)?.0);
        }
        Op::String => {
            module.strings.insert(instruction.result, instruction.string(0)?.0);
        }
        Op::Decorate | Op::DecorateId | Op::DecorateString => {
            let ([target, decoration], operands) = instruction.words()?;
            module.decorations.entry(target).or_default().push((decoration, operands.to_vec()));
        }
        Op::GroupDecorate => {
            let ([group], targets) = instruction.words()?;
            groups.entry(group).or_default().extend(targets);
        }
        // What members are decorated with matters to graphics, and to hints.
        Op::MemberDecorate
        | Op::MemberDecorateString
        | Op::GroupMemberDecorate
        | Op::DecorationGroup
        | Op::MemberName
        | Op::SourceExtension
        | Op::SourceContinued
        | Op::ModuleProcessed
        // Scopes of pointers that lead to different places: permissions that nothing here uses.
        | Op::AliasDomainDeclINTEL
        | Op::AliasScopeDeclINTEL
        | Op::AliasScopeListDeclINTEL
        | Op::Line
        | Op::NoLine
        | Op::Nop => {}
        Op::ExtInst => {
            let set = instruction.word(0)?;
            if !matches!(module.sets.get(&set), Some(Set::Silent | Set::Lines)) {
                return refuse("it has an extended instruction outside of functions");
            }
            if let [_, DEBUG_SOURCE, file, ..] = *instruction.operands {
                module.sources.insert(instruction.result, file);
            }
        }
        _ if is_global(instruction.op) => module.globals.push(*instruction),
        op => return refuse(format!("Op{op:?} stands outside of functions, or isn't supported")),
    }
    Ok(())
}

/// Whether an instruction may be a type, a constant or a variable of the module.
fn is_global(op: Op) -> bool {
    let name = format!("{op:?}");
    ["Type", "Constant", "SpecConstant"].iter().any(|prefix| name.starts_with(prefix))
        || matches!(op, Op::Undef | Op::Variable | Op::UntypedVariableKHR)
}
