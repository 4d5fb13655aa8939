//! Days of an absent gateway in an instant: the courier is told the time.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::samples::body_with;
use crate::snapshot::WireSnapshot;

const SECOND: u64 = 1_000_000;

fn written(job: &str, seq: u64, health: &str) -> Written {
    let changes = [("/job", json!(job)), ("/seq", json!(seq)), ("/health", json!(health))];
    let mut snapshot: WireSnapshot = serde_json::from_value(body_with(&changes)).unwrap();
    snapshot.mac = None;
    Written::of(&snapshot).unwrap()
}

fn courier(limits: SpoolLimits) -> Courier {
    Courier::new(limits, true)
}

fn away() -> Posted {
    Posted::Away { reason: "connection refused".to_owned(), retry_after: None, was_answered: false }
}

fn parcel(courier: &mut Courier, now_us: u64) -> Parcel {
    match courier.next(now_us) {
        Step::Post(parcel) => parcel,
        other => panic!("{other:?} instead of a post"),
    }
}

/// Does what the courier says until it waits; answers every post with `outcome`. Returns how many were saved and posted.
fn work(courier: &mut Courier, now_us: u64, outcome: &Posted) -> (u64, u64) {
    let (mut saves, mut posts) = (0, 0);
    loop {
        match courier.next(now_us) {
            Step::Post(parcel) => {
                posts += 1;
                courier.posted(&parcel, outcome.clone(), now_us, 0);
            }
            Step::Save(_) => saves += 1,
            Step::Wait(_) | Step::End => return (saves, posts),
        }
    }
}

#[test]
fn days_without_the_gateway_cost_no_memory_and_little_disk() {
    let mut courier = courier(SpoolLimits { entries: 50, bytes: 1 << 20 });
    let (mut saves, mut posts, mut most_bytes) = (0, 0, 0);
    // Four holdings that change every five seconds, and a job that ends every minute: two days.
    let seconds = 2 * 24 * 3600;
    for second in (0..seconds).step_by(5) {
        let mut snapshots: Vec<_> = (0..4).map(|job| written(&format!("job-{job}"), second, "ok")).collect();
        if second % 60 == 0 {
            snapshots.push(written(&format!("short-{second}"), 1, "ended"));
        }
        courier.offer(snapshots);
        let (saved, posted) = work(&mut courier, second * SECOND, &away());
        (saves, posts) = (saves + saved, posts + posted);
        most_bytes = most_bytes.max(courier.counters().waiting_bytes);
    }
    let counters = courier.counters();
    assert_eq!((counters.waiting, counters.failed, counters.away), (50, posts, true));
    assert_eq!(counters.evicted, seconds / 60 - 46);
    assert!(most_bytes < 51 * written("short-172740", 1, "ended").body().len(), "{most_bytes}");
    assert!(saves <= seconds / 10 + 1, "{saves}");
    // Every half minute, and oftener at the beginning.
    assert!(posts <= seconds / 30 + 6, "{posts}");

    let after = seconds * SECOND + 60 * SECOND;
    assert_eq!(
        work(&mut courier, after, &Posted::Applied),
        (2, 50),
        "one save for the last change, one to empty the file"
    );
    assert_eq!((courier.counters().waiting, courier.counters().applied, courier.counters().away), (0, 50, false));
}

#[test]
fn while_it_is_away_nothing_is_posted_before_its_time() {
    let mut courier = courier(SpoolLimits::standard());
    courier.offer(vec![written("a", 1, "ok")]);
    let first = parcel(&mut courier, 0);
    let retry_after = Some(Duration::from_secs(7));
    let asked = Posted::Away { reason: "answered 429".to_owned(), retry_after, was_answered: false };
    courier.posted(&first, asked, 0, 0);
    assert!(matches!(courier.next(0), Step::Save(bodies) if bodies.len() == 1));
    assert_eq!(courier.next(0), Step::Wait(Some(Duration::from_secs(7))));
    courier.offer(vec![written("a", 2, "ok")]);
    assert_eq!(courier.next(6 * SECOND), Step::Wait(Some(Duration::from_secs(1))));
    let newer = parcel(&mut courier, 7 * SECOND);
    assert!(newer.body.windows(7).any(|part| part == b"\"seq\":2"));
}

#[test]
fn what_is_refused_is_given_up_and_holds_nothing_up() {
    let mut courier = courier(SpoolLimits::standard());
    courier.offer(vec![written("a", 1, "ended"), written("b", 1, "ok")]);
    let refused = Posted::Refused { reason: "answered 422".to_owned() };
    assert_eq!(work(&mut courier, 0, &refused), (0, 2));
    let counters = courier.counters();
    assert_eq!((counters.refused, counters.waiting, counters.away), (2, 0, false));
    for reason in 0..1000 {
        courier.offer(vec![written("a", 2 + reason, "ok")]);
        work(&mut courier, 0, &Posted::Refused { reason: format!("answered {reason}") });
    }
    assert_eq!(courier.reasons.len(), MOST_REASONS);
}

#[test]
fn an_older_run_is_delivered_first_and_then_its_file_goes() {
    let mut before = courier(SpoolLimits::standard());
    before.offer(vec![written("a", 8, "ended"), written("b", 9, "ok")]);
    let left = before.spool.bodies().join(&b'\n');
    let mut courier = courier(SpoolLimits::standard());
    courier.read(&mut &left[..]).unwrap();
    courier.offer(vec![written("c", 10, "ok")]);
    let mut posted = Vec::new();
    while let Step::Post(parcel) = courier.next(0) {
        posted.push(parcel.seq);
        courier.posted(&parcel, Posted::NotNewer, 0, 0);
    }
    assert_eq!(posted, [8, 9, 10]);
    assert_eq!(courier.counters().not_newer, 3);
    assert_eq!(courier.next(0), Step::Wait(None), "the file was removed by the save that ended the loop");
}

