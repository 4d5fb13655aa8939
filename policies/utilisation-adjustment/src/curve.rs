//! A curve: straight lines between points, constant outside them.

use farebox_sdk::prelude::*;

use crate::{Hit, Point};

/// Decimals of an interpolated rate, rounded half-even once (SPEC §4.3 rounds amounts alike).
const DECIMALS: u32 = 12;
const DISCOUNT: &str = "ramp_discount";
const SURCHARGE: &str = "ramp_surcharge";

pub(crate) fn codes() -> Vec<String> {
    vec![DISCOUNT.to_owned(), SURCHARGE.to_owned()]
}

/// `None` where the curve is at 0: there is no rule to show there.
pub(crate) fn hit(points: &[Point], share: Decimal) -> Option<Hit> {
    let rate = Rate::from(rate(points, share)?);
    let (code, label) = match rate.cmp(&Rate::ZERO) {
        std::cmp::Ordering::Less => (DISCOUNT, "Well used"),
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => (SURCHARGE, "Little used"),
    };
    Some(Hit { code: code.to_owned(), label: label.to_owned(), rate })
}

/// The points ascend, with at most 12 decimals and rates within ±10, so that nothing here can overflow, and the product
/// is exact for shares of up to 15 decimals.
fn rate(points: &[Point], share: Decimal) -> Option<Decimal> {
    let after = points.iter().position(|point| share <= point.at.value());
    let (Some(before), Some(after)) = (after.unwrap_or(points.len()).checked_sub(1), after) else {
        let end = if after.is_some() { points.first() } else { points.last() };
        return end.map(|point| point.rate.value());
    };
    let (from, to) = (points.get(before)?, points.get(after)?);
    let (run, rise) = (to.at.value() - from.at.value(), to.rate.value() - from.rate.value());
    let climbed = (share - from.at.value()) * rise / run;
    Some((from.rate.value() + climbed).round_dp(DECIMALS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(&str, &str)], share: &str) -> String {
        let parse = |text: &str| text.parse::<Rate>().unwrap();
        let points: Vec<Point> = points.iter().map(|(at, rate)| Point { at: parse(at), rate: parse(rate) }).collect();
        Rate::from(rate(&points, parse(share).value()).unwrap()).to_string()
    }

    #[test]
    fn lines_between_points_and_constants_outside() {
        let ramp = [("0.25", "0.05"), ("0.35", "0"), ("0.60", "0"), ("0.75", "-0.10")];
        for (share, rate) in [
            ("0", "0.05"),
            ("0.25", "0.05"),
            ("0.30", "0.025"),
            ("0.35", "0"),
            ("0.5", "0"),
            ("0.60", "0"),
            ("0.675", "-0.05"),
            ("0.75", "-0.1"),
            ("1", "-0.1"),
        ] {
            assert_eq!(at(&ramp, share), rate, "{share}");
        }
        assert_eq!(at(&[("0.5", "0.3")], "0.2"), "0.3");
        assert_eq!(at(&[("0.5", "0.3")], "0.9"), "0.3");
    }

    #[test]
    fn thirds_are_rounded_once_and_half_even() {
        let third = [("0", "0"), ("0.3", "-0.1")];
        assert_eq!(at(&third, "0.1"), "-0.033333333333");
        let half = [("0", "0"), ("1", "0.000000000001")];
        assert_eq!(at(&half, "0.5"), "0");
        assert_eq!(at(&[("0", "0.000000000001"), ("1", "0.000000000002")], "0.5"), "0.000000000002");
        assert_eq!(at(&half, "0.500000000000001"), "0.000000000001");
    }

    #[test]
    fn the_widest_points_do_not_overflow() {
        let wide = [("0.000000000001", "-10"), ("0.000000000002", "10")];
        assert_eq!(at(&wide, "0.0000000000015"), "0");
        assert_eq!(at(&wide, "0.0000000000015000001"), "0.000002");
    }
}
