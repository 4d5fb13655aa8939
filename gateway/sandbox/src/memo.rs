//! Outcomes kept for reuse: a policy that reads two facts is evaluated once for them, not once per quote.
//!
//! A policy is a pure function of its code, its configuration and what is passed to it. So an outcome is kept, within a
//! bound, under exactly these bytes, and an evaluation whose key is known costs no instance. What is answered from here
//! is what the sandbox answered, fuel included: a quote is the same, byte for byte, with and without.
//!
//! Trust is checked: one hit in [`MemoLimits::recompute_one_in`] is evaluated all the same and compared. A difference
//! means that the policy is no pure function, or that memory went bad; the policy is then *quarantined*, which is to say
//! evaluated in the sandbox every time until this memo is dropped, and the difference is in the counters.
//!
//! Make one memo per generation of plans, so that it goes when they go. Replay and verification use [`Session`] alone:
//! nothing of this module is on their road.
//!
//! [`Session`]: crate::Session

pub(crate) mod key;

use std::collections::BTreeSet;
use std::fmt;
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use farebox_pricing::policy::{Adjustment, Context, Evaluation, Fact, Halt, Method, Outcome, Refusal, RunPolicy};
use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::policy::ConfiguredPolicy;

/// What one kept outcome takes up beside its texts and its key: its records, and the cache's own book-keeping.
const OVERHEAD_BYTES: u64 = 256;
/// A heavier entry is not kept: the memo is for many small outcomes.
const MAX_ENTRY_BYTES: u64 = 64 << 10;
/// Entries are expected to be about this heavy, which sizes the cache's tables.
const TYPICAL_ENTRY_BYTES: u64 = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoLimits {
    /// Memory of all that is kept, in bytes, as near as it can be counted.
    pub bytes: u64,
    /// One hit in so many is evaluated again and compared. At least 1, which compares every one.
    pub recompute_one_in: u64,
}

impl MemoLimits {
    /// 64 MiB are some 60,000 outcomes. Comparing one in 1,024 costs a hundredth of a microsecond a hit.
    pub const fn standard() -> Self {
        Self { bytes: 64 << 20, recompute_one_in: 1024 }
    }
}

/// What has happened since the memo was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoCounters {
    /// Evaluations answered from what was kept, those that were compared included.
    pub hits: u64,
    /// Evaluations whose key was not known.
    pub misses: u64,
    /// Hits that were evaluated again and compared.
    pub recomputed: u64,
    /// Comparisons that differed.
    pub differences: u64,
    /// Outcomes that are kept.
    pub entries: usize,
    /// What they take up, estimated.
    pub bytes: u64,
    /// Policies that are no longer answered from here.
    pub quarantined: usize,
}

/// Outcomes by what they depend on. Shared by all pricing threads.
pub struct Memo {
    kept: Cache<Box<[u8]>, Arc<Kept>, ByMemory, RandomState>,
    limits: MemoLimits,
    hits: AtomicU64,
    misses: AtomicU64,
    recomputed: AtomicU64,
    differences: AtomicU64,
    has_quarantined: AtomicBool,
    /// Digests of policies.
    quarantined: RwLock<BTreeSet<String>>,
}

/// How an evaluation ended. A fault is never kept: it may have been the host's, and is worth another try.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Priced(Evaluation),
    Refused(Refusal),
}

#[derive(Clone)]
struct ByMemory;

impl Memo {
    pub fn new(limits: MemoLimits) -> Self {
        let entries = usize::try_from(limits.bytes / TYPICAL_ENTRY_BYTES).unwrap_or(usize::MAX);
        Self {
            kept: Cache::with(
                entries,
                limits.bytes,
                ByMemory,
                // Keys hold what customers send: the standard hasher is seeded, so that nobody can make them collide.
                RandomState::new(),
                DefaultLifecycle::default(),
            ),
            limits,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            recomputed: AtomicU64::new(0),
            differences: AtomicU64::new(0),
            has_quarantined: AtomicBool::new(false),
            quarantined: RwLock::default(),
        }
    }

