//! A page of 80 columns: text at the left, amounts at the right with their decimal points below each other.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::terminal::{Style, Styles};

const WIDTH: usize = 80;
/// What text gets at least, however wide the amounts are.
const LEAST_TEXT: usize = 24;
/// Rates with more digits are told in a line of their own.
const WIDEST_RATE: usize = 9;
const GAP: usize = 2;

/// A row of the page. Its text is wrapped; word, rate and amount are beside the first line of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) indent: usize,
    pub(super) text: &'a str,
    /// `list`, `discount` …
    pub(super) word: &'a str,
    /// `-10 %`, or nothing.
    pub(super) rate: &'a str,
    /// A plain decimal, or nothing.
    pub(super) amount: &'a str,
    pub(super) style: Style,
}

impl<'a> Row<'a> {
    pub(super) fn new(indent: usize, text: &'a str, word: &'a str, amount: &'a str) -> Self {
        Self { indent, text, word, rate: "", amount, style: Style::Plain }
    }

    pub(super) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

/// Collects rows, and lays them out when all are known.
#[derive(Debug, Default)]
pub(super) struct Page {
    blocks: Vec<Block>,
}

#[derive(Debug)]
enum Block {
    Row { indent: usize, cells: [String; 4], style: Style },
    Paragraph { indent: usize, text: String, style: Style },
    Rule,
}

impl Page {
    pub(super) fn row(&mut self, row: Row<'_>) {
        let Row { indent, text, word, rate, amount, style } = row;
        let is_long = rate.width() > WIDEST_RATE;
        let cells = [text, word, if is_long { "" } else { rate }, amount].map(str::to_owned);
        self.blocks.push(Block::Row { indent, cells, style });
        if is_long {
            self.paragraph(indent.saturating_add(2), &format!("rate {rate}"), style);
        }
    }

    /// Text over the whole width; an empty one leaves a line free.
    pub(super) fn paragraph(&mut self, indent: usize, text: &str, style: Style) {
        self.blocks.push(Block::Paragraph { indent, text: text.to_owned(), style });
    }

    pub(super) fn rule(&mut self) {
        self.blocks.push(Block::Rule);
    }

    pub(super) fn render(&self, styles: Styles) -> String {
        let columns = Columns::of(self.rows());
        let mut page = String::new();
        for block in &self.blocks {
            match block {
                Block::Row { indent, cells, style } => {
                    for (line, style) in columns
                        .lines(*indent, cells)
                        .iter()
                        .zip([*style].into_iter().chain(std::iter::repeat(Style::Plain)))
                    {
                        push_line(&mut page, &styles.paint(style, line.trim_end()));
                    }
                }
                Block::Paragraph { indent, text, style } => {
                    for line in wrap(text, WIDTH.saturating_sub(*indent)) {
                        push_line(&mut page, &format!("{}{}", " ".repeat(*indent), styles.paint(*style, &line)));
                    }
                }
                Block::Rule => push_line(&mut page, &styles.paint(Style::Dim, &"─".repeat(WIDTH))),
            }
        }
        page
    }

    fn rows(&self) -> impl Iterator<Item = &[String; 4]> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Row { cells, .. } => Some(cells),
            Block::Paragraph { .. } | Block::Rule => None,
        })
    }
}

fn push_line(page: &mut String, line: &str) {
    page.push_str(line.trim_end());
    page.push('\n');
}

/// How wide each column is.
#[derive(Debug, Default)]
struct Columns {
    word: usize,
    rate: usize,
    whole: usize,
    /// With the point.
    fraction: usize,
}

