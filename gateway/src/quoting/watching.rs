//! Seeing what goes down the road, for who wants to know why a price is what it is. Watching changes nothing of it.

use farebox_pricing::policy::{Context, Evaluation, Halt, RunPolicy};
use farebox_pricing::request::QuoteRequest;
use jiff::Timestamp;

use crate::catalog::PlanVersion;

/// Sees a request being priced.
pub(crate) trait Watch {
    /// The request was read, and this version of a plan prices it as of `at`.
    fn offered(&mut self, request: &QuoteRequest, version: &PlanVersion, at: Timestamp);

    /// A step came to an end on what it saw: on each line in turn, or once on all lines.
    fn evaluated(&mut self, step: usize, context: &Context<'_>, evaluation: Result<&Evaluation, &Halt>);
}

/// Nobody watches.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn offered(&mut self, _: &QuoteRequest, _: &PlanVersion, _: Timestamp) {}

    fn evaluated(&mut self, _: usize, _: &Context<'_>, _: Result<&Evaluation, &Halt>) {}
}

/// Runs policies, watched.
pub(super) struct Watched<'a, Policies> {
    pub(super) policies: Policies,
    pub(super) watch: &'a mut dyn Watch,
}

impl<Policies: RunPolicy> RunPolicy for Watched<'_, Policies> {
    fn evaluate(&mut self, step: usize, context: &Context<'_>) -> Result<Evaluation, Halt> {
        let evaluation = self.policies.evaluate(step, context);
        self.watch.evaluated(step, context, evaluation.as_ref());
        evaluation
    }
}
