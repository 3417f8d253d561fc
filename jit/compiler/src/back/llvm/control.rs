//! The LLVM back end: blocks, phis, and how blocks end.

use super::Translator;
use spirula_kir::{Block, Inst, Op, Target, Terminator};

/// The ways into each block: from which block, by which of its edges.
type WaysIn = Vec<Vec<(Block, usize)>>;

impl Translator<'_> {
    pub(super) fn blocks(&mut self) {
        let mut ways_in: WaysIn = vec![Vec::new(); self.function.blocks.len()];
        for from in self.function.block_ids() {
            for (edge, target) in self.function.block(from).terminator.targets().iter().enumerate() {
                ways_in[target.block.index()].push((from, edge));
            }
        }
        for block in self.function.block_ids() {
            self.out.label(&block.to_string());
            self.phis(block, &ways_in);
            for &inst in &self.function.block(block).insts {
                if self.out.debug_info {
                    self.out.location = self.line_of(inst);
                }
                self.instruction(inst);
            }
            // What ends a block is of the line of what stands before it.
            self.terminator(block);
            self.out.location.clear();
        }
    }

    /// What stands behind an instruction.
    fn line_of(&mut self, inst: Inst) -> String {
        let location = self.function.location(inst).and_then(|at| self.function.location_of(at));
        match self.function.op(inst) {
            Op::Call { .. } if location.is_none() => self.out.lines.of_none(),
            _ => self.out.lines.of(location),
        }
    }

    fn phis(&mut self, block: Block, ways_in: &WaysIn) {
        for (number, &param) in self.function.block(block).params.iter().enumerate() {
            let mut incoming = Vec::new();
            for &(from, edge) in &ways_in[block.index()] {
                let targets = self.function.block(from).terminator.targets();
                let argument = self.text(targets[edge].arguments[number]);
                let from =
                    if needs_edge_block(&targets, edge) { edge_block(from, edge) } else { from.to_string() };
                incoming.push(format!("[ {argument}, %{from} ]"));
            }
            let (name, ty) = (self.text(param), self.ty(param));
            self.out.line(&format!("{name} = phi {ty} {}", incoming.join(", ")));
        }
    }

    /// What stands behind the branch of a loop's last block.
    fn loop_hints(&mut self, block: Block) -> String {
        let mut hints = self.function.block(block).loop_hints;
        if self.wrapping.contains(block.index()) {
            hints.get_or_insert_default().no_vectorize = true;
        }
        hints.map_or_else(String::new, |hints| self.out.metadata.loop_hints(self.scope, hints))
    }

    fn terminator(&mut self, block: Block) {
        let data = self.function.block(block);
        let targets = data.terminator.targets();
        let label = |edge: usize| {
            if needs_edge_block(&targets, edge) {
                edge_block(block, edge)
            } else {
                targets[edge].block.to_string()
            }
        };
        let hints = self.loop_hints(block);
        let text = match &data.terminator {
            Terminator::Jump(_) => format!("br label %{}{hints}", label(0)),
            Terminator::Branch { condition, .. } => {
                let condition = self.text(*condition);
                format!("br i1 {condition}, label %{}, label %{}{hints}", label(0), label(1))
            }
            Terminator::Switch { value, cases, .. } => {
                let ty = self.ty(*value);
                let arms: Vec<String> = (cases.iter().enumerate())
                    .map(|(edge, (case, _))| format!("{ty} {case}, label %{}", label(edge)))
                    .collect();
                let (value, default) = (self.text(*value), label(cases.len()));
                format!("switch {ty} {value}, label %{default} [ {} ]{hints}", arms.join(" "))
            }
            Terminator::Return(None) => "ret void".to_owned(),
            Terminator::Return(Some(value)) => format!("ret {}", self.typed(*value)),
            Terminator::Unreachable => "unreachable".to_owned(),
            Terminator::Barrier(_) | Terminator::Exit(_) => {
                unreachable!("barriers and regions end with the lowering")
            }
        };
        self.out.line(&text);
        for edge in (0..targets.len()).filter(|&edge| needs_edge_block(&targets, edge)) {
            self.out.label(&edge_block(block, edge));
            self.out.line(&format!("br label %{}", targets[edge].block));
        }
    }
}

/// LLVM has one entry per predecessor in a phi: a second edge between two blocks gets a block of its own.
fn needs_edge_block(targets: &[&Target], edge: usize) -> bool {
    !targets[edge].arguments.is_empty()
        && targets.iter().filter(|target| target.block == targets[edge].block).count() > 1
}

fn edge_block(from: Block, edge: usize) -> String {
    format!("{from}.e{edge}")
}
