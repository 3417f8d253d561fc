//! What was compiled lately is not compiled again: applications build one program for each of their contexts, devices or
//! objects. A question's key leads to the answer's bytes, up to a number of them altogether.

use crate::cache::Key;
use serde::de::DeserializeOwned;
use spirula_interface::protocol;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Bytes of answers that are kept.
const CAPACITY: usize = 16 << 20;

/// Answers to the last questions.
#[derive(Default)]
pub struct Recent(Mutex<VecDeque<(Key, Vec<u8>)>>);

impl Recent {
    /// Nothing yet.
    pub const fn new() -> Self {
        Recent(Mutex::new(VecDeque::new()))
    }

    /// The answer, if it is still known.
    pub fn find<T: DeserializeOwned>(&self, key: &Key) -> Option<T> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(question, _)| question == key)?;
        let entry = known.remove(place)?;
        let answer = protocol::decode(&entry.1).ok();
        known.push_front(entry);
        answer
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
    use spirula_interface::protocol::Product;
    use spirula_interface::translation::Translated;

    fn answer(size: usize) -> Vec<u8> {
        let product =
            Product::Translated(Translated { module: vec![7; size], log: "a warning".into(), read: None });
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
}
