//! A request and an observation, with other values in some places. What the request's schema does not take, nobody can
//! ask, and so no what-if can.

use farebox_pricing::exact;
use farebox_pricing::offer::{LineUsage, PricedInput};
use farebox_pricing::policy::Fact;
use farebox_pricing::request::QuoteRequest;
use farebox_pricing::usage::{StatQuality, Window, judge};
use rust_decimal::Decimal;
use serde_json::{Map, Number, Value};

use super::USAGE;
use crate::intake::{Intake, IntakeError};

/// The request with these values in these items; `None` where it cannot be asked.
pub(super) fn request(intake: &Intake, body: &Value, items: &[usize], asks: &[&Fact]) -> Option<QuoteRequest> {
    let mut altered = body.clone();
    for ask in asks {
        set(&mut altered, items, &ask.key, &Value::from(ask.value.as_str()))?;
    }
    let violations = match intake.read_value(altered.clone()) {
        Ok(accepted) => return Some(accepted.request),
        Err(IntakeError::Invalid(violations)) => violations,
        Err(IntakeError::Malformed(_)) => return None,
    };
    // A value is written as text; where that does not fit, a number may.
    let mut has_number = false;
    for ask in asks {
        let is_at_fault = violations.iter().any(|violation| violation.pointer.ends_with(&ask.key));
        if let Some(number) = ask.value.parse::<Number>().ok().filter(|_| is_at_fault) {
            set(&mut altered, items, &ask.key, &Value::Number(number))?;
            has_number = true;
        }
    }
    if has_number { intake.read_value(altered).ok().map(|accepted| accepted.request) } else { None }
}

/// Puts `value` at a JSON Pointer into each of the items. `ref` stays: it is the item's name, not something to buy.
fn set(body: &mut Value, items: &[usize], pointer: &str, value: &Value) -> Option<()> {
    let (parents, last) = pointer.rsplit_once('/')?;
    if last.is_empty() || pointer == "/ref" {
        return None;
    }
    for index in items {
        let mut place = body.get_mut("items")?.get_mut(*index)?;
        for name in parents.split('/').skip(1) {
            let inner = place.as_object_mut()?.entry(name).or_insert(Value::Null);
            if inner.is_null() {
                *inner = Value::Object(Map::new());
            }
            place = inner;
        }
        place.as_object_mut()?.insert(last.to_owned(), value.clone());
    }
    Some(())
}

/// The quote's usages; where one of these items has its usage, with these values of its statistics, judged anew.
pub(super) fn usages(input: &PricedInput, items: &[usize], asks: &[&Fact]) -> Option<Vec<LineUsage>> {
    let mut usages = input.usages().to_vec();
    if asks.is_empty() {
        return Some(usages);
    }
    let mut concerned: Vec<usize> = items.iter().filter_map(|item| input.usage_of_item().get(*item).copied()).collect();
    concerned.sort_unstable();
    concerned.dedup();
    for index in concerned {
        let usage = usages.get_mut(index)?;
        let observation = usage.observation.as_mut()?;
        for ask in asks {
            let mut words = ask.key.strip_prefix(USAGE)?.split('/');
            let (metric, statistic, window) = (words.next()?, words.next()?, Window::parse(words.next()?)?);
            let observed = observation.stats.iter_mut().find(|observed| {
                let stat = &observed.stat;
                stat.metric == metric && stat.statistic == statistic && stat.window_s == window.seconds()
            })?;
            let value = exact::parse(&ask.value).ok().filter(|value| !value.is_sign_negative())?;
            if words.next().is_some() {
                return None;
            }
            observed.stat.value = value;
            // Only a zero is doubted.
            if value > Decimal::ZERO {
                observed.quality = StatQuality::Ok;
            }
        }
        usage.judged = judge(usage.observation.as_ref(), &input.plan().usage);
    }
    Some(usages)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn altered(asks: &[(&str, &str)]) -> Option<QuoteRequest> {
        let body = json!({"tenant_id": "acme", "currency": "CNY", "items": [
            {"ref": "a", "gpu_model": "A100", "region": "r", "gpu_count": 8, "seconds": 60, "workload": null},
            {"ref": "b", "gpu_model": "A100", "region": "r", "gpu_count": 8, "seconds": 60, "workload": {"features": ["fsdp"]}},
            {"ref": "c", "gpu_model": "A100", "region": "r", "gpu_count": 8, "seconds": 60},
        ]});
        let facts: Vec<Fact> = asks.iter().map(|(key, value)| Fact::new(*key, *value)).collect();
        request(&Intake::new().unwrap(), &body, &[0, 1], &facts.iter().collect::<Vec<_>>())
    }

    #[test]
    fn values_go_where_the_schema_takes_them() {
        let compiled =
            altered(&[("/workload/execution", "compiled"), ("/gpu_count", "4"), ("/memory_gib", "40")]).unwrap();
        for (item, expected) in compiled.items.iter().zip([Some("compiled"), Some("compiled"), None]) {
            assert_eq!(item.workload.execution.as_deref(), expected);
            assert_eq!(
                (item.gpu_count, item.memory_gib.is_some()),
                (if expected.is_some() { 4 } else { 8 }, expected.is_some())
            );
        }
        assert_eq!(compiled.items[1].workload.features, ["fsdp"]);
    }

    #[test]
    fn what_cannot_be_asked_is_no_request() {
        for (pointer, value) in [
            ("/workload/execution", "faster"),
            ("/workload/colour", "red"),
            ("/workload/features/0", "x"),
            ("/workload/execution/deeper", "x"),
            ("/workload/", "x"),
            ("/", "x"),
            ("", "x"),
            ("workload", "x"),
            ("/ref", "z"),
            ("/gpu_count", "0"),
            ("/gpu_count", "many"),
            ("/hours", "1"),
            ("/tenant_id", "globex"),
            ("/workload", "x"),
        ] {
            assert_eq!(altered(&[(pointer, value)]), None, "{pointer} = {value}");
        }
    }
}
