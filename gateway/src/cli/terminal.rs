//! What stdout is, and the few styles that are used on it. Colour repeats what words say already.

use std::io::{IsTerminal as _, stdout};

use clap::ValueEnum;

use crate::config;

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    Always,
    Never,
}

impl Color {
    /// The styles for stdout. `--color always` is above `NO_COLOR`, which is above what stdout is.
    pub(super) fn styles(self) -> Styles {
        self.styles_of(stdout().is_terminal(), config::no_color(config::environment()))
    }

    fn styles_of(self, is_terminal: bool, no_color: bool) -> Styles {
        match self {
            Self::Always => Styles { on: true },
            Self::Never => Styles { on: false },
            Self::Auto => Styles { on: is_terminal && !no_color },
        }
    }
}

/// Whether stdout is read by a person.
pub(super) fn is_terminal() -> bool {
    stdout().is_terminal()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Styles {
    on: bool,
}

impl Styles {
    #[cfg(test)]
    pub(super) const NONE: Self = Self { on: false };

    pub(super) fn paint(self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Plain => return text.to_owned(),
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Green => "32",
            Style::Yellow => "33",
        };
        if self.on && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_asked_for_or_seen_and_words_stay() {
        for (color, is_terminal, no_color, on) in [
            (Color::Auto, true, false, true),
            (Color::Auto, true, true, false),
            (Color::Auto, false, false, false),
            (Color::Always, false, true, true),
            (Color::Never, true, false, false),
        ] {
            assert_eq!(color.styles_of(is_terminal, no_color), Styles { on }, "{color:?} {is_terminal} {no_color}");
        }
        assert_eq!(Styles { on: true }.paint(Style::Green, "discount"), "\u{1b}[32mdiscount\u{1b}[0m");
        assert_eq!(Styles { on: true }.paint(Style::Plain, "discount"), "discount");
        assert_eq!(Styles::NONE.paint(Style::Green, "discount"), "discount");
    }
}
