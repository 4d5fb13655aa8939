//! Whose a process is, by its cgroup path: pods and containers of Kubernetes, containers of Docker, CRI-O and Podman, and
//! prefixes, in the v1 and v2 hierarchies and with the cgroupfs and systemd drivers.
//!
//! A tenant may create cgroups below its own, and name them as it likes. So a pod counts at the top only, where the system
//! alone makes cgroups, its container is the segment right below it, and a name must fit wholly: an id inside a longer name is
//! nobody's.

use super::Workload;

/// How well a process's cgroup path fits a workload, larger is closer; `None` where it does not.
pub(crate) fn fit(path: &str, workload: &Workload) -> Option<usize> {
    CgroupPath::parse(path)?.fit(workload)
}

/// What runtimes put before a container's id in a scope's name.
const RUNTIMES: [&str; 4] = ["cri-containerd-", "crio-", "docker-", "libpod-"];

/// A cgroup path, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CgroupPath<'a> {
    path: &'a str,
    /// With `-` or, from the systemd driver, `_`.
    pod: Option<&'a str>,
    container: Option<&'a str>,
}

impl<'a> CgroupPath<'a> {
    /// `None` for what is no absolute path. Seen from inside a cgroup namespace, paths may begin with `/..`; nowhere else.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').skip_while(|segment| *segment == "..").collect();
        if segments.contains(&"..") || segments.contains(&".") {
            return None;
        }
        let (pod, container) = match pod(&segments) {
            Some(Pod { uid, below }) => (Some(uid), below.first().and_then(|segment| container(segment))),
            None => (None, outermost(&segments)),
        };
        Some(Self { path, pod, container })
    }

    /// How well a workload fits, larger is closer; `None` where it does not.
    pub(super) fn fit(&self, workload: &Workload) -> Option<usize> {
        match workload {
            Workload::Container(id) => (self.container? == id).then_some(usize::MAX),
            Workload::Pod(uid) => same_uid(self.pod?, uid).then_some(usize::MAX - 1),
            Workload::Cgroup(prefix) => {
                let prefix = prefix.trim_end_matches('/');
                let rest = self.path.strip_prefix(prefix).filter(|_| !prefix.is_empty())?;
                (rest.is_empty() || rest.starts_with('/')).then_some(prefix.len())
            }
        }
    }
}

struct Pod<'a, 's> {
    uid: &'a str,
    below: &'s [&'a str],
}

/// At the top only, or where a node itself runs in a container of Docker (kind), in that.
fn pod<'a, 's>(segments: &'s [&'a str]) -> Option<Pod<'a, 's>> {
    let top = match segments {
        ["docker", id, below @ ..] if bare(id).is_some() => below,
        top => top,
    };
    pod_of_cgroupfs(top).or_else(|| pod_of_systemd(top))
}

/// `pod<uid>` below `kubepods` and its class.
fn pod_of_cgroupfs<'a, 's>(top: &'s [&'a str]) -> Option<Pod<'a, 's>> {
    let (segment, below) = match top {
        ["kubelet", "kubepods", "burstable" | "besteffort", pod, below @ ..]
        | ["kubepods", "burstable" | "besteffort", pod, below @ ..]
        | ["kubelet", "kubepods", pod, below @ ..]
        | ["kubepods", pod, below @ ..] => (*pod, below),
        _ => return None,
    };
    let uid = segment.strip_prefix("pod").filter(|uid| is_uid(uid, b'-'))?;
    Some(Pod { uid, below })
}

/// `kubepods[-class]-pod<uid>.slice` below the slices that its name says it is below, and nothing else: all of them are the
/// system's. Seen from inside a namespace, some may be missing.
fn pod_of_systemd<'a, 's>(top: &'s [&'a str]) -> Option<Pod<'a, 's>> {
    let index = top.iter().position(|segment| systemd_uid(segment).is_some())?;
    let (above, rest) = top.split_at_checked(index)?;
    let (segment, below) = rest.split_first()?;
    let is_its_own = |above: &&str| {
        let stem = above.strip_suffix(".slice");
        stem.and_then(|stem| segment.strip_prefix(stem)).is_some_and(|rest| rest.starts_with('-'))
    };
    Some(Pod { uid: systemd_uid(segment)?, below }).filter(|_| above.iter().all(is_its_own))
}