    pub fn counters(&self) -> MemoCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MemoCounters {
            hits: read(&self.hits),
            misses: read(&self.misses),
            recomputed: read(&self.recomputed),
            differences: read(&self.differences),
            entries: self.kept.len(),
            bytes: self.kept.weight(),
            quarantined: self.quarantined.read().unwrap_or_else(PoisonError::into_inner).len(),
        }
    }

    fn is_quarantined(&self, configured: &ConfiguredPolicy) -> bool {
        self.has_quarantined.load(Ordering::Acquire) && {
            let quarantined = self.quarantined.read().unwrap_or_else(PoisonError::into_inner);
            quarantined.contains(configured.policy().digest())
        }
    }

    fn quarantine(&self, configured: &ConfiguredPolicy) {
        let policy = configured.policy();
        let name = format!("{}@{}", policy.manifest().name, policy.manifest().version);
        let digest = policy.digest();
        tracing::error!(
            policy = name,
            digest,
            "an outcome differs from the one that was kept; the policy is quarantined"
        );
        let mut quarantined = self.quarantined.write().unwrap_or_else(PoisonError::into_inner);
        quarantined.insert(digest.to_owned());
        self.has_quarantined.store(true, Ordering::Release);
    }

    /// What is kept under a key, and whether this hit is one of those to compare.
    fn find(&self, key: &[u8]) -> Option<(Arc<Kept>, bool)> {
        let kept = self.kept.get(key);
        let counter = if kept.is_some() { &self.hits } else { &self.misses };
        let number = counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Some((kept?, is_due(number, self.limits.recompute_one_in)))
    }

    fn keep(&self, key: &[u8], answer: &Result<Evaluation, Halt>) {
        let Some(kept) = Kept::of(answer) else { return };
        if weight(key, &kept) <= MAX_ENTRY_BYTES {
            self.kept.insert(key.into(), Arc::new(kept));
        }
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Memo").field("limits", &self.limits).field("counters", &self.counters()).finish()
    }
}

/// Evaluations of one quote, from the memo where it knows them, else from `fresh`.
#[derive(Debug)]
pub struct Memoized<'a, Fresh> {
    steps: &'a [ConfiguredPolicy],
    memo: &'a Memo,
    fresh: Fresh,
    key: Vec<u8>,
}

impl<'a, Fresh: RunPolicy> Memoized<'a, Fresh> {
    /// `steps`: the plan's policies, by step index, which `fresh` runs.
    pub fn new(steps: &'a [ConfiguredPolicy], memo: &'a Memo, fresh: Fresh) -> Self {
        Self { steps, memo, fresh, key: Vec::with_capacity(512) }
    }

    /// Evaluates a hit again. What the sandbox says holds, whatever was kept.
    fn compared(
        &mut self,
        (step, configured): (usize, &ConfiguredPolicy),
        context: &Context<'_>,
        kept: &Kept,
    ) -> Result<Evaluation, Halt> {
        let answer = self.fresh.evaluate(step, context);
        // A fault of the host says nothing about the policy.
        if matches!(&answer, Err(Halt::Faulted(fault)) if fault.is_host()) {
            return answer;
        }
        self.memo.recomputed.fetch_add(1, Ordering::Relaxed);
        if Kept::of(&answer).as_ref() != Some(kept) {
            self.memo.differences.fetch_add(1, Ordering::Relaxed);
            self.memo.quarantine(configured);
        }
        answer
    }
}

