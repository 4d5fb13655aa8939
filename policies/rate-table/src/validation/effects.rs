//! Effects: one for each rule, with numbers that can be meant.

use farebox_sdk::prelude::*;

use super::conditions::is_absence;
use super::{Findings, Place};
use crate::facts;
use crate::ramp;
use crate::written::{Point, Refuse, Tier};

/// Of labels and reasons, as in the contract.
const MAX_TEXT: usize = 200;
const MAX_DETAIL: usize = 1000;
const MAX_POINTS: usize = 50;
/// Numbers that are multiplied have at most these many decimals, as amounts have.
const MAX_DECIMALS: u32 = ramp::DECIMALS;
/// 1,000 %.
const MAX_RATE: Rate = Rate::percent(1000);
const MIN_RATE: Rate = Rate::percent(-100);
/// Of prices, amounts and bounds: 10¹². The product of two, in seconds, is still exact.
const MAX_NUMBER: Decimal = Decimal::from_parts(3_567_587_328, 232, 0, false, 0);

pub(super) fn check(place: Place<'_>, findings: &mut Findings) {
    let rule = place.rule;
    let effects = rule.effects();
    match effects.as_slice() {
        [] if rule.note.is_none() => {
            let detail = "a rule has a price (`rate`, `amount`, `unit_price`, `graduated`, `volume`, `minimum`, \
                          `ramp`), a `note` or a `refuse`";
            findings.wrong(place.at(""), "no_effect", detail);
        }
        [] | [_] => {}
        [first, rest @ ..] => {
            for other in rest {
                let detail =
                    format!("a rule has one effect, and this one has `{first}`; give `{other}` a rule of its own");
                findings.wrong(place.at(&format!("/{other}")), "several_effects", detail);
            }
        }
    }
    check_words(place, effects.is_empty(), findings);
    check_numbers(place, findings);
    if let Some((name, tiers)) = rule.tiers() {
        check_tiers(place, name, tiers, findings);
    }
    if let Some(points) = &rule.ramp {
        check_ramp(place, points, findings);
    }
    if let Some(refuse) = &rule.refuse {
        check_refuse(place, refuse, findings);
    }
}

/// Words that the effect needs, and those that it has no use for.
fn check_words(place: Place<'_>, is_note: bool, findings: &mut Findings) {
    let rule = place.rule;
    let refuses = rule.refuse.is_some();
    if !refuses && !is_note && rule.label.as_ref().is_none_or(String::is_empty) {
        findings.wrong(place.at(""), "no_label", "a rule that moves a price has a `label` for customers");
    }
    let given = [
        (rule.label.is_some() && refuses, "label"),
        (rule.reason.is_some() && (refuses || is_note), "reason"),
        (rule.kind.is_some() && (refuses || is_note), "kind"),
        (rule.note.is_some() && refuses, "note"),
    ];
    for (_, field) in given.into_iter().filter(|(is_in_vain, _)| *is_in_vain) {
        let what = if refuses { "refuses" } else { "moves no price" };
        findings.wrong(place.at(&format!("/{field}")), "in_vain", format!("a rule that {what} has no `{field}`"));
    }
    let texts = [
        (rule.label.as_ref(), "/label", MAX_TEXT),
        (rule.reason.as_ref(), "/reason", MAX_TEXT),
        (rule.note.as_ref().map(|note| &note.text), "/note/text", MAX_TEXT),
        (rule.refuse.as_ref().map(|refuse| &refuse.detail), "/refuse/detail", MAX_DETAIL),
    ];
    for (text, field, most) in texts {
        if text.is_some_and(|text| text.chars().count() > most) {
            findings.wrong(place.at(field), "long_text", format!("a text of more than {most} characters"));
        }
    }
}

fn check_numbers(place: Place<'_>, findings: &mut Findings) {
    let rule = place.rule;
    if let Some(rate) = rule.rate {
        check_rate(rate, place.at("/rate"), findings);
    }
    if let Some(amount) = rule.amount {
        check_size(amount.value(), place.at("/amount"), findings);
    }
    for (price, field) in [(rule.unit_price, "/unit_price"), (rule.minimum, "/minimum")] {
        if let Some(price) = price {
            check_price(price, place.at(field), findings);
        }
    }
}