fn systemd_uid(segment: &str) -> Option<&str> {
    let (class, uid) = segment.strip_suffix(".slice")?.rsplit_once("-pod")?;
    let root = class.strip_suffix("-burstable").or_else(|| class.strip_suffix("-besteffort")).unwrap_or(class);
    let is_kubepods = root == "kubepods" || root.ends_with("-kubepods");
    Some(uid).filter(|uid| is_kubepods && is_uid(uid, b'_'))
}

/// The container that is in no other: right below slices, which are the system's, not below services, scopes and whatever
/// else is handed over to somebody. Users' own slices have containers of Podman only, which runs without root.
fn outermost<'a>(segments: &[&'a str]) -> Option<&'a str> {
    if let ["docker", id, ..] = segments {
        return bare(id);
    }
    let index = segments.iter().position(|segment| scoped(segment).is_some())?;
    let (above, rest) = segments.split_at_checked(index)?;
    let segment = rest.first()?;
    let counts = match above.first() {
        Some(&"user.slice") => segment.starts_with("libpod-"),
        _ => above.iter().all(|above| above.ends_with(".slice")),
    };
    scoped(segment).filter(|_| counts)
}

fn container(segment: &str) -> Option<&str> {
    scoped(segment).or_else(|| bare(segment))
}

/// `docker-<id>.scope`, and CRI-O's `crio-<id>` of the cgroupfs driver.
fn scoped(segment: &str) -> Option<&str> {
    let stem = segment.strip_suffix(".scope").or_else(|| segment.starts_with("crio-").then_some(segment))?;
    RUNTIMES.iter().find_map(|runtime| bare(stem.strip_prefix(runtime)?))
}

fn bare(segment: &str) -> Option<&str> {
    (segment.len() == 64 && segment.bytes().all(is_lower_hex)).then_some(segment)
}

/// A UUID, or the 32 digits that the kubelet gives static pods.
fn is_uid(text: &str, dash: u8) -> bool {
    match text.len() {
        32 => text.bytes().all(is_lower_hex),
        36 => text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == dash,
            _ => is_lower_hex(byte),
        }),
        _ => false,
    }
}