impl Columns {
    fn of<'a>(rows: impl Iterator<Item = &'a [String; 4]>) -> Self {
        rows.fold(Self::default(), |columns, [_, word, rate, amount]| {
            let (whole, fraction) = parts(amount);
            Self {
                word: columns.word.max(word.width()),
                rate: columns.rate.max(rate.width()),
                whole: columns.whole.max(whole.width()),
                fraction: columns.fraction.max(fraction.width()),
            }
        })
    }

    fn lines(&self, indent: usize, [text, word, rate, amount]: &[String; 4]) -> Vec<String> {
        let Self { word: word_width, rate: rate_width, whole, fraction } = *self;
        let beside = [word_width, rate_width, whole.saturating_add(fraction)];
        let taken: usize = beside.iter().filter(|width| **width > 0).map(|width| width.saturating_add(GAP)).sum();
        let text_width = WIDTH.saturating_sub(taken).max(LEAST_TEXT);
        let mut lines: Vec<String> = wrap(text, text_width.saturating_sub(indent)).collect();
        let first = lines.first_mut();
        if let Some(first) = first {
            let mut line = pad_end(&format!("{}{first}", " ".repeat(indent)), text_width);
            if word_width > 0 {
                line.push_str(&format!("{}{}", " ".repeat(GAP), pad_end(word, word_width)));
            }
            if rate_width > 0 {
                line.push_str(&format!("{}{}", " ".repeat(GAP), pad_start(rate, rate_width)));
            }
            let (amount_whole, amount_fraction) = parts(amount);
            line.push_str(&" ".repeat(GAP));
            line.push_str(&pad_start(amount_whole, whole));
            line.push_str(amount_fraction);
            *first = line;
        }
        let hanging = " ".repeat(indent.saturating_add(GAP));
        lines
            .iter()
            .enumerate()
            .map(|(at, line)| if at == 0 { line.clone() } else { format!("{hanging}{line}") })
            .collect()
    }
}

/// `-1033` and `.344`
fn parts(amount: &str) -> (&str, &str) {
    amount.split_at(amount.find('.').unwrap_or(amount.len()))
}

fn pad_end(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

fn pad_start(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

/// The text in lines of at most `width` columns, broken at spaces, and within a word that is wider than a line. At least
/// one line.
fn wrap(text: &str, width: usize) -> impl Iterator<Item = String> {
    // The lines after the first hang two columns in.
    let width = width.saturating_sub(GAP).max(8);
    let mut lines = vec![String::new()];
    let mut used = 0usize;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let is_first = used == 0;
        if !is_first && used.saturating_add(1).saturating_add(word.width()) <= width {
            push(&mut lines, " ");
            used = used.saturating_add(1);
        } else if !is_first {
            lines.push(String::new());
            used = 0;
        }
        for letter in word.chars() {
            let step = letter.width().unwrap_or(0);
            if used.saturating_add(step) > width {
                lines.push(String::new());
                used = 0;
            }
            push(&mut lines, letter.encode_utf8(&mut [0; 4]));
            used = used.saturating_add(step);
        }
    }
    lines.into_iter()
}

fn push(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_below_each_other_and_nothing_is_wider_than_the_page() {
        let mut page = Page::default();
        let long = "a label that goes on and on, and on, until it does not fit beside an amount any more, and further";
        page.row(Row::new(0, "list", "list", "6912.00"));
        page.row(Row { rate: "-10 %", ..Row::new(2, long, "discount", "-1033.344") });
        page.row(Row::new(
            2,
            "形状形状形状形状形状形状形状形状形状形状形状形状形状形状形状形状形状形状",
            "fee",
            "1854",
        ));
        page.row(Row { rate: "+0.12345678901 %", ..Row::new(2, &"x".repeat(90), "fee", "0.000000000001") });
        page.paragraph(4, long, Style::Dim);
        page.rule();
        let text = page.render(Styles::NONE);
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
        let ends: Vec<usize> = text
            .lines()
            .filter_map(|line| {
                ["6912.00", "-1033.344", "1854", "0.000000000001"]
                    .iter()
                    .find(|amount| line.ends_with(**amount))
                    .map(|amount| line.width() - amount.width() + parts(amount).0.width())
            })
            .collect();
        assert_eq!(ends, [67; 4], "{text}");
        assert!(text.contains("rate +0.12345678901 %"), "{text}");
        assert_eq!(page.render(Styles::NONE), text);
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_never_lost() {
        let wrapped: Vec<_> = wrap("one  two three", 10).collect();
        assert_eq!(wrapped, ["one two", "three"]);
        assert_eq!(wrap("", 10).collect::<Vec<_>>(), [""]);
        assert_eq!(wrap("abcdefghijkl", 10).collect::<Vec<_>>(), ["abcdefgh", "ijkl"]);
        assert_eq!(wrap("形形形形形", 10).collect::<Vec<_>>(), ["形形形形", "形"]);
    }
}
