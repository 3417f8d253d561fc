//! A clang that waits for its source: started after a translation with the same compiler and options, so that the next one
//! finds its libraries loaded. In worker processes only; the application has no process that it did not ask for.

use super::overlay::Overlay;
use super::run::{How, Running};
use super::{Outcome, arguments};
use spirula_interface::translation::Translation;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// What a spare is good for: translations of other sources without headers, with all else alike.
#[derive(Clone, Debug, PartialEq)]
struct Kind(Translation);

impl Kind {
    fn of(translation: &Translation) -> Option<Kind> {
        let other = Translation { source: String::new(), headers: Vec::new(), ..translation.clone() };
        translation.headers.is_empty().then_some(Kind(other))
    }
}

/// A process that reads its source from a socket. (A pipe would end this process by SIGPIPE if that one died.)
#[derive(Debug)]
struct Spare {
    kind: Kind,
    running: Running,
    input: UnixStream,
    /// The files that it sees.
    overlay: Overlay,
}

impl Spare {
    /// The limit is one on processor time.
    fn start(kind: Kind, limit: Duration) -> io::Result<Spare> {
        let overlay = Overlay::new(&kind.0)?;
        let (input, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let running = Running::start(&kind.0.clang, &arguments(&kind.0, &overlay), theirs.into(), limit)?;
        Ok(Spare { kind, running, input, overlay })
    }

    fn translate(mut self, source: &[u8], limit: Duration) -> io::Result<Outcome> {
        let written = self.input.set_write_timeout(Some(limit)).and_then(|()| self.input.write_all(source));
        if let Err(error) = written {
            self.running.stop();
            return Err(error);
        }
        drop(self.input);
        let ended = self.running.end(limit)?;
        Ok((ended, self.overlay.read()))
    }
}

static WAITING: Mutex<Option<Spare>> = Mutex::new(None);
static ORDERS: OnceLock<Sender<(Kind, Duration)>> = OnceLock::new();

fn waiting() -> MutexGuard<'static, Option<Spare>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a spare is kept. They die with the thread that starts them, which lives as long as this process.
pub fn keep_one() {
    let (orders, inbox) = channel::<(Kind, Duration)>();
    let serve = move || {
        for (kind, limit) in inbox {
            if waiting().as_ref().is_some_and(|spare| spare.kind == kind) {
                continue;
            }
            let spare = Spare::start(kind, limit).ok();
            let old = std::mem::replace(&mut *waiting(), spare);
            old.into_iter().for_each(|spare| spare.running.stop());
        }
    };
    // No thread, no spare.
    if std::thread::Builder::new().name("spirula-clang".into()).spawn(serve).is_ok() {
        let _ = ORDERS.set(orders);
    }
}

/// Has a waiting process translate the source. None if there is none for it, or it died otherwise than by its source or the limit.
pub(super) fn translate(translation: &Translation, source: &[u8], limit: Duration) -> Option<Outcome> {
    let kind = Kind::of(translation)?;
    let spare = waiting().take_if(|spare| spare.kind == kind)?;
    let outcome = spare.translate(source, limit).ok()?;
    (!matches!(&outcome.0.how, How::Death(why) if why.starts_with("crashed"))).then_some(outcome)
}

/// Starts a process for the next translation of this kind.
pub(super) fn order(translation: &Translation, limit: Duration) {
    if let (Some(orders), Some(kind)) = (ORDERS.get(), Kind::of(translation)) {
        let _ = orders.send((kind, limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirula_service::find_clang;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn spares_translate_as_others_do() {
        let clang = find_clang().expect("clang 22, which ./x installs").clone();
        let options = vec!["-cl-std=CL1.2".to_string(), "-DSPARE=1".to_string()];
        let translation = Translation {
            clang,
            options,
            addresses: Default::default(),
            source: String::new(),
            headers: Vec::new(),
            include_folders: Vec::new(),
            directory: None,
            allowed: None,
        };
        let by_spare = |source: &str| {
            let spare = Spare::start(Kind::of(&translation).expect("no headers"), LIMIT).unwrap();
            spare.translate(source.as_bytes(), LIMIT).unwrap().0
        };
        let good = by_spare("kernel void k(global int *p) { *p = SPARE; }");
        assert!(matches!(good.how, How::Success) && good.output.starts_with(b"BC"), "{good:?}");
        let bad = by_spare("# 1 \"source.cl\"\nkernel void k( {}");
        let complaints = String::from_utf8_lossy(&bad.complaints).into_owned();
        assert!(matches!(bad.how, How::Failure) && complaints.starts_with("source.cl:1:"), "{complaints}");
        let long = format!("kernel void k(global int *p) {{ *p = 1; }} //{}", "x".repeat(1 << 20));
        assert!(matches!(by_spare(&long).how, How::Success));
        // What has headers of its own has a process of its own.
        let headers = vec![("a.h".to_string(), String::new())];
        assert_eq!(Kind::of(&Translation { headers, ..translation }), None);
    }
}
