//! Builds policies from source: `cargo` makes core modules, the sandbox wraps them as components.
//!
//! The same source gives the same bytes wherever it lies: paths that would end up in panic messages are replaced, and
//! nothing of the machine's own compiler flags gets in. The environment is the caller's business: what must be known of
//! it comes in as [`Toolchain`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use farebox_sandbox::{LoadError, componentize};
use serde::Deserialize;

const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "policy";

/// In front of data and arena. Describing, configuring and evaluating the shipped policies needs under 6 KiB; a guest that
/// needs more than this traps.
const STACK_BYTES: u32 = 16 * 1024;

/// Where things lie on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Toolchain<'a> {
    /// The root of the Cargo workspace that holds the policies; it defines the profile `policy`.
    pub workspace: &'a Path,
    /// Where Cargo keeps registry sources, `~/.cargo` by default.
    pub cargo_home: &'a Path,
}

/// A component on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltPolicy {
    /// The package's name, which is the policy's.
    pub name: String,
    pub file: PathBuf,
    /// Size of the component, in bytes.
    pub bytes: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("`{}` is no package of a policy; name a directory with a `Cargo.toml`", .directory.display())]
    NoPackage { directory: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("two packages are named `{name}`; a policy's name is its address, so rename one")]
    SameName { name: String },
    #[error("`cargo` does not start; install Rust from rustup.rs")]
    NoCargo(#[source] std::io::Error),
    #[error("this toolchain cannot build policies yet; run `rustup target add wasm32-unknown-unknown`")]
    NoTarget,
    #[error("the policies do not compile:\n{output}")]
    Compile { output: String },
    #[error("package `{name}` makes no WebAssembly module; give it `[lib] crate-type = [\"cdylib\", \"rlib\"]`")]
    NoModule { name: String },
    #[error("policy `{name}` is no policy: it does not wrap as a component")]
    Wrap { name: String, source: LoadError },
    #[error("`{}` cannot be read or written", .file.display())]
    File { file: PathBuf, source: std::io::Error },
}

/// The part of a `Cargo.toml` that is needed here.
#[derive(Deserialize)]
struct PackageFile {
    package: Package,
}

#[derive(Deserialize)]
struct Package {
    name: String,
}

/// Builds the packages in the directories `packages` (members of the workspace) into `<out>/<name>.wasm`, in that order.
/// Cargo's output is shown only on failure, within [`BuildError::Compile`].
pub fn build(toolchain: Toolchain<'_>, packages: &[PathBuf], out: &Path) -> Result<Vec<BuiltPolicy>, BuildError> {
    let mut names: Vec<String> = Vec::new();
    for directory in packages {
        let name = package_name(directory)?;
        if names.contains(&name) {
            return Err(BuildError::SameName { name });
        }
        names.push(name);
    }
    let modules = compile(toolchain, &names)?;
    fs::create_dir_all(out).map_err(|source| BuildError::File { file: out.to_owned(), source })?;
    names.into_iter().map(|name| wrap(name, &modules, out)).collect()
}

fn package_name(directory: &Path) -> Result<String, BuildError> {
    let no_package = |source| BuildError::NoPackage { directory: directory.to_owned(), source };
    let text = fs::read_to_string(directory.join("Cargo.toml")).map_err(|error| no_package(error.into()))?;
    let file: PackageFile = toml::from_str(&text).map_err(|error| no_package(error.into()))?;
    Ok(file.package.name)
}

/// All packages in one run, so that Cargo can build them side by side. Gives each package's core module.
fn compile(toolchain: Toolchain<'_>, names: &[String]) -> Result<BTreeMap<String, PathBuf>, BuildError> {
    let target_dir = toolchain.workspace.join("target").join("policies-build");
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(toolchain.workspace)
        .args(["build", "--profile", PROFILE, "--target", TARGET, "--message-format", "json-render-diagnostics"])
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags(toolchain))
        .stdin(Stdio::null());
    for name in names {
        cargo.args(["--package", name]);
    }
    let output = cargo.output().map_err(BuildError::NoCargo)?;
    if !output.status.success() {
        if !has_target(toolchain.workspace) {
            return Err(BuildError::NoTarget);
        }
        return Err(BuildError::Compile { output: String::from_utf8_lossy(&output.stderr).trim_end().to_owned() });
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(module).collect())
}

