//! How many lanes some code of a kernel runs in, chosen by what is measured: the compiler chooses by a model, and says what else might be
//! as fast. Where a kernel runs long, that is made in the background, and real work-groups run in both in turns ([`contest`]) until it is
//! known which is faster. Both compute the same; a program that could tell has no alternatives.
//!
//! What it costs is bounded: launches must have run for several times what making an alternative takes before it is made, only a few
//! are, and one that is much slower is dropped after two turns.

mod contest;
mod untried;

use crate::execute::background;
use crate::execute::compile_time;
use crate::execute::tiers::{Tiers, Version};
use crate::log;
use contest::{Contest, Side, Verdict, verdict};
use spirula_interface::options::Groups;
use spirula_interface::program::Alternative;
use spirula_interface::tier::Tier;
use spirula_service::settings::{self, Tune};
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use untried::{Compared, Outcome, Untried};

/// Threads must have run the code for so many times what it takes to make an alternative, for each one; for some longer
/// ([`Untried::patience`]).
const WORTH_MAKING: u64 = 4;
/// The same where what is found out is kept for later processes: programs that run for a second begin with it the next time.
const WORTH_KEEPING: u64 = 2;
/// Pairs of turns where alternatives take turns in any case.
const PAIRS_ALWAYS: usize = 6;

/// Chunks of work-groups take about so long while turns are taken, and before that.
const TURN_CHUNK_NS: u64 = contest::TURN_NS / 2;
const CHUNK_NS: u64 = 2_000_000;

/// How the lanes of some code are chosen.
pub(crate) struct Tuning {
    /// What it is for.
    groups: Groups,
    /// As the user says.
    always: bool,
    /// What won, once nothing will change.
    settled: OnceLock<Version>,
    /// In this code, by all threads, while it is not settled.
    spent_ns: AtomicU64,
    /// What must be spent before the next alternative is made; none is while one is being made or tried.
    enough_ns: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// What won last; at first what the compiler chose.
    champion: Version,
    /// How it was asked for.
    lanes: Option<u32>,
    trial: Option<Trial>,
    left: Untried,
}

impl State {
    /// What is tried next.
    fn next(&self) -> Option<&Alternative> {
        self.left.next(self.champion.info.code.lanes)
    }

    /// The same; it is not left then.
    fn take_next(&mut self) -> Option<Alternative> {
        self.left.take(self.champion.info.code.lanes)
    }
}

struct Trial {
    challenger: Version,
    made_as: Alternative,
    contest: Contest,
}

/// A thread's turn: the code to run the next chunk in.
pub(crate) struct Turn {
    pub version: Version,
    /// None: there is nothing to compare it with.
    side: Option<Side>,
}

impl Debug for Tuning {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.debug_struct("Tuning").field("settled", &self.is_settled()).finish_non_exhaustive()
    }
}

/// That optimized code, whose lanes may be chosen anew from now on, if it is such as has alternatives.
pub(crate) fn begin(version: Version, groups: Groups) -> Version {
    begin_as(settings::get().tune, version, groups)
}

fn begin_as(tune: Tune, version: Version, groups: Groups) -> Version {
    let code = &version.info.code;
    let is_open = code.tier == Tier::Optimized
        && !code.alternatives.is_empty()
        && version.code.at().isolation.is_none()
        && tune != Tune::Never;
    if !is_open {
        return version;
    }
    let left = Untried::new(&code.alternatives);
    let tuning = Tuning {
        groups,
        always: tune == Tune::Always,
        settled: OnceLock::new(),
        spent_ns: AtomicU64::new(0),
        enough_ns: AtomicU64::new(0),
        state: Mutex::new(State { champion: version.clone(), lanes: None, trial: None, left }),
    };
    let enough_ns = tuning.worth_ns(code.operations, &tuning.lock());
    tuning.enough_ns.store(enough_ns, Ordering::Relaxed);
    Version { tuning: Some(Arc::new(tuning)), ..version }
}

impl Version {
    /// The fastest by what was measured.
    pub(crate) fn champion(&self) -> Version {
        let Some(tuning) = &self.tuning else { return self.clone() };
        match tuning.settled.get() {
            Some(settled) => settled.clone(),
            None => Version { tuning: self.tuning.clone(), ..tuning.lock().champion.clone() },
        }
    }

    /// Work-items of a row that it runs together at most, or may when its lanes are chosen.
    pub(crate) fn lanes(&self) -> u32 {
        match &self.tuning {
            Some(tuning) if !tuning.is_settled() => {
                let others = self.info.code.alternatives.iter().filter_map(|other| other.lanes);
                others.fold(self.info.code.lanes, u32::max)
            }
            _ => self.champion().info.code.lanes,
        }
    }
}

impl Tuning {
    /// Whether alternatives are tried however short launches are.
    pub(crate) fn always(&self) -> bool {
        self.always
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.get().is_some()
    }

    /// How long chunks of work-groups are to take.
    pub(crate) fn chunk_ns(&self) -> u64 {
        match self.enough_ns.load(Ordering::Relaxed) {
            _ if self.always => 0,
            u64::MAX => TURN_CHUNK_NS,
            _ => CHUNK_NS,
        }
    }

    /// What that thread is to run its next chunk in.
    pub(crate) fn turn(&self, seat: usize) -> Turn {
        let mut state = self.lock();
        let side = state.trial.as_mut().map(|trial| trial.contest.turn(seat));
        let version = match (&state.trial, side) {
            (Some(trial), Some(Side::Challenger)) => trial.challenger.clone(),
            _ => state.champion.clone(),
        };
        Turn { version, side }
    }

