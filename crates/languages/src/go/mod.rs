//! Go: what a program says of its functions.

mod function_table;
mod image;
mod program;

pub use function_table::{
    FunctionTable, GoFrame, GoFrameKind, GoFunction, MAX_TABLE, TABLE_SECTIONS,
};
pub use image::GoImage;
pub use program::{GoLabelForm, GoProgram};
