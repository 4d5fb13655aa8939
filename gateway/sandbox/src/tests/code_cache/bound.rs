//! What a start removes from the directory, and in which order.

use std::fs::{self, File};
use std::time::Duration;

use super::{Guest, Place};

#[test]
fn the_directory_is_kept_small() {
    let place = Place::holding(&[Guest::good()]);
    let (entry, directory) = (place.entry(), place.directory());
    let name = entry.file_name().unwrap().to_str().unwrap();
    let file = |name: &str, bytes: u64, age: Duration| {
        let file = File::create(directory.join(name)).unwrap();
        file.set_len(bytes).unwrap();
        let then = fs::metadata(&entry).unwrap().modified().unwrap() - age;
        file.set_modified(then).unwrap();
        directory.join(name)
    };
    let hour = Duration::from_secs(3600);
    let of_another_engine = |digit: &str| format!("{}-{}.code", digit.repeat(64), "0".repeat(64));
    let [theirs, their_newer] = [("4", 2), ("5", 1)].map(|(digit, age)| file(&of_another_engine(digit), 1, hour * age));
    let abandoned = file("abandoned.tmp", 1, 2 * hour);
    let (under_way, unknown) = (file("under-way.tmp", 1, hour / 2), file("README", 1, 2 * hour));
    // Sparse: 100 MiB each, of 256 allowed.
    let of_this_engine = |digit: &str| format!("{}{}", digit.repeat(64), &name[64..]);
    let [oldest, older, old] = ["1", "2", "3"]
        .map(|digit| (of_this_engine(digit), digit.parse::<u32>().unwrap()))
        .map(|(name, place)| file(&name, 100 << 20, hour * (10 - place)));
    place.start();
    assert!(!theirs.exists() && !their_newer.exists() && !abandoned.exists() && !oldest.exists());
    assert!(under_way.exists() && unknown.exists() && older.exists() && old.exists() && entry.exists());

    // 200 MiB and a policy are left; of 2 × 50 MiB of another engine, one fits.
    let [theirs, their_newer] =
        [("4", 12), ("5", 11)].map(|(digit, age)| file(&of_another_engine(digit), 50 << 20, hour * age));
    place.start();
    assert!(!theirs.exists() && their_newer.exists(), "the oldest of another engine goes first");
    assert!(older.exists() && old.exists() && entry.exists());
}
