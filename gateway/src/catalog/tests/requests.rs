//! From requests to offers, over the fixtures.

use farebox_pricing::currency::Currency;
use farebox_pricing::exact::{parse, print};
use farebox_pricing::offer::OfferedQuantity;
use farebox_pricing::price_book::Market;
use farebox_pricing::request::{MAX_GPU_COUNT, MAX_SECONDS, QuoteRequest, RequestedItem, Task, Work, Workload};
use jiff::Timestamp;

use super::{broken, fixtures};
use crate::catalog::{OfferError, Resolved};
use crate::schema::Violation;

const NOW: &str = "2026-12-01T00:00:00Z";

fn item(reference: &str) -> RequestedItem {
    RequestedItem {
        reference: reference.to_owned(),
        gpu_model: "A100".to_owned(),
        region: "cn-east-1".to_owned(),
        market: Market::OnDemand,
        priority: "normal".to_owned(),
        gpu_count: 8,
        work: Work::Seconds(72 * 3600),
        memory_gib: None,
        network_gbps: None,
        storage_gib: None,
        workload: Workload::default(),
    }
}

fn request(items: Vec<RequestedItem>) -> QuoteRequest {
    QuoteRequest {
        tenant_id: "acme".to_owned(),
        currency: Currency::parse("CNY").unwrap(),
        plan: None,
        client_reference: None,
        items,
    }
}

fn resolve(request: &QuoteRequest) -> Result<Resolved, OfferError> {
    fixtures().resolve(request, NOW.parse().unwrap())
}

/// Pointer and code of each violation, and whether all of them are prices that are not known.
fn refused(request: &QuoteRequest) -> (bool, Vec<(String, String)>) {
    refusal(resolve(request).unwrap_err())
}

fn refusal(error: OfferError) -> (bool, Vec<(String, String)>) {
    let named = |violations: Vec<Violation>| {
        violations.into_iter().map(|violation| (violation.pointer, violation.code)).collect()
    };
    match error {
        OfferError::Invalid(violations) => (false, named(violations)),
        OfferError::UnknownPrice(violations) => (true, named(violations)),
        OfferError::Unavailable(sentence) => panic!("{sentence}"),
    }
}

fn only(pointer: &str, code: &str) -> Vec<(String, String)> {
    vec![(pointer.to_owned(), code.to_owned())]
}

#[test]
fn w1_is_offered_at_list() {
    let workload = Workload {
        framework: Some("pytorch".to_owned()),
        execution: Some("eager".to_owned()),
        features: vec!["fsdp".to_owned(), "cuda_graphs".to_owned()],
        image: Some("v2.6".to_owned()),
        session: None,
        isolation: Some("shared".to_owned()),
        precision: None,
    };
    let asked = RequestedItem { workload, memory_gib: Some(parse("80.50").unwrap()), ..item("a") };
    let Resolved { version, offer, notes } = resolve(&request(vec![asked])).unwrap();
    assert_eq!((version.plan.name.as_str(), offer.price_book.as_str()), ("gpu-standard", "cn-2026@1"));
    assert_eq!(offer.priced_at, NOW.parse::<Timestamp>().unwrap());
    assert_eq!(notes, []);
    let tenant: Vec<_> = offer.tenant.iter().map(|fact| (fact.key.as_str(), fact.value.as_str())).collect();
    assert_eq!(tenant, [("tenant.region", "cn-east-1"), ("tenant.segment", "enterprise")]);

    let [line] = &offer.items[..] else { panic!("{:?}", offer.items) };
    assert_eq!((line.reference.as_str(), line.description.as_str()), ("a", "A100, cn-east-1, on demand"));
    assert_eq!(line.quantity, OfferedQuantity::GpuSeconds(8 * 72 * 3600));
    assert_eq!(print(line.list_unit_price), "12");
    let facts: Vec<_> = line.facts.iter().map(|fact| (fact.key.as_str(), fact.value.as_str())).collect();
    let expected = [
        ("line.gpu_model", "A100"),
        ("line.region", "cn-east-1"),
        ("line.market", "on_demand"),
        ("line.billing", "hourly"),
        ("line.priority", "normal"),
        ("line.gpu_count", "8"),
        ("line.seconds", "259200"),
        ("line.memory_gib", "80.5"),
        ("line.network_gbps", "100"),
        ("book.memory_gib", "40"),
        ("book.network_gbps", "100"),
        ("workload.framework", "pytorch"),
        ("workload.execution", "eager"),
        ("workload.feature", "fsdp"),
        ("workload.feature", "cuda_graphs"),
        ("workload.image", "v2.6"),
        ("workload.isolation", "shared"),
    ];
    assert_eq!(facts, expected);
}

