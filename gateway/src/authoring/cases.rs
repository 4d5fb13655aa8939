//! Golden cases: files `cases/<name>.json` beside a policy, in the form that the SDK's `testing` module documents.

pub(super) mod host;
pub(super) mod wire;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::trial::Answer;

/// One golden case.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub file: PathBuf,
    /// JSON, as it stands in the file: a policy's refusals name lines and columns of it.
    pub parameters: String,
    /// `None` where the parameters themselves are refused.
    pub(super) context: Option<wire::Context>,
    /// `None` in a new file that nobody has filled yet.
    pub expected: Option<Answer>,
}

/// A case file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadCase {
    /// The file, or the directory of all.
    #[error("case `{}` cannot be read", .file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("case `{}`: {why}", .file.display())]
    Unusable { file: PathBuf, why: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    parameters: Box<RawValue>,
    context: Option<wire::Context>,
    outcome: Option<wire::Outcome>,
    refusal: Option<wire::Refusal>,
    refusals: Option<Vec<wire::Refusal>>,
}

/// All cases in `directory`, by name.
///
/// # Errors
/// The first file that is no case; a directory that has none, for a policy without cases proves nothing.
pub fn load_cases(directory: &Path) -> Result<Vec<Case>, BadCase> {
    let unreadable = |source| BadCase::Unreadable { file: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(BadCase::Unusable { file: directory.to_owned(), why: "no `.json` file in it".to_owned() });
    }
    files.sort();
    files.into_iter().map(load_case).collect()
}

fn load_case(file: PathBuf) -> Result<Case, BadCase> {
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(source) => return Err(BadCase::Unreadable { file, source }),
    };
    let read: CaseFile = match serde_json::from_str(&text) {
        Ok(read) => read,
        Err(error) => return Err(BadCase::Unusable { file, why: error.to_string() }),
    };
    let expected = match (read.outcome, read.refusal, read.refusals) {
        (None, None, None) => None,
        (Some(outcome), None, None) => Some(Answer::Outcome(outcome)),
        (None, Some(refusal), None) => Some(Answer::Refusal(refusal)),
        (None, None, Some(refusals)) => Some(Answer::Refusals(refusals)),
        _ => {
            return Err(BadCase::Unusable {
                file,
                why: "has more than one of `outcome`, `refusal` and `refusals`".to_owned(),
            });
        }
    };
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Case { name, file, parameters: read.parameters.get().to_owned(), context: read.context, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this process's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("farebox-cases-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn parameters_keep_their_text() {
        let folder = folder("text");
        let text = "{ \"parameters\": {\n  \"b\": 0.10, \"a\": 1 },\n \"refusals\": [] }";
        fs::write(folder.join("one.json"), text).unwrap();
        let cases = load_cases(&folder).unwrap();
        assert_eq!(cases[0].parameters, "{\n  \"b\": 0.10, \"a\": 1 }");
        assert_eq!((cases[0].name.as_str(), &cases[0].expected), ("one", &Some(Answer::Refusals(Vec::new()))));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_case_is_named() {
        let folder = folder("bad");
        assert!(load_cases(&folder).unwrap_err().to_string().contains("no `.json` file in it"));
        for (text, said) in [
            ("{", "EOF"),
            (r#"{"parameters":{},"outcomes":{}}"#, "unknown field `outcomes`"),
            (r#"{"parameters":{},"outcome":{},"refusals":[]}"#, "more than one"),
            (r#"{"parameters":{},"context":{"currency":"CNY","exponent":2,"line":[]}}"#, "unknown field `line`"),
            (
                r#"{"parameters":{},"outcome":{"adjustments":[{"kind":"fee","code":"a","label":"","reason":"","method":{"amount":"1e3"}}]}}"#,
                "not a plain decimal",
            ),
        ] {
            fs::write(folder.join("x.json"), text).unwrap();
            let error = load_cases(&folder).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("x.json"), "{error}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
