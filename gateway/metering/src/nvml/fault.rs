//! What can go wrong when the driver is asked, in the six classes that the reading tells apart.

use nvml_wrapper::error::NvmlError;

/// Every error of the driver, of its library and of the wrapper is one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This device, driver or library cannot answer that, ever. Absent, and not asked again until the library is initialised
    /// anew or the MIG mode changes.
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
