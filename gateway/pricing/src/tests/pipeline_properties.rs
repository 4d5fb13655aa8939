//! Properties of any plan over any cart: rows sum, nothing is negative, order is irrelevant, equal inputs price equally.

use proptest::prelude::*;
use rust_decimal::Decimal;

use crate::amount::Rounding;
use crate::granule::Granule;
use crate::plan::{Guards, Step};
use crate::policy::{AddedLine, Adjustment, Context, Fact, Halt, LineView, Method, Outcome, Scope};
use crate::settle::Settled;

use super::oracle::{exactly, ratio, whole};
use super::stage::{Stage, adjust, dec, fact, on_line, on_quote, says, step};

#[derive(Clone, Debug)]
struct Cart {
    currency: &'static str,
    half_even: bool,
    /// Price in hundredths and seconds of each item.
    items: Vec<(i64, u64)>,
    guards: [Option<i64>; 3],
    steps: Vec<ScriptedStep>,
}

/// What a step does: to the line with each number (modulo their count), and to the whole quote.
#[derive(Clone, Debug)]
struct ScriptedStep {
    by_quote: bool,
    of_lines: Vec<Vec<Change>>,
    of_quote: Vec<Change>,
    adds_storage: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Percent(i64),
    Amount(i64),
    Minimum(i64),
}

impl Change {
    fn method(&self) -> Method {
        match self {
            Self::Percent(hundredths) => Method::Percent(Decimal::new(*hundredths, 2)),
            Self::Amount(thousandths) => Method::Amount(Decimal::new(*thousandths, 3)),
            Self::Minimum(hundredths) => Method::Minimum(Decimal::new(*hundredths, 2)),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (-150i64..=150).prop_map(Change::Percent),
        3 => (-90_000i64..=90_000).prop_map(Change::Amount),
        1 => (0i64..=20_000).prop_map(Change::Minimum),
    ]
}

fn scripted_step() -> impl Strategy<Value = ScriptedStep> {
    let changes = || prop::collection::vec(change(), 0..3);
    (any::<bool>(), prop::collection::vec(changes(), 1..4), changes(), prop::bool::weighted(0.2)).prop_map(
        |(by_quote, of_lines, of_quote, adds_storage)| ScriptedStep { by_quote, of_lines, of_quote, adds_storage },
    )
}

fn cart() -> impl Strategy<Value = Cart> {
    // Few prices and durations, so that lines often tie; odd seconds, so that amounts have all their decimals.
    let price = prop_oneof![Just(1200i64), Just(500), 0i64..=99_999];
    let seconds = prop_oneof![Just(3600u64), Just(7), 0u64..=10_000_000];
    (
        prop::sample::select(vec!["CNY", "JPY", "KWD"]),
        any::<bool>(),
        prop::collection::vec((price, seconds), 1..7),
        [prop::option::of(0i64..=100), prop::option::of(0i64..=300), prop::option::of(0i64..=2_000)],
        prop::collection::vec(scripted_step(), 0..6),
    )
        .prop_map(|(currency, half_even, items, guards, steps)| Cart { currency, half_even, items, guards, steps })
}

/// The number of an item, which its added lines carry on.
fn number(line: &LineView<'_>) -> usize {
    fact(line, "line.ref").trim_start_matches('r').parse().unwrap()
}

fn coded(key: u32, changes: &[Change]) -> Vec<Adjustment> {
    let coded = |(index, change): (usize, &Change)| on_line(key, adjust(&format!("c{index}"), change.method()));
    changes.iter().enumerate().map(coded).collect()
}

fn act(scripted: &ScriptedStep, context: &Context<'_>) -> Result<Outcome, Halt> {
    let mut outcome = says(Vec::new())?;
    for line in &context.lines {
        outcome.adjustments.extend(coded(line.key, &scripted.of_lines[number(line) % scripted.of_lines.len()]));
        let is_item = line.facts.iter().all(|fact| fact.key != "added.code");
        if scripted.adds_storage && is_item {
            outcome.added.push(AddedLine {
                parent: Some(line.key),
                code: "storage".to_owned(),
                label: "Storage".to_owned(),
                unit: "gib_month".to_owned(),
                quantity: dec("3"),
                unit_price: dec("0.333"),
                facts: vec![Fact::new("line.ref", fact(line, "line.ref"))],
            });
        }
    }
    if scripted.by_quote {
        outcome.adjustments.extend(coded(0, &scripted.of_quote).into_iter().map(on_quote));
    }
    Ok(outcome)
}

impl Cart {
    /// The cart with its items in this order.
    fn price(&self, order: &[usize]) -> Settled {
        let mut stage = Stage::new(self.currency);
        for number in order {
            let (hundredths, seconds) = self.items[*number];
            stage = stage.gpu(&format!("r{number}"), &Decimal::new(hundredths, 2).to_string(), seconds);
        }
        stage.plan.rounding = if self.half_even { Rounding::HalfEven } else { Rounding::HalfAwayFromZero };
        let [max_discount, max_surcharge, floor_unit_price] =
            self.guards.map(|guard| guard.map(|hundredths| Decimal::new(hundredths, 2)));
        stage.plan.guards = Guards { max_discount, max_surcharge, floor_unit_price };
        for (index, scripted) in self.steps.iter().enumerate() {
            let scope = if scripted.by_quote { Scope::Quote } else { Scope::Line };
            let scripted = scripted.clone();
            stage = stage.step(Step { scope, ..step(&format!("s{index}")) }, move |context| act(&scripted, context));
        }
        stage.price()
    }