#[test]
fn a_task_brings_its_inputs_and_no_time() {
    let task = Task {
        template: None,
        parameters: Some(11_173_962),
        samples: Some(50_000),
        sample_bytes: Some(3072),
        iterations: Some(parse("1.50").unwrap()),
        precision: Some("fp32".to_owned()),
        gradient_accumulation: None,
    };
    let asked = RequestedItem { work: Work::Task(task), ..item("a") };
    let resolved = resolve(&request(vec![asked])).unwrap();
    let [line] = &resolved.offer.items[..] else { panic!("{resolved:?}") };
    assert_eq!(line.quantity, OfferedQuantity::Task);
    let of_task: Vec<_> = line.facts.iter().filter(|fact| fact.key.starts_with("task.")).collect();
    let of_task: Vec<_> = of_task.iter().map(|fact| (fact.key.as_str(), fact.value.as_str())).collect();
    let expected = [
        ("task.parameters", "11173962"),
        ("task.samples", "50000"),
        ("task.sample_bytes", "3072"),
        ("task.iterations", "1.5"),
        ("task.precision", "fp32"),
    ];
    assert_eq!(of_task, expected);
    assert!(line.facts.iter().any(|fact| fact.key == "line.billing" && fact.value == "task"));
    assert!(line.facts.iter().all(|fact| fact.key != "line.seconds"));
}

#[test]
fn time_is_rounded_up_to_the_granule_and_says_so() {
    for (seconds, billed, text) in [
        (1, 60, "1 s is billed as 1 min"),
        (61, 120, "61 s are billed as 2 min"),
        (3541, 3600, "3541 s are billed as 1 h"),
        (7201, 7260, "7201 s are billed as 121 min"),
    ] {
        let asked = RequestedItem { work: Work::Seconds(seconds), gpu_count: 2, ..item("a") };
        let resolved = resolve(&request(vec![item("b"), asked])).unwrap();
        assert_eq!(resolved.offer.items[1].quantity, OfferedQuantity::GpuSeconds(billed * 2));
        let wall_time = farebox_pricing::policy::Fact::new("line.seconds", billed.to_string());
        assert!(resolved.offer.items[1].facts.contains(&wall_time));
        let notes: Vec<_> = resolved.notes.iter().map(|note| (note.item, note.code, note.text.as_str())).collect();
        assert_eq!(notes, [(1, "granule", text)]);
    }
}

#[test]
fn storage_that_a_plan_does_not_sell_is_told() {
    let noted = |plan: &str, gib: &str| {
        let asked = RequestedItem { storage_gib: Some(parse(gib).unwrap()), ..item("a") };
        let request = QuoteRequest { plan: Some(plan.to_owned()), ..request(vec![item("b"), asked]) };
        let notes = resolve(&request).unwrap().notes;
        notes.into_iter().map(|note| (note.item, note.code, note.text)).collect::<Vec<_>>()
    };
    let text = "the plan sells no storage: the 0.5 GiB are not part of the quote".to_owned();
    assert_eq!(noted("gpu-standard", "0.50"), [(1, "storage_not_sold", text)]);
    assert_eq!(noted("gpu-standard", "0.0"), []);
    // Its own step looks at it: it prices it, or refuses.
    assert_eq!(noted("research", "0.50"), []);
    assert_eq!(noted("production", "0.50"), []);
}