fn same_uid(of_path: &str, asked: &str) -> bool {
    let bytes = of_path.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    bytes.eq(asked.bytes())
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "8f0c1a2b-3d4e-5f60-7182-93a4b5c6d7e8";
    const OTHER: &str = "00000000-3d4e-5f60-7182-93a4b5c6d7e8";

    fn id(digit: &str) -> String {
        digit.repeat(64)
    }

    fn found(path: &str) -> (Option<String>, Option<String>) {
        let parsed = CgroupPath::parse(path).unwrap();
        (parsed.pod.map(|uid| uid.replace('_', "-")), parsed.container.map(str::to_owned))
    }

    #[test]
    fn pods_and_containers_are_found_in_the_paths_of_all_drivers() {
        let (u, s, a) = (UID, UID.replace('-', "_"), id("a"));
        let table = [
            (format!("/kubepods/burstable/pod{u}/{a}"), true, true),
            (format!("/kubepods/besteffort/pod{u}/{a}"), true, true),
            (format!("/kubepods/pod{u}/{a}"), true, true),
            (format!("/kubepods/pod{u}/crio-{a}"), true, true),
            (format!("/kubelet/kubepods/pod{u}/{a}/init.scope"), true, true),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{s}.slice/cri-containerd-{a}.scope"
                ),
                true,
                true,
            ),
            (format!("/kubepods.slice/kubepods-pod{s}.slice/crio-{a}.scope"), true, true),
            (
                format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{s}.slice/docker-{a}.scope"),
                true,
                true,
            ),
            (
                format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{s}.slice/cri-containerd-{a}.scope"),
                true,
                true,
            ),
            (format!("/../../kubepods-pod{s}.slice/cri-containerd-{a}.scope"), true, true),
            (format!("/docker/{}/kubelet/kubepods/pod{u}/{a}", id("0")), true, true),
            (format!("/kubepods/pod{u}"), true, false),
            (format!("/docker/{}/kubelet/kubepods/pod{u}", id("0")), true, false),
            (format!("/docker/{a}"), false, true),
            (format!("/system.slice/docker-{a}.scope"), false, true),
            (format!("/machine.slice/libpod-{a}.scope/container"), false, true),
            (
                format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{a}.scope/container"),
                false,
                true,
            ),
            (format!("/../docker-{a}.scope"), false, true),
            ("/slurm/uid_1000/job_42/step_0".to_owned(), false, false),
            ("/".to_owned(), false, false),
        ];
        for (path, has_pod, has_container) in table {
            let expected = (has_pod.then(|| UID.to_owned()), has_container.then(|| id("a")));
            assert_eq!(found(&path), expected, "{path}");
        }
    }

    #[test]
    fn an_id_inside_another_name_is_nobodys() {
        let (u, s, a) = (UID, UID.replace('-', "_"), id("a"));
        let table = [
            format!("/kubepods/xpod{u}"),
            format!("/kubepods/pod{u}x"),
            format!("/kubepods/pod{}", u.to_uppercase()),
            format!("/kubepods/pod{s}"),
            format!("/user.slice/pod{u}"),
            format!("/user.slice/burstable/pod{u}"),
            format!("/mykubepods/pod{u}"),
            format!("/kubepods.slice/evilkubepods-pod{s}.slice"),
            format!("/kubepods.slice/kubepods-gold-pod{s}.slice"),
            format!("/kubepods.slice/kubepods-pod{s}-x.slice"),
            format!("/user.slice/{a}"),
            format!("/docker/x{a}"),
            format!("/docker/{a}0"),
            format!("/system.slice/crio-conmon-{a}.scope"),
            format!("/system.slice/evil-docker-{a}.scope"),
            format!("/docker/buildkit/{a}"),
            // What users and services may make below what they were given.
            format!("/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod{s}.slice/run-1.service"),
            format!("/../../user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod{s}.slice/x.scope"),
            format!("/../user@1000.service/kubepods.slice/kubepods-pod{s}.slice/cri-containerd-{a}.scope"),
            format!("/user.slice/user-1000.slice/user@1000.service/app.slice/docker-{a}.scope"),
            format!("/user.slice/user-1000.slice/crio-{a}.scope"),
            format!("/user.slice/user-1000.slice/cri-containerd-{a}.scope"),
            format!("/system.slice/ci.service/docker-{a}.scope"),
            format!("/system.slice/ci.service/docker/{a}"),
            format!("/system.slice/ci.service/kubepods/pod{u}/{a}"),
            format!("/system.slice/slurmstepd.scope/job_1/step_0/kubelet/kubepods/pod{u}/{a}"),
            format!("/slurm/uid_1000/job_42/libpod-{a}.scope"),
            format!("/other.slice/kubepods.slice/kubepods-pod{s}.slice"),
        ];
        for path in table {
            assert_eq!(found(&path), (None, None), "{path}");
        }
    }

    #[test]
    fn a_pod_cannot_pose_as_another_by_cgroups_of_its_own() {
        let mine = format!("/kubepods/pod{UID}/{}", id("a"));
        let posing = format!("{mine}/kubepods/pod{OTHER}/{}", id("b"));
        assert_eq!(found(&posing), found(&mine));
        let nested = format!("/docker/{}/docker/{}", id("a"), id("b"));
        assert_eq!(found(&nested), (None, Some(id("a"))));
        assert_eq!(CgroupPath::parse(&format!("/docker/x/../{}", id("a"))), None);
        assert_eq!(CgroupPath::parse("kubepods"), None);
        assert_eq!(CgroupPath::parse(""), None);
    }

    #[test]
    fn prefixes_fit_by_whole_names_and_the_closest_workload_wins() {
        let path = CgroupPath::parse("/slurm/uid_1000/job_42/step_0").unwrap();
        let fit = |prefix: &str| path.fit(&Workload::Cgroup(prefix.to_owned()));
        assert_eq!(fit("/slurm/uid_1000/job_42"), Some(22));
        assert_eq!(fit("/slurm/uid_1000/job_42/"), Some(22));
        assert_eq!(fit("/slurm/uid_1000/job_4"), None, "job 42 is not job 4");
        assert_eq!(fit("/slurm/uid_1000/job_42/step_0/task"), None);
        assert_eq!(fit("/"), None, "everything is nobody's");
        let text = format!("/kubepods/pod{UID}/{}", id("a"));
        let path = CgroupPath::parse(&text).unwrap();
        let pod = path.fit(&Workload::Pod(UID.to_owned())).unwrap();
        assert!(path.fit(&Workload::Container(id("a"))).unwrap() > pod);
        assert!(pod > path.fit(&Workload::Cgroup("/kubepods".to_owned())).unwrap());
        assert_eq!(path.fit(&Workload::Pod(OTHER.to_owned())), None);
        assert_eq!(path.fit(&Workload::Container(id("b"))), None);
    }
}
