//! The memo over HTTP: quotes with and without it are the same bytes, and most evaluations come out of it.

use farebox::clock::Clock;
use farebox_sandbox::MemoLimits;
use farebox_tests::book::Book;
use jiff::Timestamp;

use crate::harness::{Answer, TestGateway, snapshot, unnamed};

/// The price of the moment is the same for all of a test's gateways.
fn at(now: Timestamp) -> Clock {
    Clock::from_fn(move || now)
}

fn content(answer: &Answer) -> (u16, String) {
    (answer.status, unnamed(answer.json()).to_string())
}

fn counted(gateway: &TestGateway, name: &str) -> u64 {
    let metrics = gateway.get("/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("farebox_memo_{name} ")));
    line.unwrap_or_else(|| panic!("no `{name}` in {metrics}")).parse().unwrap()
}

/// Cold, warm, and with every third reuse compared; priced and refused; with usage that changes in between.
#[test]
fn quotes_with_and_without_the_memo_are_the_same_bytes() {
    let now = Clock::system().now();
    let without = TestGateway::start_with(at(now), |config| config.memo = None);
    let with = TestGateway::start_with(at(now), |config| config.memo = Some(MemoLimits::standard()));
    let compared = TestGateway::start_with(at(now), |config| {
        config.memo = Some(MemoLimits { recompute_one_in: 3, ..MemoLimits::standard() });
    });
    let mut book = Book::new(1);
    for round in 0..300 {
        if round % 50 == 0 {
            let mut usage = snapshot(["steady-82", "low-25", "idle"][round / 50 % 3]);
            usage["observed_at"] = now.to_string().into();
            for gateway in [&without, &with, &compared] {
                assert_eq!(gateway.post("/v1/usage-snapshots", &usage).status, 202);
            }
        }
        let mut request = book.request();
        if round % 10 == 0 {
            request["items"][0]["workload"]["image"] = "v9".into();
        }
        let expected = without.post("/v1/quotes", &request);
        assert_eq!(expected.status, if round % 10 == 0 { 422 } else { 201 }, "{}", expected.body);
        for gateway in [&with, &compared] {
            let answer = gateway.post("/v1/quotes", &request);
            assert_eq!(content(&answer), content(&expected), "{request}");
            assert_eq!(answer.header("etag"), expected.header("etag"));
        }
    }
    assert_eq!(counted(&without, "hits_total"), 0);
    assert!(counted(&with, "hits_total") > 9 * counted(&with, "misses_total"));
    let (recomputed, hits) = (counted(&compared, "recomputed_total"), counted(&compared, "hits_total"));
    assert!(recomputed > hits / 4 && recomputed < hits / 2, "{recomputed} of {hits} were compared, about a third");
    assert_eq!(counted(&compared, "differences_total"), 0);
    assert_eq!(counted(&compared, "quarantined_policies"), 0);
}
