//! What quotes advise (S9): what an advice saves is the difference to the quote that is really asked so, to the digit.

mod by_policies;

use serde_json::{Value, json};

use crate::harness::{Answer, TestGateway, fixture, snapshot, text};

/// Pico-units of a currency.
fn pico(amount: &str) -> i128 {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    let digits: i128 = format!("{whole}{fraction:0<12}").trim_start_matches('-').parse().unwrap();
    if amount.starts_with('-') { -digits } else { digits }
}

fn quoted(gateway: &TestGateway, request: &Value) -> Value {
    let answer: Answer = gateway.post("/v1/quotes", request);
    assert_eq!(answer.status, 201, "{request}: {}", answer.body);
    answer.json()
}

fn messages(quote: &Value) -> &[Value] {
    quote["messages"].as_array().unwrap()
}

/// Of one advice, all that is said.
fn advice<'a>(quote: &'a Value, code: &str) -> Option<&'a Value> {
    messages(quote).iter().find(|message| message["code"] == code)
}

/// How much one quote is below another.
fn difference(quote: &Value, other: &Value) -> i128 {
    pico(&text(quote, "/totals/total")) - pico(&text(other, "/totals/total"))
}

/// A snapshot of eight A100 of acme, with a day of these statistics and the week's mean of `gpu_util`.
fn day(week: &str, day: &Value) -> Value {
    let mut sent = snapshot("steady-82");
    sent["windows"]["7d"]["gpu_util"]["mean"] = week.into();
    sent["windows"]["24h"] = day.clone();
    for metric in sent["windows"]["24h"].as_object_mut().unwrap().values_mut() {
        metric["held_us"] = "691200000000".into();
        if metric.get("coverage").is_none() {
            metric["coverage"] = "1".into();
        }
    }
    sent
}

fn observing(sent: &Value) -> TestGateway {
    let gateway = TestGateway::start();
    let answer = gateway.post("/v1/usage-snapshots", sent);
    assert_eq!(answer.status, 202, "{}", answer.body);
    gateway
}

#[test]
fn w1_compiled_saves_808_71() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let quote = quoted(&gateway, &fixture("requests/w1.json"));
    let said = advice(&quote, "enable_torch_compile").unwrap();
    assert_eq!((&said["saves"], &said["level"], said.get("line")), (&json!("808.71"), &json!("advice"), None));
    // 6912.00 × 1.05 × 1.30 × 0.90 = 8491.392
    let mut compiled = fixture("requests/w1.json");
    compiled["items"][0]["workload"]["execution"] = "compiled".into();
    let cheaper = quoted(&gateway, &compiled);
    assert_eq!((cheaper["totals"]["total"].as_str(), messages(&cheaper).len()), (Some("8491.39"), 0));
    // A GET shows what was issued.
    let read = gateway.get(&text(&quote, "/links/self")).json();
    assert_eq!(
        (&read["messages"], &read["effective_utilisation"]),
        (&quote["messages"], &quote["effective_utilisation"])
    );
}

/// Draws numbers, the same in every run (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Plans with guards, whole-cart volume, minimum and credit, rules by table, and currencies without and with three decimals.
const PLANS: [(&str, &str); 9] = [
    ("gpu-standard", "CNY"),
    ("gpu-volume", "CNY"),
    ("gpu-standard-table", "CNY"),
    ("gpu-standard-usd", "USD"),
    ("gpu-minimum-usd", "USD"),
    ("gpu-standard-kwd", "KWD"),
    ("gpu-volume-kwd", "KWD"),
    ("gpu-standard-jpy", "JPY"),
    ("gpu-welcome-jpy", "JPY"),
];

