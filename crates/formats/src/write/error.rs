use profile::{CallTreeError, EventId, Recording};
use std::io;

/// Reason that a recording could not be written in another format.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output could not be written.
    #[error("cannot write the {format} output")]
    Io {
        /// The format.
        format: &'static str,
        /// The output's error.
        source: io::Error,
    },
    /// The requested event was not recorded.
    #[error("there is no event {wanted}: the recording has {recorded}")]
    NoSuchEvent {
        /// The requested index.
        wanted: u16,
        /// The number of recorded events.
        recorded: usize,
    },
    /// The scale for multiplexing is invalid.
    #[error(
        "the multiplexing scale of event {event} is {scale}, not a finite factor of at least 0"
    )]
    BadScale {
        /// The event.
        event: String,
        /// Its scale.
        scale: f64,
    },
    /// The recording contradicts itself: it refers to a missing entry.
    #[error("{from} {index} refers to {to} {missing}, but the recording has {have}")]
    Dangling {
        /// The referring table: `sample` or `stack`.
        from: &'static str,
        /// Its index.
        index: usize,
        /// The table that it refers to.
        to: &'static str,
        /// The index that does not exist.
        missing: usize,
        /// Number of entries in that table.
        have: usize,
    },
    /// Its stacks and costs form no call tree.
    #[error("the recording makes no call tree")]
    NoTree(#[source] CallTreeError),
}

impl WriteError {
    /// Wraps an output error of `format`.
    pub(crate) fn wrap_io(format: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { format, source }
    }
}

/// Checks that every index in the recording is valid, so that the writers need not.
pub(crate) fn check_recording(recording: &Recording) -> Result<(), WriteError> {
    for event in &recording.events {
        if !(event.multiplex_scale.is_finite() && event.multiplex_scale >= 0.0) {
            return Err(WriteError::BadScale {
                event: event.name.clone(),
                scale: event.multiplex_scale,
            });
        }
    }
    for (index, frame) in recording.stacks.frames().iter().enumerate() {
        let image = frame.location.image.0 as usize;
        check_index("stack", index, "image", image, recording.images.len())?;
    }
    let (events, names) = (recording.events.len(), recording.names.iter().len());
    let stacks = recording.stacks.len();
    for (index, sample) in recording.samples.iter().enumerate() {
        check_index("sample", index, "event", sample.event.0.into(), events)?;
        check_index("sample", index, "name", sample.process.0 as usize, names)?;
        check_index("sample", index, "stack", sample.stack.0 as usize, stacks)?;
        if let Some(waker) = sample.waker {
            check_index("sample", index, "name", waker.process.0 as usize, names)?;
            if let Some(stack) = waker.stack {
                check_index("sample", index, "stack", stack.0 as usize, stacks)?;
            }
        }
    }
    Ok(())
}

/// As [`check_recording`], and checks that the wanted event exists; a recording without any event
/// passes as empty.
pub(crate) fn check_with_event(recording: &Recording, wanted: EventId) -> Result<(), WriteError> {
    let recorded = recording.events.len();
    if recorded > 0 && usize::from(wanted.0) >= recorded {
        let wanted = wanted.0;
        return Err(WriteError::NoSuchEvent { wanted, recorded });
    }
    check_recording(recording)
}

fn check_index(
    from: &'static str,
    index: usize,
    to: &'static str,
    missing: usize,
    have: usize,
) -> Result<(), WriteError> {
    if missing < have {
        return Ok(());
    }
    Err(WriteError::Dangling {
        from,
        index,
        to,
        missing,
        have,
    })
}
