use profile::{CallTreeError, EventId, Recording};
use std::io;

/// Why a recording could not be written in another format.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output could not be written.
    #[error("cannot write the {format} output")]
    Io {
        /// The format.
        format: &'static str,
        /// What the output answered.
        source: io::Error,
    },
    /// An event was asked for that was not recorded.
    #[error("there is no event {wanted}: the recording has {recorded}")]
    NoSuchEvent {
        /// The index that was asked for.
        wanted: u16,
        /// How many events were recorded.
        recorded: usize,
    },
    /// The factor that makes up for multiplexing is no factor.
    #[error(
        "the multiplexing scale of event {event} is {scale}, not a finite factor of at least 0"
    )]
    BadScale {
        /// The event.
        event: String,
        /// Its scale.
        scale: f64,
    },
    /// The recording contradicts itself: it refers to something that it does not have.
    #[error("{from} {index} refers to {to} {missing}, but the recording has {have}")]
    Dangling {
        /// What refers: `sample` or `stack`.
        from: &'static str,
        /// Its index.
        index: usize,
        /// What it refers to.
        to: &'static str,
        /// The index that does not exist.
        missing: usize,
        /// How many there are.
        have: usize,
    },
    /// Its stacks and costs make no call tree.
    #[error("the recording makes no call tree")]
    NoTree(#[source] CallTreeError),
}

impl WriteError {
    /// Wraps an output error of `format`.
    pub(crate) fn io(format: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { format, source }
    }
}

/// Makes sure that every index in the recording leads somewhere, so that the writers need not look.
pub(crate) fn check(recording: &Recording) -> Result<(), WriteError> {
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
        exists("stack", index, "image", image, recording.images.len())?;
    }
    let (events, names) = (recording.events.len(), recording.names.iter().len());
    let stacks = recording.stacks.len();
    for (index, sample) in recording.samples.iter().enumerate() {
        exists("sample", index, "event", sample.event.0.into(), events)?;
        exists("sample", index, "name", sample.process.0 as usize, names)?;
        exists("sample", index, "stack", sample.stack.0 as usize, stacks)?;
        if let Some(waker) = sample.waker {
            exists("sample", index, "name", waker.process.0 as usize, names)?;
            if let Some(stack) = waker.stack {
                exists("sample", index, "stack", stack.0 as usize, stacks)?;
            }
        }
    }
    Ok(())
}

/// Like [`check`], and makes sure that the wanted event exists; the exception is a recording
/// without any event, which is empty whatever is asked of it.
pub(crate) fn check_with_event(recording: &Recording, wanted: EventId) -> Result<(), WriteError> {
    let recorded = recording.events.len();
    if recorded > 0 && usize::from(wanted.0) >= recorded {
        let wanted = wanted.0;
        return Err(WriteError::NoSuchEvent { wanted, recorded });
    }
    check(recording)
}

fn exists(
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
