//! The order of what waits, its limits, and its file.

use serde_json::{Value, json};

use super::*;
use crate::samples::body_with;

fn read(spool: &mut Spool, mut file: &[u8]) -> u64 {
    let (dropped, read) = spool.read(&mut file);
    read.unwrap();
    dropped
}

fn snapshot(changes: &[(&str, Value)]) -> WireSnapshot {
    let mut snapshot: WireSnapshot = serde_json::from_value(body_with(changes)).unwrap();
    snapshot.mac = None;
    snapshot
}

fn written(epoch: &str, job: &str, seq: u64, health: &str) -> Written {
    let changes =
        [("/boot_epoch", json!(epoch)), ("/job", json!(job)), ("/seq", json!(seq)), ("/health", json!(health))];
    Written::of(&snapshot(&changes)).unwrap()
}

fn spool() -> Spool {
    Spool::new(SpoolLimits::standard())
}

impl Spool {
    fn first(&self) -> Option<Parcel> {
        self.batch(SpoolLimits { entries: 1, bytes: usize::MAX }).pop()
    }
}

/// Epoch, job, seq, health of all, in the order of sending.
fn waiting(spool: &Spool) -> Vec<String> {
    let line = |body: &Arc<[u8]>| {
        let value: Value = serde_json::from_slice(body).unwrap();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        format!("{} {} {} {}", text("boot_epoch"), text("job"), value["seq"], text("health"))
    };
    spool.bodies().iter().map(line).collect()
}

#[test]
fn only_the_newest_of_a_holding_waits_and_keeps_its_place() {
    let mut spool = spool();
    for (job, seq) in [("a", 1), ("b", 2), ("a", 3), ("a", 2), ("a", 3)] {
        spool.offer(written("1", job, seq, "ok"));
    }
    assert_eq!(waiting(&spool), ["1 a 3 ok", "1 b 2 ok"]);
    assert_eq!(spool.bytes(), spool.bodies().iter().map(|body| body.len()).sum::<usize>());
}

#[test]
fn every_tombstone_waits_though_its_job_starts_again() {
    let mut spool = spool();
    for (seq, health) in [(1, "ok"), (2, "ended"), (3, "ok"), (4, "ended"), (5, "ok"), (6, "ok")] {
        spool.offer(written("1", "a", seq, health));
    }
    assert_eq!(waiting(&spool), ["1 a 2 ended", "1 a 4 ended", "1 a 6 ok"]);
}

#[test]
fn an_earlier_epoch_is_kept_in_front_of_a_later_one() {
    let mut spool = spool();
    spool.offer(written("1", "a", 9, "ok"));
    spool.offer(written("2", "a", 1, "ok"));
    spool.offer(written("2", "a", 2, "ok"));
    assert_eq!(waiting(&spool), ["1 a 9 ok", "2 a 2 ok"]);
}

#[test]
fn what_has_arrived_goes_unless_a_newer_one_took_its_place() {
    let mut spool = spool();
    spool.offer(written("1", "a", 1, "ok"));
    let parcel = spool.first().unwrap();
    spool.offer(written("1", "a", 2, "ok"));
    spool.settle(&parcel);
    assert_eq!(waiting(&spool), ["1 a 2 ok"]);
    let parcel = spool.first().unwrap();
    spool.settle(&parcel);
    spool.settle(&parcel);
    assert!(spool.is_empty() && spool.bytes() == 0 && spool.live.is_empty());
}