fn check_rate(rate: Rate, pointer: String, findings: &mut Findings) {
    if rate < MIN_RATE || rate > MAX_RATE {
        let detail = format!("rate `{rate}` is not within -1 and 10; fifteen per cent is `0.15`");
        findings.wrong(pointer, "invalid_rate", detail);
    }
}

fn check_size(value: Decimal, pointer: String, findings: &mut Findings) {
    if value.abs() > MAX_NUMBER || value.normalize().scale() > MAX_DECIMALS {
        let shown = Quantity::from(value);
        let detail = format!("`{shown}` is over {MAX_NUMBER} or has more than {MAX_DECIMALS} decimals");
        findings.wrong(pointer, "number_too_large", detail);
    }
}

fn check_price(price: Price, pointer: String, findings: &mut Findings) {
    if price < Price::ZERO {
        findings.wrong(pointer, "negative_price", format!("`{price}` is negative"));
    } else {
        check_size(price.value(), pointer, findings);
    }
}

/// Bounds ascend from above 0, and the last tier is open. No tiers at all are no mistake: they change nothing.
fn check_tiers(place: Place<'_>, name: &str, tiers: &[Tier], findings: &mut Findings) {
    let pointer = place.at(&format!("/{name}"));
    if tiers.len() > MAX_POINTS {
        findings.wrong(pointer.as_str(), "too_many_tiers", format!("a rule has at most {MAX_POINTS} tiers"));
    }
    let mut before = Quantity::ZERO;
    for (tier, number) in tiers.iter().zip(1..) {
        let at = format!("{pointer}/{}", number - 1);
        check_price(tier.unit_price, format!("{at}/unit_price"), findings);
        if let Some(fee) = tier.flat_fee {
            check_price(fee, format!("{at}/flat_fee"), findings);
        }
        let bound_at = format!("{at}/up_to");
        match tier.up_to {
            None if number < tiers.len() => {
                findings.wrong(bound_at, "tiers_not_ascending", "only the last tier may be without `up_to`");
            }
            Some(bound) if number == tiers.len() => {
                let detail = format!("above `{bound}` there is no price; the last tier has no `up_to`");
                findings.wrong(bound_at, "last_tier_bounded", detail);
            }
            Some(bound) if bound <= before => {
                let detail = match number {
                    1 => format!("`{bound}` is not above 0"),
                    _ => format!("`{bound}` is not above `{before}`, the bound before it"),
                };
                findings.wrong(bound_at, "tiers_not_ascending", detail);
            }
            Some(bound) => check_size(bound.value(), bound_at, findings),
            None => {}
        }
        before = tier.up_to.unwrap_or(before);
    }
}

fn check_ramp(place: Place<'_>, points: &[Point], findings: &mut Findings) {
    if place.rule.usage.is_none() {
        findings.wrong(place.at("/ramp"), "no_statistic", "a ramp goes by a statistic; name it in `usage`");
    }
    if !(2..=MAX_POINTS).contains(&points.len()) {
        findings.wrong(place.at("/ramp"), "not_a_ramp", format!("a ramp has 2 to {MAX_POINTS} points"));
    }
    let mut before: Option<Quantity> = None;
    for (index, point) in points.iter().enumerate() {
        let pointer = place.at(&format!("/ramp/{index}"));
        match before {
            Some(before) if point.at <= before => {
                let detail = format!("`{}` is not above `{before}`, the point before it", point.at);
                findings.wrong(format!("{pointer}/at"), "points_not_ascending", detail);
            }
            _ => check_size(point.at.value(), format!("{pointer}/at"), findings),
        }
        before = Some(point.at);
        check_rate(point.rate, format!("{pointer}/rate"), findings);
        check_size(point.rate.value(), format!("{pointer}/rate"), findings);
    }
}

fn check_refuse(place: Place<'_>, refuse: &Refuse, findings: &mut Findings) {
    let Some(key) = &refuse.at else { return };
    let pointer = place.at("/refuse/at");
    match place.rule.when.as_ref().and_then(|when| when.get(key)) {
        None => findings.wrong(pointer, "unknown_fact", format!("`when` does not name `{key}`")),
        Some(wanted) if facts::pointer(key, 0).is_none() || is_absence(wanted) => {
            let detail = format!("`{key}` is no field of the request that could be pointed at; leave `at` out");
            findings.wrong(pointer, "no_field", detail);
        }
        Some(_) => {}
    }
}
