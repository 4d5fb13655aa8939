//! Replays by a clock that the test sets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::clock::{Clock, Now};
use crate::reader::{ReadTick, Received};

/// A clock that runs only while somebody sleeps.
#[derive(Clone, Default)]
struct Slept(Arc<Mutex<Vec<Duration>>>);

impl Slept {
    fn total(&self) -> Duration {
        self.0.lock().unwrap().iter().sum()
    }

    fn replay(&self, place: &Place, speed: &str, looped: bool) -> Replay {
        let (clock, sleeper) = (self.clone(), self.clone());
        let clock = Clock::from_fn(move || Now { wall_us: 0, mono_us: 77 + clock.total().as_micros() as u64 });
        let recording = Recording::open(&place.file()).unwrap();
        Replay::new(recording, speed.parse().unwrap(), looped, clock)
            .with_sleep(move |duration| sleeper.0.lock().unwrap().push(duration))
    }
}

const PATIENCE: Duration = Duration::from_millis(400);

/// The next tick, and how long it took.
fn next(replay: &mut Replay, slept: &Slept) -> Option<(Tick, Duration)> {
    let before = slept.total();
    loop {
        match replay.read_tick(PATIENCE) {
            Received::Tick(tick) => return Some((*tick, slept.total() - before)),
            Received::Nothing { stalled } => assert!(!stalled),
            Received::Ended => return None,
        }
    }
}

#[test]
fn a_replay_keeps_the_recorded_pace_times_its_speed() {
    // The third is late, as ticks are.
    let mut ticks = [tick(0), tick(1), tick(2), tick(3)];
    ticks[2].mono_us += 500_000;
    let place = recorded(&ticks);
    for (speed, expected) in [
        ("1", [0, 1_000_000, 1_500_000, 500_000]),
        ("60", [0, 16_666, 25_000, 8_334]),
        ("0.5", [0, 2_000_000, 3_000_000, 1_000_000]),
    ] {
        let slept = Slept::default();
        let mut replay = slept.replay(&place, speed, false);
        let given: Vec<_> = std::iter::from_fn(|| next(&mut replay, &slept)).collect();
        assert_eq!(given.iter().map(|(tick, _)| tick).collect::<Vec<_>>(), ticks.iter().collect::<Vec<_>>());
        assert_eq!(given.iter().map(|(_, took)| took.as_micros()).collect::<Vec<_>>(), expected, "speed {speed}");
        assert!(slept.0.lock().unwrap().iter().all(|duration| *duration <= PATIENCE), "never longer than its patience");
        assert!(matches!(replay.read_tick(PATIENCE), Received::Ended), "and stays ended");
        assert!(replay.fault().is_none());
    }
}

#[test]
fn who_comes_late_finds_the_ticks_that_were_due() {
    let place = recorded(&[tick(0), tick(1), tick(2), tick(3)]);
    let slept = Slept::default();
    let mut replay = slept.replay(&place, "1", false);
    next(&mut replay, &slept).unwrap();
    slept.0.lock().unwrap().push(Duration::from_millis(2500));
    let took: Vec<_> = std::iter::from_fn(|| next(&mut replay, &slept)).map(|(_, took)| took.as_millis()).collect();
    assert_eq!(took, [0, 0, 500]);
}

#[test]
fn in_a_loop_time_and_energy_go_on() {
    // The clock was set during the recording, and one counter restarted.
    let mut ticks = [tick(0), tick(1), tick(2)];
    ticks[1].wall_us += 60_000_000;
    ticks[2].wall_us += 60_000_000;
    ticks[2].devices[3].energy_mj = Some(5);
    let place = recorded(&ticks);
    let slept = Slept::default();
    let mut replay = slept.replay(&place, "1", true);
    let rounds: Vec<Tick> = (0..9).map(|_| next(&mut replay, &slept).unwrap().0).collect();
    let mono: Vec<_> = rounds.iter().map(|tick| tick.mono_us / 1_000_000).collect();
    assert_eq!(mono, [5, 6, 7, 8, 9, 10, 11, 12, 13]);
    let step = |pair: &[Tick]| (pair[1].wall_us - pair[0].wall_us) / 1_000_000;
    assert_eq!(rounds.windows(2).map(step).collect::<Vec<_>>(), [61, 1, 1, 61, 1, 1, 61, 1], "none at the turn");
    let energy = |device: usize| rounds.iter().map(|tick| tick.devices[device].energy_mj.unwrap()).collect::<Vec<_>>();
    let per_tick = 301_500;
    let deltas: Vec<_> = energy(0).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(deltas, [per_tick, per_tick, 0, per_tick, per_tick, 0, per_tick, per_tick]);
    let restarting = energy(3);
    assert_eq!(restarting[2..4], [5, 5], "goes on from where it stood");
    assert!(rounds.iter().all(|tick| tick.library_run == 1), "no new boot epoch");
}

#[test]
fn a_reload_that_was_recorded_is_one_in_each_round_and_the_turn_is_none() {
    let mut ticks = [tick(0), tick(1), tick(2)];
    (ticks[1].library_run, ticks[2].library_run) = (2, 2);
    let place = recorded(&ticks);
    let slept = Slept::default();
    let mut replay = slept.replay(&place, "1", true);
    let runs: Vec<_> = (0..9).map(|_| next(&mut replay, &slept).unwrap().0.library_run).collect();
    assert_eq!(runs, [1, 2, 2, 2, 3, 3, 3, 4, 4]);
}

#[test]
fn a_loop_over_nothing_ends() {
    let slept = Slept::default();
    assert!(next(&mut slept.replay(&recorded(&[]), "1", true), &slept).is_none());
    let place = recorded(&[tick(0)]);
    let mut replay = slept.replay(&place, "1", true);
    let mono: Vec<_> = (0..3).map(|_| next(&mut replay, &slept).unwrap().0.mono_us).collect();
    assert_eq!(mono, [5_000_000, 6_000_000, 7_000_000], "one tick is a second each");
}

#[test]
fn a_replay_of_a_spoilt_recording_ends_and_says_why() {
    let place = recorded(&[tick(0), tick(1)]);
    let mut bytes = std::fs::read(place.file()).unwrap();
    bytes.extend_from_slice(b"nonsense\n");
    std::fs::write(place.file(), bytes).unwrap();
    let slept = Slept::default();
    let mut replay = slept.replay(&place, "100000", true);
    assert_eq!(std::iter::from_fn(|| next(&mut replay, &slept)).count(), 2);
    assert!(matches!(replay.fault(), Some(RecordingError::BadLine { line: 4, .. })));
    assert!(matches!(replay.read_tick(PATIENCE), Received::Ended));
}

#[test]
fn a_recording_that_is_gone_ends_the_loop() {
    let place = recorded(&[tick(0)]);
    let slept = Slept::default();
    let mut replay = slept.replay(&place, "1", true);
    next(&mut replay, &slept).unwrap();
    std::fs::remove_file(place.file()).unwrap();
    assert!(next(&mut replay, &slept).is_none());
    assert!(matches!(replay.fault(), Some(RecordingError::Open { .. })));
}

#[test]
fn a_speed_is_a_number_above_0_and_at_most_100000() {
    for good in ["1", "60", "0.5", "100000", "1e3", "0.000001"] {
        assert!(good.parse::<Speed>().is_ok(), "{good}");
    }
    for bad in ["0", "-1", "100000.1", "NaN", "inf", "", "fast", "1x"] {
        let error = bad.parse::<Speed>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{bad}` is no speed; write a number above 0")), "{error}");
    }
}