#[test]
fn beyond_the_limit_the_oldest_tombstone_goes_first() {
    let mut spool = Spool::new(SpoolLimits { entries: 3, bytes: 1 << 20 });
    for (job, health) in [("a", "ok"), ("b", "ended"), ("c", "ended"), ("d", "ok"), ("e", "ok"), ("f", "ok")] {
        spool.offer(written("1", job, 1, health));
    }
    assert_eq!(waiting(&spool), ["1 d 1 ok", "1 e 1 ok", "1 f 1 ok"]);
    assert_eq!((spool.evicted(), spool.tombstones.len(), spool.live.len()), (3, 0, 3));

    let bytes = spool.first().unwrap().body.len();
    let mut spool = Spool::new(SpoolLimits { entries: 100, bytes: bytes * 2 });
    for job in ["a", "b", "c"] {
        spool.offer(written("1", job, 1, "ok"));
    }
    assert_eq!(waiting(&spool), ["1 b 1 ok", "1 c 1 ok"]);
    let mut spool = Spool::new(SpoolLimits { entries: 100, bytes: bytes - 1 });
    spool.offer(written("1", "a", 1, "ok"));
    assert!(spool.is_empty() && spool.live.is_empty());
}

#[test]
fn what_is_put_off_goes_behind_the_others_with_all_of_its_holding() {
    let mut spool = spool();
    for (epoch, job, seq, health) in
        [("1", "a", 8, "ended"), ("1", "a", 9, "ok"), ("1", "b", 1, "ok"), ("2", "a", 1, "ok"), ("2", "c", 1, "ok")]
    {
        spool.offer(written(epoch, job, seq, health));
    }
    let bytes = spool.bytes();
    spool.postpone(&spool.first().unwrap());
    assert_eq!(waiting(&spool), ["1 b 1 ok", "2 c 1 ok", "1 a 8 ended", "1 a 9 ok", "2 a 1 ok"]);
    spool.offer(written("2", "a", 2, "ok"));
    assert_eq!(waiting(&spool), ["1 b 1 ok", "2 c 1 ok", "1 a 8 ended", "1 a 9 ok", "2 a 2 ok"]);
    assert_eq!((spool.bytes(), spool.tombstones.len(), spool.live.len()), (bytes, 1, 4));
    while let Some(parcel) = spool.first() {
        spool.settle(&parcel);
    }
    assert_eq!((spool.bytes(), spool.tombstones.len(), spool.live.len()), (0, 0, 0));
}

#[test]
fn a_file_is_read_back_as_it_was_and_torn_lines_are_counted() {
    let mut before = spool();
    for (job, seq, health) in [("a", 1, "ended"), ("a", 2, "ok"), ("b", 3, "ok")] {
        before.offer(written("1", job, seq, health));
    }
    let file = before.bodies().join(&b'\n');
    let mut after = spool();
    assert_eq!(read(&mut after, &file), 0);
    assert_eq!(after.bodies(), before.bodies());

    let mut torn = spool();
    assert_eq!(read(&mut torn, &file[..file.len() - 5]), 1);
    assert_eq!(waiting(&torn), ["1 a 1 ended", "1 a 2 ok"]);

    let mut foreign = spool();
    let signed = serde_json::to_vec(&body_with(&[])).unwrap();
    assert_eq!(read(&mut foreign, &[&b"\xff\xfe\n{}\n\n"[..], &signed].concat()), 3);
    assert!(foreign.is_empty());
}

#[test]
fn a_batch_is_the_first_that_fit_and_one_at_least() {
    let mut spool = spool();
    for (seq, job) in ["a", "b", "c", "d"].into_iter().enumerate() {
        spool.offer(written("1", job, seq as u64, "ok"));
    }
    let bytes = spool.first().unwrap().body.len();
    let jobs = |entries: usize, bytes: usize| -> Vec<String> {
        let batch = spool.batch(SpoolLimits { entries, bytes });
        batch.into_iter().map(|parcel| parcel.holding.job.unwrap()).collect()
    };
    assert_eq!(jobs(3, usize::MAX), ["a", "b", "c"]);
    assert_eq!(jobs(9, bytes * 2), ["a", "b"]);
    assert_eq!((jobs(0, 0), jobs(9, 1)), (vec!["a".to_owned()], vec!["a".to_owned()]));
}
