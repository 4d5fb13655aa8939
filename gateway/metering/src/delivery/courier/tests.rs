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

/// As over HTTP.
const ONE: Addressee = Addressee { name: "the gateway", batch: SpoolLimits { entries: 1, bytes: usize::MAX } };

fn courier(limits: SpoolLimits) -> Courier {
    Courier::new(ONE, limits, true)
}

impl Courier {
    fn posted_one(&mut self, parcel: &Parcel, outcome: Posted, now_us: u64) {
        self.posted(std::slice::from_ref(parcel), vec![Some(outcome)], now_us, 0);
    }
}

fn away() -> Posted {
    Posted::Away { reason: "connection refused".to_owned(), retry_after: None, was_answered: false }
}

fn parcel(courier: &mut Courier, now_us: u64) -> Parcel {
    match courier.next(now_us) {
        Step::Post(mut parcels) if parcels.len() == 1 => parcels.remove(0),
        other => panic!("{other:?} instead of a post"),
    }
}

/// Does what the courier says until it waits; answers every post with `outcome`. Returns how many were saved and posted.
fn work(courier: &mut Courier, now_us: u64, outcome: &Posted) -> (u64, u64) {
    let (mut saves, mut posts) = (0, 0);
    loop {
        match courier.next(now_us) {
            Step::Post(parcels) => {
                posts += 1;
                courier.posted(&parcels, vec![Some(outcome.clone())], now_us, 0);
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
    courier.posted_one(&first, asked, 0);
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
    while let Step::Post(parcels) = courier.next(0) {
        posted.push(parcels[0].seq);
        courier.posted_one(&parcels[0], Posted::NotNewer, 0);
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
    courier.posted_one(&last, away(), 2);
    assert!(matches!(courier.next(20 * SECOND), Step::Save(bodies) if bodies.len() == 2));
    assert_eq!(courier.next(20 * SECOND), Step::End);

    let mut back = Courier::new(ONE, SpoolLimits::standard(), false);
    back.offer(vec![written("a", 1, "ok")]);
    work(&mut back, 0, &away());
    back.stop();
    let last = parcel(&mut back, 1);
    back.posted_one(&last, Posted::Applied, 2);
    assert_eq!(back.next(2), Step::End);
    assert_eq!(back.give_up(), None);
}

#[test]
fn without_a_directory_nothing_is_saved() {
    let mut courier = Courier::new(ONE, SpoolLimits::standard(), false);
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
    courier.posted_one(&poison, failed, 0);
    let mut now_us = 0;
    let mut posted = Vec::new();
    while posted.len() < 3 {
        now_us += SECOND;
        if let Step::Post(parcels) = courier.next(now_us) {
            posted.push(parcels[0].seq);
            courier.posted_one(&parcels[0], Posted::Applied, now_us);
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
fn a_tombstone_is_safe_once_it_is_delivered_or_on_disk() {
    let mut courier = courier(SpoolLimits::standard());
    assert!(courier.tombstones_are_safe());
    courier.offer(vec![written("a", 1, "ended")]);
    let first = parcel(&mut courier, 0);
    courier.posted_one(&first, away(), 0);
    let Step::Save(_) = courier.next(0) else { panic!("not saved") };
    assert!(!courier.tombstones_are_safe(), "nothing says that it was written");
    courier.saved();
    assert!(courier.tombstones_are_safe());
    courier.offer(vec![written("b", 2, "ended")]);
    assert!(!courier.tombstones_are_safe());
    work(&mut courier, 60 * SECOND, &Posted::Applied);
    assert!(courier.tombstones_are_safe());
}

#[test]
fn what_may_have_arrived_proves_no_other_agent() {
    let redis = Addressee { name: "Redis", batch: SpoolLimits { entries: 500, bytes: 1 << 20 } };
    let mut courier = Courier::new(redis, SpoolLimits::standard(), false);
    let all = |courier: &mut Courier, seq| {
        courier.offer((0..20).map(|job| written(&format!("job-{job}"), seq, "ok")).collect());
        match courier.next(seq * 60 * SECOND) {
            Step::Post(parcels) => parcels,
            other => panic!("{other:?}"),
        }
    };
    let parcels = all(&mut courier, 1);
    assert_eq!(parcels.len(), 20);
    let mut outcomes = vec![None; 20];
    outcomes[0] = Some(away());
    courier.posted(&parcels, outcomes, 0, 0);
    assert_eq!((courier.counters().failed, courier.counters().waiting), (1, 20));
    assert_eq!(all(&mut courier, 1), parcels);
    courier.posted(&parcels, vec![Some(Posted::NotNewer); 20], 60 * SECOND, 0);
    assert_eq!((courier.outrun, courier.counters().not_newer, courier.counters().away), (0, 20, false));
    let parcels = all(&mut courier, 2);
    courier.posted(&parcels, vec![Some(Posted::NotNewer); 20], 120 * SECOND, 0);
    assert_eq!((courier.outrun, courier.outrun_said_us), (20, Some(120 * SECOND)));
}

#[test]
fn of_a_batch_what_was_taken_is_settled_and_the_rest_waits() {
    let redis = Addressee { name: "Redis", batch: SpoolLimits { entries: 3, bytes: 1 << 20 } };
    let mut courier = Courier::new(redis, SpoolLimits::standard(), false);
    courier.offer(["a", "b", "c", "d"].map(|job| written(job, 1, "ok")).into());
    let Step::Post(parcels) = courier.next(0) else { panic!("nothing to post") };
    assert_eq!(parcels.len(), 3);
    courier.posted(&parcels, vec![Some(Posted::Applied), Some(away()), Some(Posted::Applied)], 0, 0);
    let counters = courier.counters();
    assert_eq!((counters.applied, counters.waiting, counters.away), (2, 2, true));
    let Step::Post(rest) = courier.next(SECOND) else { panic!("nothing to post") };
    let jobs: Vec<_> = rest.iter().map(|parcel| parcel.holding.job.as_deref().unwrap()).collect();
    assert_eq!(jobs, ["b", "d"]);
}
