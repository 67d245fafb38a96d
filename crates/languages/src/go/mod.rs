//! Go: the function table of a program, and the labels of its goroutines.

mod function_table;
mod image;
mod main_module;
mod program;

pub use function_table::{
    FunctionTable, GoFrame, GoFrameKind, GoFunction, MAX_TABLE, TABLE_SECTIONS,
};
pub use image::GoImage;
pub use main_module::GoModule;
pub use program::{GoLabelForm, GoProgram};
