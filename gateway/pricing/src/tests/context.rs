//! What a step sees: exactly what it reads, and nothing else.

use std::cell::RefCell;
use std::rc::Rc;

use jiff::tz::TimeZone;

use crate::offer::LineUsage;
use crate::plan::Step;
use crate::policy::{AddedLine, Context, Fact, Instant, Outcome, Scope, Stat};
use crate::reads::Reads;
use crate::usage::{Observation, ObservedStat, StatKey, StatQuality, UsageScope, Window, judge};

use super::stage::{Stage, balance, dec, drawn, on_line, percent, portion, reprice, says, step};

fn observed(metric: &str, held_us: u64) -> ObservedStat {
    let stat = Stat {
        metric: metric.to_owned(),
        statistic: "mean".to_owned(),
        window_s: 604_800,
        value: dec("0.82"),
        coverage: dec("0.99"),
    };
    ObservedStat { stat, held_us, quality: StatQuality::Ok }
}

/// Two lines of one model, an observation, balances, and a step before that leaves facts and portions.
fn furnished() -> Stage {
    let mut stage = Stage::new("KWD").gpu("a", "12.00", 3600).gpu("b", "6.00", 7200).step(step("first"), |context| {
        let mut outcome = says(Vec::new())?;
        if context.lines[0].amounts.unwrap().quantity == dec("3600") {
            let portions = vec![drawn("prepaid", "600", "0", "pb-1"), portion("rest", "3000", "12.00")];
            outcome.adjustments.push(reprice("prepaid", portions));
        }
        outcome.facts.push(Fact::new("tier", "gold"));
        Ok(outcome)
    });
    stage = stage.step(Step { scope: Scope::Quote, ..step("second") }, |_| {
        Ok(Outcome { facts: vec![Fact::new("lines", "2")], ..Outcome::default() })
    });
    stage.items[0].facts.push(Fact::new("workload.feature", "fsdp"));
    stage.items[0].facts.push(Fact::new("workload.feature", "cuda_graphs"));
    stage.tenant = vec![Fact::new("tenant.segment", "research"), Fact::new("tenant.name", "acme")];
    stage.balances = vec![balance("pb-1", "prepaid_block", "600"), balance("w-1", "wallet", "10")];
    stage.observation = Some(Observation {
        scope: UsageScope::Tenant,
        observed_at_ms: 0,
        age_ms: 31_000,
        healthy: true,
        reasons: Vec::new(),
        job_held_s: None,
        mig_without_metric: false,
        stats: vec![observed("gpu_util", 7_200_000_000), observed("sm_util", 7_200_000_000), observed("thin", 0)],
    });
    stage.plan.time_zone = TimeZone::get("Asia/Shanghai").unwrap();
    stage
}

/// Every context that a last step with these reads receives, printed.
fn seen(reads: &[&str], scope: Scope) -> Vec<String> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let writes = Rc::clone(&seen);
    let last = Step { scope, reads: Reads::parse(reads).unwrap(), ..step("last") };
    furnished()
        .step(last, move |context: &Context<'_>| {
            writes.borrow_mut().push(format!("{context:?}"));
            says(Vec::new())
        })
        .price();
    Rc::try_unwrap(seen).unwrap().into_inner()
}

/// One context of a last step of scope `quote`.
fn look(reads: &[&str], check: impl Fn(&Context<'_>) + 'static) {
    let last = Step { scope: Scope::Quote, reads: Reads::parse(reads).unwrap(), ..step("last") };
    let looked = Rc::new(RefCell::new(false));
    let writes = Rc::clone(&looked);
    furnished()
        .step(last, move |context| {
            check(context);
            *writes.borrow_mut() = true;
            says(Vec::new())
        })
        .price();
    assert!(*looked.borrow());
}

fn keys<'a>(facts: &[&'a Fact]) -> Vec<(&'a str, &'a str)> {
    facts.iter().map(|fact| (fact.key.as_str(), fact.value.as_str())).collect()
}

#[test]
fn a_step_that_reads_nothing_sees_only_currency_and_keys() {
    look(&[], |context| {
        assert_eq!((context.currency, context.exponent, context.at), ("KWD", 3, None));
        assert!(context.tenant.is_empty() && context.usages.is_empty());
        assert!(context.balances.is_empty() && context.facts.is_empty());
        for (line, key) in context.lines.iter().zip(0..) {
            assert_eq!((line.key, line.usage), (key, None));
            assert!(line.facts.is_empty() && line.amounts.is_none());
            assert!(line.portions.is_empty() && line.segments.is_empty());
        }
    });
}

