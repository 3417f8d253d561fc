//! What was compiled lately is not compiled again: applications build one program for each of their contexts, devices or
//! objects. A question's key leads to the answer's bytes, up to a number of them altogether.

use crate::cache::Key;
use spirula_interface::protocol::{self, Product};
use spirula_interface::translation::Translation;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Bytes of answers that are kept.
const CAPACITY: usize = 16 << 20;

/// Whether a translation depends on nothing but what it says: files and clocks change. (No option names a file: they come from
/// a list of known ones.)
pub fn is_repeatable(translation: &Translation) -> bool {
    let texts = translation.headers.iter().map(|(_, text)| text).chain([&translation.source]);
    !texts.chain(&translation.options).any(|text| may_look_around(text))
}

/// Words that make the preprocessor look for a file (`#include_next`, `__has_embed`, `#pragma GCC dependency`…) or at a clock.
const LOOKING_AROUND: [&str; 7] =
    ["include", "import", "embed", "dependency", "__DATE__", "__TIME__", "__TIMESTAMP__"];

/// Whether one of these words stands in a text, however its letters are spread over lines or written: a trigraph or a
/// universal character name is taken for one.
fn may_look_around(text: &str) -> bool {
    let mut lines = String::with_capacity(text.len());
    for line in text.split('\n') {
        // Clang continues a line whose backslash has blanks behind it, too.
        let end = line.trim_end();
        lines.push_str(end.strip_suffix('\\').unwrap_or(line));
        if !end.ends_with('\\') {
            lines.push('\n');
        }
    }
    ["??/", "\\u", "\\U"].iter().chain(&LOOKING_AROUND).any(|word| lines.contains(word))
}

/// Answers to the last questions.
#[derive(Default)]
pub struct Recent(Mutex<VecDeque<(Key, Vec<u8>)>>);

impl Recent {
    /// Nothing yet.
    pub const fn new() -> Self {
        Recent(Mutex::new(VecDeque::new()))
    }

    /// The answer, if it is still known.
    pub fn find(&self, key: &Key) -> Option<Product> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(question, _)| question == key)?;
        let entry = known.remove(place)?;
        let product = protocol::decode(&entry.1).ok();
        known.push_front(entry);
        product
    }

    /// Keeps an answer; the ones that were not asked for longest make room.
    pub fn keep(&self, key: Key, answer: Vec<u8>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_front((key, answer));
        let mut bytes = 0;
        let fitting = known.iter().take_while(|(_, answer)| {
            bytes += answer.len();
            bytes <= CAPACITY
        });
        let fitting = fitting.count();
        known.truncate(fitting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirula_interface::translation::{Clang, Translated};

    fn answer(size: usize) -> Vec<u8> {
        let product = Product::Translated(Translated { module: vec![7; size], log: "a warning".into() });
        protocol::encode(&product).unwrap()
    }

    fn size(found: Option<Product>) -> Option<usize> {
        match found {
            Some(Product::Translated(translated)) => Some(translated.module.len()),
            _ => None,
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer_until_others_need_the_room() {
        let recent = Recent::new();
        let key = |text: &str| Key::of("test", &[text.as_bytes()]);
        let find = |text: &str| size(recent.find(&key(text)));
        assert_eq!(find("a"), None);
        let part = CAPACITY / 4;
        for (text, size) in [("a", part), ("b", part + 1), ("c", part + 2)] {
            recent.keep(key(text), answer(size));
        }
        assert_eq!(find("a"), Some(part));
        // Now "b" is the one that nobody has asked for longest.
        recent.keep(key("d"), answer(part + 3));
        assert_eq!(["a", "b", "c", "d"].map(find), [Some(part), None, Some(part + 2), Some(part + 3)]);
        recent.keep(key("e"), answer(CAPACITY));
        assert_eq!(find("e"), None);
    }

    #[test]
    fn only_what_cannot_change_is_kept() {
        let is_kept = |text: &str, options: &[&str]| {
            is_repeatable(&Translation {
                clang: Clang { program: "clang".into(), headers: "/".into() },
                source: text.into(),
                headers: vec![("h".into(), "int a;".into())],
                include_folders: vec![],
                directory: None,
                allowed: None,
                options: options.iter().map(|option| option.to_string()).collect(),
            })
        };
        assert!(is_kept("kernel void k() {}", &["-DA=1"]));
        assert!(is_kept("#define A(x) \\\n x\n", &[]));
        let changing = [
            "#include <h>",
            "#incl\\\nude <h>",
            "#incl\\\r\nude <h>",
            "#inc\\ \t\nlude <h>",
            "#inc??/\nlude <h>",
            "#\\u0069nclude <h>",
            "#import <h>",
            "#embed <h>",
            "#pragma GCC dependency \"h\"",
            "char a[] = __TIME__;",
        ];
        for text in changing {
            assert!(!is_kept(text, &[]), "{text}");
        }
        assert!(!is_kept("A", &["-DA=__has_include(<h>)"]));
    }
}
