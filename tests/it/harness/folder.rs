//! Folders that tests write into.

use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A new folder under a name that no other test of this run has; gone at the end, however the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        Self::at(std::env::temp_dir().join(format!("farebox-it-{name}-{}", std::process::id())))
    }

    /// One that is at the same place in each run; what a run before left there is removed first.
    pub fn at(path: PathBuf) -> Self {
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    /// With these folders in it.
    pub fn with(name: &str, folders: &[&str]) -> Self {
        let folder = Self::new(name);
        for inside in folders {
            std::fs::create_dir_all(folder.join(inside)).unwrap();
        }
        folder
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_folder_is_empty_and_goes_with_its_test() {
    let name = "folder";
    let path = Folder::with(name, &["a/b"]).to_owned();
    assert!(!path.exists());
    std::fs::create_dir_all(path.join("left by a run before")).unwrap();
    assert_eq!(std::fs::read_dir(&*Folder::new(name)).unwrap().count(), 0);
}
