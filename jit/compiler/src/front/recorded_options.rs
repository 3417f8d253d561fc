//! Recorded options: those about arithmetic that a module was compiled with, as `opencl.compiler.options`
//! records them (SPIR 1.2, 2.8). They hold for a program if all its modules have them.

use crate::llvm::{Module, Node};
use spirula_interface::options::MathOptions;
use std::ffi::CStr;

const NAME: &CStr = c"opencl.compiler.options";

/// The options of a module, if it records any. A joined one has a node for each of its parts.
fn of(module: &Module) -> Option<MathOptions> {
    let nodes = module.view().named_metadata(NAME);
    let options = |node: Node| {
        let words = node.operands().into_iter().flatten();
        let words = words.filter_map(|word| word.metadata_string());
        words.fold(MathOptions::NONE, |all, word| all | MathOptions::named(&word))
    };
    (!nodes.is_empty()).then(|| MathOptions::common(nodes.into_iter().map(options)))
}

/// Whether some part of a module was compiled with this option, which is written without its dash.
pub(crate) fn any_says(module: &Module, option: &str) -> bool {
    let nodes = module.view().named_metadata(NAME).into_iter();
    let words = nodes.flat_map(|node| node.operands()).flatten().filter_map(|word| word.metadata_string());
    words.into_iter().any(|word| word.trim_start_matches('-') == option)
}

/// The options that hold for modules that are about to be joined. LLVM only appends their records: for those that have
/// none, an empty one says so.
pub(crate) fn common(modules: &mut [Module]) -> MathOptions {
    let each: Vec<Option<MathOptions>> = modules.iter().map(of).collect();
    if let Some(silent) = each.iter().position(Option::is_none) {
        modules[silent].edit(|edit| edit.add_empty_node(NAME));
    }
    MathOptions::common(each.into_iter().map(Option::unwrap_or_default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{link, testing};
    use crate::llvm::Session;

    fn module<'s>(session: &'s Session, words: &str) -> Module<'s> {
        let record = "!opencl.compiler.options = !{!0}\n!0 = !{";
        testing::module(session, &if words.is_empty() { String::new() } else { format!("{record}{words}}}") })
    }

    #[test]
    fn a_modules_options_are_read_in_either_form() {
        let session = Session::new();
        let both = MathOptions::MAD_ENABLE | MathOptions::DENORMS_ARE_ZERO;
        let text = r#"!"-cl-mad-enable", !"cl-denorms-are-zero", !"-w""#;
        assert_eq!(of(&module(&session, text)), Some(both));
        assert_eq!(of(&module(&session, "null, !\"nonsense\", !1}\n!1 = !{")), Some(MathOptions::NONE));
        assert_eq!(of(&module(&session, "")), None);
    }

    #[test]
    fn joined_modules_keep_what_all_have() {
        const MAD: &str = r#"!"cl-mad-enable""#;
        const FAST: &str = r#"!"cl-fast-relaxed-math""#;
        for (words, expected) in [
            (&[MAD, FAST][..], MathOptions::MAD_ENABLE),
            (&[FAST, ""], MathOptions::NONE),
            (&["", FAST], MathOptions::NONE),
            (&[FAST, FAST], MathOptions::FAST_RELAXED_MATH),
        ] {
            let session = Session::new();
            let mut modules: Vec<Module> = words.iter().map(|words| module(&session, words)).collect();
            assert_eq!(common(&mut modules), expected, "{words:?}");
            let joined = link::join(&session, modules).unwrap();
            assert_eq!(of(&joined), Some(expected), "{words:?}, joined");
        }
    }
}
