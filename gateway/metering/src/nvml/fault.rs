//! What can go wrong when the driver is asked, in the six classes that the reading tells apart.

use nvml_wrapper::error::NvmlError;

/// Every error of the driver, of its library and of the wrapper is one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This device, driver or library cannot answer that, ever. Absent, and when it was said in three passes in a row, not
    /// asked again until the library is initialised anew or the MIG mode changes.
    FieldUnavailable,
    /// Nothing new since the last time. No fault.
    NoData,
    /// The agent may not ask that. Absent.
    Permission,
    /// The device is not there for anybody.
    DeviceGone(Gone),
    /// Nothing can be asked of this library any more. It has to be initialised anew.
    LibraryGone,
    /// May be otherwise the next time.
    Transient,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    Lost,
    ResetRequired,
}

// Codes of the C header that the wrapper has no variant for.
const FREQUENCY_NOT_SUPPORTED: u32 = 24;
const ARGUMENT_VERSION_MISMATCH: u32 = 25;
const DEPRECATED: u32 = 26;
const GPU_NOT_FOUND: u32 = 28;
const RESET_TYPE_NOT_SUPPORTED: u32 = 30;

impl From<&NvmlError> for Fault {
    #[expect(deprecated, reason = "a driver may still answer `AlreadyInitialized`")]
    fn from(error: &NvmlError) -> Self {
        match error {
            NvmlError::NotSupported
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::CorruptedInfoROM
            | NvmlError::VgpuEccNotSupported => Self::FieldUnavailable,
            NvmlError::NotFound | NvmlError::NoData => Self::NoData,
            // The operating system or a cgroup keeps the agent from the device.
            NvmlError::NoPermission | NvmlError::OperatingSystem => Self::Permission,
            NvmlError::GpuLost => Self::DeviceGone(Gone::Lost),
            NvmlError::ResetRequired => Self::DeviceGone(Gone::ResetRequired),
            NvmlError::Uninitialized
            | NvmlError::DriverNotLoaded
            | NvmlError::LibRmVersionMismatch
            | NvmlError::LibraryNotFound
            | NvmlError::LibloadingError(_) => Self::LibraryGone,
            NvmlError::UnexpectedVariant(code) => Self::of_unnamed_code(*code),
            // A stale handle, a list that grew between two calls, a text that is none, busy, out of something, or not said.
            NvmlError::InvalidArg
            | NvmlError::AlreadyInitialized
            | NvmlError::InsufficientSize(_)
            | NvmlError::InsufficientPower
            | NvmlError::Timeout
            | NvmlError::IrqIssue
            | NvmlError::InUse
            | NvmlError::InsufficientMemory
            | NvmlError::Unknown
            | NvmlError::Utf8Error(_)
            | NvmlError::NulError(_)
            | NvmlError::StringTooLong { .. }
            | NvmlError::IncorrectBits(_)
            | NvmlError::SetReleaseFailed
            | NvmlError::GetPciInfoFailed
            | NvmlError::PciInfoToCFailed => Self::Transient,
        }
    }
}

impl Fault {
    fn of_unnamed_code(code: u32) -> Self {
        match code {
            FREQUENCY_NOT_SUPPORTED | ARGUMENT_VERSION_MISMATCH | DEPRECATED | RESET_TYPE_NOT_SUPPORTED => {
                Self::FieldUnavailable
            }
            GPU_NOT_FOUND => Self::DeviceGone(Gone::Lost),
            // 23 insufficient resources, 27 not ready, 29 invalid state; and whatever later drivers answer.
            _ => Self::Transient,
        }
    }
}

#[cfg(test)]
mod tests {
    use nvml_wrapper::error::nvml_try;

    use super::*;

    fn of_code(code: u32) -> Fault {
        Fault::from(&nvml_try(code).expect_err("0 is the only success"))
    }

    #[test]
    fn every_code_of_the_header_has_its_class() {
        use Fault::{DeviceGone, FieldUnavailable, LibraryGone, NoData, Permission, Transient};
        let table = [
            (1, LibraryGone),
            (2, Transient),
            (3, FieldUnavailable),
            (4, Permission),
            (5, Transient),
            (6, NoData),
            (7, Transient),
            (8, Transient),
            (9, LibraryGone),
            (10, Transient),
            (11, Transient),
            (12, LibraryGone),
            (13, FieldUnavailable),
            (14, FieldUnavailable),
            (15, DeviceGone(Gone::Lost)),
            (16, DeviceGone(Gone::ResetRequired)),
            (17, Permission),
            (18, LibraryGone),
            (19, Transient),
            (20, Transient),
            (21, NoData),
            (22, FieldUnavailable),
            (23, Transient),
            (24, FieldUnavailable),
            (25, FieldUnavailable),
            (26, FieldUnavailable),
            (27, Transient),
            (28, DeviceGone(Gone::Lost)),
            (29, Transient),
            (30, FieldUnavailable),
            (999, Transient),
        ];
        for (code, fault) in table {
            assert_eq!(of_code(code), fault, "code {code}");
        }
        for (position, (code, _)) in (1..).zip(&table[..30]) {
            assert_eq!(*code, position, "no code is left out");
        }
        for later in [31, 40, 998, 1_000, u32::MAX] {
            assert_eq!(of_code(later), Transient, "code {later}");
        }
    }

    #[test]
    fn the_wrappers_own_errors_have_theirs() {
        let missing = NvmlError::FailedToLoadSymbol("nvmlDeviceGetSamples".to_owned());
        assert_eq!(Fault::from(&missing), Fault::FieldUnavailable);
        for passing in [
            NvmlError::StringTooLong { max_len: 1, actual_len: 2 },
            NvmlError::SetReleaseFailed,
            NvmlError::GetPciInfoFailed,
            NvmlError::PciInfoToCFailed,
            NvmlError::InsufficientSize(Some(9)),
        ] {
            assert_eq!(Fault::from(&passing), Fault::Transient, "{passing:?}");
        }
    }
}
