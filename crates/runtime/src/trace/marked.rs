//! Blocks that are marked in the source (section 3.1, manual instrumentation).