#[test]
fn equal_lines_are_equal_bytes_where_the_scope_is_line() {
    let seen = seen(&["usage/gpu_util/mean/7d"], Scope::Line);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn facts_come_by_name_or_by_prefix_in_the_order_of_the_request() {
    look(&["workload.feature", "tenant.segment", "step.second.lines"], |context| {
        assert_eq!(keys(&context.lines[0].facts), [("workload.feature", "fsdp"), ("workload.feature", "cuda_graphs")]);
        assert!(context.lines[1].facts.is_empty());
        assert_eq!(keys(&context.tenant), [("tenant.segment", "research")]);
        assert_eq!(keys(&context.facts), [("step.second.lines", "2")]);
    });
    look(&["step.*"], |context| {
        assert_eq!(keys(&context.lines[1].facts), [("step.first.tier", "gold")]);
        assert_eq!(keys(&context.facts), [("step.second.lines", "2")]);
    });
}

#[test]
fn amounts_portions_time_and_balances_come_each_by_its_own_word() {
    look(&["amounts"], |context| {
        let amounts = context.lines[0].amounts.unwrap();
        assert_eq!((amounts.unit, amounts.quantity, amounts.unit_price), ("gpu_second", dec("3600"), dec("12")));
        assert_eq!((amounts.list_amount, amounts.amount), (dec("12"), dec("10")));
        assert!(context.lines[0].portions.is_empty());
    });
    look(&["portions"], |context| {
        assert!(context.lines[0].amounts.is_none() && context.lines[1].portions.is_empty());
        assert_eq!(context.lines[0].portions.len(), 2);
        assert_eq!(context.lines[0].portions[0].draws.as_deref(), Some("pb-1"));
    });
    look(&["time"], |context| {
        assert_eq!(context.at, Some(Instant { unix_s: 1_780_000_000, utc_offset_s: 8 * 3600 }));
    });
    look(&["balance.wallet"], |context| {
        assert_eq!(context.balances.iter().map(|balance| balance.id.as_str()).collect::<Vec<_>>(), ["w-1"]);
    });
}

#[test]
fn usage_comes_once_for_its_lines_and_only_the_statistics_named() {
    look(&["usage/gpu_util/mean/7d"], |context| {
        assert_eq!(context.lines.iter().map(|line| line.usage).collect::<Vec<_>>(), [Some(0), Some(0)]);
        let [usage] = context.usages.as_slice() else { panic!("one observation") };
        assert_eq!((usage.scope, usage.age_ms, usage.quality), ("tenant", None, "stale"));
        assert!(!usage.surcharge_allowed);
        assert_eq!(usage.stats.iter().map(|stat| stat.metric.as_str()).collect::<Vec<_>>(), ["gpu_util"]);
    });
    look(&["usage/sm_util/mean/7d", "usage/gpu_util/mean/7d", "usage.age"], |context| {
        assert_eq!((context.usages[0].age_ms, context.usages[0].stats.len()), (Some(31_000), 2));
    });
    look(&["usage/gpu_util/mean/7d", "usage/thin/mean/7d"], |context| {
        assert_eq!((context.usages[0].quality, context.usages[0].stats.len()), ("thin", 1));
    });
    // What is thin, unknown or of another window is not there at all.
    for word in ["usage/thin/mean/7d", "usage/power_w/mean/7d", "usage/gpu_util/mean/24h", "usage/gpu_util/p95/7d"] {
        look(&[word, "usage.age"], |context| {
            assert!(context.usages.is_empty() && context.lines[0].usage.is_none());
        });
    }
}

#[test]
fn what_is_amiss_with_a_statistic_does_not_reach_who_does_not_read_it() {
    let answers = |reads: &[&str], suspect: bool| {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let writes = Rc::clone(&seen);
        let last = Step { reads: Reads::parse(reads).unwrap(), ..step("last") };
        let mut stage = Stage::new("CNY").gpu("a", "12.00", 3600).step(last, move |context| {
            let usage = &context.usages[0];
            writes.borrow_mut().push((usage.quality.to_owned(), usage.surcharge_allowed));
            says(Vec::new())
        });
        stage.observation = furnished().observation;
        let observation = stage.observation.as_mut().unwrap();
        observation.age_ms = 0;
        if suspect {
            observation.stats[1].quality = StatQuality::SuspectZero;
        }
        stage.price();
        seen.borrow()[0].clone()
    };
    let ok = ("ok".to_owned(), true);
    assert_eq!(answers(&["usage/gpu_util/mean/7d"], false), ok);
    assert_eq!(answers(&["usage/gpu_util/mean/7d"], true), ok);
    let suspect = ("suspect_zero".to_owned(), false);
    assert_eq!(answers(&["usage/sm_util/mean/7d"], true), suspect);
    assert_eq!(answers(&["usage/gpu_util/mean/7d", "usage/sm_util/mean/7d"], true), suspect);
}

#[test]
fn an_added_line_has_no_gpu_usage() {
    let mut stage = Stage::new("CNY")
        .gpu("a", "12.00", 3600)
        .step(step("storage"), |_| {
            let (code, label, unit) = ("storage".to_owned(), "Storage".to_owned(), "gib".to_owned());
            let (quantity, unit_price, facts) = (dec("1"), dec("1"), Vec::new());
            let added = AddedLine { parent: Some(0), code, label, unit, quantity, unit_price, facts };
            Ok(Outcome { added: vec![added], ..Outcome::default() })
        })
        .step(step("utilisation"), |context| {
            let used = context.lines[0].usage.is_some();
            says(if used { vec![percent("above_70", "-0.1")] } else { Vec::new() })
        });
    stage.observation = furnished().observation;
    let quote = stage.price();
    assert_eq!((quote.rows(0), quote.rows(1)), (vec!["utilisation above_70 -1.20".to_owned()], Vec::new()));
}

#[test]
fn equal_usages_are_one() {
    let asked = RefCell::new(0);
    let shares = |observations: [Option<u64>; 3]| {
        let mut stage = Stage::new("CNY").gpu("a", "1", 1).gpu("b", "1", 1).gpu("c", "1", 1).gpu("d", "1", 1);
        for (item, model) in stage.items.iter_mut().zip(["A100", "H100", "V100", "A100"]) {
            item.gpu_model = model.to_owned();
        }
        let offer = stage.input().offer().clone();
        *asked.borrow_mut() = 0;
        let input = offer.with_usage(|item| {
            *asked.borrow_mut() += 1;
            let age_ms = observations[["A100", "H100", "V100"].iter().position(|it| *it == item.gpu_model).unwrap()];
            let observation = age_ms.map(|age_ms| Observation { age_ms, ..furnished().observation.unwrap() });
            let judged = judge(observation.as_ref(), &stage.plan.usage);
            LineUsage { observation, judged }
        });
        assert_eq!(*asked.borrow(), 3);
        (input.usages().len(), (0..4).map(|item| input.usage_index(item).unwrap()).collect::<Vec<_>>())
    };
    assert_eq!(shares([Some(1), Some(1), Some(1)]), (1, vec![0, 0, 0, 0]));
    assert_eq!(shares([Some(1), Some(2), Some(1)]), (2, vec![0, 1, 0, 0]));
    assert_eq!(shares([None, Some(1), Some(2)]), (3, vec![0, 1, 2, 0]));
}

#[test]
fn added_lines_enter_later_steps_and_their_keys_name_them() {
    let quote = Stage::new("CNY")
        .gpu("a", "12.00", 3600)
        .gpu("b", "6.00", 3600)
        .step(step("storage"), |context| {
            let added = AddedLine {
                parent: None,
                code: "snapshots".to_owned(),
                label: "Snapshot storage".to_owned(),
                unit: "gib_month".to_owned(),
                quantity: dec("10"),
                unit_price: dec("0.35"),
                facts: vec![Fact::new("line.ref", super::stage::fact(&context.lines[0], "line.ref"))],
            };
            Ok(Outcome { added: vec![added], ..Outcome::default() })
        })
        .step(Step { scope: Scope::Quote, ..step("premium") }, |context| {
            let added = context.lines.iter().filter(|line| line.facts.iter().any(|fact| fact.key == "added.code"));
            says(added.map(|line| on_line(line.key, percent("storage_premium", "0.10"))).collect())
        })
        .price();
    assert_eq!(quote.lines.iter().map(|line| line.parent).collect::<Vec<_>>(), [None, None, Some(0), Some(1)]);
    assert_eq!(quote.rows(0), [""; 0]);
    assert_eq!(quote.rows(3), ["premium storage_premium 0.35"]);
    assert_eq!(quote.lines[3].description, "Snapshot storage");
    assert_eq!(quote.total(), "25.70");
}

#[test]
fn a_plan_names_its_statistics_once_and_shows_the_first() {
    let key = |text: &str| StatKey::parse(text).unwrap();
    let mut plan = Stage::new("CNY").plan;
    assert_eq!((plan.stats_read().next(), plan.shown_stat()), (None, key("gpu_util/mean/7d")));
    for reads in [&["amounts"][..], &["usage/sm_util/p95/24h"], &["usage/gpu_util/mean/7d", "usage/sm_util/p95/24h"]] {
        plan.steps.push(Step { reads: Reads::parse(reads).unwrap(), ..step("s") });
    }
    assert_eq!(plan.stats_read().cloned().collect::<Vec<_>>(), [key("sm_util/p95/24h"), key("gpu_util/mean/7d")]);
    assert_eq!(plan.shown_stat(), key("sm_util/p95/24h"));
    for window in Window::ALL {
        assert_eq!(Window::parse(window.as_str()), Some(window));
    }
    assert_eq!(Window::ALL.map(Window::seconds), [10, 60, 300, 900, 86_400, 604_800, 2_592_000]);
    assert_eq!(Window::parse("8d"), None);
}
