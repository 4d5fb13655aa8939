//! Carts of many lines, added lines and whole-cart amounts: the same to the last digit in any order, against sums that
//! the tests take themselves.

mod whole_cart;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Answer, TestGateway, fixture, root, text};

/// Pico-units (10⁻¹²) of a currency, in which every amount of these carts is whole.
type Pico = i128;
const PICO: Pico = 1_000_000_000_000;

/// A number as it is written, in pico-units.
fn pico(text: &str) -> Pico {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    assert!(fraction.len() <= 12, "{text}");
    let digits: Pico = format!("{whole}{fraction:0<12}").trim_start_matches('-').parse().unwrap();
    if text.starts_with('-') { -digits } else { digits }
}

/// Rounded to whole units of `unit`, half away from zero.
fn rounded(amount: Pico, unit: Pico) -> Pico {
    (2 * amount.abs() + unit) / (2 * unit) * unit * amount.signum()
}

/// An item of a generated cart and what its line comes to, worked out here.
struct Expected {
    item: Value,
    amount: Pico,
}

/// 100 items of many kinds. `number` decides everything, so a cart is the same in every run.
fn item(number: usize) -> Expected {
    let pick = |of: usize, salt: usize| (number * 7919 + salt * 104_729) % of;
    let (model, price) = [("A100", 12), ("V100", 5)][pick(2, 1)];
    let count = pick(16, 2) + 1;
    // 1/20 of an hour each: 12 or 5 times it has two decimals, and four rates of two decimals bring it to ten.
    let twentieths = pick(2000, 3) + 1;
    let (execution, framework_rate) = [("eager", 15), ("compiled", 5), ("torchscript", 0)][pick(3, 4)];
    let (features, feature_rate) =
        [(vec![], 0), (vec!["fsdp"], 20), (vec!["cuda_graphs"], 10), (vec!["cuda_graphs", "fsdp"], 30)][pick(4, 5)]
            .clone();
    let (image, image_rate) = [("v2.4", -10), ("v2.6", 0), ("v2.8-nightly", 5)][pick(3, 6)];
    let (isolation, isolation_rate) = [("shared", 0), ("hardened", 5), ("dedicated", 25)][pick(3, 7)];
    let list = PICO * i128::try_from(price * count * twentieths).unwrap() / 20;
    let amount = [framework_rate, feature_rate, image_rate, isolation_rate]
        .into_iter()
        .fold(list, |amount, rate: i128| amount / 100 * (100 + rate));
    let item = json!({
        "ref": format!("r{number:03}"), "gpu_model": model, "region": "cn-east-1", "gpu_count": count,
        "seconds": twentieths * 180,
        "workload": {"framework": "pytorch", "execution": execution, "features": features, "image": image,
                     "isolation": isolation},
    });
    Expected { item, amount }
}

fn request(plan: &str, items: &[Value]) -> Value {
    json!({"tenant_id": "globex", "currency": "CNY", "plan": plan, "items": items})
}

/// Each line's amount and rows by its reference.
fn lines(answer: &Answer) -> BTreeMap<String, (String, Vec<String>)> {
    assert_eq!(answer.status, 201, "{}", answer.body);
    let quote = answer.json();
    let row = |row: &Value| ["step", "code", "amount"].map(|member| text(row, &format!("/{member}"))).join(" ");
    let of_line = |line: &Value| {
        let rows = line["adjustments"].as_array().unwrap().iter().map(row).collect();
        (text(line, "/ref"), (text(line, "/amount"), rows))
    };
    quote["lines"].as_array().unwrap().iter().map(of_line).collect()
}

/// A hundred items: each line and the total as worked out here, the same in every order.
#[test]
fn a_hundred_lines_come_to_what_they_come_to_in_any_order() {
    let gateway = TestGateway::start();
    let expected: Vec<Expected> = (0..100).map(item).collect();
    let mut items: Vec<Value> = expected.iter().map(|expected| expected.item.clone()).collect();
    let answer = gateway.post("/v1/quotes", &request("gpu-standard", &items));
    let first = lines(&answer);
    let mut total = 0;
    for (number, Expected { amount, .. }) in expected.iter().enumerate() {
        let cents = rounded(*amount, PICO / 100);
        total += cents;
        assert_eq!(pico(&first[&format!("r{number:03}")].0), cents, "{}", items[number]);
    }
    assert_eq!((first.len(), pico(&answer.total())), (100, total));
    let volume = lines(&gateway.post("/v1/quotes", &request("gpu-volume", &items)));
    items.reverse();
    items.rotate_left(37);
    let turned = gateway.post("/v1/quotes", &request("gpu-standard", &items));
    assert_eq!((lines(&turned), turned.total()), (first, answer.total()));
    assert_eq!(lines(&gateway.post("/v1/quotes", &request("gpu-volume", &items))), volume);
}

