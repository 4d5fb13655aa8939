//! What an author's tools know of a policy: how one is begun, its golden cases in the sandbox and beside their native
//! answers, and what can be said of a component without a plan.
//!
//! Nothing here builds or prints: `cli::policy` does.

mod cases;
mod check;
mod declared;
mod lint;
mod native;
mod scaffold;
mod trial;

pub use cases::{BadCase, Case, load_cases};
pub use check::{Check, FUEL_SHARE_PERCENT, Level, Report, check};
pub use declared::beyond_declared;
pub use native::{ANSWERS_VARIABLE, NativeAnswers, NoAnswers};
pub use scaffold::{Created, ScaffoldError, Surroundings, create};
pub use trial::{Answer, Spent, Tried, try_case};
