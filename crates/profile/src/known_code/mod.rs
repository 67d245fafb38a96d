//! The catalogue of well-known code: libraries, runtimes of languages, the kernel.
//!
//! One row of `table.rs` has all knowledge about such code, as patterns for its files and
//! functions. A new runtime or library is a new row there.

mod find;
mod function_name;
mod pattern;
mod row;
mod table;

pub use find::{
    has_role, is_c_library, is_glue, is_library_script, is_lock_operation, is_package,
    is_standard_name, known_functions,
};
pub use function_name::qualified_name;
pub use row::{
    CodeKind, FunctionRole, KnownCode, KnownFunctions, KnownOperation, NamingAdvice, RuntimeWork,
};
/// The place that stands for all lock operations, if threads contend for locks.
pub const LOCKING: &str = "locking and unlocking";

pub use table::{KNOWN_CODE, NODE, PYTHON, RUNTIME};
