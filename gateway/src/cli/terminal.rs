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
        self.styles_of(obeys_escapes(), config::no_color(config::environment()))
    }

    fn styles_of(self, obeys_escapes: bool, no_color: bool) -> Styles {
        match self {
            Self::Always => Styles { on: true },
            Self::Never => Styles { on: false },
            Self::Auto => Styles { on: obeys_escapes && !no_color },
        }
    }
}

/// Whether stdout is read by a person.
pub(super) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Whether what reads stdout can be coloured and drawn over.
pub(super) fn obeys_escapes() -> bool {
    is_terminal() && names_a_screen(config::environment())
}

/// `TERM` is neither missing nor `dumb`.
fn names_a_screen(mut environment: impl Iterator<Item = (String, String)>) -> bool {
    environment.any(|(name, value)| name == "TERM" && !matches!(value.as_str(), "" | "dumb"))
}

/// Whether readers of stdout take UTF-8. As POSIX says: the first of the variables that is set decides.
pub(super) fn takes_utf8(environment: impl Iterator<Item = (String, String)>) -> bool {
    let set: Vec<(String, String)> = environment.filter(|(_, value)| !value.is_empty()).collect();
    let variable = |wanted: &str| set.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    is_utf8(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).unwrap_or_default())
}

/// `zh_CN.UTF-8`, `C.utf8`
fn is_utf8(locale: &str) -> bool {
    let charset = locale.split('.').nth(1).unwrap_or_default().to_ascii_lowercase();
    let charset = charset.split('@').next().unwrap_or_default();
    charset == "utf-8" || charset == "utf8"
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
    fn the_character_set_of_a_locale_is_found() {
        for (locale, utf8) in [
            ("zh_CN.UTF-8", true),
            ("C.utf8", true),
            ("de_DE.UTF-8@euro", true),
            ("C", false),
            ("POSIX", false),
            ("de_DE.ISO-8859-15@euro", false),
            ("", false),
        ] {
            assert_eq!(is_utf8(locale), utf8, "{locale}");
        }
        let set = |variables: &[(&str, &str)]| {
            let owned: Vec<_> = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            takes_utf8(owned.into_iter())
        };
        assert!(set(&[("LANG", "C.UTF-8"), ("LC_ALL", "")]));
        assert!(!set(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")]));
    }

    #[test]
    fn a_dumb_terminal_is_written_to_line_by_line() {
        let named = |term: &str| names_a_screen([("TERM".to_owned(), term.to_owned())].into_iter());
        assert!(named("xterm-256color"));
        assert!(!named("dumb") && !named("") && !names_a_screen(std::iter::empty()));
    }

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
