//! Causal profiles: reading them, and what is said of them.

mod again;
mod json;
mod profiles;

pub use again::{run_again, typed_time};
pub use json::{CURVE_SPEEDUPS, analyse_files, effects_json, measure_name};
pub use profiles::load_profiles;
