//! Roll-ups that are kept: whoever goes on from there has what it had who never stopped; `metering.md` cases 17 and 20.

use farebox_pricing::usage::Window;
use proptest::prelude::*;

use super::rollup_tests::{HOUR, MINUTE, apply, mirror, window};
use super::series::Merged;
use super::*;
use crate::samples::{after_ms, counted};
use crate::snapshot::BootEpoch;

const MODELS: [&str; 2] = ["A100", "H100"];

/// What of its holdings an agent goes on with, and when.
#[derive(Clone, Debug)]
struct Step {
    holding: usize,
    minutes: u64,
    percent: usize,
    restarts: bool,
    repeats: bool,
}

fn steps() -> impl Strategy<Value = (Vec<Step>, usize)> {
    let step = (0_usize..40, 0_u64..400, 0_usize..101, 0_u8..20, any::<bool>());
    let step = step.prop_map(|(holding, minutes, percent, chance, repeats)| Step {
        holding,
        minutes,
        percent,
        restarts: chance == 0,
        repeats,
    });
    prop::collection::vec(step, 2..60).prop_flat_map(|steps| {
        let most = steps.len();
        (Just(steps), 0..most)
    })
}

/// Each with when it is received: 40 holdings, of which half are of two models, in more kinds than are kept.
fn sent(steps: &[Step]) -> Vec<(Snapshot, Timestamp)> {
    let mut so_far = vec![(0_u64, [0_u32; 101], 0_u64); 40];
    let (mut now_ms, mut seq, mut sent) = (0_i64, 0, Vec::new());
    for Step { holding, minutes, percent, restarts, repeats } in steps {
        now_ms += (*minutes * MINUTE / 2) as i64;
        seq += 1;
        let (held_ms, bins, epoch) = &mut so_far[*holding];
        if *restarts {
            (*held_ms, *bins, *epoch) = (0, [0; 101], *epoch + 1);
        }
        *held_ms += minutes * MINUTE;
        bins[*percent] = bins[*percent].wrapping_add((minutes * MINUTE / 2) as u32);
        let observed: Vec<_> = bins.iter().copied().enumerate().filter(|(_, ms)| *ms > 0).collect();
        let letter = char::from(b'a' + (*holding % 20) as u8);
        let snapshot = Snapshot {
            node: format!("n{}", holding / 20),
            job: (*holding % 7 != 0).then(|| format!("{letter}-{}", holding % 3)),
            gpu_model: MODELS[holding / 20 * (holding % 2)].to_owned(),
            boot_epoch: BootEpoch::Number(u128::from(*epoch)),
            ..counted(seq, now_ms, *held_ms, &observed)
        };
        sent.extend(repeats.then(|| (snapshot.clone(), after_ms(now_ms))));
        sent.push((snapshot, after_ms(now_ms)));
    }
    sent
}

fn deliver(mirror: &Mirror, sent: &[(Snapshot, Timestamp)]) {
    for (snapshot, at) in sent {
        mirror.apply(snapshot.clone(), *at).unwrap();
    }
}

fn bytes(mirror: &Mirror) -> Vec<Option<KeptRollUp>> {
    MODELS.iter().map(|model| mirror.roll_up_bytes("acme", model)).collect()
}

