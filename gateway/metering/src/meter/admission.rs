//! Which jobs may start: each once, with names that snapshots take, and no device shared out to more than 100 %.

use std::collections::BTreeSet;

use super::holdings::Holding;
use super::{Job, JobRefused, Part, Workload};
use crate::snapshot::{self, MAX_DEVICES, MAX_NAME};

const MOST_WORKLOADS: usize = 1_024;
const WHOLE: u64 = super::WHOLE as u64;

/// Holds a job against those that are running.
pub(super) fn check(job: &Job, running: &[Holding]) -> Result<(), JobRefused> {
    check_text(job)?;
    let live = || running.iter().filter(|holding| holding.end.is_none());
    if live().any(|holding| holding.tenant == job.tenant && holding.job == job.job) {
        let named = job.job.clone().unwrap_or_else(|| "the standing assignment".to_owned());
        return Err(JobRefused::Running { tenant: job.tenant.clone(), job: named });
    }
    let held = || {
        let theirs = live().filter(|holding| !holding.follows_use).flat_map(|holding| &holding.parts);
        let theirs = theirs.map(|part| (part.gpu_uuid.as_str(), part.instance, u64::from(part.share)));
        theirs.chain(job.parts.iter().map(|part| (part.gpu_uuid.as_str(), part.instance, u64::from(part.share))))
    };
    for part in &job.parts {
        let of_device = || held().filter(|(gpu_uuid, _, _)| *gpu_uuid == part.gpu_uuid);
        if of_device().any(|(_, instance, _)| instance.is_some() != part.instance.is_some()) {
            return Err(JobRefused::WholeAndInstance { gpu_uuid: part.gpu_uuid.clone() });
        }
        let shared: u64 =
            of_device().filter(|(_, instance, _)| *instance == part.instance).map(|(_, _, share)| share).sum();
        if shared > WHOLE {
            return Err(JobRefused::OverDevice { part: named(part), percent: shared.div_ceil(WHOLE / 100) });
        }
    }
    Ok(())
}

fn check_text(job: &Job) -> Result<(), JobRefused> {
    let refuse = |what: &str| Err(JobRefused::Invalid { what: what.to_owned() });
    if !is_name(&job.tenant) || !job.job.as_deref().is_none_or(is_name) {
        return refuse("the tenant and the job must have 1 to 128 bytes and no control characters");
    }
    if job.tenant.starts_with('_') {
        return refuse("tenants that begin with `_` are what nobody holds; name the billing tenant");
    }
    if job.parts.is_empty() && job.workloads.is_empty() {
        return refuse(
            "it has neither parts nor workloads; name the devices it holds or the processes that are its own",
        );
    }
    if job.parts.len() > MAX_DEVICES || job.workloads.len() > MOST_WORKLOADS {
        return refuse("it has over 128 parts or 1,024 workloads; start several jobs");
    }
    if job.parts.iter().any(|part| part.share == 0 || !is_name(&part.gpu_uuid)) {
        return refuse("each part must name its device by UUID and have a share above 0");
    }
    let mut named = BTreeSet::new();
    if !job.parts.iter().all(|part| named.insert((&part.gpu_uuid, part.instance))) {
        return refuse("it names a device or instance twice; add the shares up into one part");
    }
    let fits_all = |workload: &Workload| match workload {
        Workload::Cgroup(prefix) => !prefix.starts_with('/') || prefix.trim_matches('/').is_empty(),
        Workload::Pod(id) | Workload::Container(id) => id.is_empty(),
    };
    if job.workloads.iter().any(fits_all) {
        return refuse("each workload must have an id, or a cgroup path that begins with `/` and is more than that");
    }
    Ok(())
}

pub(super) fn is_name(text: &str) -> bool {
    snapshot::is_name(text, MAX_NAME)
}

fn named(part: &Part) -> String {
    match part.instance {
        None => part.gpu_uuid.clone(),
        Some(id) => format!("{} {id}", part.gpu_uuid),
    }
}
