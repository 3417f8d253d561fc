//! What was compiled lately is not compiled again: applications build one program for each of their contexts, devices or
//! objects. A question's bytes lead to the answer's, up to a number of bytes altogether.

use super::protocol::{Job, Product};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Bytes of questions and answers that are kept.
const CAPACITY: usize = 16 << 20;

/// Answers to the last questions.
#[derive(Default)]
pub struct Recent(Mutex<VecDeque<(Vec<u8>, Vec<u8>)>>);

impl Recent {
    /// Nothing yet.
    pub const fn new() -> Self {
        Recent(Mutex::new(VecDeque::new()))
    }

    /// The job as a key, if its answer depends on nothing else and takes long to find.
    pub fn key(job: &Job) -> Option<Vec<u8>> {
        let repeatable = match job {
            // The files in the folders may change. (No option names a file: they come from a list of known ones.)
            Job::Translate(translation) => {
                let mut texts = translation.headers.iter().map(|(_, text)| text).chain([&translation.source]);
                translation.include_folders.is_empty()
                    || !texts.any(|text| text.replace("\\\n", "").contains("include"))
            }
            Job::Build { .. } => true,
            _ => false,
        };
        repeatable.then(|| postcard::to_stdvec(job).ok()).flatten()
    }

    /// The answer, if it is still known.
    pub fn find(&self, key: &[u8]) -> Option<Product> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(question, _)| question == key)?;
        let entry = known.remove(place)?;
        let product = postcard::from_bytes(&entry.1).ok();
        known.push_front(entry);
        product
    }

    /// Keeps an answer; the ones that were not asked for longest make room.
    pub fn keep(&self, key: Vec<u8>, product: &Product) {
        let Ok(answer) = postcard::to_stdvec(product) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_front((key, answer));
        let mut bytes = 0;
        let fitting = known.iter().take_while(|(question, answer)| {
            bytes += question.len() + answer.len();
            bytes <= CAPACITY
        });
        let fitting = fitting.count();
        known.truncate(fitting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::CompileOptions;
    use crate::clang::{Clang, Translated, Translation};

    fn build(module: &[u8]) -> Job {
        Job::Build { modules: vec![module.to_vec()], options: CompileOptions::default() }
    }

    fn product(size: usize) -> Product {
        Product::Translated(Translated { module: vec![7; size], log: "a warning".into() })
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
        let key = |text: &[u8]| Recent::key(&build(text)).unwrap();
        assert_eq!(size(recent.find(&key(b"a"))), None);
        let part = CAPACITY / 4;
        for (text, size) in [(b"a", part), (b"b", part + 1), (b"c", part + 2)] {
            recent.keep(key(text), &product(size));
        }
        assert_eq!(size(recent.find(&key(b"a"))), Some(part));
        // Now "b" is the one that nobody has asked for longest.
        recent.keep(key(b"d"), &product(part + 3));
        let found = [b"a", b"b", b"c", b"d"].map(|text| size(recent.find(&key(text))));
        assert_eq!(found, [Some(part), None, Some(part + 2), Some(part + 3)]);
        recent.keep(key(b"e"), &product(CAPACITY));
        assert_eq!(size(recent.find(&key(b"e"))), None);
    }

    #[test]
    fn only_what_cannot_change_is_kept() {
        let clang = Clang { program: "clang".into(), headers: "/".into() };
        let source = |text: &str, folders: &[&str]| {
            Job::Translate(Translation {
                clang: clang.clone(),
                source: text.into(),
                headers: vec![("h".into(), "int a;".into())],
                include_folders: folders.iter().map(Into::into).collect(),
                options: vec![],
            })
        };
        assert!(Recent::key(&source("#include <h>", &[])).is_some());
        assert!(Recent::key(&source("kernel void k() {}", &["/usr"])).is_some());
        assert!(Recent::key(&source("#include <h>", &["/usr"])).is_none());
        assert!(Recent::key(&source("#incl\\\nude <h>", &["/usr"])).is_none());
        let (module, options) = (vec![1], CompileOptions::default());
        assert!(Recent::key(&Job::Check { module, options }).is_none());
    }
}
