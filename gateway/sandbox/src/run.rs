//! One call in one fresh instance.

use std::sync::Arc;
use std::time::Instant;

use farebox_pricing::policy::Fault;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower};

use crate::fault::{Stage, classify};
use crate::guard::Guard;
use crate::limits::Budget;
use crate::sandbox::Host;
use crate::ticker::Ticker;

/// A compiled policy and where its functions are.
pub(crate) struct Program {
    pub(crate) host: Arc<Host>,
    pub(crate) instance: InstancePre<Guard>,
    pub(crate) describe: ComponentExportIndex,
    pub(crate) configure: ComponentExportIndex,
    pub(crate) evaluate: ComponentExportIndex,
}

/// What a call cost. Fuel is known only of calls that returned: after a trap the engine's counter is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) fuel: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) nanoseconds: u64,
}

/// Makes a new instance in `store` and calls one of its functions. After an error the store is dead.
pub(crate) fn call<Parameters, Answer>(
    store: &mut Store<Guard>,
    program: &Program,
    function: &ComponentExportIndex,
    parameters: Parameters,
    budget: Budget,
) -> Result<(Answer, Spent), Fault>
where
    Parameters: ComponentNamedList + Lower,
    Answer: ComponentNamedList + Lift,
{
    let started = Instant::now();
    let instance = start(store, program, budget)?;
    let answer = instance
        .get_typed_func::<Parameters, Answer>(&mut *store, function)
        .and_then(|function| function.call(&mut *store, parameters))
        .map_err(|error| classify(&error, Stage::Calling, store.data().denied()))?;
    let spent = Spent {
        fuel: budget.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
        memory_bytes: u64::try_from(store.data().memory_bytes()).unwrap_or(u64::MAX),
        nanoseconds: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
    };
    Ok((answer, spent))
}

/// Arms the store, then instantiates: start functions run in here.
pub(crate) fn start(store: &mut Store<Guard>, program: &Program, budget: Budget) -> Result<Instance, Fault> {
    let unarmed = |error: wasmtime::Error| classify(&error, Stage::Instantiating, false);
    store.set_fuel(budget.fuel).map_err(unarmed)?;
    store.set_epoch_deadline(Ticker::ticks(budget.deadline));
    store.data_mut().arm();
    program
        .instance
        .instantiate(&mut *store)
        .map_err(|error| classify(&error, Stage::Instantiating, store.data().denied()))
}
