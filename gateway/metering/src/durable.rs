//! Files that survive `kill -9` and a power cut: whole, or as they were before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Replaces a file by what `write` writes: into a file beside it, which takes its place once it is on disk. On return the new
/// name is on disk as well. Only this user may read it.
pub(crate) fn replace(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside)?;
    let mut out = BufWriter::with_capacity(64 << 10, out);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(beside, file)?;
    #[cfg(test)]
    tests::fail_where_asked()?;
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::samples::Directory;

    thread_local! {
        static FAILS: Cell<bool> = const { Cell::new(false) };
    }

    /// The next file of this thread takes its place, but its name does not reach the disk.
    pub(crate) fn fail_once() {
        FAILS.set(true);
    }

    pub(super) fn fail_where_asked() -> io::Result<()> {
        if FAILS.replace(false) { Err(io::Error::other("the directory is not synced")) } else { Ok(()) }
    }

    #[test]
    fn a_write_that_fails_leaves_the_file_as_it_was() {
        let directory = Directory::new();
        let file = directory.path().join("jobs.json");
        replace(&file, |out| out.write_all(b"first")).unwrap();
        let failed = replace(&file, |out| {
            out.write_all(b"sec")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&file).unwrap(), b"first");
        replace(&file, |out| out.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"second");
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let directory = Directory::new();
        assert!(replace(&directory.path().join("nowhere/file"), |_| Ok(())).is_err());
    }
}
