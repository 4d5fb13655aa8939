//! Where two answers differ, line by line: what is the same before and after is left out but for a little.

/// Lines shown on both sides of a difference.
const AROUND: usize = 2;

/// `-` for the lines of `old`, `+` for those of `new`, two spaces for what both have.
pub(super) fn difference(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same_before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let most_after = old.len().min(new.len()).saturating_sub(same_before);
    let ends = old.iter().rev().zip(new.iter().rev()).take(most_after);
    let same_after = ends.take_while(|(old, new)| old == new).count();
    let middle = |lines: &[&str], sign: char| -> Vec<String> {
        let count = lines.len().saturating_sub(same_before).saturating_sub(same_after);
        lines.iter().skip(same_before).take(count).map(|line| format!("{sign} {line}")).collect()
    };
    let around = |from: usize, count: usize| old.iter().skip(from).take(count).map(|line| format!("  {line}"));
    let after = old.len().saturating_sub(same_after);
    around(same_before.saturating_sub(AROUND), same_before.min(AROUND))
        .chain(middle(&old, '-'))
        .chain(middle(&new, '+'))
        .chain(around(after, same_after.min(AROUND)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn only_what_differs_is_shown_with_a_little_around_it() {
        let shown = |old: &str, new: &str| difference(&old.replace(' ', "\n"), &new.replace(' ', "\n")).join("|");
        assert_eq!(shown("a b c d e f g", "a b c X e f g"), "  b|  c|- d|+ X|  e|  f");
        assert_eq!(shown("a", "b"), "- a|+ b");
        assert_eq!(shown("a a", "a a a"), "  a|  a|+ a");
        assert_eq!(shown("a b", "a"), "  a|- b");
        assert_eq!(shown("a b", "a b"), "  a|  b");
    }
}
