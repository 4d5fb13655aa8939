//! Scaffolds on disk: what is written, where, and what is left when it fails.

use super::*;

/// A folder of one test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farebox-scaffold-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.0.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// With an SDK as far as scaffolds look at it.
    fn with_sdk(name: &str) -> Self {
        let folder = Self::new(name);
        folder.write("checkout/sdk-wasm/Cargo.toml", "[package]\nname = \"farebox-sdk\"\n");
        folder.write("checkout/Cargo.lock", "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n");
        folder.write("checkout/rust-toolchain.toml", "[toolchain]\nchannel = \"1.95.0\"\n");
        folder
    }

    fn create(&self, target: &str) -> Result<Created, ScaffoldError> {
        create(Path::new(target), Surroundings { here: &self.0, sdk: None, built_from: &self.0.join("checkout") })
    }

    fn refusal(&self, target: &str) -> String {
        self.create(target).unwrap_err().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_package_of_its_own_has_all_that_it_needs() {
    let folder = Folder::with_sdk("alone");
    let created = folder.create("deep/er/night-rate").unwrap();
    assert_eq!(
        (created.name.as_str(), created.directory.as_path()),
        ("night-rate", folder.0.join("deep/er/night-rate").as_path())
    );
    let read = |file: &str| fs::read_to_string(created.directory.join(file)).unwrap();
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let sdk = folder.0.join("checkout/sdk-wasm");
    assert_eq!(manifest["dependencies"]["farebox-sdk"]["path"].as_str(), sdk.to_str());
    assert_eq!(manifest["package"]["name"].as_str(), Some("night-rate"));
    assert!(manifest.contains_key("workspace") && manifest["profile"]["policy"]["strip"].as_bool() == Some(true));
    assert!(read("src/lib.rs").contains("name: \"night-rate\"") && !read("README.md").contains("{{"));
    assert_eq!(read("Cargo.lock"), fs::read_to_string(folder.0.join("checkout/Cargo.lock")).unwrap());
    assert!(created.files.contains(&"rust-toolchain.toml") && created.files.contains(&".gitignore"));
    assert_eq!(read(".gitignore"), "/target/\n");
}

#[test]
fn an_empty_folder_is_filled_and_any_other_is_left_alone() {
    let folder = Folder::with_sdk("empty");
    fs::create_dir(folder.0.join("night-rate")).unwrap();
    folder.create("night-rate/.").unwrap();
    let said = folder.refusal("night-rate");
    assert!(said.contains("is there already and is not empty"), "{said}");
    folder.write("day-rate/notes.txt", "mine");
    folder.refusal("day-rate");
    let left: Vec<_> =
        fs::read_dir(folder.0.join("day-rate")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    folder.write("file", "");
    assert!(folder.refusal("file").contains("is a file"));
    assert!(folder.refusal("file/inside").contains("is a file"));
}

#[test]
fn what_was_half_written_is_removed() {
    let folder = Folder::with_sdk("half");
    let directory = folder.0.join("a/night-rate");
    // A file that cannot be: its folder is a file of the same scaffold.
    let files = [("one", "1".to_owned()), ("one/two", "2".to_owned())];
    let error = write_all(&directory, &files).unwrap_err();
    assert!(matches!(error, ScaffoldError::IsFile(_)), "{error}");
    assert!(!folder.0.join("a").exists());
    // What somebody else put there meanwhile stays.
    fs::create_dir_all(&directory).unwrap();
    write_all(&directory, &files).unwrap_err();
    assert!(directory.is_dir() && fs::read_dir(&directory).unwrap().next().is_none());
}

#[test]
fn names_are_refused_with_one_that_will_do() {
    let folder = Folder::with_sdk("names");
    for (target, said) in [
        (
            "Night_Rate",
            "a policy cannot be called `Night_Rate`, which is not lower-case words joined by `-`; `night-rate` would do",
        ),
        (
            "serde",
            "a policy cannot be called `serde`, which is also a crate that policies are built with; `serde-rate` would do",
        ),
    ] {
        assert_eq!(folder.refusal(target), said);
        assert!(!folder.0.join(target).exists());
    }
}

#[test]
fn the_sdk_is_the_named_one_else_the_nearest_else_that_of_the_binary() {
    let folder = Folder::with_sdk("sdk");
    folder.write("near/sdk-wasm/Cargo.toml", "[package]\nname = \"farebox-sdk\"\n");
    folder.write("near/other/Cargo.toml", "[package]\nname = \"other\"\n");
    let sdk = |here: &str, named: Option<&str>, built_from: &str| {
        let (here, named, built_from) =
            (folder.0.join(here), named.map(|named| folder.0.join(named)), folder.0.join(built_from));
        place::of(&here.join("x"), named.as_deref(), &built_from)
    };
    let alone = |path: &str| Place::Alone { sdk: folder.0.join(path) };
    assert_eq!(sdk("near/deep", None, "checkout").unwrap(), alone("near/sdk-wasm"));
    assert_eq!(sdk("far", None, "checkout").unwrap(), alone("checkout/sdk-wasm"));
    assert_eq!(sdk("near", Some("checkout"), "gone").unwrap(), alone("checkout/sdk-wasm"));
    assert_eq!(sdk("near", Some("checkout/sdk-wasm"), "gone").unwrap(), alone("checkout/sdk-wasm"));
    assert!(sdk("far", None, "gone").unwrap_err().to_string().contains("`--sdk`"));
    assert!(sdk("far", Some("near/other"), "checkout").unwrap_err().to_string().contains("near/other"));
}

#[test]
fn a_member_inherits_and_a_foreign_workspace_is_told_what_it_lacks() {
    let folder = Folder::with_sdk("member");
    let ours = "[workspace]\nmembers = [\"policies/*\"]\n[workspace.package]\nedition = \"2024\"\n";
    folder.write(
        "ours/Cargo.toml",
        &format!("{ours}[workspace.dependencies]\nfarebox-sdk = {{ path = \"sdk-wasm\" }}\n"),
    );
    let created = folder.create("ours/policies/night-rate").unwrap();
    assert_eq!(created.sdk, None);
    let manifest = fs::read_to_string(created.directory.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("farebox-sdk.workspace = true") && manifest.contains("[lints]\nworkspace = true"));
    assert!(!created.files.contains(&"Cargo.lock"));
    // Beside the members it is a package of its own.
    assert!(folder.create("ours/night-rate").unwrap().sdk.is_some());
    folder.write("theirs/Cargo.toml", ours);
    assert!(folder.refusal("theirs/policies/night-rate").contains("lacks `farebox-sdk`"));
    assert!(!folder.0.join("theirs/policies").exists());
}
