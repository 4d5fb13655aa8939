//! How people write what a job holds: names, devices, instances, shares and workloads. One rule for job calls and for the
//! assignments in the configuration.

use farebox_pricing::exact;
use rust_decimal::Decimal;

use crate::meter::{Job, Part, Workload};
use crate::snapshot::{MAX_NAME, is_name};
use crate::tick::InstanceId;

const LONGEST_CGROUP: usize = 4096;
pub(crate) use crate::meter::WHOLE;
/// As many devices as a snapshot takes.
pub(crate) use crate::snapshot::MAX_DEVICES as MOST_PARTS;
pub(crate) const MOST_WORKLOADS: usize = 256;

/// What is wrong with a text, as the end of a sentence that begins with it.
pub(crate) type Wrong = String;

/// A tenant or a job.
pub(crate) fn name(text: &str) -> Result<String, Wrong> {
    if !is_name(text, MAX_NAME) {
        return Err(format!("must have 1 to {MAX_NAME} bytes and no control characters"));
    }
    Ok(text.to_owned())
}

/// `_idle` and `_unattributed` are the agent's own.
pub(crate) fn tenant(text: &str) -> Result<String, Wrong> {
    match text.starts_with('_') {
        true => Err("begins with `_`, as only the agent's own remainders do".to_owned()),
        false => name(text),
    }
}

pub(crate) fn gpu(text: &str) -> Result<String, Wrong> {
    let rest = text.strip_prefix("GPU-").unwrap_or_default();
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if rest.is_empty() || text.len() > MAX_NAME || !is_plain {
        return Err("is no device's UUID like `GPU-…` (`nvidia-smi -L`); indices change with every boot".to_owned());
    }
    Ok(text.to_owned())
}

/// `1/0`: GPU instance and compute instance.
pub(crate) fn instance(text: &str) -> Result<InstanceId, Wrong> {
    let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    let ids = text.split_once('/').and_then(|(gpu, compute)| Some((number(gpu)?, number(compute)?)));
    let (gpu_instance, compute_instance) =
        ids.ok_or("is no MIG instance like `1/0` (GPU instance, compute instance)")?;
    Ok(InstanceId { gpu_instance, compute_instance })
}

/// Above 0 and at most 1, to the millionth.
pub(crate) fn share(text: &str) -> Result<u32, Wrong> {
    let wrong = || "must be above 0 and at most 1, with at most 6 decimals, like `0.25`".to_owned();
    let millionths = exact::parse(text).map_err(|_| wrong())?.checked_mul(Decimal::from(WHOLE)).ok_or_else(wrong)?;
    let millionths = millionths.normalize();
    let whole = (millionths.scale() == 0).then(|| u32::try_from(millionths.mantissa()).ok()).flatten();
    whole.filter(|share| (1..=WHOLE).contains(share)).ok_or_else(wrong)
}

/// In millionths, as it is written.
pub(crate) fn share_text(share: u32) -> String {
    Decimal::from_i128_with_scale(i128::from(share), 6).normalize().to_string()
}

pub(crate) fn pod(text: &str) -> Result<Workload, Wrong> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
    if !(32..=36).contains(&text.len()) || !is_plain {
        return Err("is no pod's UID like `3f2c1e5a-…` (`kubectl get pod -o jsonpath={.metadata.uid}`)".to_owned());
    }
    Ok(Workload::Pod(text.to_owned()))
}

pub(crate) fn container(text: &str) -> Result<Workload, Wrong> {
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err("is no container's id of 64 lower-case hex digits".to_owned());
    }
    Ok(Workload::Container(text.to_owned()))
}

/// Not `/`, which would be everybody's.
pub(crate) fn cgroup(text: &str) -> Result<Workload, Wrong> {
    let mut parts = text.strip_prefix('/').unwrap_or_default().split('/');
    let is_path = parts.all(|part| !part.is_empty() && part != "." && part != "..");
    if !is_path || text.len() > LONGEST_CGROUP || text.chars().any(char::is_control) {
        return Err("is no cgroup path like `/slurm/uid_1000/job_42`, without a slash at its end".to_owned());
    }
    Ok(Workload::Cgroup(text.to_owned()))
}

/// In an order that does not depend on who wrote it, so that the same job asked for twice is the same.
pub(crate) fn in_order(mut job: Job) -> Job {
    job.parts.sort_by(|one, other| (&one.gpu_uuid, one.instance).cmp(&(&other.gpu_uuid, other.instance)));
    job.workloads.sort();
    job.workloads.dedup();
    job
}

/// Two parts that are the same device or instance, in [`in_order`].
pub(crate) fn doubled(parts: &[Part]) -> Option<&Part> {
    let same = |pair: &[Part]| matches!(pair, [one, other] if (&one.gpu_uuid, one.instance) == (&other.gpu_uuid, other.instance));
    parts.windows(2).find(|pair| same(pair)).and_then(<[Part]>::first)
}

/// As people write it: `GPU-… 1/0`.
pub(crate) fn part_text(part: &Part) -> String {
    match part.instance {
        Some(instance) => format!("{} {instance}", part.gpu_uuid),
        None => part.gpu_uuid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_digit_for_digit() {
        for (text, millionths) in
            [("1", 1_000_000), ("1.000000", 1_000_000), ("0.25", 250_000), ("0.000001", 1), ("0.2500000", 250_000)]
        {
            assert_eq!(share(text), Ok(millionths), "{text}");
        }
        for text in [
            "0",
            "0.0000001",
            "1.000001",
            "-0.5",
            "1e-1",
            "25%",
            "",
            "NaN",
            "0.3333333",
            ".5",
            "99999999999999999999999999999",
        ] {
            assert!(share(text).is_err(), "{text}");
        }
        assert_eq!([1, 250_000, WHOLE].map(share_text), ["0.000001", "0.25", "1"]);
    }

    #[test]
    fn what_names_nothing_is_refused() {
        assert_eq!(gpu("GPU-8d1f-00").unwrap(), "GPU-8d1f-00");
        for text in ["0", "", "GPU-", "GPU-0 1", "MIG-1", "gpu-1"] {
            assert!(gpu(text).is_err(), "{text}");
        }
        assert_eq!(instance("1/0"), Ok(InstanceId { gpu_instance: 1, compute_instance: 0 }));
        for text in ["1", "1/", "/0", "+1/0", "1/0/0", "4294967296/0", ""] {
            assert!(instance(text).is_err(), "{text}");
        }
        assert!(container(&"a".repeat(64)).is_ok() && container(&"A".repeat(64)).is_err() && container("ab").is_err());
        assert!(pod("3f2c1e5a-0000-4000-8000-0123456789ab").is_ok() && pod("web-7").is_err());
        assert!(cgroup("/slurm/uid_1000/job_42").is_ok());
        for text in ["/", "", "slurm", "/slurm/", "/a/../b", "//a", "/a\n"] {
            assert!(cgroup(text).is_err(), "{text}");
        }
        assert!(
            tenant("acme").is_ok()
                && tenant("_idle").is_err()
                && tenant("").is_err()
                && name(&"x".repeat(129)).is_err()
        );
    }
}