impl<Fresh: RunPolicy> RunPolicy for Memoized<'_, Fresh> {
    fn evaluate(&mut self, step: usize, context: &Context<'_>) -> Result<Evaluation, Halt> {
        let known = self.steps.get(step).filter(|configured| !self.memo.is_quarantined(configured));
        let Some(configured) = known else { return self.fresh.evaluate(step, context) };
        key::write(&mut self.key, configured.identity(), context);
        match self.memo.find(&self.key) {
            Some((kept, true)) => self.compared((step, configured), context, &kept),
            Some((kept, false)) => kept.answer(),
            None => {
                let answer = self.fresh.evaluate(step, context);
                self.memo.keep(&self.key, &answer);
                answer
            }
        }
    }
}

impl Kept {
    fn of(answer: &Result<Evaluation, Halt>) -> Option<Self> {
        match answer {
            Ok(evaluation) => Some(Self::Priced(Evaluation { nanoseconds: 0, reused: true, ..evaluation.clone() })),
            Err(Halt::Refused(refusal)) => Some(Self::Refused(refusal.clone())),
            Err(Halt::Faulted(_)) => None,
        }
    }

    fn answer(&self) -> Result<Evaluation, Halt> {
        match self {
            Self::Priced(evaluation) => Ok(evaluation.clone()),
            Self::Refused(refusal) => Err(Halt::Refused(refusal.clone())),
        }
    }
}

impl Weighter<Box<[u8]>, Arc<Kept>> for ByMemory {
    fn weight(&self, key: &Box<[u8]>, kept: &Arc<Kept>) -> u64 {
        weight(key, kept)
    }
}

/// True of one hit in `one_in`, wherever it falls: steps of a plan come in turns, and "each 1,024th" would only ever fall on
/// every other one of six. The number is scattered (by the finaliser of MurmurHash3) before it is divided.
fn is_due(number: u64, one_in: u64) -> bool {
    let mut scattered = number;
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        scattered = (scattered ^ (scattered >> 33)).wrapping_mul(factor);
    }
    (scattered ^ (scattered >> 33)).checked_rem(one_in.max(1)) == Some(0)
}

/// The memory of an entry, estimated.
fn weight(key: &[u8], kept: &Kept) -> u64 {
    let content = match kept {
        Kept::Priced(evaluation) => bytes_of(&evaluation.outcome),
        Kept::Refused(Refusal { code, detail, line: _, pointer }) => {
            code.len().saturating_add(detail.len()).saturating_add(pointer.as_ref().map_or(0, String::len))
        }
    };
    OVERHEAD_BYTES.saturating_add(u64::try_from(key.len().saturating_add(content)).unwrap_or(u64::MAX))
}

fn bytes_of(outcome: &Outcome) -> usize {
    let Outcome { adjustments, added, facts } = outcome;
    let of_facts = |facts: &[Fact]| -> usize {
        facts.iter().map(|fact| size_of::<Fact>().saturating_add(fact.key.len()).saturating_add(fact.value.len())).sum()
    };
    let of_adjustment = |made: &Adjustment| -> usize {
        let method = match &made.method {
            // Portions and their texts: at most 256 of them, each within the limits on texts.
            Method::Reprice(portions) => portions
                .iter()
                .map(|it| size_of_val(it).saturating_add(it.code.len()).saturating_add(it.label.len()))
                .sum(),
            Method::Measure(measured) => measured.unit.len(),
            Method::Note(advice) => advice.level.len().saturating_add(of_facts(&advice.what_if)),
            Method::Percent(_) | Method::Amount(_) | Method::Minimum(_) => 0,
        };
        let texts = [&made.kind, &made.code, &made.label, &made.reason].iter().map(|text| text.len()).sum::<usize>();
        [size_of_val(made), texts, method, of_facts(&made.facts)].iter().sum()
    };
    let of_added = added.iter().map(|line| {
        let texts = line.code.len().saturating_add(line.label.len()).saturating_add(line.unit.len());
        size_of_val(line).saturating_add(texts).saturating_add(of_facts(&line.facts))
    });
    let adjustments = adjustments.iter().map(of_adjustment).sum::<usize>();
    adjustments.saturating_add(of_added.sum()).saturating_add(of_facts(facts))
}
