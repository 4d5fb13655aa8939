//! For tests: where the library lies, and how a copy of it gets a scenario.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::scenario::Scenario;

/// Why there is no library to test with.
#[derive(Debug)]
pub enum Error {
    /// `libfake_nvml.so` is neither beside the test nor in `deps`; `cargo test` builds it.
    NotBuilt(PathBuf),
    NoSuchSymbol(String),
    Io(io::Error),
    Json(serde_json::Error),
}

/// The library as cargo built it, beside the running test. Install a copy of it; do not open it.
pub fn library() -> Result<PathBuf, Error> {
    let here = std::env::current_exe()?;
    let folder = here.parent().unwrap_or(Path::new("."));
    let places = [folder.join("libfake_nvml.so"), folder.join("deps").join("libfake_nvml.so")];
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| Error::NotBuilt(folder.to_path_buf()))
}

/// A copy in `dir`, with this scenario. Returns what to give as `lib_path`.
pub fn install(dir: &Path, scenario: &Scenario) -> Result<PathBuf, Error> {
    install_without(dir, scenario, &[])
}

/// As [`install`], but these symbols are not in the copy: their names in its symbol table are other ones.
pub fn install_without(dir: &Path, scenario: &Scenario, symbols: &[&str]) -> Result<PathBuf, Error> {
    let mut bytes = fs::read(library()?)?;
    for symbol in symbols {
        rename(&mut bytes, symbol)?;
    }
    let copy = dir.join("libnvidia-ml.so.1");
    fs::write(&copy, bytes)?;
    change(&copy, scenario)?;
    Ok(copy)
}

/// Another scenario, from the next call on. It appears at once and whole.
pub fn change(library: &Path, scenario: &Scenario) -> Result<(), Error> {
    let place = scenario_path(library);
    let draft = place.with_extension("draft");
    fs::write(&draft, serde_json::to_vec_pretty(scenario)?)?;
    Ok(fs::rename(draft, place)?)
}

/// The symbols called so far, where the scenario logs them.
pub fn calls(library: &Path) -> Vec<String> {
    let text = fs::read_to_string(calls_path(library)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What callers did that the C header forbids: called after shutdown, with a handle of before, or with one that was freed; left
/// something behind. Empty, or the agent has a bug.
pub fn misuses(library: &Path) -> Vec<String> {
    let text = fs::read_to_string(misuse_path(library)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// How many initialisations have no shutdown yet.
pub fn initialised(library: &Path) -> u32 {
    fs::read_to_string(initialised_path(library)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(crate) fn misuse_path(library: &Path) -> PathBuf {
    with_ending(library, ".misuses")
}

pub(crate) fn initialised_path(library: &Path) -> PathBuf {
    with_ending(library, ".initialised")
}

pub(crate) fn scenario_path(library: &Path) -> PathBuf {
    with_ending(library, ".scenario.json")
}

pub(crate) fn calls_path(library: &Path) -> PathBuf {
    with_ending(library, ".calls")
}

fn with_ending(library: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(library);
    name.push(ending);
    PathBuf::from(name)
}

/// The dynamic linker compares whole names, so one letter is enough.
fn rename(bytes: &mut [u8], symbol: &str) -> Result<(), Error> {
    let whole = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let places: Vec<usize> =
        bytes.windows(whole.len()).enumerate().filter(|(_, window)| *window == whole).map(|(place, _)| place).collect();
    for place in &places {
        if let Some(last) = bytes.get_mut(place + symbol.len()) {
            *last = b'?';
        }
    }
    if places.is_empty() { Err(Error::NoSuchSymbol(symbol.to_owned())) } else { Ok(()) }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}