/// One item more than a quote can hold, and one added line more.
#[test]
fn a_hundred_and_one_lines_are_refused_with_what_to_do() {
    let gateway = TestGateway::start();
    let items: Vec<Value> = (0..101).map(|number| item(number).item).collect();
    let answer = gateway.post("/v1/quotes", &request("gpu-standard", &items));
    assert_eq!((answer.status, answer.problem()), (422, "invalid-request".to_owned()), "{}", answer.body);
    assert_eq!(answer.pointers(), ["/items"]);
    assert!(text(&answer.json(), "/errors/0/detail").contains("100"), "{}", answer.body);

    let with_storage = |count: usize| {
        let items: Vec<Value> = (0..count)
            .map(|number| {
                json!({"ref": number.to_string(), "gpu_model": "V100", "region": "cn-east-1", "gpu_count": 1,
                       "hours": "1", "storage_gib": "1000", "workload": {"session": "interactive"}})
            })
            .collect();
        gateway.post("/v1/quotes", &request("research", &items))
    };
    // 5.00, and 1000 GiB × 3600 s × 0.0000002 = 0.72, fifty times.
    let full = with_storage(50);
    assert_eq!((full.status, full.total()), (201, "286.00".to_owned()), "{}", full.body);
    assert_eq!(full.json()["lines"].as_array().unwrap().len(), 100);
    let beyond = with_storage(51);
    assert_eq!((beyond.status, beyond.problem()), (422, "invalid-request".to_owned()), "{}", beyond.body);
    assert_eq!(beyond.pointers(), ["/items"]);
    let detail = "with the lines that step `session` adds, the quote has 102 and not at most 100; ask for fewer items at a \
                  time";
    assert_eq!(text(&beyond.json(), "/errors/0/detail"), detail);
    assert_eq!(text(&beyond.json(), "/errors/0/code"), "too_many_lines");
}

/// S7: storage hangs on its item, is priced alone, and no rate of its item touches it.
#[test]
fn storage_is_a_line_of_its_own() {
    let gateway = TestGateway::start();
    let quote = gateway.post("/v1/quotes", &fixture("requests/research.json")).json();
    let storage = &quote["lines"][2];
    assert_eq!(
        (text(storage, "/parent"), text(storage, "/description")),
        ("l1".to_owned(), "Snapshot storage, 100 GiB".to_owned())
    );
    assert!(storage.get("ref").is_none(), "{storage}");
    assert_eq!(storage["quantity"], json!({"value": "1080000", "unit": "gib_second"}));
    assert_eq!(
        (text(storage, "/list_unit_price"), text(storage, "/list_amount")),
        ("0.0000002".to_owned(), "0.216".to_owned())
    );
    let steps: Vec<String> = storage["adjustments"].as_array().unwrap().iter().map(|row| text(row, "/step")).collect();
    assert_eq!(steps, ["rounding"]);
}

/// Two decimals for yuan, none for yen, three for dinars: on every amount of every recorded quote.
#[test]
fn settled_amounts_have_exactly_the_digits_of_their_currency() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("fixtures/cases")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !root().join("fixtures/cases").join(&name).join("quote.json").exists() {
            continue;
        }
        let quote = fixture(&format!("cases/{name}/quote.json"));
        let currency = text(&quote, "/currency");
        let digits = match currency.as_str() {
            "JPY" => 0,
            "CNY" | "USD" => 2,
            "KWD" => 3,
            other => panic!("how many digits has `{other}`?"),
        };
        let decimals = |amount: &str| amount.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let lines = quote["lines"].as_array().unwrap();
        for amount in lines.iter().map(|line| text(line, "/amount")).chain([text(&quote, "/totals/total")]) {
            assert_eq!(decimals(&amount), digits, "{name}: {amount}");
        }
        let shares = lines.iter().flat_map(|line| line["adjustments"].as_array().unwrap());
        for share in shares.filter(|row| row["scope"] == "quote" && row["kind"] != "cap" && row["kind"] != "floor") {
            assert_eq!(decimals(&text(share, "/amount")), digits, "{name}: {share}");
        }
        let most = seen.entry(currency).or_default();
        *most = lines.len().max(*most);
    }
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["CNY", "JPY", "KWD", "USD"]);
    assert!(seen.values().all(|most| *most >= 3), "no case of several lines: {seen:?}");
}
