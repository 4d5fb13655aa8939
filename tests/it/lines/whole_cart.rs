//! Whole-cart amounts by the real policy over real plans: what is spread is the amount, to the last minor unit.

use farebox::catalog::Catalog;
use farebox_pricing::amount::{Amount, Rounding};
use farebox_pricing::currency::Currency;
use farebox_pricing::offer::LineUsage;
use farebox_pricing::pipeline::{AdjustmentScope, AppliedAdjustment};
use farebox_pricing::price::price;
use farebox_pricing::price_book::Market;
use farebox_pricing::request::{QuoteRequest, RequestedItem, Work, Workload};
use farebox_pricing::settle::Settled;
use farebox_pricing::usage::judge;
use farebox_sandbox::{Limits, Sandbox, Session};
use farebox_sdk::Decimal;
use jiff::Timestamp;

use crate::harness::{Folder, catalog, policies, root};

/// A data directory with the fixtures' price books, one tenant, and plans whose only step is the cart's.
struct OwnPlans(Folder);

impl OwnPlans {
    fn new(name: &str, plans: &[(&str, &str, &str)]) -> Self {
        let directory = Folder::with(name, &["plans", "tenants", "price-books"]);
        for book in ["cn-2026", "jp-2026", "kw-2026"] {
            let file = format!("price-books/{book}.toml");
            std::fs::copy(root().join("fixtures").join(&file), directory.join(&file)).unwrap();
        }
        for (plan, currency, parameters) in plans {
            let book = match *currency {
                "CNY" => "cn-2026",
                "JPY" => "jp-2026",
                _ => "kw-2026",
            };
            let text = format!(
                "name = \"{plan}\"\ncurrency = \"{currency}\"\nprice_book = \"{book}\"\nguards = {{ max_discount = \
                 \"1\" }}\n[[steps]]\nid = \"cart\"\npolicy = \"cart-adjustment@1.0.0\"\nparameters = {{ {parameters} \
                 }}\n"
            );
            std::fs::write(directory.join(format!("plans/{plan}.toml")), text).unwrap();
        }
        let tenant = "id = \"globex\"\nname = \"Globex\"\nplans = {}\noffered = [\"*\"]\n";
        std::fs::write(directory.join("tenants/globex.toml"), tenant).unwrap();
        Self(directory)
    }

    fn load(&self) -> Catalog {
        let catalog = Catalog::load(&self.0, policies(), &Sandbox::new(Limits::standard()).unwrap());
        assert_eq!(catalog.problems, []);
        catalog
    }
}

/// `count` items that `seed` decides.
fn items(currency: &str, count: usize, seed: usize) -> Vec<RequestedItem> {
    let region = match currency {
        "CNY" => "cn-east-1",
        "JPY" => "jp-east-1",
        _ => "kw-central-1",
    };
    let item = |number: usize| {
        let pick = |of: usize, salt: usize| (number * 7919 + seed * 31_337 + salt * 104_729) % of;
        RequestedItem {
            reference: format!("r{number:02}"),
            gpu_model: ["A100", "V100"][pick(2, 1)].to_owned(),
            region: region.to_owned(),
            market: Market::OnDemand,
            priority: "normal".to_owned(),
            gpu_count: u32::try_from(pick(8, 2) + 1).unwrap(),
            // Odd seconds, so that hardly any line is whole minor units when the cart is reckoned.
            work: Work::Seconds(u64::try_from(pick(250_000, 3) + 1).unwrap()),
            memory_gib: None,
            network_gbps: None,
            storage_gib: None,
            workload: Workload::default(),
        }
    };
    (0..count).map(item).collect()
}

fn quote(catalog: &Catalog, plan: &str, currency: &str, items: Vec<RequestedItem>) -> Settled {
    let currency = Currency::parse(currency).unwrap();
    let plan = Some(plan.to_owned());
    let request = QuoteRequest { tenant_id: "globex".to_owned(), currency, plan, client_reference: None, items };
    let now: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    let resolved = catalog.resolve(&request, now).unwrap();
    let usage = |_: &_| LineUsage { observation: None, judged: judge(None, &resolved.version.plan.usage) };
    let input = resolved.offer.with_usage(usage);
    price(&input, &mut Session::new(&resolved.version.policies)).unwrap()
}

fn shares<'a>(settled: &'a Settled, code: &'a str) -> impl Iterator<Item = &'a AppliedAdjustment> {
    let rows = settled.lines.iter().flat_map(|line| &line.adjustments);
    rows.filter(move |row| row.scope == AdjustmentScope::Quote && row.code == code)
}

