//! `farebox quote`: prices a request, here or by a server, and shows the quote.

mod explanation;
mod offline;
mod online;
mod recorder;
mod waterfall;

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::json_file::JsonFile;
use super::terminal::{self, Color};
use super::{Failure, Places, exit, quote_table, snapshot_file, tell, tell_json, warn};
use crate::clock::Clock;
use recorder::Recorder;

#[derive(Debug, Args)]
#[command(after_help = exit::help())]
pub(super) struct Options {
    /// The request, as for `POST /v1/quotes`; `-` reads stdin.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: PathBuf,
    /// Price under this plan, whatever the request names.
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
    /// Observe this usage snapshot first, as for `POST /v1/usage-snapshots`; may be given several times. `@now` and
    /// `@now-45s` stand for instants.
    #[arg(long, value_name = "FILE")]
    snapshot: Vec<PathBuf>,
    /// Price as of this instant, such as 2026-12-01T00:00:00Z, instead of now.
    #[arg(long, value_name = "TIME", conflicts_with = "server")]
    at: Option<Timestamp>,
    #[command(flatten)]
    places: Places,
    /// Ask a running gateway, such as http://127.0.0.1:8080, instead of pricing here. Its quote can be accepted, and it
    /// keeps the snapshots.
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "policies"])]
    server: Option<String>,
    /// Show how the price came about, step by step; offline also what each policy saw and what it cost.
    #[arg(long)]
    explain: bool,
    /// Answer in JSON, also on a terminal. With `--explain`: an object of `quote` and `explanation`.
    #[arg(long)]
    json: bool,
    /// Answer as a table, also where stdout is no terminal.
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// When to colour the table; `auto` heeds NO_COLOR.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// A quote as the API answers it, and what was seen of its making.
#[derive(Debug)]
struct Answer {
    body: String,
    recorder: Option<Recorder>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let mut request = JsonFile::read(&options.file)?;
    if let Some(plan) = &options.plan {
        request.set("plan", plan.as_str().into());
    }
    let now = options.at.unwrap_or_else(|| Clock::system().now());
    let snapshots = options.snapshot.iter().zip(0i64..).map(|(path, nth)| snapshot_file::read(path, now, nth));
    let snapshots = snapshots.collect::<Result<Vec<_>, _>>()?;
    warn_of_other_tenants(&request, &snapshots);
    let answer = match &options.server {
        Some(server) => online::quote(server, &request, &snapshots)?,
        None => offline::quote(&options.places, &request, &snapshots, now)?,
    };
    show(&answer, options)
}

/// A snapshot of someone else is taken all the same, and moves nothing.
fn warn_of_other_tenants(request: &JsonFile, snapshots: &[JsonFile]) {
    let Some(tenant) = request.text("tenant_id") else { return };
    for (name, other) in snapshots.iter().filter_map(|file| Some((&file.name, file.text("tenant")?))) {
        if other != tenant {
            warn(&format!("{name} is of tenant `{other}`, the request of `{tenant}`: it does not move this price"));
        }
    }
}

fn show(answer: &Answer, options: &Options) -> Result<(), Failure> {
    let is_json = options.json || !(options.table || terminal::is_terminal());
    if is_json && !options.explain {
        return tell_json(&answer.body);
    }
    let quote: Value = serde_json::from_str(&answer.body)
        .map_err(|error| Failure::because("the answer is not JSON", error).ending(exit::Exit::Unavailable))?;
    let falls = options.explain.then(|| waterfall::of(&quote));
    if is_json {
        let explanation = json!({ "waterfall": falls, "made": answer.recorder.as_ref().map(Recorder::made) });
        // The quote's own bytes stay as they are.
        return tell_json(&format!("{{\"quote\":{},\"explanation\":{explanation}}}", answer.body));
    }
    let styles = options.color.styles();
    let mut text = quote_table::render(&quote, styles);
    if let Some(falls) = falls {
        text.push('\n');
        text.push_str(&explanation::render(&quote, &falls, answer.recorder.as_ref().map(Recorder::made), styles));
    }
    tell(&text)
}
