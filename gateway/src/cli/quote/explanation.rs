//! The waterfall as text: what entered each step, what it did, what was left; offline also what its policy saw.

use serde_json::Value;

use super::super::columns::{Page, Row};
use super::super::quote_table::{array, percent, quantity, title};
use super::super::terminal::{Style, Styles};
use super::recorder::{Made, Saw, Seen, Step};
use super::waterfall::{Effect, Fall, Stage};
use crate::printable::printable;

/// Explains every line of a quote; `made` is what was seen of its making, where it was made here.
pub(super) fn render(quote: &Value, falls: &[Fall], made: Option<&Made>, styles: Styles) -> String {
    let mut page = Page::default();
    for (line, fall) in array(quote, "/lines").iter().zip(falls) {
        page.paragraph(0, &format!("How {} came about", title(line)), Style::Bold);
        if let Some(row) = made.and_then(|made| made.rows.iter().find(|row| row.line == fall.line)) {
            let row = format!(
                "row of the price book: {}, {}, {}, from {} GPU on, effective from {}, {} per GPU-hour",
                row.gpu_model, row.region, row.market, row.min_gpus, row.effective_from, row.unit_price
            );
            page.paragraph(2, &row, Style::Dim);
        }
        page.row(Row::new(2, &quantity(line), "list", &fall.list));
        match made {
            Some(made) => with_what_was_seen(&mut page, fall, &made.steps),
            None => fall.steps.iter().for_each(|stage| show(&mut page, stage)),
        }
        page.row(Row::new(2, "amount", "", &fall.amount).styled(Style::Bold));
        page.paragraph(0, "", Style::Plain);
    }
    if made.is_none() {
        let note = "What each policy saw and cost is known where the price is made: ask without --server.";
        page.paragraph(0, note, Style::Dim);
    }
    page.render(styles)
}

/// Every step of the plan in its order, those that said nothing included; then the engine's own.
fn with_what_was_seen(page: &mut Page, fall: &Fall, steps: &[Step]) {
    let mut running = fall.list.as_str();
    for step in steps {
        let of_step = fall.steps.iter().find(|stage| stage.step == step.step);
        match of_step {
            Some(stage) => {
                show(page, stage);
                running = &stage.left;
            }
            None => {
                page.row(Row::new(2, &format!("{} said nothing of this line", step.step), "enters", running));
            }
        }
        show_policy(page, step, &fall.line);
    }
    let is_engine = |stage: &&Stage| !steps.iter().any(|step| step.step == stage.step);
    fall.steps.iter().filter(is_engine).for_each(|stage| show(page, stage));
}

fn show(page: &mut Page, stage: &Stage) {
    page.row(Row::new(2, &stage.step, "enters", &stage.entered));
    for effect in &stage.adjustments {
        page.row(Row::new(4, &sentence(effect, &stage.entered), "", &effect.amount));
    }
    page.row(Row::new(2, "", "leaves", &stage.left));
}

/// `pytorch_eager: +15 % of 6912.00`
fn sentence(effect: &Effect, entered: &str) -> String {
    match (&effect.rate, effect.is_share) {
        (Some(rate), false) => format!("{}: {} of {entered}", effect.code, percent(rate)),
        (Some(rate), true) => format!("{}: its share of {} of the whole quote", effect.code, percent(rate)),
        (None, true) => format!("{}: its share of an amount on the whole quote", effect.code),
        (None, false) => format!("{}, {}: {}", effect.code, effect.method, effect.reason),
    }
}

fn show_policy(page: &mut Page, step: &Step, line: &str) {
    let digest = step.digest.get(..12).unwrap_or(&step.digest);
    page.paragraph(4, &format!("policy {}, SHA-256 {digest}…", step.policy), Style::Dim);
    let is_of_line = |seen: &&Seen| seen.line.as_deref().is_none_or(|of| of == line);
    for seen in step.evaluations.iter().filter(is_of_line) {
        if !seen.saw.is_empty() {
            let saw: Vec<String> = seen.saw.iter().map(shown).collect();
            page.paragraph(4, &format!("saw {}", saw.join("; ")), Style::Dim);
        }
        let cost = format!(
            "fuel {} of {} ({}), memory {} KiB",
            seen.fuel,
            seen.fuel_limit,
            share(seen.fuel, seen.fuel_limit),
            seen.memory_bytes.div_euclid(1024)
        );
        page.paragraph(4, &cost, Style::Dim);
    }
}

fn shown(saw: &Saw) -> String {
    match &saw.value {
        Some(value) => format!("{} = {}", printable(&saw.read), printable(value)),
        None => format!("no {}", printable(&saw.read)),
    }
}

/// `1.2 %`
fn share(part: u64, whole: u64) -> String {
    let per_mille = part.saturating_mul(1000).checked_div(whole).unwrap_or_default();
    format!("{}.{} %", per_mille.div_euclid(10), per_mille.rem_euclid(10))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_of_the_fuel_limit() {
        assert_eq!(share(24_999, 2_000_000), "1.2 %");
        assert_eq!(share(2_000_000, 2_000_000), "100.0 %");
        assert_eq!(share(1, 0), "0.0 %");
        assert_eq!(share(u64::MAX, 1), "1844674407370955161.5 %");
    }
}
