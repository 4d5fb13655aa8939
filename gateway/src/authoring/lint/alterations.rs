//! What a word of `reads` names, taken out of a context or made another.

use std::collections::{BTreeMap, BTreeSet};

use farebox_pricing::exact;
use farebox_pricing::usage::StatKey;
use rust_decimal::Decimal;

use crate::authoring::cases::wire::{Amounts, Context, Exact, Fact, Line, Stat, Usage};

/// Seconds by which an instant is moved: hours of the day, days of the week, a month.
const SHIFTS: [i64; 6] = [3_600, 6 * 3_600, 12 * 3_600, 86_400, 3 * 86_400, 30 * 86_400];
/// Shares that a statistic is set to, in hundredths.
const SHARES: [i64; 7] = [0, 5, 15, 25, 50, 75, 100];

/// The values of each fact and statistic over all cases.
#[derive(Debug, Default)]
pub(super) struct Seen {
    facts: BTreeMap<String, BTreeSet<String>>,
    shares: BTreeSet<Decimal>,
}

impl Seen {
    pub(super) fn of<'a>(contexts: impl Iterator<Item = &'a Context>) -> Self {
        let mut seen = Self::default();
        for context in contexts {
            let of_lines = context.lines.iter().flat_map(|line| &line.facts);
            for fact in of_lines.chain(&context.tenant).chain(&context.facts) {
                seen.facts.entry(fact.key.clone()).or_default().insert(fact.value.clone());
            }
            let stats = context.usages.iter().flat_map(|usage| &usage.stats);
            seen.shares.extend(stats.map(|stat| stat.value.0));
        }
        seen
    }
}

/// The contexts in which what `word` names is gone or another; none where the context says nothing of it.
pub(super) fn of(word: &str, context: &Context, seen: &Seen) -> Vec<Context> {
    match word {
        "amounts" => amounts(context),
        "segments" => changed(context, |line| !line.segments.is_empty(), |line| line.segments.clear()),
        "portions" => changed(context, |line| !line.portions.is_empty(), |line| line.portions.clear()),
        "time" => instants(context),
        "usage.age" => ages(context),
        _ => match (word.strip_prefix("usage/"), word.strip_prefix("balance.")) {
            (Some(stat), _) => StatKey::parse(stat).map_or(Vec::new(), |key| statistics(&key, context, seen)),
            (None, Some(kind)) => balances(kind, context),
            (None, None) => facts(word, context, seen),
        },
    }
}

/// A copy of the context with every line changed, if any line has what is changed.
fn changed(context: &Context, has: impl Fn(&Line) -> bool, change: impl Fn(&mut Line)) -> Vec<Context> {
    if !context.lines.iter().any(has) {
        return Vec::new();
    }
    let mut altered = context.clone();
    altered.lines.iter_mut().for_each(change);
    vec![altered]
}

fn amounts(context: &Context) -> Vec<Context> {
    let has = |line: &Line| line.amounts.is_some();
    let double = |amounts: &mut Amounts| {
        for number in [&mut amounts.quantity, &mut amounts.unit_price, &mut amounts.list_amount, &mut amounts.amount] {
            number.0 = number.0.saturating_add(number.0);
        }
    };
    let mut altered = changed(context, has, |line| line.amounts = None);
    altered.extend(changed(context, has, |line| line.amounts.iter_mut().for_each(double)));
    altered
}

fn instants(context: &Context) -> Vec<Context> {
    let Some(at) = context.at else { return Vec::new() };
    let with = |at| Context { at, ..context.clone() };
    let mut altered = vec![with(None)];
    for shift in SHIFTS {
        let mut later = at;
        later.unix_s = later.unix_s.saturating_add(shift);
        altered.push(with(Some(later)));
    }
    altered
}

fn ages(context: &Context) -> Vec<Context> {
    if context.usages.iter().all(|usage| usage.age_ms.is_none()) {
        return Vec::new();
    }
    let with = |age: fn(u64) -> Option<u64>| of_usages(context, |usage| usage.age_ms = usage.age_ms.and_then(age));
    vec![with(|_| None), with(|_| Some(0)), with(|age| Some(age.saturating_add(86_400_000)))]
}

fn of_usages(context: &Context, change: impl Fn(&mut Usage)) -> Context {
    let mut altered = context.clone();
    altered.usages.iter_mut().for_each(change);
    altered
}

fn statistics(key: &StatKey, context: &Context, seen: &Seen) -> Vec<Context> {
    let is_it = |stat: &Stat| {
        stat.metric == key.metric && stat.statistic == key.statistic && stat.window_s == key.window.seconds()
    };
    let stats = context.usages.iter().flat_map(|usage| &usage.stats);
    let now: Vec<Decimal> = stats.filter(|stat| is_it(stat)).map(|stat| stat.value.0).collect();
    if now.is_empty() {
        return Vec::new();
    }
    let mut altered = vec![
        of_usages(context, |usage| usage.stats.retain(|stat| !is_it(stat))),
        of_usages(context, |usage| usage.surcharge_allowed = !usage.surcharge_allowed),
    ];
    let shares = SHARES.map(|hundredths| Decimal::new(hundredths, 2)).into_iter().chain(seen.shares.iter().copied());
    for share in shares.filter(|share| now.iter().any(|value| value != share)) {
        altered.push(of_usages(context, |usage| {
            for stat in usage.stats.iter_mut().filter(|stat| is_it(stat)) {
                stat.value = Exact(share);
            }
        }));
    }
    altered
}

