//! The gateway's code cache on disk: a start fills it, and the next one mends what was damaged and starts all the same.

use std::path::{Path, PathBuf};

use farebox::app::App;
use farebox::catalog::Catalog;
use farebox::clock::Clock;
use farebox::config::Config;

use farebox_sandbox::Sandbox;
use farebox_tests::POLICIES;

use crate::harness::{Folder, config};

/// How many policies the next start finds compiled.
fn from_code_cache(config: &Config, directory: &Path) -> usize {
    let sandbox = Sandbox::with_code_cache(config.sandbox, directory, |_| {}).unwrap();
    Catalog::load(&config.data_dir, &config.policies_dir, &sandbox).policies_from_code_cache
}

#[test]
fn a_start_fills_the_cache_and_the_next_one_mends_it() {
    let folder = Folder::new("code-cache");
    let directory = folder.join("compiled");
    let config = Config { code_cache: Some(directory.clone()), ..config() };
    let start = || drop(App::build(&config, Clock::system()).unwrap());
    let entries = || -> Vec<(PathBuf, Vec<u8>)> {
        let paths = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        let mut entries: Vec<_> = paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        entries.sort();
        entries
    };
    start();
    let filled = entries();
    assert_eq!(filled.len(), POLICIES.len(), "one for each policy that ships");

    let (path, mut bytes) = filled[0].clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    std::fs::remove_file(&filled[1].0).unwrap();
    assert_eq!(from_code_cache(&config, &directory), POLICIES.len() - 2);
    assert!(entries() == filled, "not mended: the same code under the same key has the same bytes");
    assert_eq!(from_code_cache(&config, &directory), POLICIES.len());
    start();
    assert!(entries() == filled);
}
