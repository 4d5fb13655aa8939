//! What a step sees: exactly what it reads, of exactly the lines of its evaluation.

use crate::offer::PricedInput;
use crate::plan::Step;
use crate::policy::{AmountsView, Context, Fact, Instant, LineView, Stat, UsageView};
use crate::reads::Reads;

use super::group::Group;
use super::line::Line;
use super::{Place, State};

/// The context of one evaluation over the lines of `group`, which are keyed by their position in it.
pub(super) fn of<'a>(state: &'a State, place: Place<'a>, group: Group) -> Context<'a> {
    let Place { input, step: Step { reads, .. }, .. } = place;
    let mut usages = Usages::default();
    let lines = state.lines.get(group.indices()).unwrap_or_default();
    let lines = lines.iter().zip(0u32..).map(|(line, key)| line_view(line, key, reads, &mut usages, input)).collect();
    let currency = &input.plan().currency;
    let balances = &input.offer().balances;
    Context {
        currency: currency.code(),
        exponent: currency.exponent(),
        at: reads.time.then(|| instant(input)),
        tenant: named(&input.offer().tenant, reads),
        lines,
        usages: usages.views,
        balances: balances.iter().filter(|balance| reads.names_balance(&balance.kind)).collect(),
        facts: named(&state.facts, reads),
    }
}

/// The usage views of a context, each once, and which of the input's usages they show.
#[derive(Default)]
struct Usages<'a> {
    shown: Vec<usize>,
    views: Vec<UsageView<'a>>,
}

impl<'a> Usages<'a> {
    /// The index of a usage in the context; `None` where it shows nothing that the step reads.
    fn index_of(&mut self, usage: Option<usize>, reads: &Reads, input: &'a PricedInput) -> Option<u32> {
        let usage = usage.filter(|_| reads.names_usage())?;
        if let Some(position) = self.shown.iter().position(|shown| *shown == usage) {
            return u32::try_from(position).ok();
        }
        let judged = &input.usages().get(usage)?.judged;
        let admitted = judged.admitted.as_ref()?;
        let named = |stat: &Stat| reads.names_stat(&stat.metric, &stat.statistic, stat.window_s);
        let stats: Vec<_> = admitted.stats.iter().filter(|stat| named(stat)).collect();
        if stats.is_empty() {
            return None;
        }
        // What is amiss with a statistic that the step does not read is none of its business.
        let findings: Vec<_> = judged.findings_on(named).collect();
        self.shown.push(usage);
        self.views.push(UsageView {
            scope: admitted.scope.as_str(),
            age_ms: reads.usage_age.then_some(admitted.age_ms),
            quality: findings.first().map_or("ok", |finding| finding.code()),
            surcharge_allowed: !findings.iter().any(|finding| finding.bars_surcharge()),
            stats,
        });
        u32::try_from(self.views.len().saturating_sub(1)).ok()
    }
}

fn line_view<'a>(
    line: &'a Line,
    key: u32,
    reads: &Reads,
    usages: &mut Usages<'a>,
    input: &'a PricedInput,
) -> LineView<'a> {
    let amounts = || AmountsView {
        unit: line.unit.as_str(),
        quantity: line.quantity,
        unit_price: line.list_unit_price,
        list_amount: line.list_amount.to_decimal(),
        amount: line.amount.to_decimal(),
    };
    LineView {
        key,
        facts: named(line.facts(input), reads),
        amounts: reads.amounts.then(amounts),
        segments: &[],
        portions: if reads.portions { line.portions.as_slice() } else { &[] },
        usage: usages.index_of(line.usage, reads, input),
    }
}

fn named<'a>(facts: impl IntoIterator<Item = &'a Fact>, reads: &Reads) -> Vec<&'a Fact> {
    if !reads.names_facts() {
        return Vec::new();
    }
    facts.into_iter().filter(|fact| reads.names_fact(&fact.key)).collect()
}

/// The priced instant with the offset of the plan's time zone at that instant (never one remembered from elsewhere).
fn instant(input: &PricedInput) -> Instant {
    let at = input.offer().priced_at;
    let offset = input.plan().time_zone.to_offset(at);
    Instant { unix_s: at.as_second(), utc_offset_s: offset.seconds() }
}
