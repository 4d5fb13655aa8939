//! A stand-in for `libnvidia-ml.so.1`: the driver's library as scenarios describe it, so that the real calling code is under test.
//!
//! Built twice from one source. As a `cdylib` it is opened by the code under test like the driver's own. As an `rlib` it gives
//! tests the types of a [`Scenario`] and [`install`], which puts a copy of the library and a scenario beside it.
//!
//! A scenario is the JSON file `<path of the library>.scenario.json`, read again when it changes. All handles on one path share
//! one state, as with the driver's own; each test installs a copy of its own.
//!
//! It is strict: handles are good for one initialisation, sets and samples until they are freed, and what a caller does against
//! that is refused and written down ([`misuses`]).
//!
//! Return codes, values, hangs and events are simulated. A symbol that is missing is really missing: [`install_without`] renames
//! it in its copy. Not simulated: permissions by user, vGPU, anything about Windows.

mod handles;
mod layout;
mod place;
mod scenario;
mod state;
mod symbols;

pub use place::{Error, calls, change, initialised, install, install_without, library, misuses};
pub use scenario::{
    Behaviour, Clocks, Device, Fields, Gpm, Hang, Instance, Process, Row, Samples, Scenario, UtilisationRow, Value,
    XidEvent,
};