/// Separated by the unit separator, so that paths may contain spaces. They replace all other sources of flags.
fn rust_flags(toolchain: Toolchain<'_>) -> String {
    let remap = |path: &Path, name: &str| format!("--remap-path-prefix={}={name}", path.display());
    [
        format!("-Clink-arg=-zstack-size={STACK_BYTES}"),
        remap(toolchain.cargo_home, "/cargo"),
        remap(toolchain.workspace, "/policies"),
    ]
    .join("\u{1f}")
}

/// The module that a line of Cargo's JSON announces: its library's name with `-` for `_`, as packages are named.
fn module(line: &str) -> Option<(String, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message.get("reason")?.as_str()? != "compiler-artifact" {
        return None;
    }
    let files = message.get("filenames")?.as_array()?.iter().filter_map(|file| file.as_str());
    let file = files.map(PathBuf::from).find(|file| file.extension().is_some_and(|extension| extension == "wasm"))?;
    let directory = Path::new(message.get("manifest_path")?.as_str()?).parent()?;
    Some((package_name(directory).ok()?, file))
}

/// Asked only when a build failed: one more process on the way to a better message.
fn has_target(workspace: &Path) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(workspace).args(["--print", "target-libdir", "--target", TARGET]).stdin(Stdio::null());
    let Ok(output) = rustc.output() else { return false };
    Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
}

fn wrap(name: String, modules: &BTreeMap<String, PathBuf>, out: &Path) -> Result<BuiltPolicy, BuildError> {
    let Some(module) = modules.get(&name) else { return Err(BuildError::NoModule { name }) };
    let core = fs::read(module).map_err(|source| BuildError::File { file: module.clone(), source })?;
    let component = match componentize(&core) {
        Ok(component) => component,
        Err(source) => return Err(BuildError::Wrap { name, source }),
    };
    let file = out.join(format!("{name}.wasm"));
    fs::write(&file, &component).map_err(|source| BuildError::File { file: file.clone(), source })?;
    Ok(BuiltPolicy { name, file, bytes: component.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_among_cargos_messages() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let line = |reason: &str, file: &str| {
            let manifest = directory.join("Cargo.toml");
            serde_json::json!({"reason": reason, "manifest_path": manifest, "filenames": ["/t/a.rlib", file]})
                .to_string()
        };
        let found = module(&line("compiler-artifact", "/t/a_b.wasm"));
        assert_eq!(found, Some((env!("CARGO_PKG_NAME").to_owned(), PathBuf::from("/t/a_b.wasm"))));
        assert_eq!(module(&line("compiler-artifact", "/t/a.rmeta")), None);
        assert_eq!(module(&line("build-finished", "/t/a_b.wasm")), None);
        assert_eq!(module("no json"), None);
    }

    #[test]
    fn flags_survive_spaces_in_paths() {
        let toolchain = Toolchain { workspace: Path::new("/a b/c"), cargo_home: Path::new("/h/.cargo") };
        let flags = rust_flags(toolchain);
        let flags: Vec<&str> = flags.split('\u{1f}').collect();
        assert_eq!(
            flags,
            [
                "-Clink-arg=-zstack-size=16384",
                "--remap-path-prefix=/h/.cargo=/cargo",
                "--remap-path-prefix=/a b/c=/policies",
            ]
        );
    }

    #[test]
    fn a_directory_without_a_package_is_named() {
        let error = package_name(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("`/nowhere/at/all`"), "{error}");
    }
}
