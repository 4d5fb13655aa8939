//! What the engine advises (SPEC S9, docs/advice.md): pure rules over what was asked, what was observed over 24 h, and the
//! plan's parameters. What an advice would save is priced elsewhere; nothing here moves a price.

mod evidence;
#[cfg(test)]
mod tests;

use farebox_pricing::exact;
use farebox_pricing::plan::Plan;
use farebox_pricing::policy::Fact;
use farebox_pricing::request::{QuoteRequest, RequestedItem, Work};
use rust_decimal::Decimal;

use crate::catalog::{AdviceCode, AdviceRules};

pub(super) use evidence::{Evidence, of as evidence_of, stats};

/// The precision that is worth leaving, and what is advised in its place.
const FULL_PRECISION: &str = "fp32";
const MIXED_PRECISION: &str = "bf16";

/// What the rules look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) request: &'a QuoteRequest,
    pub(super) plan: &'a Plan,
    pub(super) rules: &'a AdviceRules,
    /// Of some items; those of which nothing may be said are in none.
    pub(super) evidence: &'a [Evidence],
}

/// An advice before it is known what it saves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) code: AdviceCode,
    /// Indices of the items that it is about, ascending; never empty.
    pub(super) items: Vec<usize>,
    pub(super) text: String,
    /// The same request, but with these values on these items. Empty: there is nothing to price.
    pub(super) what_if: Vec<Fact>,
}

/// All that holds, in the order of the codes.
pub(super) fn candidates(asked: Asked<'_>) -> Vec<Candidate> {
    let Asked { rules, evidence, .. } = asked;
    let on_requests = [torch_compile(asked), cheaper_task(asked), idle_tensor_cores(asked)];
    let mut found: Vec<Candidate> = on_requests.into_iter().flatten().filter(|found| rules.gives(found.code)).collect();
    for evidence in evidence {
        // One thing at a time: idle GPUs wait for nothing, and what waits for data is not limited by memory.
        let rules_of_usage = [idle_hold, stall_io, memory_bound];
        let of_usage = rules_of_usage.into_iter().filter_map(|rule| rule(asked, evidence));
        found.extend(of_usage.into_iter().find(|found| rules.gives(found.code)));
    }
    found
}

fn torch_compile(asked: Asked<'_>) -> Option<Candidate> {
    let is_eager = |_: usize, item: &RequestedItem| {
        let execution = item.workload.execution.as_deref().unwrap_or("eager");
        item.workload.framework.as_deref() == Some("pytorch") && execution == "eager"
    };
    on_items(asked, is_eager, |items| Candidate {
        code: AdviceCode::EnableTorchCompile,
        items,
        text: "run PyTorch through torch.compile: compiled execution costs less than eager mode".to_owned(),
        what_if: vec![Fact::new("/workload/execution", "compiled")],
    })
}

/// A task is measured by its precision; where tensor cores are measured as well, they must be free.
fn cheaper_task(asked: Asked<'_>) -> Option<Candidate> {
    let is_full = |index: usize, item: &RequestedItem| match &item.work {
        Work::Task(task) => {
            let stated = task.precision.as_deref().or(item.workload.precision.as_deref());
            is_full_precision(stated) && asked.tensor_of(index).is_none_or(|active| active < asked.rules.tensor_below)
        }
        Work::Seconds(_) => false,
    };
    on_items(asked, is_full, |items| Candidate {
        code: AdviceCode::EnableMixedPrecision,
        items,
        text: format!("{MIXED_PRECISION} mixed precision in place of {FULL_PRECISION}: the same task in fewer units"),
        what_if: vec![Fact::new("/task/precision", MIXED_PRECISION)],
    })
}

/// Time costs the same whatever is computed in it, so only a measurement says that less of it would do.
fn idle_tensor_cores(asked: Asked<'_>) -> Option<Candidate> {
    let is_full = |index: usize, item: &RequestedItem| {
        matches!(item.work, Work::Seconds(_))
            && is_full_precision(item.workload.precision.as_deref())
            && asked.tensor_of(index).is_some_and(|active| active < asked.rules.tensor_below)
    };
    let is_priced = asked.plan.steps.iter().any(|step| step.reads.names_fact("workload.precision"));
    on_items(asked, is_full, |items| Candidate {
        code: AdviceCode::EnableMixedPrecision,
        items,
        text: format!(
            "{MIXED_PRECISION} mixed precision in place of {FULL_PRECISION}: the tensor cores are hardly used, and the work \
             would take less time"
        ),
        what_if: Vec::from_iter(is_priced.then(|| Fact::new("/workload/precision", MIXED_PRECISION))),
    })
}

