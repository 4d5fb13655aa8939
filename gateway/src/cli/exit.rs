//! How a command ends: the one table of exit codes, for the code, `--help` and `docs/cli.md`.

use std::process::ExitCode;

/// Numbers from 64 on are those of BSD's `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Failed,
    Usage,
    Refused,
    NoInput,
    Unavailable,
}

impl Exit {
    const ALL: [Self; 5] = [Self::Failed, Self::Usage, Self::Refused, Self::NoInput, Self::Unavailable];

    fn code_and_meaning(self) -> (u8, &'static str) {
        match self {
            Self::Failed => (1, "problems were found, or another error that stderr explains"),
            Self::Usage => (64, "wrong usage or configuration"),
            Self::Refused => (65, "refused: the request or snapshot is at fault (what HTTP answers with 4xx)"),
            Self::NoInput => (66, "a file or directory cannot be read"),
            Self::Unavailable => (69, "unavailable: a server or policy failed (HTTP 5xx), or nobody answers"),
        }
    }

    /// That of an HTTP status that is no success.
    pub(super) fn of_status(status: u16) -> Self {
        if (400..500).contains(&status) { Self::Refused } else { Self::Unavailable }
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
        let manual = include_str!("../../../docs/cli.md");
        for (code, meaning) in Exit::ALL.map(Exit::code_and_meaning) {
            assert!(manual.contains(&format!("| {code} | {meaning} |")), "docs/cli.md lacks {code}: {meaning}");
            assert!(help().contains(&format!("{code:>2}  {meaning}")));
        }
    }

    #[test]
    fn statuses_are_told_apart() {
        assert_eq!([400, 422, 499].map(Exit::of_status), [Exit::Refused; 3]);
        assert_eq!([302, 500, 503].map(Exit::of_status), [Exit::Unavailable; 3]);
    }
}
