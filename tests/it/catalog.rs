//! `GET /v1/catalog`: what can be bought, page by page, and what caches may keep of it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use farebox::clock::Clock;

use crate::harness::{Answer, TestGateway, fixture, text};

fn items(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["data"].as_array().unwrap().clone()
}

fn ids(answer: &Answer) -> Vec<String> {
    items(answer).iter().map(|item| text(item, "/id")).collect()
}

fn at(instant: &str) -> Clock {
    let instant: Timestamp = instant.parse().unwrap();
    Clock::from_fn(move || instant)
}

/// `fixtures/price-books/us-2026.toml`: Lambda sells B200 at a lower price for each larger node.
#[test]
fn an_offering_has_its_list_price_for_each_size() {
    let gateway = TestGateway::start();
    let found = items(&gateway.get("/v1/catalog?gpu_model=B200&region=lambda"));
    assert_eq!(found.len(), 1);
    let item = &found[0];
    assert_eq!(text(item, "/id"), "us-2026:B200:lambda:on_demand");
    assert_eq!((text(item, "/currency"), text(item, "/price_book")), ("USD".into(), "us-2026@1".into()));
    let prices: Vec<_> = item["prices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|price| (price["min_gpus"].as_u64().unwrap(), text(price, "/unit_price"), text(price, "/memory_gib")))
        .collect();
    let price = |min_gpus: u64, unit: &str| (min_gpus, unit.to_owned(), "180".to_owned());
    assert_eq!(prices, [price(1, "6.99"), price(2, "6.89"), price(4, "6.79"), price(8, "6.69")]);
    assert_eq!(item.get("upcoming"), None);
    // The smallest price is the one that a quote starts from.
    let mut request = fixture("requests/usd.json");
    request["items"] = json!([{"ref":"a","gpu_model":"B200","region":"lambda","gpu_count":5,"hours":"1"}]);
    let quote = gateway.post("/v1/quotes", &request).json();
    assert_eq!(text(&quote, "/lines/0/list_unit_price"), "6.79", "{quote}");
}

/// The three H100-SXM rows of RunPod: 3.29 from 19 August, 3.49 from 25 September, 3.99 from 9 November 2026.
#[test]
fn prices_are_those_in_force_and_those_to_come_are_told() {
    let path = "/v1/catalog?gpu_model=H100-SXM&region=runpod-secure";
    let asked = |instant: &str| {
        let answer = TestGateway::start_with(at(instant), |_| {}).get(path);
        let item = items(&answer).remove(0);
        let of = |member: &str| {
            let prices = item[member].as_array().cloned().unwrap_or_default();
            prices.iter().map(|price| text(price, "/unit_price")).collect::<Vec<_>>()
        };
        (of("prices"), of("upcoming"), answer.header("cache-control").unwrap().to_owned())
    };
    let owned = |prices: &[&str]| prices.iter().map(|price| (*price).to_owned()).collect::<Vec<_>>();
    let minute = "private, max-age=60".to_owned();
    assert_eq!(asked("2026-08-18T00:00:00Z"), (owned(&[]), owned(&["3.29", "3.49", "3.99"]), minute.clone()));
    assert_eq!(asked("2026-08-19T00:00:00Z"), (owned(&["3.29"]), owned(&["3.49", "3.99"]), minute.clone()));
    assert_eq!(asked("2026-10-01T00:00:00Z"), (owned(&["3.49"]), owned(&["3.99"]), minute.clone()));
    assert_eq!(asked("2026-11-08T23:59:40Z"), (owned(&["3.49"]), owned(&["3.99"]), "private, max-age=20".into()));
    // 19.1 s are left: a cache that kept it for 20 would show a price that does not hold any more.
    assert_eq!(asked("2026-11-08T23:59:40.9Z").2, "private, max-age=19");
    assert_eq!(asked("2026-11-08T23:59:59.9Z").2, "private, max-age=0");
    assert_eq!(asked("2026-11-09T00:00:00Z"), (owned(&["3.99"]), owned(&[]), minute));
}

#[test]
fn filters_narrow_and_nothing_is_an_empty_list() {
    let gateway = TestGateway::start();
    let cny = ids(&gateway.get("/v1/catalog?currency=CNY"));
    assert!(!cny.is_empty() && cny.iter().all(|id| id.starts_with("cn-2026:")), "{cny:?}");
    assert_eq!(ids(&gateway.get("/v1/catalog?plan=gpu-standard")), cny);
    assert_eq!(ids(&gateway.get("/v1/catalog?tenant_id=acme&currency=CNY")), cny);
    let spot = ids(&gateway.get("/v1/catalog?market=spot&limit=500"));
    assert!(!spot.is_empty() && spot.iter().all(|id| id.ends_with(":spot")), "{spot:?}");
    let plans = gateway.get("/v1/catalog?tenant_id=acme&currency=JPY").json()["plans"].clone();
    assert_eq!(plans.as_array().unwrap().len(), 1);
    assert_eq!(text(&plans, "/0/name"), "gpu-standard-jpy");
    let image = plans[0]["steps"].as_array().unwrap().iter().find(|step| step["id"] == "image").unwrap();
    assert_eq!(image["codes"], json!(["v2.4", "v2.6", "v2.8-nightly"]));
    for nothing in
        ["gpu_model=Z9000", "region=mars-1", "currency=EUR", "plan=gpu-standard&currency=USD", "gpu_model=%ff"]
    {
        let answer = gateway.get(&format!("/v1/catalog?{nothing}"));
        assert_eq!((ids(&answer), answer.json()["next"].clone()), (vec![], Value::Null), "{nothing}");
    }
}

#[test]
fn pages_put_together_are_the_whole_without_a_repetition() {
    let gateway = TestGateway::start();
    let whole = ids(&gateway.get("/v1/catalog?limit=500"));
    assert!(whole.len() > 30 && whole.is_sorted(), "{whole:?}");
    for limit in [1, 7, whole.len() - 1, whole.len()] {
        let (mut paged, mut next, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = gateway.get(&format!("/v1/catalog?limit={limit}{next}"));
            paged.extend(ids(&page));
            pages += 1;
            match &page.json()["next"] {
                Value::Null => break,
                after => next = format!("&after={}", after.as_str().unwrap()),
            }
        }
        assert_eq!((&paged, pages), (&whole, whole.len().div_ceil(limit)), "{limit}");
    }
    // Past the end, and at a place where nothing is any more.
    assert!(ids(&gateway.get("/v1/catalog?after=zz:Z:z:spot")).is_empty());
    assert_eq!(ids(&gateway.get("/v1/catalog?after=a:A:a:spot&limit=500")), whole);
}

#[test]
fn what_cannot_be_answered_is_told_at_once_with_its_parameters() {
    let gateway = TestGateway::start();
    let answer = gateway.get("/v1/catalog?market=grey&limit=0&colour=red");
    assert_eq!((answer.status, answer.problem().as_str()), (422, "invalid-request"));
    assert_eq!(answer.pointers(), ["/market", "/limit", "/colour"]);
    let answer = gateway.get("/v1/catalog?tenant_id=nobody&plan=nothing");
    assert_eq!((answer.status, answer.pointers()), (422, vec!["/tenant_id".to_owned(), "/plan".to_owned()]));
}

#[test]
fn caches_are_told_what_they_may_keep() {
    let gateway = TestGateway::start_with(at("2026-12-01T00:00:00Z"), |_| {});
    let first = gateway.get("/v1/catalog?limit=500");
    let tag = first.header("etag").unwrap().to_owned();
    let ask = |headers: &[(&str, &str)]| gateway.send("GET", "/v1/catalog?limit=500", headers, &[]);
    let again = ask(&[("If-None-Match", &tag)]);
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag.as_str())));
    assert_eq!(again.header("cache-control"), Some("private, max-age=60"));
    assert_eq!((first.header("vary"), again.header("vary")), (Some("accept-encoding"), Some("accept-encoding")));
    // The compressed form has a tag of its own, which is as good.
    let packed = ask(&[("Accept-Encoding", "gzip")]);
    let packed_tag = packed.header("etag").unwrap().to_owned();
    assert_eq!(packed_tag, tag.trim_end_matches('"').to_owned() + "-gzip\"");
    let again = ask(&[("Accept-Encoding", "gzip"), ("If-None-Match", &packed_tag)]);
    assert_eq!((again.status, again.header("etag")), (304, Some(packed_tag.as_str())));
    assert_eq!(ask(&[("If-None-Match", "\"other\"")]).status, 200);
    assert_ne!(gateway.get("/v1/catalog?limit=1").header("etag"), Some(tag.as_str()));
    let later =
        TestGateway::start_with(Clock::from_fn(|| Clock::system().now() + SignedDuration::from_hours(24)), |_| {});
    assert_eq!(later.get("/v1/catalog?limit=500").header("etag"), Some(tag.as_str()), "the same prices, the same tag");
}
