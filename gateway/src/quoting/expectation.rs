//! What effective utilisation a quote states (SPEC S9): one for the whole quote, without I/O, and of no price.

use farebox_metering::mirror::{Forecast, ForecastQuery, Mirror};
use farebox_metering::snapshot::job_kind;
use farebox_pricing::request::{QuoteRequest, Work};
use farebox_pricing::usage::UsageRules;
use jiff::Timestamp;

/// Of the one GPU model that is asked for, else of all of the tenant's; of a job kind where all is one kind of task.
pub(super) fn of(mirror: &Mirror, request: &QuoteRequest, rules: &UsageRules, now: Timestamp) -> Option<Forecast> {
    mirror.forecast(&ForecastQuery {
        tenant: &request.tenant_id,
        gpu_model: common(request.items.iter().map(|item| Some(item.gpu_model.as_str()))),
        job_kind: common(request.items.iter().map(|item| match &item.work {
            Work::Seconds(_) => None,
            Work::Task(task) => task.template.as_deref().map(job_kind),
        })),
        min_coverage: rules.min_coverage,
        thin_held_us: rules.thin_held_us,
        hard_stale_ms: rules.hard_stale_ms,
        now,
    })
}

/// The word that all say, if all say one.
fn common<'a>(mut words: impl Iterator<Item = Option<&'a str>>) -> Option<&'a str> {
    let first = words.next()??;
    words.all(|word| word == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::common;

    #[test]
    fn what_all_say_is_common() {
        let of = |words: &[&'static str]| common(words.iter().map(|word| Some(*word).filter(|word| !word.is_empty())));
        assert_eq!(of(&["a", "a"]), Some("a"));
        assert_eq!([of(&["a", "b"]), of(&["a", ""]), of(&["", "a"]), of(&[])], [None; 4]);
    }
}
