//! Reading the files of a directory, in the order of their names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::problem::CatalogProblem;

/// A file, named below its directory: `plans/gpu-standard.toml`.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

/// Largest file that is read: well over the largest policy and any book that people write.
const MAX_BYTES: u64 = 32 << 20;

/// Every file of `directory` with this extension, shown as `<shown>/<name>`. What cannot be read is a problem.
pub(super) fn list(directory: &Path, shown: &str, extension: &str, problems: &mut Vec<CatalogProblem>) -> Vec<File> {
    let mut paths = match paths(directory, extension) {
        Ok(paths) => paths,
        Err(error) => {
            let directory = directory.display();
            problems
                .push(CatalogProblem::of_file(shown, &format!("the directory `{directory}` cannot be read: {error}")));
            return Vec::new();
        }
    };
    paths.sort();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let shown = format!("{shown}/{name}");
        match read(&path) {
            Ok(bytes) => files.push(File { path: shown, bytes }),
            Err(error) => problems.push(CatalogProblem::of_file(shown, &format!("the file cannot be read: {error}"))),
        }
    }
    files
}

/// A pipe would be waited for, and a device read, without end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
    }
    fs::read(path)
}

fn paths(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let is_wanted = |path: &PathBuf| path.extension().is_some_and(|other| other == extension);
    entries.filter(|path| path.as_ref().map_or(true, is_wanted)).collect()
}
