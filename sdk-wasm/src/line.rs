//! One line as a rule sees it: its facts, and what was observed behind it.

use std::ops::Deref;

use rust_decimal::Decimal;

use crate::contract::{self, Context, Fact, Refusal, Stat, Usage};
use crate::exact;
use crate::statistic::{Statistic, Window};

/// A line together with its context. The contract's own fields (`amounts`, `segments`, `portions`) are there by deref.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    line: &'a contract::Line,
    context: &'a Context,
}

impl<'a> Line<'a> {
    pub(crate) fn new(line: &'a contract::Line, context: &'a Context) -> Self {
        Self { line, context }
    }

    pub fn context(self) -> &'a Context {
        self.context
    }

    /// The first value of `key`; `None` where the line has none.
    pub fn fact(self, key: &str) -> Option<&'a str> {
        first(&self.line.facts, key)
    }

    /// All values of a repeated key, in the order of the request.
    pub fn facts(self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.line.facts.iter().filter(move |fact| fact.key == key).map(|fact| fact.value.as_str())
    }

    /// The first value of `key` as an exact number. Refuses with `malformed_fact` where it is none.
    pub fn number(self, key: &str) -> Result<Option<Decimal>, Refusal> {
        self.fact(key).map(|text| fact_number(key, text)).transpose()
    }

    /// What was observed of the GPUs behind the line; `None` where it may not move a price.
    pub fn usage(self) -> Option<&'a Usage> {
        self.context.usages.get(usize::try_from(self.line.usage?).ok()?)
    }

    /// One observed statistic, such as `("gpu_util", Statistic::Mean, Window::D7)`.
    pub fn stat(self, metric: &str, statistic: Statistic, window: Window) -> Option<&'a Stat> {
        self.usage()?.stats.iter().find(|stat| {
            stat.metric == metric && stat.statistic == statistic.as_str() && stat.window_s == window.seconds()
        })
    }
}

impl Deref for Line<'_> {
    type Target = contract::Line;

    fn deref(&self) -> &contract::Line {
        self.line
    }
}

impl Context {
    /// The lines, each with this context.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines.iter().map(|line| Line::new(line, self))
    }

    /// The first value of a `tenant.*` fact.
    pub fn tenant_fact(&self, key: &str) -> Option<&str> {
        first(&self.tenant, key)
    }

    /// The first value of a `step.<step id>.<key>` fact of the whole quote.
    pub fn fact(&self, key: &str) -> Option<&str> {
        first(&self.facts, key)
    }
}

/// The value `text` of the fact `key` as an exact number. Refuses with `malformed_fact` where it is none.
pub fn fact_number(key: &str, text: &str) -> Result<Decimal, Refusal> {
    exact::parse(text).map_err(|why| Refusal::new("malformed_fact", format!("`{key}` is `{text}`, which is {why}")))
}

fn first<'a>(facts: &'a [Fact], key: &str) -> Option<&'a str> {
    facts.iter().find(|fact| fact.key == key).map(|fact| fact.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(facts: &[(&str, &str)], usage: Option<u32>) -> Context {
        let stat = Stat {
            metric: "gpu_util".into(),
            statistic: "mean".into(),
            window_s: 604_800,
            value: Decimal::new(82, 2).into(),
            coverage: Decimal::ONE.into(),
        };
        Context {
            lines: vec![contract::Line {
                key: 0,
                facts: facts.iter().map(|(key, value)| Fact::new(*key, *value)).collect(),
                amounts: None,
                segments: Vec::new(),
                portions: Vec::new(),
                usage,
            }],
            usages: vec![Usage {
                scope: "tenant".into(),
                age_ms: None,
                quality: "ok".into(),
                surcharge_allowed: true,
                stats: vec![stat],
            }],
            ..Context::default()
        }
    }

    #[test]
    fn facts_keep_the_order_of_the_request() {
        let context = context(&[("f", "b"), ("g", "x"), ("f", "a")], None);
        let line = context.lines().next().unwrap();
        assert_eq!((line.fact("f"), line.fact("h")), (Some("b"), None));
        assert_eq!(line.facts("f").collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn the_quote_has_facts_of_its_own() {
        let mut context = context(&[("f", "b")], None);
        context.tenant = vec![Fact::new("tenant.tier", "gold")];
        context.facts = vec![Fact::new("step.tasks.units", "12")];
        assert_eq!((context.tenant_fact("tenant.tier"), context.tenant_fact("f")), (Some("gold"), None));
        assert_eq!((context.fact("step.tasks.units"), context.fact("tenant.tier")), (Some("12"), None));
    }

    #[test]
    fn numbers_are_exact_or_refused() {
        let context = context(&[("line.memory_gib", "40.50"), ("line.network_gbps", "1e2")], None);
        let line = context.lines().next().unwrap();
        assert_eq!(line.number("line.memory_gib").unwrap(), Some(Decimal::new(4050, 2)));
        assert_eq!(line.number("line.other").unwrap(), None);
        assert_eq!(line.number("line.network_gbps").unwrap_err().code, "malformed_fact");
    }

    #[test]
    fn a_statistic_is_found_by_all_three_of_its_words() {
        let observed = context(&[], Some(0));
        let line = observed.lines().next().unwrap();
        assert!(line.stat("gpu_util", Statistic::Mean, Window::D7).is_some());
        assert!(line.stat("sm_util", Statistic::Mean, Window::D7).is_none());
        assert!(line.stat("gpu_util", Statistic::P95, Window::D7).is_none());
        assert!(line.stat("gpu_util", Statistic::Mean, Window::H24).is_none());
        for elsewhere in [None, Some(1)] {
            let context = context(&[], elsewhere);
            assert!(context.lines().next().unwrap().stat("gpu_util", Statistic::Mean, Window::D7).is_none());
        }
    }
}
