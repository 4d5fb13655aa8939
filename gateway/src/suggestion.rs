//! "Did you mean": the known name that is nearest to one that is not known.

/// Longer names are nobody's slip of the finger, and comparing them costs.
const LONGEST: usize = 64;

/// `; did you mean `gpu_model`?`, or nothing where no known name is near.
pub(crate) fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

/// The known name within a third of the length of what was written; of two that are equally near, the first. Letters that
/// changed places count once, and so does a difference in case.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = written.chars().count();
    let most = length.div_euclid(3);
    if most == 0 || length > LONGEST {
        return None;
    }
    let folded = written.to_lowercase();
    let near = known.into_iter().filter(|name| *name != written).filter_map(|name| {
        let differ = name.chars().count().abs_diff(length);
        let distance = (differ <= most).then(|| strsim::osa_distance(&folded, &name.to_lowercase()))?;
        (distance <= most).then_some((distance, name))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, nearest};

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["gpu_model", "gpu_count", "region", "market"];
        for (written, meant) in [
            ("gpu_modle", Some("gpu_model")),
            ("gpumodel", Some("gpu_model")),
            ("GPU_COUNT", Some("gpu_count")),
            ("regoin", Some("region")),
            ("marktes", Some("market")),
            ("market", None),
            ("colour", None),
            ("", None),
            ("gp", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        assert_eq!(nearest(&"a".repeat(65), ["a".repeat(65).as_str()]), None);
        assert_eq!(did_you_mean("makret", known), "; did you mean `market`?");
        assert_eq!(did_you_mean("colour", known), "");
    }
}
