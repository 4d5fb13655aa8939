//! What is rolled up, to be kept outside of this process and given back to another.

use jiff::Timestamp;

use super::Mirror;

/// What is rolled up of a tenant's GPUs of one model, with what was counted of its holdings: together, so that nothing is
/// counted twice or left out by whoever goes on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRollUp {
    pub tenant: String,
    pub gpu_model: String,
    /// Postcard; begins with the version of its form.
    pub bytes: Vec<u8>,
}

/// Why bytes were not taken: of another version, torn, or of more than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a roll-up that this version can read")]
pub struct NotARollUp;

impl Mirror {
    /// Those that took something in since this was last called with `after` (0 the first time), and what to call it with next.
    pub fn roll_ups_changed(&self, _after: u64) -> (Vec<KeptRollUp>, u64) {
        (Vec::new(), 0)
    }

    /// Takes a roll-up in where nothing of this tenant and model is rolled up yet; false where something is.
    ///
    /// # Errors
    /// [`NotARollUp`].
    pub fn restore_roll_up(&self, _kept: &KeptRollUp, _now: Timestamp) -> Result<bool, NotARollUp> {
        Err(NotARollUp)
    }
}
