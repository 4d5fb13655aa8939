//! A quote's evaluations.

use std::sync::Arc;

use farebox_pricing::policy::{Context, Evaluation, Fault, Halt, Outcome, Refusal, RunPolicy};
use wasmtime::Store;

use crate::bindings as wire;
use crate::guard::Guard;
use crate::passing;
use crate::policy::ConfiguredPolicy;
use crate::receiving::Reader;
use crate::run::{Spent, call};
use crate::sandbox::{Host, INSTANCES_PER_STORE};

/// Runs the steps of one quote, each evaluation in an instance of its own.
///
/// Instances share a store while all goes well, which saves a tenth of a quote; they share no memory. The store is
/// renewed after every trap and after a few instances. Make one session per quote and drop it with the quote: it
/// holds pool slots until then.
#[derive(Debug)]
pub struct Session<'a> {
    steps: &'a [ConfiguredPolicy],
    rented: Option<Rented>,
}

/// A store and how many instances it holds.
#[derive(Debug)]
struct Rented {
    host: Arc<Host>,
    store: Store<Guard>,
    instances: u32,
}

/// What an evaluation said, priced or refused, and what that cost; as in [`Evaluation`].
#[derive(Clone, Debug)]
pub struct Measured {
    pub answer: Result<Outcome, Refusal>,
    pub fuel: u64,
    pub memory_bytes: u64,
    pub nanoseconds: u64,
}

impl<'a> Session<'a> {
    /// `steps`: the plan's policies, by step index.
    pub fn new(steps: &'a [ConfiguredPolicy]) -> Self {
        Self { steps, rented: None }
    }

    /// Takes the store out, so that it is lost unless an evaluation that ended well puts it back.
    fn rent(&mut self, host: &Arc<Host>) -> Rented {
        let usable = |rented: &Rented| Arc::ptr_eq(&rented.host, host) && rented.instances < INSTANCES_PER_STORE;
        match self.rented.take().filter(usable) {
            Some(rented) => rented,
            None => Rented { host: Arc::clone(host), store: host.store(), instances: 0 },
        }
    }

    /// Evaluates a step, and tells the cost of a refusal too: an author wants to know it, a quote does not.
    ///
    /// # Errors
    /// The fault, where there is no answer.
    pub fn measure(&mut self, step: usize, context: &Context<'_>) -> Result<Measured, Fault> {
        let Some(configured) = self.steps.get(step) else {
            return Err(Fault::violation(format!("the plan has no step {step}")));
        };
        let program = configured.policy().program();
        let limits = &program.host.limits;
        let mut rented = self.rent(&program.host);
        let ((answer,), spent) = passing::with(context, |context| {
            let parameters = (configured.bytes(), context);
            let store = &mut rented.store;
            call::<_, (Result<wire::Outcome, wire::Refusal>,)>(
                store,
                program,
                &program.evaluate,
                parameters,
                limits.evaluate(),
            )
        })?;
        rented.instances = rented.instances.saturating_add(1);
        self.rented = Some(rented);
        let reader = Reader(&limits.counts);
        let answer = match answer {
            Ok(outcome) => Ok(reader.outcome(outcome)?),
            Err(refusal) => Err(reader.refusal(refusal)?),
        };
        let Spent { fuel, memory_bytes, nanoseconds } = spent;
        Ok(Measured { answer, fuel, memory_bytes, nanoseconds })
    }
}

impl RunPolicy for Session<'_> {
    fn evaluate(&mut self, step: usize, context: &Context<'_>) -> Result<Evaluation, Halt> {
        let Measured { answer, fuel, memory_bytes, nanoseconds } =
            self.measure(step, context).map_err(Halt::Faulted)?;
        let outcome = answer.map_err(Halt::Refused)?;
        Ok(Evaluation { outcome, fuel, memory_bytes, nanoseconds, reused: false })
    }
}
