//! The directory of a code cache: its owner's alone, written atomically, bounded.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::NotUsed;
use crate::sandbox::hex;

/// All entries together; those of other engines go first, then the oldest. A policy takes about 1 MB.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// What was written for so long was given up by a process that is gone.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);
const ENTRY: &str = "code";
const UNFINISHED: &str = "tmp";

/// Made by [`Directory::claim`] only.
pub(super) struct Directory {
    path: PathBuf,
    owner: u32,
    /// When it was claimed, by the clock of its file system.
    claimed_at: SystemTime,
}

/// An entry. Later in this order is dearer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    /// Of this engine. Others may be in use as well: versions of the gateway share the user's cache directory.
    is_ours: bool,
    modified: SystemTime,
    path: PathBuf,
    bytes: u64,
}

impl Directory {
    /// Creates `path` with permissions 700 if nothing is there. What is there already is never changed: if others may
    /// enter it or it is somebody else's, it may be a directory that was meant for something else.
    pub(super) fn claim(path: &Path) -> Result<Self, NotUsed> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(NotUsed::io(path))?;
        let metadata = fs::metadata(path).map_err(NotUsed::io(path))?;
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(NotUsed::Exposed { mode });
        }
        // A file of our own tells who we are, and that the directory can be written.
        let (user, claimed_at) = probe(path).map_err(NotUsed::io(path))?;
        let owner = metadata.uid();
        if owner != user {
            return Err(NotUsed::Foreign { owner, user });
        }
        Ok(Self { path: path.to_path_buf(), owner, claimed_at })
    }

    pub(super) fn owner(&self) -> u32 {
        self.owner
    }

    /// The path of an entry: whose code it is and for which engine.
    pub(super) fn entry(&self, digest: &str, engine_hash: &str) -> PathBuf {
        self.path.join(format!("{digest}-{engine_hash}.{ENTRY}"))
    }

    /// Writes an entry so that a reader sees all of it or what was there before, also after a power cut.
    pub(super) fn write(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let unfinished = write_new(&self.path, parts)?;
        fs::rename(&unfinished, path).inspect_err(|_| drop(fs::remove_file(&unfinished)))
    }

    /// Removes what was never finished, and what is over the bound: entries of other engines first, then the oldest.
    /// Returns what could not be removed.
    pub(super) fn tidy(&self, engine_hash: &str) -> Vec<(PathBuf, io::Error)> {
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) => return vec![(self.path.clone(), error)],
        };
        for entry in entries.flatten() {
            // What is not ours to judge stays, and what another process removes meanwhile needs no judging.
            let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
            let Ok(modified) = metadata.modified() else { continue };
            match path.extension().and_then(OsStr::to_str) {
                Some(ENTRY) if is_entry(&path) => {
                    let is_ours = is_of(&path, engine_hash);
                    kept.push(Kept { is_ours, modified, path, bytes: metadata.len() });
                }
                Some(UNFINISHED) if self.is_abandoned(modified) => gone.push(path),
                _ => {}
            }
        }
        gone.extend(over_the_bound(kept));
        gone.into_iter().filter_map(remove).collect()
    }

    fn is_abandoned(&self, modified: SystemTime) -> bool {
        self.claimed_at.duration_since(modified).is_ok_and(|age| age > ABANDONED_AFTER)
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(formatter)
    }
}

/// A new file under a name that nobody can know before, readable by this user only; gone again if it cannot be written.
pub(super) fn write_new(directory: &Path, parts: &[&[u8]]) -> io::Result<PathBuf> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let path = directory.join(format!("{}.{UNFINISHED}", hex(&random)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part)).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(&path)))?;
    Ok(path)
}

/// Who this process is, and what time it is, by what the file system says of a file of ours.
fn probe(directory: &Path) -> io::Result<(u32, SystemTime)> {
    let path = write_new(directory, &[])?;
    let told = fs::symlink_metadata(&path).and_then(|metadata| Ok((metadata.uid(), metadata.modified()?)));
    fs::remove_file(&path)?;
    told
}

fn over_the_bound(mut kept: Vec<Kept>) -> impl Iterator<Item = PathBuf> {
    kept.sort_unstable_by(|a, b| b.cmp(a));
    let mut total = 0_u64;
    kept.into_iter().filter_map(move |Kept { path, bytes, .. }| {
        total = total.saturating_add(bytes);
        (total > MAX_BYTES).then_some(path)
    })
}

/// `<digest>-<engine hash>`
fn is_entry(path: &Path) -> bool {
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    stem.split_once('-').is_some_and(|(digest, engine)| is_hash(digest) && is_hash(engine))
}

/// `path` is an entry's.
fn is_of(path: &Path, engine_hash: &str) -> bool {
    path.file_stem().and_then(OsStr::to_str).unwrap_or_default().ends_with(engine_hash)
}

/// Another process may have removed it first.
fn remove(path: PathBuf) -> Option<(PathBuf, io::Error)> {
    let error = fs::remove_file(&path).err().filter(|error| error.kind() != io::ErrorKind::NotFound)?;
    Some((path, error))
}