/// What a mirror says of a kind (or all) in a window.
type Said = (String, String, Window, &'static str, Merged);

/// Every window of every model and kind.
fn windows(mirror: &Mirror, now: Timestamp) -> Vec<Said> {
    let mut said = Vec::new();
    for (model, roll_up) in &mirror.tenant("acme").unwrap().roll_ups {
        let kinds = roll_up.kinds().map(|(name, kind)| (name.to_string(), &kind.windows));
        for (name, of) in [(String::new(), roll_up.total())].into_iter().chain(kinds) {
            let named =
                of.windows(now).map(|(window, metric, sum)| (model.to_string(), name.clone(), window, metric, sum));
            said.extend(named.filter(|(.., sum)| sum.held_us > 0));
        }
    }
    said
}

fn restored(kept: Vec<Option<KeptRollUp>>, now: Timestamp) -> Mirror {
    let mirror = mirror();
    for kept in kept.into_iter().flatten() {
        assert_eq!(mirror.restore_roll_up(&kept, now), Ok(true));
    }
    mirror
}

proptest! {
    #[test]
    fn a_mirror_that_starts_anew_goes_on_where_the_other_was((steps, split) in steps()) {
        let sent = sent(&steps);
        let (before, after) = sent.split_at(split.min(sent.len()));
        let now = sent.last().unwrap().1;
        let (whole, first) = (mirror(), mirror());
        deliver(&whole, &sent);
        deliver(&first, before);
        let second = restored(bytes(&first), before.last().map_or(after_ms(0), |(_, at)| *at));
        prop_assert_eq!(bytes(&second), bytes(&first));
        // The newest snapshots come back as well, or all of them: nothing is counted twice.
        deliver(&second, before);
        prop_assert_eq!(bytes(&second), bytes(&first));
        deliver(&second, after);
        prop_assert_eq!(bytes(&second), bytes(&whole));
        prop_assert_eq!(windows(&second, now), windows(&whole, now));
        let places = |mirror: &Mirror| (mirror.counters().roll_ups, mirror.counters().holdings, mirror.places.load(Ordering::SeqCst));
        prop_assert_eq!(places(&second), places(&whole));
    }

    #[test]
    fn replicas_that_counted_the_same_have_the_same_bytes((steps, split) in steps()) {
        let sent = sent(&steps);
        let (one, other) = (mirror(), mirror());
        deliver(&one, &sent);
        let (before, after) = sent.split_at(split.min(sent.len()));
        deliver(&other, before);
        other.sweep(before.last().map_or(after_ms(0), |(_, at)| *at));
        deliver(&other, after);
        deliver(&other, before);
        prop_assert_eq!(bytes(&one), bytes(&other));
    }

    #[test]
    fn whatever_the_bytes_are_nothing_breaks(
        (steps, _) in steps(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let sent = sent(&steps);
        let first = mirror();
        deliver(&first, &sent);
        let now = sent.last().unwrap().1;
        for mut kept in bytes(&first).into_iter().flatten() {
            for (place, byte) in &changes {
                let place = place.index(kept.bytes.len());
                kept.bytes[place] = *byte;
            }
            let second = mirror();
            if second.restore_roll_up(&kept, now) == Ok(true) {
                let again = second.roll_up_bytes(&kept.tenant, &kept.gpu_model).unwrap();
                prop_assert!(again.bytes.len() <= kept.bytes.len(), "what it says is what is kept on");
                deliver(&second, &sent);
                second.sweep(now + SignedDuration::from_hours(24 * 40));
                prop_assert_eq!(second.places.load(Ordering::SeqCst), 0);
            }
        }
    }
}

fn kept_of(job: &str, gpu_model: &str, minutes: u64) -> KeptRollUp {
    let first = mirror();
    let of = Snapshot {
        job: Some(job.to_owned()),
        gpu_model: gpu_model.to_owned(),
        ..counted(1, 0, minutes * MINUTE, &[(40, 60_000)])
    };
    apply(&first, of);
    first.roll_up_bytes("acme", gpu_model).unwrap()
}

#[test]
fn what_is_known_already_is_not_replaced() {
    let mirror = mirror();
    let kept = kept_of("a", "A100", 10);
    apply(&mirror, counted(1, 0, MINUTE, &[(40, 60_000)]));
    let before = (bytes(&mirror), mirror.counters());
    assert_eq!(mirror.restore_roll_up(&kept, after_ms(0)), Ok(false));
    assert_eq!((bytes(&mirror), mirror.counters()), before);
    assert_eq!(mirror.restore_roll_up(&kept_of("a", "H100", 10), after_ms(0)), Ok(true));
    assert_eq!(mirror.restore_roll_up(&kept_of("b", "H100", 10), after_ms(0)), Ok(false), "nor what was restored");
}

#[test]
fn torn_and_foreign_bytes_are_refused() {
    let kept = kept_of("a", "A100", 10);
    let refused = |kept: KeptRollUp| {
        let mirror = mirror();
        let is_refused = mirror.restore_roll_up(&kept, after_ms(0)) == Err(NotARollUp);
        is_refused && mirror.counters() == MirrorCounters::default() && mirror.tenant(&kept.tenant).is_none()
    };
    for length in 0..kept.bytes.len() {
        assert!(refused(KeptRollUp { bytes: kept.bytes[..length].to_vec(), ..kept.clone() }), "{length}");
    }
    assert!(refused(KeptRollUp { bytes: [&kept.bytes[..], &[0]].concat(), ..kept.clone() }));
    assert!(refused(KeptRollUp { bytes: [&[2], &kept.bytes[1..]].concat(), ..kept.clone() }), "another version");
    assert!(refused(KeptRollUp { tenant: "\n".to_owned(), ..kept.clone() }));
    assert!(refused(KeptRollUp { gpu_model: String::new(), ..kept.clone() }));
    let later = mirror();
    assert_eq!(later.restore_roll_up(&kept, after_ms(-25 * HOUR)), Err(NotARollUp), "from over a day ahead");
    assert_eq!(later.restore_roll_up(&kept, after_ms(31 * 24 * HOUR)), Ok(false), "no window reaches it");
    assert_eq!(later.counters(), MirrorCounters::default());
    assert_eq!(later.restore_roll_up(&kept, after_ms(29 * 24 * HOUR)), Ok(true));
}

#[test]
fn restoring_keeps_to_the_limits_and_forgets_what_was_observed_longest_ago() {
    let first = mirror();
    for (minute, job) in (0..).zip(["a", "b", "c"]) {
        let at_ms = minute * MINUTE as i64;
        apply(&first, Snapshot { job: Some(job.to_owned()), ..counted(1, at_ms, MINUTE, &[(40, 60_000)]) });
    }
    let kept = first.roll_up_bytes("acme", "A100").unwrap();
    let second = Mirror::new(MirrorLimits { roll_ups: 3, snapshots: 2, ..MirrorLimits::default() });
    let now = after_ms(3 * MINUTE as i64);
    assert_eq!(second.restore_roll_up(&kept, now), Ok(true));
    let counters = second.counters();
    assert_eq!((counters.roll_ups, counters.kinds, counters.holdings), (1, 2, 2));
    assert_eq!((counters.kinds_let_go, counters.holdings_let_go), (1, 1));
    let tenant = second.tenant("acme").unwrap();
    let kinds: Vec<_> = tenant.roll_ups.get("A100").unwrap().kinds().map(|(name, _)| name.to_string()).collect();
    assert_eq!(kinds, ["b", "c"]);
    // `a`, which began before, may have been counted: from here on only.
    second
        .apply(Snapshot { job: Some("a".to_owned()), ..counted(2, 3 * MINUTE as i64, 4 * MINUTE, &[(40, 0)]) }, now)
        .unwrap();
    assert_eq!(window(&second, Window::D7, now).unwrap().0, 3 * MINUTE);
    // Its own kinds make room for another pair, and the pair itself does not.
    assert_eq!(second.restore_roll_up(&kept_of("x", "H100", 1), now), Ok(true));
    assert_eq!(second.counters().roll_ups, 2);
    let none = Mirror::new(MirrorLimits { roll_ups: 0, ..MirrorLimits::default() });
    assert_eq!(none.restore_roll_up(&kept, now), Ok(false));
    assert_eq!(none.counters(), MirrorCounters::default());
}

#[test]
fn what_changed_is_told_once() {
    let mirror = mirror();
    let names = |kept: Vec<KeptRollUp>| kept.into_iter().map(|kept| kept.gpu_model).collect::<Vec<_>>();
    assert_eq!(mirror.roll_ups_changed(Some(0)), (Vec::new(), 0));
    for model in MODELS {
        apply(&mirror, Snapshot { gpu_model: model.to_owned(), ..counted(1, 0, MINUTE, &[(40, 60_000)]) });
    }
    let (changed, next) = mirror.roll_ups_changed(Some(0));
    assert_eq!(names(changed), MODELS);
    assert_eq!(mirror.roll_ups_changed(Some(next)), (Vec::new(), next));
    let again = counted(1, 0, MINUTE, &[(40, 60_000)]);
    mirror.apply(again, after_ms(HOUR)).unwrap();
    assert_eq!(mirror.roll_ups_changed(Some(next)), (Vec::new(), next), "a replay adds nothing");
    apply(&mirror, counted(2, HOUR, 2 * MINUTE, &[(40, 120_000)]));
    let (changed, last) = mirror.roll_ups_changed(Some(next));
    assert_eq!((changed[0].clone(), changed.len()), (mirror.roll_up_bytes("acme", "A100").unwrap(), 1));
    assert!(last > next);
    assert_eq!(mirror.restore_roll_up(&kept_of("a", "V100", 1), after_ms(0)), Ok(true));
    assert_eq!(names(mirror.roll_ups_changed(Some(last)).0), [""; 0], "what was restored is kept already");
    assert_eq!(mirror.roll_up_bytes("acme", "T4"), None);
}
