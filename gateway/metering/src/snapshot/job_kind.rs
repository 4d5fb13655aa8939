//! What kind of job a job is, by its name: jobs of one kind are expected to use their GPUs alike.

/// As long as the shortest hashes and the dates that schedulers append: `a1b2c3d4`, `20261201`.
const SHORTEST_HASH: usize = 8;

/// The job's name without what tells one run from another: parts at its end, after `-`, `_`, `.`, `/` or `:`, that are numbers,
/// or eight and more hexadecimal digits with a number among them. `train-resnet50-17` is of the kind `train-resnet50`,
/// `image-classification-v1` of its own, and `nightly/2026-12-01` of `nightly`. A name of nothing else is its own kind.
pub fn job_kind(job: &str) -> &str {
    let mut kind = job;
    while let Some((before, last)) = kind.rsplit_once(['-', '_', '.', '/', ':']) {
        if before.is_empty() || !tells_a_run(last) {
            break;
        }
        kind = before;
    }
    kind
}

/// An empty part, as between two separators, tells nothing and is cut with what follows it.
fn tells_a_run(part: &str) -> bool {
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    let is_hash = || {
        part.len() >= SHORTEST_HASH
            && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            && part.bytes().any(|byte| byte.is_ascii_digit())
    };
    is_number || is_hash()
}

#[cfg(test)]
mod tests {
    use super::job_kind;

    #[test]
    fn runs_are_cut_and_kinds_stay() {
        for (job, kind) in [
            ("job-9", "job"),
            ("train-resnet50-17", "train-resnet50"),
            ("image-classification-v1", "image-classification-v1"),
            ("image-classification-v1-0042", "image-classification-v1"),
            ("nightly/2026-12-01", "nightly"),
            ("eval.5d1f0a9c", "eval"),
            ("eval-3f2c1e5a-0000-4000-8000-0123456789ab", "eval"),
            ("deadbeef-facade", "deadbeef-facade"),
            ("llama-70b", "llama-70b"),
            ("17", "17"),
            ("-17", "-17"),
            ("a--1", "a"),
            ("ü-1", "ü"),
            ("", ""),
        ] {
            assert_eq!(job_kind(job), kind, "{job}");
        }
    }
}
