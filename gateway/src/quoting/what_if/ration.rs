//! Fuel for what-ifs: what nobody asked for may not take long.

use farebox_pricing::policy::{Context, Evaluation, Fault, Halt, RunPolicy};

/// Runs policies until the fuel is gone. Fuel is the same from the memo and on any machine, so whether a what-if is priced
/// never depends on how busy the machine was.
#[derive(Debug)]
pub(super) struct Rationed<'a, Policies> {
    pub(super) policies: Policies,
    pub(super) fuel_left: &'a mut u64,
}

impl<Policies: RunPolicy> RunPolicy for Rationed<'_, Policies> {
    fn evaluate(&mut self, step: usize, context: &Context<'_>) -> Result<Evaluation, Halt> {
        if *self.fuel_left == 0 {
            return Err(Halt::Faulted(Fault::OutOfFuel));
        }
        let evaluation = self.policies.evaluate(step, context)?;
        *self.fuel_left = self.fuel_left.saturating_sub(evaluation.fuel);
        Ok(evaluation)
    }
}

#[cfg(test)]
mod tests {
    use farebox_pricing::policy::{Context, Evaluation, Fault, Halt, Outcome, RunPolicy};

    use super::Rationed;

    struct Burning(u64);

    impl RunPolicy for Burning {
        fn evaluate(&mut self, _: usize, _: &Context<'_>) -> Result<Evaluation, Halt> {
            let fuel = self.0;
            Ok(Evaluation { outcome: Outcome::default(), fuel, memory_bytes: 0, nanoseconds: 0, reused: true })
        }
    }

    #[test]
    fn reused_fuel_counts_and_nothing_runs_without() {
        let context = Context {
            currency: "CNY",
            exponent: 2,
            at: None,
            tenant: Vec::new(),
            lines: Vec::new(),
            usages: Vec::new(),
            balances: Vec::new(),
            facts: Vec::new(),
        };
        let mut fuel_left = 5;
        let mut rationed = Rationed { policies: Burning(3), fuel_left: &mut fuel_left };
        assert!(rationed.evaluate(0, &context).is_ok() && rationed.evaluate(0, &context).is_ok());
        assert_eq!(rationed.evaluate(0, &context), Err(Halt::Faulted(Fault::OutOfFuel)));
        assert_eq!(fuel_left, 0);
    }
}