#[test]
fn everything_unknown_is_told_at_once() {
    let items = vec![
        RequestedItem { gpu_model: "Z9000".to_owned(), ..item("a") },
        item("b"),
        RequestedItem { region: "mars-1".to_owned(), ..item("c") },
        RequestedItem { region: "cn-north-1".to_owned(), market: Market::Spot, ..item("d") },
    ];
    let expected = [
        ("/items/0/gpu_model", "unknown_gpu_model"),
        ("/items/2/region", "unknown_region"),
        ("/items/3/market", "unknown_market"),
    ];
    let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code.to_owned())).to_vec();
    assert_eq!(refused(&request(items.clone())), (true, expected.clone()));
    // Something impossible beside them outweighs them, and still all is told.
    let mut items = items;
    items.push(RequestedItem { gpu_count: 0, ..item("e") });
    let (is_unknown_price, violations) = refused(&request(items));
    assert!(!is_unknown_price);
    assert_eq!(violations[..3], expected);
    assert!(violations[3..].contains(&("/items/4/gpu_count".to_owned(), "out_of_range".to_owned())));
}

#[test]
fn bounds_hold_and_nothing_overflows() {
    let largest = RequestedItem { gpu_count: MAX_GPU_COUNT, work: Work::Seconds(MAX_SECONDS), ..item("a") };
    let resolved = resolve(&request(vec![largest.clone()])).unwrap();
    assert_eq!(resolved.offer.items[0].quantity, OfferedQuantity::GpuSeconds(31_536_000_000_000));
    for (gpu_count, seconds, pointer) in [
        (0, 60, "/items/0/gpu_count"),
        (MAX_GPU_COUNT + 1, 60, "/items/0/gpu_count"),
        (1_000_000_000, 60, "/items/0/gpu_count"),
        (u32::MAX, 60, "/items/0/gpu_count"),
        (1, 0, "/items/0"),
        (1, MAX_SECONDS + 1, "/items/0"),
        (1, u64::MAX, "/items/0"),
    ] {
        let asked = RequestedItem { gpu_count, work: Work::Seconds(seconds), ..item("a") };
        let (is_unknown_price, violations) = refused(&request(vec![asked]));
        assert!(!is_unknown_price);
        assert!(violations.contains(&(pointer.to_owned(), "out_of_range".to_owned())), "{violations:?}");
    }
    let both = RequestedItem { gpu_count: 0, work: Work::Seconds(0), ..item("a") };
    let (_, violations) = refused(&request(vec![both]));
    let pointers: Vec<_> = violations.iter().map(|(pointer, _)| pointer.as_str()).collect();
    assert!(pointers.contains(&"/items/0/gpu_count") && pointers.contains(&"/items/0"), "{pointers:?}");
}

#[test]
fn the_plan_is_the_tenants_for_the_currency_or_the_one_asked_for() {
    let usd = Currency::parse("USD").unwrap();
    let a10g = RequestedItem { gpu_model: "A10G".to_owned(), region: "article".to_owned(), ..item("a") };
    let in_usd = QuoteRequest { currency: usd, ..request(vec![a10g]) };
    assert_eq!(resolve(&in_usd).unwrap().version.plan.name, "gpu-standard-usd");
    let by_name = QuoteRequest { plan: Some("gpu-standard-usd".to_owned()), ..in_usd.clone() };
    assert_eq!(resolve(&by_name).unwrap().version.plan.name, "gpu-standard-usd");

    let mismatch = QuoteRequest { plan: Some("gpu-standard".to_owned()), ..in_usd.clone() };
    assert_eq!(refused(&mismatch), (false, only("/currency", "currency_mismatch")));
    let unknown = QuoteRequest { plan: Some("gpu-deluxe".to_owned()), ..in_usd.clone() };
    assert_eq!(refused(&unknown), (false, only("/plan", "unknown_plan")));
    let no_plan = QuoteRequest { currency: Currency::parse("EUR").unwrap(), ..in_usd.clone() };
    assert_eq!(refused(&no_plan), (false, only("/currency", "no_plan")));
    let stranger = QuoteRequest { tenant_id: "hooli".to_owned(), ..in_usd };
    assert_eq!(refused(&stranger), (false, only("/tenant_id", "unknown_tenant")));
}

