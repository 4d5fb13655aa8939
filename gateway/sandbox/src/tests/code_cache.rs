//! The code cache: what a second start finds, and what it does with everything that somebody else has touched.

mod bound;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::guest::Guest;
use super::{evaluate, limits};
use crate::code_cache::CodeCache;
use crate::{CacheEvent, Policy, Sandbox};

/// A directory of its own, gone at the end; the cache is one below.
struct Place {
    root: PathBuf,
}

/// Whether each was an alarm, and what it was. Events hold errors, which have no copy, so it is their debug form.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<(bool, String)>>>);

impl Events {
    fn take(&self) -> Vec<(bool, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The only one since the last time, an alarm or a warning.
    fn only(&self, what: &str, is_alarm: bool) -> String {
        let [(found, event)] = &self.take()[..] else { panic!("{what}: not one event") };
        assert_eq!(*found, is_alarm, "{what}: {event}");
        event.clone()
    }
}

impl Place {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("farebox-code-cache-{}-{count}", std::process::id()));
        fs::create_dir(&root).unwrap();
        Self { root }
    }

    /// With the code of `guests` in it.
    fn holding(guests: &[Guest]) -> Self {
        let place = Self::new();
        let (sandbox, events) = place.start();
        for guest in guests {
            assert!(!sandbox.load(&guest.component()).unwrap().is_cached());
        }
        assert_eq!(events.take(), []);
        assert_eq!(place.entries().len(), guests.len());
        place
    }

    fn directory(&self) -> PathBuf {
        self.root.join("compiled")
    }

    fn key(&self) -> PathBuf {
        self.root.join("compiled.key")
    }

    fn start(&self) -> (Sandbox, Events) {
        start_at(&self.directory())
    }

    fn entries(&self) -> Vec<PathBuf> {
        let mut entries: Vec<PathBuf> = fs::read_dir(self.directory())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension() == Some(OsStr::new("code")))
            .collect();
        entries.sort();
        entries
    }

    fn entry(&self) -> PathBuf {
        let [entry] = &self.entries()[..] else { panic!("one entry") };
        entry.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn start_at(directory: &Path) -> (Sandbox, Events) {
    let events = Events::default();
    let told = events.clone();
    let report = move |event: &CacheEvent| told.0.lock().unwrap().push((event.is_alarm(), format!("{event:?}")));
    (Sandbox::with_code_cache(limits(), directory, report).unwrap(), events)
}

/// Everything that must be the same wherever the code came from.
fn behaviour(policy: &Policy) -> String {
    let configured = policy.configure("{}").unwrap();
    let evaluation = evaluate(&configured).unwrap();
    let setup = (policy.digest(), policy.describe_fuel(), configured.configure_fuel(), configured.bytes());
    let answer = (evaluation.outcome, evaluation.fuel, evaluation.memory_bytes);
    format!("{:?} {setup:?} {answer:?}", policy.manifest())
}

fn expected() -> String {
    let policy = super::policy(&super::sandbox(), &Guest::good());
    behaviour(&policy)
}

/// Loads the good guest from a place that somebody has touched; it is compiled and behaves as ever.
fn load_compiling(sandbox: &Sandbox, what: &str) {
    let policy = sandbox.load(&Guest::good().component()).unwrap();
    assert!(!policy.is_cached(), "{what}: the entry was used");
    assert_eq!(behaviour(&policy), expected(), "{what}: another policy came out");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_second_start_finds_the_code_and_the_same_policy() {
    let place = Place::holding(&[Guest::good()]);
    assert_eq!(mode(&place.directory()), 0o700);
    assert_eq!((mode(&place.key()), fs::read(place.key()).unwrap().len()), (0o600, 32));
    assert_eq!(mode(&place.entry()), 0o600);

    let (sandbox, events) = place.start();
    let policy = sandbox.load(&Guest::good().component()).unwrap();
    assert!(policy.is_cached());
    assert_eq!(behaviour(&policy), expected());
    assert_eq!(events.take(), []);
    assert!(!super::sandbox().load(&Guest::good().component()).unwrap().is_cached(), "no cache unless asked for");
}

/// What is cached is code, not a verdict: the checks of this start decide.
#[test]
fn a_file_is_inspected_although_its_code_is_there() {
    let large = Guest { memory: "(memory (export \"memory\") 64)".into(), ..Guest::good() };
    let place = Place::holding(&[large]);
    let large = Guest { memory: "(memory (export \"memory\") 64)".into(), ..Guest::good() };
    let strict = crate::Limits { memory_bytes: 1 << 20, ..limits() };
    let sandbox = Sandbox::with_code_cache(strict, &place.directory(), |_| {}).unwrap();
    assert!(matches!(sandbox.load(&large.component()), Err(crate::LoadError::OverLimit { .. })));
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Loads from a touched place: one alarm, a policy compiled anew, and a good entry in place of the bad one.
fn expect_replaced(place: &Place, what: &str) {
    let (sandbox, events) = place.start();
    load_compiling(&sandbox, what);
    let event = events.only(what, true);
    assert!(event.starts_with("Tampered "), "{what}: {event}");

    let (sandbox, events) = place.start();
    let policy = sandbox.load(&Guest::good().component()).unwrap();
    assert!(policy.is_cached(), "{what}: the entry was not replaced");
    assert_eq!(behaviour(&policy), expected(), "{what}");
    assert_eq!(events.take(), [], "{what}");
}

#[test]
fn one_flipped_bit_anywhere_is_an_alarm_and_no_code() {
    let place = Place::holding(&[Guest::good()]);
    let length = fs::read(place.entry()).unwrap().len();
    // The authentication code, the first bytes of the code, some in the middle, the last.
    let positions = [0, 31, 32, 33, length / 3, length / 2, length - 4097, length - 1];
    for (count, position) in positions.into_iter().enumerate() {
        edit(&place.entry(), |bytes| bytes[position] ^= 1 << (count % 8));
        expect_replaced(&place, &format!("bit {} of byte {position}", count % 8));
    }
}

#[test]
fn an_entry_that_is_cut_off_or_too_long_is_an_alarm() {
    let place = Place::holding(&[Guest::good()]);
    for length in [0, 1, 31, 32, 33, 1000] {
        edit(&place.entry(), |bytes| bytes.truncate(length));
        expect_replaced(&place, &format!("{length} bytes"));
    }
    edit(&place.entry(), |bytes| bytes.truncate(bytes.len() - 1));
    expect_replaced(&place, "one byte less");
    edit(&place.entry(), |bytes| bytes.push(0));
    expect_replaced(&place, "one byte more");
}

#[test]
fn the_code_of_another_policy_or_engine_is_an_alarm() {
    let place = Place::holding(&[Guest::good(), Guest::evaluating("unreachable")]);
    let [a, b] = &place.entries()[..] else { panic!("two entries") };
    let swap = place.root.join("swap");
    for (from, to) in [(a, &swap), (b, a), (&swap, b)] {
        fs::rename(from, to).unwrap();
    }
    expect_replaced(&place, "swapped entries");

    // Written by an engine of another hash, under the same key, and given our name.
    let place = Place::holding(&[Guest::good()]);
    let (ours, wasm) = (place.entry(), Guest::good().component());
    let engine = super::sandbox().host.engine.clone();
    let other = CodeCache::open(&place.directory(), "f".repeat(64), Box::new(|_| {})).unwrap();
    other.compile(&engine, &wasm).unwrap();
    let [theirs] = &place.entries().into_iter().filter(|entry| *entry != ours).collect::<Vec<_>>()[..] else {
        panic!("one entry of each engine")
    };
    assert!(ours.exists(), "two versions that share a directory leave each other's entries alone");
    fs::rename(theirs, &ours).unwrap();
    expect_replaced(&place, "another engine's");
}

#[test]
fn another_key_is_an_alarm_for_every_entry() {
    let place = Place::holding(&[Guest::good()]);
    fs::write(place.key(), [7; 32]).unwrap();
    expect_replaced(&place, "another key");
    fs::remove_file(place.key()).unwrap();
    expect_replaced(&place, "no key");
}

#[test]
fn what_is_no_regular_file_is_neither_followed_nor_read() {
    let place = Place::holding(&[Guest::good()]);
    let (entry, elsewhere) = (place.entry(), place.root.join("elsewhere"));
    fs::rename(&entry, &elsewhere).unwrap();
    symlink(&elsewhere, &entry).unwrap();
    let before = fs::read(&elsewhere).unwrap();
    expect_replaced(&place, "a link to a good entry");
    assert_eq!(fs::read(&elsewhere).unwrap(), before, "the link's target was written to");

    // A directory cannot be read, and not be replaced either: an alarm and a warning at every start; it loads.
    fs::remove_file(&entry).unwrap();
    fs::create_dir(&entry).unwrap();
    let (sandbox, events) = place.start();
    load_compiling(&sandbox, "a directory");
    let events = events.take();
    let [(true, alarm), (false, warning)] = &events[..] else { panic!("{events:?}") };
    assert!(alarm.starts_with("Tampered ") && warning.starts_with("NotWritten "), "{events:?}");
}

/// The cache is not used at all; what there is stays as it is.
fn expect_not_used(place: &Place, what: &str, because: &str) {
    let (sandbox, events) = place.start();
    load_compiling(&sandbox, what);
    let event = events.only(what, true);
    assert!(event.starts_with("NotUsed ") && event.contains(because), "{what}: {event}");
}

#[test]
fn a_directory_that_others_may_enter_is_not_used_and_not_changed() {
    let place = Place::holding(&[Guest::good()]);
    for open in [0o777, 0o702, 0o750, 0o711] {
        set_mode(&place.directory(), open);
        expect_not_used(&place, &format!("{open:o}"), &format!("Exposed {{ mode: {open} }}"));
        assert_eq!(mode(&place.directory()), open);
    }
    set_mode(&place.directory(), 0o700);
    assert!(place.start().0.load(&Guest::good().component()).unwrap().is_cached());
}

#[test]
fn somebody_elses_directory_is_not_used() {
    let place = Place::holding(&[Guest::good()]);
    // Only root can give a directory away; for anybody else it stays their own.
    let is_given = chown(place.directory(), Some(65534), Some(65534)).is_ok();
    if is_given {
        expect_not_used(&place, "somebody else's", "Foreign { owner: 65534");
    } else {
        assert!(place.start().0.load(&Guest::good().component()).unwrap().is_cached());
    }
}

#[test]
fn a_key_that_others_could_know_or_choose_is_not_used() {
    let place = Place::holding(&[Guest::good()]);
    set_mode(&place.key(), 0o640);
    expect_not_used(&place, "a readable key", "Key(");
    set_mode(&place.key(), 0o600);
    let secret = fs::read(place.key()).unwrap();
    for length in [0, 16, 33] {
        edit(&place.key(), |bytes| bytes.resize(length, 1));
        expect_not_used(&place, "a key of another length", "Key(");
    }
    fs::remove_file(place.key()).unwrap();
    fs::write(place.root.join("secret"), secret).unwrap();
    symlink(place.root.join("secret"), place.key()).unwrap();
    expect_not_used(&place, "a link", "Key(");
}

/// The key may be as good as ever: to remove it would be the wrong advice, and no alarm is due.
#[test]
fn a_key_that_cannot_be_read_is_a_warning() {
    let place = Place::holding(&[Guest::good()]);
    set_mode(&place.key(), 0o000);
    let (sandbox, events) = place.start();
    if File::open(place.key()).is_ok() {
        // Nothing is closed to root.
        assert!(sandbox.load(&Guest::good().component()).unwrap().is_cached());
        return;
    }
    load_compiling(&sandbox, "an unreadable key");
    let event = events.only("an unreadable key", false);
    assert!(event.starts_with("NotUsed ") && event.contains("PermissionDenied"), "{event}");
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let place = Place::new();
    fs::write(place.directory(), "a file").unwrap();
    let (sandbox, events) = place.start();
    load_compiling(&sandbox, "a file instead of a directory");
    assert!(events.only("a file", false).starts_with("NotUsed "));

    let place = Place::new();
    let (sandbox, events) = place.start();
    fs::remove_dir(place.directory()).unwrap();
    load_compiling(&sandbox, "a directory that went away");
    assert!(events.only("no directory", false).starts_with("NotWritten "));

    // A path through a file can be neither read nor written: an error of the system's, also for root, and no alarm.
    fs::write(place.directory(), "a file").unwrap();
    load_compiling(&sandbox, "a file where the directory was");
    let events = events.take();
    let [(false, unread), (false, unwritten)] = &events[..] else { panic!("{events:?}") };
    assert!(unread.starts_with("NotRead ") && unread.contains("NotADirectory"), "{unread}");
    assert!(unwritten.starts_with("NotWritten "), "{unwritten}");

    let (sandbox, events) = start_at(Path::new("/"));
    load_compiling(&sandbox, "the root");
    assert_eq!(events.take().len(), 1);
}

#[test]
fn starts_at_the_same_time_do_not_disturb_each_other() {
    let place = Place::new();
    let wasm = Guest::good().component();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (sandbox, events) = place.start();
                assert_eq!(behaviour(&sandbox.load(&wasm).unwrap()), expected());
                assert_eq!(events.take(), []);
            });
        }
    });
    assert_eq!(place.entries().len(), 1);
    let files = fs::read_dir(&place.root).unwrap().count();
    assert_eq!(files, 2, "the directory and one key");
    assert!(place.start().0.load(&wasm).unwrap().is_cached());
}

/// The test runs itself once more, as the other process; the place is what it is told to filter by.
#[test]
fn another_process_finds_the_code() {
    let told = std::env::args().next_back().filter(|last| last.ends_with("/compiled"));
    if let Some(directory) = told {
        let policy = start_at(Path::new(&directory)).0.load(&Guest::good().component()).unwrap();
        assert!(policy.is_cached());
        assert_eq!(behaviour(&policy), expected());
        return;
    }
    let place = Place::holding(&[Guest::good()]);
    let other = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::code_cache::another_process_finds_the_code"])
        .arg(place.directory())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success() && printed.contains("1 passed"), "{printed}");
}
