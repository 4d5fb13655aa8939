//! A ramp: straight lines between points, constant outside them.

use farebox_sdk::prelude::*;

use crate::compiled::Point;

/// Decimals of an interpolated rate, rounded half-even once (SPEC §4.3 rounds amounts alike).
pub(crate) const DECIMALS: u32 = 12;

/// The points ascend, with at most 12 decimals and bounded sizes, so that nothing here can overflow. `None` without points.
pub(crate) fn rate(points: &[Point], value: Decimal) -> Option<Rate> {
    let mut before: Option<&Point> = None;
    for point in points {
        if value <= point.at.value() {
            return Some(before.map_or(point.rate, |before| between(before, point, value)));
        }
        before = Some(point);
    }
    before.map(|last| last.rate)
}

fn between(from: &Point, to: &Point, value: Decimal) -> Rate {
    let (run, rise) = (to.at.value() - from.at.value(), to.rate.value() - from.rate.value());
    let climbed = (value - from.at.value()) * rise / run;
    Rate::from((from.rate.value() + climbed).round_dp(DECIMALS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(&str, &str)], value: &str) -> String {
        let points: Vec<Point> =
            points.iter().map(|(at, rate)| Point { at: at.parse().unwrap(), rate: rate.parse().unwrap() }).collect();
        rate(&points, value.parse::<Quantity>().unwrap().value()).unwrap().to_string()
    }

    #[test]
    fn lines_between_points_and_constants_outside() {
        let busy = [("0.60", "0"), ("0.75", "-0.10")];
        for (value, rate) in [("0", "0"), ("0.6", "0"), ("0.675", "-0.05"), ("0.75", "-0.1"), ("1", "-0.1")] {
            assert_eq!(at(&busy, value), rate, "{value}");
        }
        assert_eq!(at(&[("0", "0"), ("0.3", "-0.1")], "0.1"), "-0.033333333333");
        assert_eq!(at(&[("0", "0"), ("1", "0.000000000001")], "0.5"), "0", "half-even");
        assert_eq!(at(&[("100", "0"), ("300", "0.2"), ("400", "0.2")], "200"), "0.1", "not only shares");
    }

    #[test]
    fn the_widest_points_do_not_overflow() {
        let wide = [("0.000000000001", "-1"), ("1000000000000", "10")];
        assert_eq!(at(&wide, "500000000000.0000000000005"), "4.5");
        assert_eq!(at(&wide, "1000000000001"), "10");
    }
}