    fn in_order(&self) -> Settled {
        self.price(&(0..self.items.len()).collect::<Vec<_>>())
    }
}

/// Every line by its reference and description, with all its rows.
fn by_reference(quote: &Settled) -> Vec<(String, String, Vec<String>, String)> {
    let mut lines: Vec<_> = (0..quote.lines.len())
        .map(|index| {
            let line = &quote.lines[index];
            let reference = line.stage_name();
            (reference, line.description.clone(), quote.rows(index), quote.line(index))
        })
        .collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn rows_sum_to_totals_and_nothing_is_negative(cart in cart()) {
        let quote = cart.in_order();
        let exponent = u32::from(quote.currency.exponent());
        let mut total = whole(0);
        for line in &quote.lines {
            let rows = line.adjustments.iter().fold(exactly(line.list_amount), |sum, row| sum + exactly(row.amount));
            prop_assert_eq!(&rows, &exactly(line.amount));
            prop_assert!(!line.amount.is_negative());
            let minor_units = exactly(line.amount) * whole(10u32.pow(exponent));
            prop_assert!(minor_units.is_integer(), "{} is not whole minor units", minor_units);
            prop_assert!(line.adjustments.iter().filter(|row| row.kind == "rounding").count() <= 1);
            total += rows;
        }
        prop_assert_eq!(exactly(quote.totals.total), total);
        prop_assert!(quote.check().is_ok());
    }

    #[test]
    fn guards_hold_up_to_the_rounding(cart in cart()) {
        let quote = cart.in_order();
        let half_unit = whole(1) / (whole(2) * whole(10u32.pow(u32::from(quote.currency.exponent()))));
        let guard = |index: usize| cart.guards[index].map(|hundredths| ratio(Decimal::new(hundredths, 2)));
        for line in quote.lines.iter().filter(|line| line.parent.is_none()) {
            let (list, amount) = (exactly(line.list_amount), exactly(line.amount));
            // Half a unit of the 12th decimal, for the bound itself.
            let slack = &half_unit + whole(1) / whole(10u64.pow(12));
            let floor = guard(2).map_or(whole(0), |price| price * ratio(line.quantity) / whole(3600));
            let highest = guard(1).map(|share| (&list * (whole(1) + share)).max(floor.clone()));
            let lowest = guard(0).map_or(whole(0), |share| &list * (whole(1) - share)).max(floor);
            prop_assert!(amount >= &lowest - &slack, "{} < {}", amount, lowest);
            prop_assert!(highest.is_none_or(|highest| amount <= highest + slack));
        }
    }

    #[test]
    fn the_order_of_items_is_irrelevant(
        (cart, order) in cart().prop_flat_map(|cart| {
            let order: Vec<usize> = (0..cart.items.len()).collect();
            (Just(cart), Just(order).prop_shuffle())
        })
    ) {
        let (quote, shuffled) = (cart.in_order(), cart.price(&order));
        prop_assert_eq!(by_reference(&quote), by_reference(&shuffled));
        prop_assert_eq!(quote.totals, shuffled.totals);
    }

    #[test]
    fn equal_inputs_price_equally(cart in cart()) {
        let (once, twice) = (cart.in_order(), cart.in_order());
        prop_assert_eq!(format!("{once:?}"), format!("{twice:?}"));
    }

    #[test]
    fn any_tiling_of_a_period_bills_the_same(
        mut readings in prop::collection::vec(0u64..=10_000_000, 1..40), which in 0usize..3,
    ) {
        let granule = [Granule::Second, Granule::Minute, Granule::Hour][which];
        readings.sort_unstable();
        let held = *readings.last().unwrap();
        let mut billed = granule.billed(readings[0]).unwrap();
        for pair in readings.windows(2) {
            billed += granule.billed_between(pair[0], pair[1]).unwrap();
        }
        prop_assert_eq!(billed, granule.billed(held).unwrap());
        prop_assert_eq!(billed % granule.seconds(), 0);
        prop_assert!(billed >= held && billed - held < granule.seconds());
        prop_assert_eq!(granule.billed_between(0, held), Some(billed));
    }
}