#[test]
fn a_stop_tries_once_more_and_keeps_the_rest() {
    let mut courier = courier(SpoolLimits::standard());
    courier.offer(vec![written("a", 1, "ok"), written("b", 1, "ok")]);
    work(&mut courier, 0, &away());
    courier.stop();
    let last = parcel(&mut courier, 1);
    courier.posted(&last, away(), 2, 0);
    assert!(matches!(courier.next(20 * SECOND), Step::Save(bodies) if bodies.len() == 2));
    assert_eq!(courier.next(20 * SECOND), Step::End);

    let mut back = Courier::new(SpoolLimits::standard(), false);
    back.offer(vec![written("a", 1, "ok")]);
    work(&mut back, 0, &away());
    back.stop();
    let last = parcel(&mut back, 1);
    back.posted(&last, Posted::Applied, 2, 0);
    assert_eq!(back.next(2), Step::End);
    assert_eq!(back.give_up(), None);
}

#[test]
fn without_a_directory_nothing_is_saved() {
    let mut courier = Courier::new(SpoolLimits::standard(), false);
    for second in 0..100 {
        courier.offer(vec![written("a", second, "ok")]);
        assert_eq!(work(&mut courier, second * SECOND, &away()).0, 0);
    }
}

#[test]
fn a_snapshot_that_the_gateway_fails_on_lets_the_others_pass() {
    let mut courier = courier(SpoolLimits::standard());
    courier.offer(vec![written("poison", 1, "ok"), written("a", 2, "ended"), written("b", 3, "ok")]);
    let poison = parcel(&mut courier, 0);
    let failed = Posted::Away { reason: "answered 503".to_owned(), retry_after: None, was_answered: true };
    courier.posted(&poison, failed, 0, 0);
    let mut now_us = 0;
    let mut posted = Vec::new();
    while posted.len() < 3 {
        now_us += SECOND;
        if let Step::Post(parcel) = courier.next(now_us) {
            posted.push(parcel.seq);
            courier.posted(&parcel, Posted::Applied, now_us, 0);
        }
    }
    assert_eq!(posted, [2, 3, 1]);
}

#[test]
fn an_agent_that_is_not_heard_says_so_once_an_hour() {
    let mut courier = courier(SpoolLimits::standard());
    let mut said = Vec::new();
    for second in 1..=7_300 {
        courier.offer(vec![written("a", second, "ok")]);
        work(&mut courier, second * SECOND, &Posted::NotNewer);
        said.extend(courier.outrun_said_us);
    }
    said.dedup();
    assert_eq!(said, [10, 3_610, 7_210].map(|second| second * SECOND));
    courier.offer(vec![written("a", 8_000, "ok")]);
    work(&mut courier, 8_000 * SECOND, &Posted::Applied);
    assert_eq!(courier.outrun, 0);
}

#[test]
fn what_an_older_run_left_is_outrun_rightly() {
    let mut courier = courier(SpoolLimits::standard());
    let left = (0..20).map(|seq| written(&seq.to_string(), seq, "ended").body().to_vec()).collect::<Vec<_>>();
    courier.read(&mut &left.join(&b'\n')[..]).unwrap();
    assert_eq!(work(&mut courier, 0, &Posted::NotNewer).1, 20);
    assert_eq!((courier.outrun, courier.counters().not_newer), (0, 20));
}

#[test]
fn windows_that_the_gateway_does_not_use_are_counted() {
    let mut courier = courier(SpoolLimits::standard());
    courier.offer(vec![written("a", 1, "ok"), written("b", 2, "ok")]);
    work(&mut courier, 0, &Posted::FromTheFuture);
    let counters = courier.counters();
    assert_eq!((counters.applied, counters.from_the_future, counters.waiting), (2, 2, 0));
}

#[test]
fn clocks_are_compared_to_what_a_date_can_tell() {
    let mut courier = courier(SpoolLimits::standard());
    let mut skew = |sent_s: i64, received_s: i64, date_s: i64| {
        courier.compare_clocks((sent_s * 1_000_000 + 500_000, received_s * 1_000_000 + 500_000), date_s * 1_000_000);
        courier.counters().clock_skew_us.unwrap()
    };
    assert_eq!(skew(100, 100, 100), 0);
    assert_eq!(skew(100, 104, 102), 0, "a slow answer is no skew");
    assert_eq!(skew(110, 110, 100), 9_500_000);
    assert_eq!(skew(100, 101, 111), -9_500_000);
}

#[test]
fn a_tombstone_is_safe_once_it_is_delivered_or_on_disk() {
    let mut courier = courier(SpoolLimits::standard());
    assert!(courier.tombstones_are_safe());
    courier.offer(vec![written("a", 1, "ended")]);
    let first = parcel(&mut courier, 0);
    courier.posted(&first, away(), 0, 0);
    let Step::Save(_) = courier.next(0) else { panic!("not saved") };
    assert!(!courier.tombstones_are_safe(), "nothing says that it was written");
    courier.saved();
    assert!(courier.tombstones_are_safe());
    courier.offer(vec![written("b", 2, "ended")]);
    assert!(!courier.tombstones_are_safe());
    work(&mut courier, 60 * SECOND, &Posted::Applied);
    assert!(courier.tombstones_are_safe());
}
