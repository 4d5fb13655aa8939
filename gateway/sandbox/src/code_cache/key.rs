//! The key of a code cache: 32 random bytes in a file beside its directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;

use super::directory::write_new;
use super::own_file::Unread;
use super::{NotUsed, own_file};

const KEY_BYTES: u64 = 32;

/// `<directory>.key`
pub(super) fn path_of(directory: &Path) -> Result<PathBuf, NotUsed> {
    let mut name = directory.file_name().ok_or(NotUsed::Nameless)?.to_owned();
    name.push(".key");
    Ok(directory.with_file_name(name))
}

/// Reads the key, or makes one where there is none. A key that others could have read or written is none.
pub(super) fn read_or_make(path: &Path, owner: u32) -> Result<Hmac<Sha256>, NotUsed> {
    if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        make(path).map_err(NotUsed::io(path))?;
    }
    let refused = || NotUsed::Key(path.to_path_buf());
    let metadata = fs::symlink_metadata(path).map_err(NotUsed::io(path))?;
    if metadata.uid() != owner || metadata.mode() & 0o077 != 0 || metadata.len() != KEY_BYTES {
        return Err(refused());
    }
    let secret = match own_file::read(path, KEY_BYTES) {
        Ok(Some(secret)) => secret,
        Ok(None) | Err(Unread::NotAFile) => return Err(refused()),
        // Removing the key would not mend the disk, and cost every entry under it.
        Err(Unread::Io(error)) => return Err(NotUsed::io(path)(error)),
    };
    Hmac::new_from_slice(&secret).map_err(|_| refused())
}

/// Under its name the key is whole from the first moment, and the first process to give it that name wins.
fn make(path: &Path) -> io::Result<()> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let unfinished = write_new(path.parent().unwrap_or(Path::new(".")), &[&secret])?;
    let linked = fs::hard_link(&unfinished, path);
    fs::remove_file(&unfinished)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
