//! A stand-in for `libnvidia-ml.so.1`: the driver's library as scenarios describe it, so that the real calling code is under test.