/// What was held idle is paid; the advice is about what comes. So it asks for no price, and says what was idle.
fn idle_hold(asked: Asked<'_>, evidence: &Evidence) -> Option<Candidate> {
    let mean = evidence.gpu_util.filter(|mean| *mean < asked.rules.idle_below)?;
    let observed = hours(evidence.observed_us?)?;
    let idle = observed.checked_mul(Decimal::ONE.checked_sub(mean)?)?;
    let text = format!(
        "{} are idle: {} busy over 24 h, so {} of {} observed GPU-hours did no work; release them until they are needed",
        evidence.whose,
        percent(mean)?,
        tenths(idle),
        tenths(observed)
    );
    Some(Candidate { code: AdviceCode::IdleHold, items: evidence.items.clone(), text, what_if: Vec::new() })
}

fn stall_io(asked: Asked<'_>, evidence: &Evidence) -> Option<Candidate> {
    let mean = evidence.gpu_util.filter(|mean| *mean < asked.rules.stall_mean_below)?;
    let p95 = evidence.gpu_util_p95.filter(|p95| *p95 >= asked.rules.stall_p95_from)?;
    let text = format!(
        "{} wait between bursts: {} busy over 24 h, and {} at the 95th percentile; feed them faster (data loading, storage)",
        evidence.whose,
        percent(mean)?,
        percent(p95)?
    );
    // What the GPUs have shown that they can do, as far as the plan prices the mean of it.
    let priced = asked.plan.stats_read().next().filter(|stat| stat.metric == "gpu_util" && stat.statistic == "mean");
    let what_if = priced.map(|stat| {
        let key = format!("usage/{}/{}/{}", stat.metric, stat.statistic, stat.window.as_str());
        Fact::new(key, exact::print(p95))
    });
    let what_if = Vec::from_iter(what_if);
    Some(Candidate { code: AdviceCode::StallIo, items: evidence.items.clone(), text, what_if })
}

fn memory_bound(asked: Asked<'_>, evidence: &Evidence) -> Option<Candidate> {
    let (dram, sm) = (evidence.dram?, evidence.sm_util?);
    let is_largest = dram > sm && evidence.tensor.is_none_or(|tensor| dram > tensor);
    if dram < asked.rules.memory_bound_from || !is_largest {
        return None;
    }
    let text = format!(
        "memory bandwidth limits {}: {} of what can be reached was used over 24 h; fuse kernels, raise the batch size, or ask \
         for GPUs with more of it",
        evidence.whose,
        percent(dram.min(Decimal::ONE))?
    );
    Some(Candidate { code: AdviceCode::MemoryBound, items: evidence.items.clone(), text, what_if: Vec::new() })
}

fn is_full_precision(stated: Option<&str>) -> bool {
    stated.is_some_and(|precision| precision.eq_ignore_ascii_case(FULL_PRECISION))
}

/// One candidate for all items of which it holds.
fn on_items(
    asked: Asked<'_>,
    holds: impl Fn(usize, &RequestedItem) -> bool,
    candidate: impl FnOnce(Vec<usize>) -> Candidate,
) -> Option<Candidate> {
    let items = asked.request.items.iter().enumerate();
    let items: Vec<usize> = items.filter(|(index, item)| holds(*index, item)).map(|(index, _)| index).collect();
    (!items.is_empty()).then(|| candidate(items))
}

impl Asked<'_> {
    /// Mean tensor activity of the GPUs behind an item, where it is measured.
    fn tensor_of(&self, item: usize) -> Option<Decimal> {
        self.evidence.iter().find(|evidence| evidence.items.contains(&item))?.tensor_active
    }
}

/// `41.3 %`
fn percent(share: Decimal) -> Option<String> {
    Some(format!("{} %", tenths(share.checked_mul(Decimal::ONE_HUNDRED)?)))
}

fn hours(microseconds: Decimal) -> Option<Decimal> {
    microseconds.checked_div(Decimal::from(3_600_000_000_u64))
}

/// Rounded half-even to one decimal.
fn tenths(value: Decimal) -> String {
    exact::print(value.round_dp(1))
}
