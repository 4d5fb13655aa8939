//! Where a case goes beyond what its policy declares: a host would pass less, or call the answer a violation.

use farebox_pricing::reads::Reads;
use farebox_sandbox::ConfiguredPolicy;

use super::cases::{Case, wire};
use super::trial::{Answer, Tried};

/// Sentences, each about one thing.
pub fn beyond_declared(case: &Case, tried: &Tried) -> Vec<String> {
    let Some(configured) = &tried.configured else { return Vec::new() };
    let mut found = Vec::new();
    // INVARIANT: the sandbox has parsed the words of a configuration.
    let reads = Reads::parse(configured.reads()).unwrap_or_default();
    if reads.any_stat {
        found.push("`configure` must name the statistics that it reads; `usage/*` is for manifests".to_owned());
    }
    for what in case.context.iter().flat_map(|context| beyond_reads(context, &reads)) {
        found.push(format!("the context has {what}, which is not in `reads`"));
    }
    found.extend(beyond_produces(&tried.answer, configured));
    found.sort();
    found.dedup();
    found
}

fn beyond_reads(context: &wire::Context, reads: &Reads) -> Vec<String> {
    let lines = || context.lines.iter();
    let facts = lines().flat_map(|line| &line.facts).chain(&context.tenant).chain(&context.facts);
    let unread = facts.filter(|fact| !reads.names_fact(&fact.key)).map(|fact| format!("fact `{}`", fact.key));
    let stats = context.usages.iter().flat_map(|usage| &usage.stats);
    let unread_stats = stats
        .filter(|stat| !reads.names_stat(&stat.metric, &stat.statistic, stat.window_s))
        .map(|stat| format!("statistic `{}/{}` of {} s", stat.metric, stat.statistic, stat.window_s));
    let balances = context.balances.iter().filter(|balance| !reads.names_balance(&balance.kind));
    let unread_balances = balances.map(|balance| format!("balance `{}`", balance.kind));
    let parts = [
        ("amounts", reads.amounts, lines().any(|line| line.amounts.is_some())),
        ("segments", reads.segments, lines().any(|line| !line.segments.is_empty())),
        ("portions", reads.portions, lines().any(|line| !line.portions.is_empty())),
        ("an instant", reads.time, context.at.is_some()),
        ("an age of usage", reads.usage_age, context.usages.iter().any(|usage| usage.age_ms.is_some())),
    ];
    let unread_parts = parts.into_iter().filter(|(_, read, there)| *there && !read).map(|(what, ..)| what.to_owned());
    unread.chain(unread_stats).chain(unread_balances).chain(unread_parts).collect()
}

fn beyond_produces(answer: &Answer, configured: &ConfiguredPolicy) -> Vec<String> {
    let undeclared = |code: &&str| !configured.produces().iter().any(|pattern| covers(pattern, code));
    answer.codes().filter(undeclared).map(|code| format!("code `{code}` is not in `produces`")).collect()
}

/// `x.*` stands for every code below `x`, `*` for any.
pub(super) fn covers(pattern: &str, code: &str) -> bool {
    pattern == code || pattern.strip_suffix('*').is_some_and(|stem| code.len() > stem.len() && code.starts_with(stem))
}