/// What is wrong with our own documents is never told as a mistake of the request.
#[test]
fn a_plan_that_is_broken_is_unavailable_and_not_unknown() {
    let ask = |currency: &str, plan: Option<&str>| {
        let currency = Currency::parse(currency).unwrap();
        let request = QuoteRequest { currency, plan: plan.map(str::to_owned), ..request(vec![item("a")]) };
        broken().resolve(&request, NOW.parse().unwrap()).unwrap_err()
    };
    for (currency, plan, name) in [
        ("USD", None, "wrong-currency"),
        ("EUR", None, "gpu-deluxe"),
        ("JPY", None, "good-plan"),
        ("CNY", Some("left-out-book"), "left-out-book"),
        ("USD", Some("wrong-steps"), "wrong-steps"),
    ] {
        let sentence = format!("plan `{name}` cannot be priced under at the moment");
        assert_eq!(ask(currency, plan), OfferError::Unavailable(sentence));
    }
    assert_eq!(refusal(ask("CNY", Some("gpu-deluxe"))), (false, only("/plan", "unknown_plan")));
    assert_eq!(refusal(ask("JPY", Some("good-plan"))), (false, only("/currency", "currency_mismatch")));
    assert_eq!(refusal(ask("KWD", None)), (false, only("/currency", "no_plan")));
}

/// The public price history of one GPU, and the tiers of another.
#[test]
fn prices_follow_their_instant_and_their_count() {
    let usd = Currency::parse("USD").unwrap();
    let priced = |model: &str, region: &str, gpu_count, at: &str| {
        let asked = RequestedItem { gpu_model: model.to_owned(), region: region.to_owned(), gpu_count, ..item("a") };
        let request = QuoteRequest { currency: usd, ..request(vec![asked]) };
        let resolved = fixtures().resolve(&request, at.parse().unwrap());
        resolved.map(|resolved| print(resolved.offer.items[0].list_unit_price)).map_err(|error| match error {
            OfferError::Invalid(violations) | OfferError::UnknownPrice(violations) => violations[0].code.clone(),
            OfferError::Unavailable(sentence) => sentence,
        })
    };
    let h100 = |at| priced("H100-SXM", "runpod-secure", 1, at);
    assert_eq!(h100("2026-08-18T23:59:59.999999999Z"), Err("not_yet_effective".to_owned()));
    assert_eq!(h100("2026-08-19T00:00:00Z").as_deref(), Ok("3.29"));
    assert_eq!(h100("2026-11-08T23:59:59.999999999Z").as_deref(), Ok("3.49"));
    assert_eq!(h100("2026-11-09T00:00:00Z").as_deref(), Ok("3.99"));
    let b200 = |count| priced("B200", "lambda", count, NOW);
    for (count, price) in [(1, "6.99"), (2, "6.89"), (3, "6.89"), (4, "6.79"), (7, "6.79"), (8, "6.69"), (800, "6.69")]
    {
        assert_eq!(b200(count).as_deref(), Ok(price), "{count}");
    }
    assert_eq!(priced("H200", "coreweave", 7, NOW), Err("too_few_gpus".to_owned()));
    assert_eq!(priced("H200", "runpod-serverless", 1, NOW).as_deref(), Ok("5.58"));
}
