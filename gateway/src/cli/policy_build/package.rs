//! What is to be built: packages of policies, each in its Cargo workspace, and modules that somebody else compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{BuildError, TARGET, Toolchain};
use crate::hex::hex;

/// A policy's crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The package's name, which is the policy's.
    pub name: String,
    pub directory: PathBuf,
    /// The root of its workspace, which may be itself.
    pub workspace: PathBuf,
}

/// A workspace as Cargo sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workspace {
    pub(super) root: PathBuf,
    /// Where Cargo may write.
    pub(super) target_dir: PathBuf,
    /// Packages at paths outside of the root, such as the SDK of a policy that lies elsewhere.
    pub(super) outside: Vec<(String, PathBuf)>,
}

/// The part of a `Cargo.toml` that is needed here.
#[derive(Deserialize)]
struct PackageFile {
    package: PackageTable,
}

#[derive(Deserialize)]
struct PackageTable {
    name: String,
}

impl Package {
    /// The package in a directory.
    ///
    /// # Errors
    /// The directory, where it has no package.
    pub fn find(directory: &Path) -> Result<Self, BuildError> {
        if !directory.exists() {
            return Err(BuildError::NoInput { path: directory.to_owned() });
        }
        let name = package_name(directory)?;
        let mut cargo = cargo(directory);
        cargo.args(["locate-project", "--workspace", "--message-format", "plain"]);
        let printed = printed(&mut cargo, "locate-project")?;
        let workspace = Path::new(printed.trim()).parent().unwrap_or(directory).to_owned();
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        Ok(Self { name, directory, workspace })
    }

    /// Where components go that are only looked at.
    pub fn scratch(&self, toolchain: Toolchain<'_>) -> PathBuf {
        target_dir(&self.workspace, toolchain.target_dir).join("components")
    }
}

impl Workspace {
    pub(super) fn read(root: &Path, toolchain: Toolchain<'_>) -> Result<Self, BuildError> {
        let mut cargo = cargo(root);
        cargo.args(["metadata", "--format-version", "1", "--filter-platform", TARGET]);
        let printed = printed(&mut cargo, "metadata")?;
        let metadata: Value = serde_json::from_str(&printed).map_err(BuildError::Metadata)?;
        let packages = metadata.get("packages").and_then(Value::as_array);
        let outside = packages.into_iter().flatten().filter_map(|package| at_path_outside(package, root)).collect();
        Ok(Self { root: root.to_owned(), target_dir: target_dir(root, toolchain.target_dir), outside })
    }
}

/// Not Cargo's usual one: another profile and other flags would wait for the lock, and lint and test builds for them. A
/// shared one is divided by workspace, since Cargo takes two packages of one name for the same.
pub(super) fn target_dir(root: &Path, shared: Option<&Path>) -> PathBuf {
    let Some(shared) = shared else { return root.join("target/policies-build") };
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    shared.join("policies-build").join(hex(digest.get(..8).unwrap_or(&digest)))
}

fn at_path_outside(package: &Value, root: &Path) -> Option<(String, PathBuf)> {
    if !package.get("source")?.is_null() {
        return None;
    }
    let folder = Path::new(package.get("manifest_path")?.as_str()?).parent()?;
    (!folder.starts_with(root)).then(|| Some((package.get("name")?.as_str()?.to_owned(), folder.to_owned())))?
}

pub(super) fn package_name(directory: &Path) -> Result<String, BuildError> {
    let no_package = |source| BuildError::NoPackage { directory: directory.to_owned(), source };
    let text = fs::read_to_string(directory.join("Cargo.toml")).map_err(|error| no_package(error.into()))?;
    let file: PackageFile = toml::from_str(&text).map_err(|error| no_package(error.into()))?;
    Ok(file.package.name)
}

pub(super) fn cargo(directory: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(directory).stdin(Stdio::null());
    cargo
}

/// What Cargo prints for a question.
fn printed(cargo: &mut Command, subcommand: &'static str) -> Result<String, BuildError> {
    let output = cargo.output().map_err(BuildError::NoCargo)?;
    if !output.status.success() {
        return Err(BuildError::Cargo { subcommand, output: complaint(&output) });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What Cargo said on stderr.
pub(super) fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told_from_what_is_no_package() {
        let error = Package::find(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.to_string(), "`/nowhere/at/all` is not there; is the path right from here?");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let error = Package::find(&source).unwrap_err().to_string();
        assert!(error.contains("src` is no package of a policy"), "{error}");
    }

    #[test]
    fn a_question_that_cargo_does_not_answer_is_named() {
        let error = printed(cargo(Path::new("/")).arg("locate-project"), "locate-project").unwrap_err().to_string();
        assert!(error.starts_with("`cargo locate-project` fails:\nerror: could not find `Cargo.toml`"), "{error}");
    }

    #[test]
    fn packages_at_paths_outside_are_told_from_members_and_crates() {
        let package =
            |source: Value, path: &str| serde_json::json!({"name": "a", "source": source, "manifest_path": path});
        let outside = |source: Value, path: &str| at_path_outside(&package(source, path), Path::new("/w"));
        assert_eq!(outside(Value::Null, "/sdk/Cargo.toml"), Some(("a".to_owned(), PathBuf::from("/sdk"))));
        assert_eq!(outside(Value::Null, "/w/a/Cargo.toml"), None);
        assert_eq!(outside("registry+https://x".into(), "/r/Cargo.toml"), None);
    }

    #[test]
    fn a_shared_target_directory_is_divided_by_workspace() {
        let shared = Some(Path::new("/t"));
        let [one, other] = ["/a/night-rate", "/b/night-rate"].map(|root| target_dir(Path::new(root), shared));
        assert!(one != other && one.starts_with("/t/policies-build"), "{}", one.display());
        assert_eq!(target_dir(Path::new("/a"), None), Path::new("/a/target/policies-build"));
    }
}