fn request(draws: &mut Draws, (plan, currency): (&str, &str), models: &[(String, String)]) -> Value {
    let items: Vec<Value> = (0..1 + draws.below(4))
        .map(|index| {
            let (model, region) = &models[draws.below(models.len())];
            let mut workload = json!({"framework": draws.pick(&["pytorch", "pytorch", "pytorch", "jax"]),
                "isolation": draws.pick(&["shared", "hardened", "dedicated"]), "image": draws.pick(&["v2.4", "v2.6"])});
            if draws.below(4) > 0 {
                workload["execution"] = draws.pick(&["eager", "eager", "compiled", "torchscript"]).into();
            }
            let features: Vec<&str> = [vec![], vec!["fsdp"], vec!["cuda_graphs", "fsdp"]][draws.below(3)].clone();
            workload["features"] = features.into();
            json!({"ref": format!("r{index}"), "gpu_model": model, "region": region, "gpu_count": 1 + draws.below(8),
                   "seconds": 60 + draws.below(400_000), "workload": workload})
        })
        .collect();
    json!({"tenant_id": "acme", "currency": currency, "plan": plan, "items": items})
}

/// On-demand rows for any count, of a plan's book, as the catalogue lists them.
fn models_of(gateway: &TestGateway, currency: &str) -> Vec<(String, String)> {
    let listed = gateway.get(&format!("/v1/catalog?currency={currency}&market=on_demand&limit=100")).json();
    let rows = listed["data"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["prices"].as_array().unwrap().iter().any(|price| price["min_gpus"] == 1));
    rows.map(|row| (text(row, "/gpu_model"), text(row, "/region"))).collect()
}

/// The same request with every line compiled that is eager, or does not say.
fn compiled(request: &Value) -> Value {
    let mut compiled = request.clone();
    for item in compiled["items"].as_array_mut().unwrap() {
        let workload = &mut item["workload"];
        let is_eager = workload.get("execution").is_none_or(|execution| execution == "eager");
        if workload["framework"] == "pytorch" && is_eager {
            workload["execution"] = "compiled".into();
        }
    }
    compiled
}