    /// That thread ran a chunk of so many work-items in its turn.
    pub(crate) fn ran(self: &Arc<Tuning>, tiers: &Arc<Tiers>, seat: usize, turn: &Turn, items: u64, ns: u64) {
        if let Some(side) = turn.side {
            return self.record(tiers, seat, side, items, ns);
        }
        let spent = self.spent_ns.fetch_add(ns, Ordering::Relaxed).saturating_add(ns);
        if spent >= self.enough_ns.load(Ordering::Relaxed) {
            self.make_next(tiers);
        }
    }

    /// The code that was to be run can't be: there is no memory for it.
    pub(crate) fn refuse(&self, tiers: &Arc<Tiers>) {
        let mut state = self.lock();
        if state.trial.take().is_some() {
            self.go_on(tiers, &mut state);
        }
    }

    /// Has the next alternative made, once.
    fn make_next(self: &Arc<Tuning>, tiers: &Arc<Tiers>) {
        if self.enough_ns.swap(u64::MAX, Ordering::Relaxed) == u64::MAX {
            return;
        }
        if self.always {
            return self.make(tiers);
        }
        let (weak, this) = (Arc::downgrade(tiers), self.clone());
        let job = move || weak.upgrade().into_iter().for_each(|tiers| this.make(&tiers));
        // Processes that are shorter than it takes would begin it again and again.
        let (heir, groups) = (Arc::downgrade(tiers), self.groups);
        let lanes = self.lock().next().and_then(|next| next.lanes);
        let will = move || heir.upgrade()?.request(groups, lanes);
        if background::run_if_there_is_time(Box::new(job), Some(Box::new(will))).is_err() {
            self.settle(&self.lock());
        }
    }

    fn make(&self, tiers: &Arc<Tiers>) {
        let Some(next) = self.lock().take_next() else { return };
        let made = tiers.make_in_lanes(self.groups, next.lanes);
        let mut state = self.lock();
        let turn_ns = if self.always { 0 } else { contest::TURN_NS };
        match made {
            Some(challenger) => {
                state.trial = Some(Trial { challenger, made_as: next, contest: Contest::new(turn_ns) })
            }
            None => self.go_on(tiers, &mut state),
        }
    }

    fn record(&self, tiers: &Arc<Tiers>, seat: usize, side: Side, items: u64, ns: u64) {
        let mut state = self.lock();
        let Some(trial) = &mut state.trial else { return };
        trial.contest.record(seat, side, items, ns);
        let verdict = match trial.contest.ratios() {
            ratios if !self.always => verdict(ratios),
            ratios if ratios.len() >= PAIRS_ALWAYS => Verdict::Won,
            _ => Verdict::Open,
        };
        if verdict == Verdict::Open {
            return;
        }
        if let Some(Trial { challenger, made_as, contest }) = state.trial.take() {
            let (pairs, median) = (contest.ratios().len(), contest.median().unwrap_or(1.0));
            let became = if verdict == Verdict::Won { "is used from now on" } else { "is dropped" };
            log::debug(format_args!(
                "kernel {}: code of {} lanes takes {median:.2} times as long as what was used before (median of {pairs} pairs), and {became}",
                challenger.info.signature.name, challenger.info.code.lanes,
            ));
            let won = verdict == Verdict::Won;
            if !self.always {
                let [champion, challenger] = [&state.champion, &challenger].map(|code| code.info.code.lanes);
                let outcome = match () {
                    () if won => Outcome::Won,
                    () if median <= 1.0 => Outcome::NoWorse,
                    () => Outcome::Lost,
                };
                state.left.learn(Compared { champion, challenger, percent: made_as.percent }, outcome);
            }
            if won {
                (state.champion, state.lanes) = (challenger, made_as.lanes);
            }
            self.go_on(tiers, &mut state);
        }
    }

    /// Behind a trial: the next one after a while, or never.
    fn go_on(&self, tiers: &Arc<Tiers>, state: &mut State) {
        self.tell(tiers, state);
        if state.next().is_none() {
            return self.settle(state);
        }
        let more = self.worth_ns(tiers.first().info.code.operations, state);
        let enough = self.spent_ns.load(Ordering::Relaxed).saturating_add(more);
        self.enough_ns.store(enough, Ordering::Relaxed);
    }

    /// Nothing will change: launches take what won without asking.
    fn settle(&self, state: &State) {
        let _ = self.settled.set(state.champion.clone());
    }

    /// Later processes shall begin with what won, and try what is left. They wait for none of it, and an exit may.
    fn tell(&self, tiers: &Arc<Tiers>, state: &State) {
        if self.always {
            return;
        }
        let (tiers, groups, lanes) = (tiers.clone(), self.groups, state.lanes);
        let left: Vec<Alternative> = state.left.left().to_vec();
        let tell = move || tiers.prefer(groups, lanes, &left);
        // Without a thread they measure again.
        let _ = background::run_later(
            std::time::Duration::ZERO,
            Box::new(|| 0),
            Box::new(tell),
            Box::new(|| None),
        );
    }

    /// What must be spent before the next one is made.
    fn worth_ns(&self, operations: u32, state: &State) -> u64 {
        let making_ns = compile_time::HERE.expected_ns(operations);
        let patience = state.left.patience(state.champion.info.code.lanes);
        let times = if spirula_service::keeps_code() { WORTH_KEEPING } else { WORTH_MAKING };
        if self.always { 0 } else { making_ns.saturating_mul(times * patience) / 100 }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
