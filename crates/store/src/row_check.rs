//! Checks of what a row says: of an event, an image or a place that the recording has.

use crate::error::Fault;
use crate::table_reader::Rows;
use profile::{EventId, ImageId, Location, Recording, StackId, StackTable};

/// Whether what was read of a table can be used.
pub(crate) type Read = Result<(), Fault>;

/// Checks of the values of a row.
pub(crate) struct Check<'a>(pub &'a Rows<'a>, pub usize);

impl Check<'_> {
    pub fn fault(&self, what: impl Into<String>) -> Fault {
        Fault::in_row(self.0.number(self.1), what)
    }

    pub fn count(&self, value: i64) -> Result<u64, Fault> {
        u64::try_from(value).map_err(|_| self.fault(format!("a count of {value}")))
    }

    pub fn flag(&self, value: i64) -> Result<bool, Fault> {
        match value {
            0 | 1 => Ok(value == 1),
            _ => Err(self.fault(format!("{value} where only 0 and 1 can be"))),
        }
    }

    pub fn id32(&self, value: i64) -> Result<u32, Fault> {
        u32::try_from(value).map_err(|_| self.fault(format!("an id of {value}")))
    }

    /// A position in a table of `len` entries.
    pub fn index(&self, value: i64, len: usize, of: &str) -> Result<u32, Fault> {
        let index = u32::try_from(value).ok().filter(|i| (*i as usize) < len);
        index.ok_or_else(|| self.fault(format!("{of} {value} of {len}")))
    }

    pub fn event(&self, value: i64, recording: &Recording) -> Result<EventId, Fault> {
        let event = self.index(value, recording.events.len(), "event")?;
        u16::try_from(event)
            .map(EventId)
            .map_err(|_| self.fault(format!("event {value}")))
    }

    pub fn image(&self, value: i64, recording: &Recording) -> Result<ImageId, Fault> {
        self.index(value, recording.images.len(), "image")
            .map(ImageId)
    }

    pub fn frame(
        &self,
        stacks: &mut StackTable,
        location: Location,
        caller: Option<StackId>,
    ) -> Result<StackId, Fault> {
        // One more would panic.
        if stacks.len() >= u32::MAX as usize {
            return Err(self.fault("too many stacks"));
        }
        Ok(stacks.intern(location, caller))
    }

    /// A row that repeats in `id` its own number.
    pub fn own_number(&self, id: i64) -> Read {
        match u64::try_from(id) == Ok(self.0.number(self.1)) {
            true => Ok(()),
            false => Err(self.fault(format!("the id is {id}"))),
        }
    }
}