fn balances(kind: &str, context: &Context) -> Vec<Context> {
    let is_it = |other: &str| kind == "*" || other == kind;
    if !context.balances.iter().any(|balance| is_it(&balance.kind)) {
        return Vec::new();
    }
    let mut without = context.clone();
    without.balances.retain(|balance| !is_it(&balance.kind));
    let mut spent = context.clone();
    spent.balances.iter_mut().filter(|it| is_it(&it.kind)).for_each(|it| it.remaining = Exact(Decimal::ZERO));
    vec![without, spent]
}

fn facts(word: &str, context: &Context, seen: &Seen) -> Vec<Context> {
    let is_named = |key: &str| key == word || word.strip_suffix('*').is_some_and(|stem| key.starts_with(stem));
    let mut altered = Vec::new();
    for (key, values) in seen.facts.iter().filter(|(key, _)| is_named(key)) {
        let there = values_of(key, context);
        if !there.is_empty() {
            altered.push(with_fact(key, None, context));
        }
        let others = values.iter().filter(|value| !there.contains(*value)).cloned();
        for value in others.chain(there.iter().flat_map(|value| invented(value))) {
            altered.push(with_fact(key, Some(&value), context));
        }
    }
    altered
}

fn values_of(key: &str, context: &Context) -> BTreeSet<String> {
    let of_lines = context.lines.iter().flat_map(|line| &line.facts);
    let facts = of_lines.chain(&context.tenant).chain(&context.facts);
    facts.filter(|fact| fact.key == key).map(|fact| fact.value.clone()).collect()
}

/// Values like this one that no case may have: the next number, or another word.
fn invented(value: &str) -> Vec<String> {
    match exact::parse(value) {
        Ok(number) => {
            let more = number.saturating_add(Decimal::ONE);
            [Decimal::ZERO, more, number.saturating_add(more)].map(exact::print).to_vec()
        }
        Err(_) => vec![format!("{value}-else")],
    }
}

/// The context with this one value of the fact, or with none.
fn with_fact(key: &str, value: Option<&str>, context: &Context) -> Context {
    let set = |facts: &mut Vec<Fact>| {
        facts.retain(|fact| fact.key != key);
        facts.extend(value.map(|value| Fact { key: key.to_owned(), value: value.to_owned() }));
    };
    let mut altered = context.clone();
    if key.starts_with("tenant.") {
        set(&mut altered.tenant);
        return altered;
    }
    // What earlier steps said is in the context where their scope was the quote.
    if context.facts.iter().any(|fact| fact.key == key) {
        set(&mut altered.facts);
        return altered;
    }
    altered.lines.iter_mut().for_each(|line| set(&mut line.facts));
    altered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(json: &str) -> Context {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn facts_are_removed_replaced_and_invented() {
        let with = context(
            r#"{"currency":"CNY","exponent":2,"lines":[{"key":0,"facts":[{"key":"line.region","value":"eu-1"}]}]}"#,
        );
        let other = context(
            r#"{"currency":"CNY","exponent":2,"lines":[{"key":0,"facts":[{"key":"line.region","value":"cn-1"}]}]}"#,
        );
        let seen = Seen::of([&with, &other].into_iter());
        let values = |word: &str, of_context: &Context| -> Vec<Vec<String>> {
            of(word, of_context, &seen).iter().map(|it| values_of("line.region", it).into_iter().collect()).collect()
        };
        assert_eq!(values("line.region", &with), [vec![], vec!["cn-1".to_owned()], vec!["eu-1-else".to_owned()]]);
        assert_eq!(values("line.*", &with).len(), 3);
        // A case without the fact is tried with it.
        let without = context(r#"{"currency":"CNY","exponent":2,"lines":[{"key":0}]}"#);
        assert_eq!(values("line.region", &without), [vec!["cn-1".to_owned()], vec!["eu-1".to_owned()]]);
        assert!(values("line.market", &with).is_empty());
        assert_eq!(invented("8"), ["0", "9", "17"]);
    }

    #[test]
    fn every_word_of_the_grammar_alters_what_it_names() {
        let full = context(
            r#"{"currency":"CNY","exponent":2,"at":{"unix_s":0,"utc_offset_s":0},
                "tenant":[{"key":"tenant.tier","value":"gold"}],
                "lines":[{"key":0,"facts":[{"key":"line.gpu_count","value":"8"}],
                  "amounts":{"unit":"gpu_second","quantity":"3600","unit_price":"12","list_amount":"12","amount":"12"},
                  "segments":[{"state":"idle","quantity":"60"}],
                  "portions":[{"code":"a","label":"","unit":"gpu_second","quantity":"60","unit_price":"0"}],"usage":0}],
                "usages":[{"scope":"tenant","age_ms":7,"quality":"ok","surcharge_allowed":true,
                  "stats":[{"metric":"gpu_util","statistic":"mean","window_s":604800,"value":"0.82","coverage":"1"}]}],
                "balances":[{"id":"b","kind":"wallet","unit":"money","remaining":"5"}],
                "facts":[{"key":"step.base.rate","value":"1"}]}"#,
        );
        let bare = context(r#"{"currency":"CNY","exponent":2,"lines":[{"key":0}]}"#);
        let seen = Seen::of([&full].into_iter());
        for word in [
            "amounts",
            "segments",
            "portions",
            "time",
            "usage.age",
            "usage/gpu_util/mean/7d",
            "balance.wallet",
            "balance.*",
            "tenant.tier",
            "line.gpu_count",
            "line.*",
            "step.base.rate",
        ] {
            let altered = of(word, &full, &seen);
            assert!(!altered.is_empty(), "{word}");
            for altered in altered {
                assert_ne!(format!("{altered:?}"), format!("{full:?}"), "{word}");
            }
        }
        for word in ["amounts", "segments", "portions", "time", "usage.age", "usage/gpu_util/mean/7d", "balance.*"] {
            assert!(of(word, &bare, &seen).is_empty(), "{word}");
        }
    }
}
