//! `farebox usage watch`: a tenant's live usage as bars, by a running gateway.

mod lines;

use std::thread::sleep;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::bar::Bars;
use super::client::{Client, path_segment};
use super::columns::Page;
use super::exit::{self, Exit};
use super::terminal::{self, Color, Style, takes_utf8};
use super::{Failure, complain, json_line, told};
use crate::clock::Clock;
use crate::config;
use crate::printable::printable;
use lines::{Drawing, cut, draw};

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// For an answer. A picture that stands still says nothing of its own age.
const PATIENCE: Duration = Duration::from_secs(3);
/// To the beginning of so many lines above, and everything below is gone (ECMA-48, CPL and ED).
const BACK: fn(usize) -> String = |lines| if lines == 0 { String::new() } else { format!("\u{1b}[{lines}F\u{1b}[J") };

#[derive(Debug, Subcommand)]
pub(super) enum UsageCommand {
    /// Show a tenant's utilisation by GPU model, every second, until Ctrl-C.
    Watch(Options),
}

#[derive(Debug, Args)]
#[command(after_help = exit::help())]
pub(super) struct Options {
    /// Whose GPUs.
    #[arg(value_name = "TENANT")]
    tenant: String,
    /// The gateway to ask.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// `10s`, `1m`, `5m`, `15m`, `24h`, `7d` or `30d`.
    #[arg(long, value_name = "WINDOW", default_value = "15m", value_parser = ["10s", "1m", "5m", "15m", "24h", "7d", "30d"])]
    window: String,
    /// Show this metric; may be given several times. Else `gpu_util`, and `sm_util`, memory and power where they are
    /// measured.
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Look once, and fail where the gateway does not answer.
    #[arg(long)]
    once: bool,
    /// Print the gateway's answers, one a line.
    #[arg(long)]
    json: bool,
}

/// What one look came to.
enum Look {
    Seen(String),
    Away(Failure),
}

pub(super) fn run(command: UsageCommand) -> Result<(), Failure> {
    let UsageCommand::Watch(options) = command;
    let client = Client::with_patience(&options.server, PATIENCE)?;
    let path = format!("/v1/tenants/{}/usage", path_segment(&options.tenant));
    let mut screen = Screen::of(&options);
    let mut has_seen = false;
    loop {
        let look = match client.get(&path) {
            Ok(body) => Look::Seen(body),
            // A gateway that was started anew may not know yet whom it knew before.
            Err(failure) if !options.once && (has_seen || failure.exit == Exit::Unavailable) => Look::Away(failure),
            Err(failure) => return Err(failure),
        };
        has_seen |= matches!(look, Look::Seen(_));
        if !screen.show(look)? || options.once {
            return Ok(());
        }
        sleep(PERIOD);
    }
}

/// Where looks are shown: drawn over one another on a terminal, else one below the other.
struct Screen<'a> {
    options: &'a Options,
    drawing: Drawing,
    clock: Clock,
    redraws: bool,
    /// Lines that the last look took.
    height: usize,
    is_away: bool,
}

impl<'a> Screen<'a> {
    fn of(options: &'a Options) -> Self {
        let redraws = terminal::obeys_escapes() && !options.once && !options.json;
        let bars = Bars::for_output(takes_utf8(config::environment()));
        let drawing = Drawing { bars, styles: Color::Auto.styles() };
        Self { options, drawing, clock: Clock::system(), redraws, height: 0, is_away: false }
    }

    /// False where nobody looks any more.
    fn show(&mut self, look: Look) -> Result<bool, Failure> {
        let lines = match look {
            Look::Seen(body) => {
                self.is_away = false;
                if self.options.json {
                    return told(&json_line(&body));
                }
                self.lines(&body)?
            }
            Look::Away(failure) => {
                let sentence = format!("{}; trying again", failure.sentence);
                if !self.redraws {
                    // Once; and not among the lines that a program reads.
                    if !std::mem::replace(&mut self.is_away, true) {
                        complain(&sentence);
                    }
                    return Ok(true);
                }
                let mut page = Page::default();
                page.paragraph(0, &printable(&sentence), Style::Yellow);
                page.render(self.drawing.styles).lines().map(str::to_owned).collect()
            }
        };
        let back = if self.redraws { BACK(self.height) } else { String::new() };
        self.height = lines.len();
        told(&format!("{back}{}", lines.into_iter().map(|line| format!("{line}\n")).collect::<String>()))
    }

    fn lines(&self, body: &str) -> Result<Vec<String>, Failure> {
        let usage: Value = serde_json::from_str(body)
            .map_err(|error| Failure::because("the answer is not JSON", error).ending(Exit::Unavailable))?;
        let Options { server, window, metric, tenant, .. } = self.options;
        let rows = draw(&usage, window, metric, self.drawing);
        if self.redraws {
            let title = cut(&format!("{tenant} at {server}, last {window}; Ctrl-C ends"));
            return Ok(std::iter::once(title).chain(rows).collect());
        }
        let now = self.clock.now();
        // Headings stand above the first rows only.
        let rows = rows.into_iter().skip(usize::from(self.height > 0));
        Ok(rows.map(|row| format!("{now:.3} {row}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_over_the_one_before() {
        assert_eq!((BACK(0), BACK(3)), (String::new(), "\u{1b}[3F\u{1b}[J".to_owned()));
    }
}
