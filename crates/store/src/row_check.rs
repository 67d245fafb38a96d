//! Checks that a row refers to an existing event, image or place of the recording.

use crate::error::TableFault;
use crate::table_reader::GroupRows;
use profile::{EventId, ImageId, Location, Recording, StackId, StackTable};

/// The result of reading a table: a fault if its contents are invalid.
pub(crate) type Read = Result<(), TableFault>;

/// Checks of the values of a row.
pub(crate) struct Check<'a>(pub &'a GroupRows<'a>, pub usize);

impl Check<'_> {
    pub fn fault_here(&self, what: impl Into<String>) -> TableFault {
        TableFault::in_row(self.0.table_row(self.1), what)
    }

    pub fn check_count(&self, value: i64) -> Result<u64, TableFault> {
        u64::try_from(value).map_err(|_| self.fault_here(format!("a count of {value}")))
    }

    pub fn check_flag(&self, value: i64) -> Result<bool, TableFault> {
        match value {
            0 | 1 => Ok(value == 1),
            _ => Err(self.fault_here(format!("{value} where only 0 and 1 can be"))),
        }
    }

    pub fn id32(&self, value: i64) -> Result<u32, TableFault> {
        u32::try_from(value).map_err(|_| self.fault_here(format!("an id of {value}")))
    }

    /// Checks an index into a table of `len` entries.
    pub fn check_index(&self, value: i64, len: usize, of: &str) -> Result<u32, TableFault> {
        let index = u32::try_from(value).ok().filter(|i| (*i as usize) < len);
        index.ok_or_else(|| self.fault_here(format!("{of} {value} of {len}")))
    }

    pub fn check_event(&self, value: i64, recording: &Recording) -> Result<EventId, TableFault> {
        let event = self.check_index(value, recording.events.len(), "event")?;
        u16::try_from(event)
            .map(EventId)
            .map_err(|_| self.fault_here(format!("event {value}")))
    }

    pub fn check_image(&self, value: i64, recording: &Recording) -> Result<ImageId, TableFault> {
        self.check_index(value, recording.images.len(), "image")
            .map(ImageId)
    }

    pub fn check_frame(
        &self,
        stacks: &mut StackTable,
        location: Location,
        caller: Option<StackId>,
    ) -> Result<StackId, TableFault> {
        // Another stack would panic.
        if stacks.len() >= u32::MAX as usize {
            return Err(self.fault_here("too many stacks"));
        }
        Ok(stacks.intern(location, caller))
    }

    /// Checks a row whose `id` repeats its own number.
    pub fn own_number(&self, id: i64) -> Read {
        if u64::try_from(id) == Ok(self.0.table_row(self.1)) {
            Ok(())
        } else {
            Err(self.fault_here(format!("the id is {id}")))
        }
    }
}
