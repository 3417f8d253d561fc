//! Who calls whom in a module: for recursion, for the kernels that need a symbol, and for what must be inlined.

use crate::llvm::{Function, Instruction, View};
use std::collections::{HashMap, HashSet};

/// The direct calls between a module's functions.
pub(crate) struct CallGraph<'m> {
    functions: Vec<Function<'m>>,
    callees: HashMap<Function<'m>, Vec<Function<'m>>>,
}

impl<'m> CallGraph<'m> {
    pub(crate) fn new(module: View<'m>) -> Self {
        let functions = module.functions();
        let callees = functions
            .iter()
            .map(|&function| {
                let mut seen = HashSet::new();
                let calls = function.instructions().into_iter().filter_map(Instruction::called_function);
                (function, calls.filter(|callee| seen.insert(*callee)).collect())
            })
            .collect();
        CallGraph { functions, callees }
    }

    fn callees(&self, function: Function<'m>) -> &[Function<'m>] {
        self.callees.get(&function).map_or(&[], Vec::as_slice)
    }

    /// The names along a cycle, the first one again at the end.
    pub(crate) fn cycle(&self) -> Option<Vec<String>> {
        let mut done = HashSet::new();
        for &root in &self.functions {
            // Depth-first with a path of (function, next callee): hostile modules may nest deeply.
            let mut path = vec![(root, 0)];
            while let Some((function, next)) = path.last_mut() {
                let (function, index) = (*function, *next);
                *next += 1;
                match self.callees(function).get(index) {
                    None => {
                        done.insert(function);
                        path.pop();
                    }
                    Some(&callee) => {
                        if let Some(start) = path.iter().position(|(f, _)| *f == callee) {
                            let names = path[start..].iter().map(|(f, _)| f.name());
                            return Some(names.chain([callee.name()]).collect());
                        }
                        if !done.contains(&callee) {
                            path.push((callee, 0));
                        }
                    }
                }
            }
        }
        None
    }

    /// The functions that reach one of `targets` by calls, with the targets themselves.
    pub(crate) fn reaching(&self, targets: impl IntoIterator<Item = Function<'m>>) -> HashSet<Function<'m>> {
        let mut callers: HashMap<Function<'m>, Vec<Function<'m>>> = HashMap::new();
        for (&caller, callees) in &self.callees {
            for &callee in callees {
                callers.entry(callee).or_default().push(caller);
            }
        }
        let mut found: HashSet<Function<'m>> = HashSet::new();
        let mut open: Vec<Function<'m>> = targets.into_iter().collect();
        while let Some(function) = open.pop() {
            if found.insert(function) {
                open.extend(callers.get(&function).into_iter().flatten());
            }
        }
        found
    }

    /// The functions that `roots` reach by calls, with the roots themselves.
    pub(crate) fn reached(&self, roots: impl IntoIterator<Item = Function<'m>>) -> HashSet<Function<'m>> {
        let mut found: HashSet<Function<'m>> = HashSet::new();
        let mut open: Vec<Function<'m>> = roots.into_iter().collect();
        while let Some(function) = open.pop() {
            if found.insert(function) {
                open.extend(self.callees(function));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing;
    use crate::llvm::Session;

    #[test]
    fn reaching_follows_calls_backwards() {
        let session = Session::new();
        let module = testing::module(
            &session,
            "declare void @b()\ndefine void @f() {\n call void @b()\n ret void\n}
             define void @g() {\n call void @f()\n ret void\n}\ndefine void @h() {\n ret void\n}",
        );
        let graph = CallGraph::new(module.view());
        let mut names: Vec<String> =
            graph.reaching(module.view().function_named("b")).iter().map(|f| f.name()).collect();
        names.sort();
        assert_eq!(names, ["b", "f", "g"]);
        assert_eq!(graph.cycle(), None);
    }
}
