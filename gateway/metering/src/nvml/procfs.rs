//! What the kernel says of a process: when it started, and which cgroup it is in.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longer files of these kinds are none that can be believed.
const MOST_BYTES: u64 = 64 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Clock ticks since the machine's boot. With it, a PID is nobody else's.
    pub(super) started: Option<u64>,
    pub(super) cgroup: Option<String>,
}

/// So many passes in a row without knowing one process are no chance: processes that end are replaced by others.
const STRANGE_PASSES: u32 = 10;

/// Notices that the driver's PIDs are not those of `/proc`: the agent is in a PID namespace of its own.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    passes: u32,
}

impl Strangers {
    /// Of one pass: how many processes the driver listed, and how many of them the kernel knows here. Whether that is to be
    /// said now.
    pub(super) fn note(&mut self, listed: usize, known: usize) -> bool {
        if known > 0 {
            self.passes = 0;
        } else if listed > 0 {
            self.passes = self.passes.saturating_add(1);
            return self.passes == STRANGE_PASSES;
        }
        false
    }
}

impl Kernel {
    /// `root`: `/proc`. All is `None` where the process has ended, and where another took its PID in between.
    pub(super) fn ask(root: &Path, pid: u32) -> Self {
        let folder = root.join(pid.to_string());
        let started = || start_time(&read(&folder.join("stat"))?);
        let Some(before) = started() else { return Self::default() };
        let cgroup = read(&folder.join("cgroup")).and_then(|text| cgroup_of(&text));
        if started() == Some(before) { Self { started: Some(before), cgroup } } else { Self::default() }
    }
}

/// Names in these files are whatever a tenant chose; what is no UTF-8 is replaced.
fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Field 22. Field 2 is the command in parentheses and may hold spaces and parentheses of its own, so counting starts after
/// the last one.
fn start_time(stat: &str) -> Option<u64> {
    const AFTER_COMMAND: usize = 22 - 3;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(AFTER_COMMAND)?.parse().ok()
}

/// The path of the unified hierarchy. Where that is not used (absent, or only its root), the longest of the other
/// hierarchies' paths.
fn cgroup_of(text: &str) -> Option<String> {
    let paths =
        || text.lines().filter_map(|line| line.splitn(3, ':').nth(2).map(|path| (line.starts_with("0::"), path)));
    let unified = paths().find(|(unified, _)| *unified).map(|(_, path)| path);
    let longest = paths().filter(|(unified, _)| !unified).map(|(_, path)| path).max_by_key(|path| path.len());
    let path = match (unified, longest) {
        (Some("/"), Some(longest)) => longest,
        (unified, longest) => unified.or(longest)?,
    };
    Some(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_command() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21";
        for command in ["python", "a b", "(sd-pam)", ") 1 (", "))) 7 8 9", ""] {
            assert_eq!(start_time(&format!("42 ({command}) {rest}")), Some(987_654), "`{command}`");
        }
        for broken in ["", "42", "42 (python) S 1 2", "42 (python) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x"] {
            assert_eq!(start_time(broken), None, "`{broken}`");
        }
    }

    #[test]
    fn a_pid_namespace_of_its_own_is_noticed_once() {
        let mut strangers = Strangers::default();
        let mut said = |listed, known| (0..30).map(|_| strangers.note(listed, known)).filter(|said| *said).count();
        assert_eq!(said(0, 0), 0, "no process, nothing to know");
        assert_eq!(said(3, 0), 1);
        assert_eq!(said(3, 0), 0, "not again");
        assert_eq!(said(3, 1), 0, "known again");
        assert_eq!(said(1, 0), 1, "and not known again");
        let mut ended = Strangers::default();
        assert!((0..9).all(|_| !ended.note(1, 0)) && !ended.note(1, 1) && (0..9).all(|_| !ended.note(1, 0)));
    }

    #[test]
    fn the_unified_path_goes_before_the_longest_of_the_others() {
        let pod = "/kubepods/burstable/pod1/abc";
        assert_eq!(cgroup_of(&format!("0::{pod}\n")).as_deref(), Some(pod));
        assert_eq!(cgroup_of(&format!("12:memory:/short\n3:cpu,cpuacct:{pod}\n0::/\n")).as_deref(), Some(pod));
        assert_eq!(cgroup_of("5:memory:/slurm/job_7\n1:name=systemd:/slurm\n").as_deref(), Some("/slurm/job_7"));
        assert_eq!(cgroup_of("0::/\n").as_deref(), Some("/"));
        assert_eq!(cgroup_of("0::/with:colons/in:it\n").as_deref(), Some("/with:colons/in:it"));
        assert_eq!(cgroup_of("no line of this kind\n"), None);
    }
}
