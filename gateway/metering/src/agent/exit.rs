//! How `farebox-agent` ends: the one table of exit codes, for the code, `--help` and `docs/agent.md`.

use std::process::ExitCode;

/// Numbers from 64 on are those of BSD's `sysexits.h`, as with `farebox`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Failed,
    Usage,
    NoInput,
    Unavailable,
    CannotCreate,
}

impl Exit {
    const ALL: [Self; 5] = [Self::Failed, Self::Usage, Self::NoInput, Self::Unavailable, Self::CannotCreate];

    pub(super) fn code_and_meaning(self) -> (u8, &'static str) {
        match self {
            Self::Failed => (1, "an error that stderr explains, such as an address in use"),
            Self::Usage => (64, "wrong usage or configuration; `--check` found problems"),
            Self::NoInput => (66, "a recording cannot be read"),
            Self::Unavailable => {
                (69, "`--once`: there is no GPU to be seen, because NVML is not there or does not answer")
            }
            Self::CannotCreate => {
                (73, "the state directory or the recording cannot be written, or another agent uses it")
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code_and_meaning().0)
    }
}

/// For the end of `--help`.
pub(super) fn help() -> String {
    let rows = Exit::ALL.map(Exit::code_and_meaning);
    let rows = [(0, "done")].into_iter().chain(rows).map(|(code, meaning)| format!("  {code:>2}  {meaning}"));
    format!("Exit codes:\n{}", rows.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_the_same_table() {
        let manual = include_str!("../../../../docs/agent.md");
        for (code, meaning) in Exit::ALL.map(Exit::code_and_meaning) {
            assert!(manual.contains(&format!("| {code} | {meaning} |")), "docs/agent.md lacks {code}: {meaning}");
            assert!(help().contains(&format!("{code:>2}  {meaning}")));
        }
    }
}