#[test]
fn what_compiling_saves_is_the_difference_to_the_quote_that_asks_so() {
    let mut draws = Draws(7);
    let (mut advised, mut silent, mut negative) = (0, 0, 0);
    for plan in PLANS {
        let gateway = observing(&day("0.82", &json!({})));
        let models = models_of(&gateway, plan.1);
        assert!(!models.is_empty(), "{plan:?}");
        for _ in 0..40 {
            let request = request(&mut draws, plan, &models);
            let quote = quoted(&gateway, &request);
            let saves = difference(&quote, &quoted(&gateway, &compiled(&request)));
            match advice(&quote, "enable_torch_compile") {
                Some(said) => {
                    assert_eq!(pico(&text(said, "/saves")), saves, "{request}");
                    let changed: Vec<usize> = request["items"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .enumerate()
                        .filter(|(index, item)| compiled(&request)["items"][*index] != **item)
                        .map(|(index, _)| index)
                        .collect();
                    let line = (changed.len() == 1 && request["items"].as_array().unwrap().len() > 1)
                        .then(|| format!("l{}", changed[0] + 1));
                    assert_eq!(said.get("line").and_then(Value::as_str).map(str::to_owned), line);
                    assert_eq!(messages(&quote).last(), Some(said), "advice comes last");
                    advised += 1;
                }
                None => {
                    assert!(saves <= 0, "{request}: {saves}");
                    silent += 1;
                    negative += usize::from(saves < 0);
                }
            }
        }
    }
    println!("{advised} advised, {silent} not, {negative} of them dearer");
    assert!(advised > 100 && silent > 20, "{advised} {silent}");
}

#[test]
fn what_waiting_costs_is_the_difference_to_the_quote_of_gpus_that_do_not_wait() {
    let waits = json!({"gpu_util": {"mean": "0.41", "p95": "0.97"}});
    let two = json!({"tenant_id": "acme", "currency": "CNY", "items": [
        {"ref": "a", "gpu_model": "A100", "region": "cn-east-1", "gpu_count": 3, "seconds": 7777},
        {"ref": "b", "gpu_model": "V100", "region": "cn-east-1", "gpu_count": 5, "seconds": 999},
    ]});
    for (plan, week) in
        [("gpu-standard", "0.25"), ("gpu-standard", "0.05"), ("gpu-volume", "0.29"), ("gpu-standard", "0.5")]
    {
        let mut request = two.clone();
        request["plan"] = plan.into();
        let quote = quoted(&observing(&day(week, &waits)), &request);
        let working = quoted(&observing(&day("0.97", &waits)), &request);
        // The V100 have no snapshot, so all of the tenant's stands for them: another observation, and an advice of its own.
        let said: Vec<&Value> = messages(&quote).iter().filter(|message| message["code"] == "stall_io").collect();
        let saves: i128 = said.iter().map(|message| pico(&text(message, "/saves"))).sum();
        assert_eq!((said.len(), saves), (2, difference(&quote, &working)), "{week}");
        let seen = "wait between bursts: 41 % busy over 24 h, and 97 % at the 95th percentile";
        assert!(text(said[0], "/text").contains(seen), "{}", said[0]);
    }
    // At 0.97 already the week earns what it can: nothing to save, nothing advised.
    let quote = quoted(&observing(&day("0.97", &waits)), &two);
    assert!(advice(&quote, "stall_io").is_none(), "{quote}");
}

/// What is seen, and the one advice of it, with or without a saving.
#[test]
fn what_a_day_shows_is_advised_without_touching_the_price() {
    let hourly = |precision: &str| {
        json!({"tenant_id": "acme", "currency": "CNY", "items": [
            {"ref": "a", "gpu_model": "A100", "region": "cn-east-1", "gpu_count": 8, "hours": "72",
             "workload": {"precision": precision}}]})
    };
    let plain = quoted(&observing(&day("0.5", &json!({}))), &hourly("fp32"));
    assert!(messages(&plain).is_empty(), "{plain}");
    for (seen, codes) in [
        (json!({"gpu_util": {"mean": "0.03", "p95": "0.99"}}), &["idle_hold"][..]),
        (json!({"gpu_util": {"mean": "0.03", "coverage": "0.79"}}), &[]),
        (
            json!({"sm_util": {"mean": "0.5"}, "dram_active": {"mean": "0.66"}, "tensor_active": {"mean": "0.04"}}),
            &["enable_mixed_precision", "memory_bound"],
        ),
        (json!({"sm_util": {"mean": "0.5"}, "dram_active": {"mean": "0.3"}, "tensor_active": {"mean": "0.05"}}), &[]),
    ] {
        let gateway = observing(&day("0.5", &seen));
        let quote = quoted(&gateway, &hourly("fp32"));
        let said: Vec<_> = messages(&quote).iter().map(|message| text(message, "/code")).collect();
        assert_eq!(said, codes, "{seen}");
        assert!(messages(&quote).iter().all(|message| message["level"] == "advice" && message.get("saves").is_none()));
        assert_eq!((&quote["lines"], &quote["totals"]), (&plain["lines"], &plain["totals"]));
        let quality = |quote: &Value| text(quote, "/inputs/snapshot/quality");
        assert_eq!(quality(&quote), quality(&plain));
    }
    let idle = quoted(&observing(&day("0.5", &json!({"gpu_util": {"mean": "0.03"}}))), &hourly("bf16"));
    // 192 GPU-hours, of which 97 %.
    assert!(text(&idle, "/messages/0/text").contains("186.2 of 192 observed GPU-hours"), "{}", idle["messages"]);
}

#[test]
fn counted_by_how_they_end() {
    let gateway = TestGateway::start();
    let metric = |name: &str| {
        let body = gateway.get("/metrics").body;
        let line = body.lines().find(|line| line.starts_with(&format!("farebox_{name}_total "))).map(str::to_owned);
        line.unwrap_or_else(|| panic!("no {name} in {body}")).rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let counts = || ["saving", "without_saving", "not_priced", "faulted"].map(|end| metric(&format!("what_ifs_{end}")));
    quoted(&gateway, &fixture("requests/w2.json"));
    assert_eq!(counts(), [0, 0, 0, 0], "a quote that nobody advises prices nothing twice");
    quoted(&gateway, &fixture("requests/w1.json"));
    assert_eq!(counts(), [1, 0, 0, 0]);
}