fn sum<'a>(rows: impl Iterator<Item = &'a AppliedAdjustment>) -> Amount {
    Amount::sum(rows.map(|row| row.amount)).unwrap()
}

fn amount(text: &str) -> Amount {
    Amount::from_decimal(text.parse::<Decimal>().unwrap()).unwrap()
}

/// `gpu-volume` as it ships: for 1 to 50 lines, the shares are the tier's rate of what entered the step, once rounded.
#[test]
fn the_shares_of_a_shipped_plan_sum_to_its_volume_discount() {
    let catalog = catalog();
    let mut tiers = [0; 3];
    for count in 1..=50 {
        let settled = quote(&catalog, "gpu-volume", "CNY", items("CNY", count, count));
        let before = |row: &&AppliedAdjustment| row.step != "cart" && row.step != "guards" && row.step != "rounding";
        let entering = settled.lines.iter().map(|line| {
            let rows = sum(line.adjustments.iter().filter(before));
            line.list_amount.plus(rows).unwrap()
        });
        let entering = Amount::sum(entering).unwrap();
        let (tier, rate) = match entering {
            least if least >= amount("50000") => (2, Decimal::new(-5, 2)),
            least if least >= amount("10000") => (1, Decimal::new(-3, 2)),
            _ => (0, Decimal::ZERO),
        };
        tiers[tier] += 1;
        let discount = entering.times(rate).unwrap().rounded(2, Rounding::HalfAwayFromZero).unwrap();
        assert_eq!(sum(shares(&settled, "volume")), discount, "{count} lines");
        assert_eq!(shares(&settled, "volume").count(), if tier == 0 { 0 } else { count });
        assert_eq!(
            shares(&settled, "cap").count() + shares(&settled, "floor").count(),
            0,
            "3 % and 5 % break no guard"
        );
    }
    assert!(tiers.into_iter().all(|quotes| quotes > 3), "a tier that hardly any quote reaches: {tiers:?}");
}

/// Credits and minimums that do not divide, in currencies of 2, 0 and 3 decimals: the shares are the amount, whatever the
/// lines; a credit beyond the cart ends at 0.
#[test]
fn odd_amounts_are_spread_whole_and_a_credit_ends_at_nothing() {
    let credits = ["0.004", "0.01", "1", "99.995", "777.777", "123456789.125"];
    let plans: Vec<(String, &str, String)> = ["CNY", "JPY", "KWD"]
        .into_iter()
        .flat_map(|currency| {
            credits.into_iter().enumerate().map(move |(index, credit)| {
                let name = format!("credit-{}-{index}", currency.to_lowercase());
                (name, currency, format!("credit = {{ amount = \"{credit}\" }}"))
            })
        })
        .chain([("least-cny".to_owned(), "CNY", "minimum = \"1000000.01\"".to_owned())])
        .collect();
    let written: Vec<(&str, &str, &str)> =
        plans.iter().map(|(name, currency, parameters)| (name.as_str(), *currency, parameters.as_str())).collect();
    let directory = OwnPlans::new("odd-amounts", &written);
    let catalog = directory.load();
    for (name, currency, _) in plans.iter().filter(|plan| plan.0.starts_with("credit")) {
        let index: usize = name.rsplit('-').next().unwrap().parse().unwrap();
        for count in [1, 2, 3, 7, 49, 50] {
            let settled = quote(&catalog, name, currency, items(currency, count, index));
            let digits = settled.currency.exponent();
            let off = Amount::ZERO.minus(amount(credits[index])).unwrap();
            let off = off.rounded(digits, Rounding::HalfAwayFromZero).unwrap();
            assert_eq!(sum(shares(&settled, "credit")), off, "{name}, {count} lines");
            assert!(settled.lines.iter().all(|line| !line.amount.is_negative()), "{name}, {count} lines");
            if index == credits.len() - 1 {
                assert!(settled.totals.total.is_zero(), "{name}: {}", settled.totals.total.print(digits));
                assert_eq!(shares(&settled, "cap").count(), count, "each line shows what lapses of its share");
            }
        }
    }
    for count in 1..=50 {
        let settled = quote(&catalog, "least-cny", "CNY", items("CNY", count, 5));
        let list = settled.totals.list;
        let missing = amount("1000000.01").minus(list).unwrap().rounded(2, Rounding::HalfAwayFromZero).unwrap();
        assert_eq!(sum(shares(&settled, "minimum")), missing, "{count} lines");
    }
}
