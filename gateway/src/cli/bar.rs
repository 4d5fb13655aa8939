//! A share of a limit as a bar, readable without colour, and in ASCII where UTF-8 is not taken.

/// How a bar is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bars {
    left: char,
    full: char,
    empty: char,
    mark: char,
    right: char,
}

const BLOCKS: Bars = Bars { left: '▕', full: '█', empty: '░', mark: '┊', right: '▏' };
const ASCII: Bars = Bars { left: '[', full: '#', empty: '-', mark: '|', right: ']' };

impl Bars {
    pub(super) fn for_output(is_utf8: bool) -> Self {
        if is_utf8 { BLOCKS } else { ASCII }
    }

    /// The sign that stands at the mark.
    pub(super) fn mark(self) -> char {
        self.mark
    }

    /// Signs that rise from nothing to all.
    pub(super) fn steps(self) -> &'static [char] {
        if self.full == ASCII.full {
            &['_', '.', '-', '=', '+', '*', '#']
        } else {
            &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
        }
    }

    /// `width` cells of which `value` of `limit` are full, a part of a cell counting whole; `mark` is a percentage.
    pub(super) fn draw(self, value: u64, limit: u64, width: u64, mark: Option<u64>) -> String {
        let cells = value.saturating_mul(width).div_ceil(limit.max(1)).min(width);
        let marked = mark.map(|percent| width.saturating_mul(percent).div_euclid(100));
        let mut bar = String::from(self.left);
        for cell in 0..width {
            if marked == Some(cell) {
                bar.push(self.mark);
            }
            bar.push(if cell < cells { self.full } else { self.empty });
        }
        bar.push(self.right);
        bar
    }
}

/// `1 %`, rounded down; `<1 %` above nothing.
pub(super) fn percent(value: u64, limit: u64) -> String {
    match value.saturating_mul(100).div_euclid(limit.max(1)) {
        0 if value > 0 => "<1 %".to_owned(),
        share => format!("{share} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_cell_counts_whole_and_the_mark_stands_between_cells() {
        for (value, bar) in [
            (0, "[-----|---------------]"),
            (1, "[#----|---------------]"),
            (100_000, "[#----|---------------]"),
            (100_001, "[##---|---------------]"),
            (500_000, "[#####|---------------]"),
            (500_001, "[#####|#--------------]"),
            (2_000_000, "[#####|###############]"),
            (9_000_000, "[#####|###############]"),
        ] {
            assert_eq!(ASCII.draw(value, 2_000_000, 20, Some(25)), bar, "{value}");
        }
        assert_eq!(BLOCKS.draw(1, 4, 4, None), "▕█░░░▏");
        assert_eq!(ASCII.draw(1, 0, 2, None), "[##]");
    }

    #[test]
    fn shares_are_rounded_down_but_never_to_nothing() {
        let text = [(0, 10), (1, 1000), (23_104, 2_000_000), (499_999, 500_000), (3, 2)].map(|(a, b)| percent(a, b));
        assert_eq!(text, ["0 %", "<1 %", "1 %", "99 %", "150 %"]);
    }
}
