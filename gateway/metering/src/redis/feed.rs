//! A gateway's side: the stream into the mirror, and roll-ups out of it.
