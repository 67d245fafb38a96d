//! Questions that cannot be answered, told apart by whose turn it is.

/// Why a question is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// What it is about cannot be read or made.
    Failure,
    /// It asks for something that cannot be meant.
    Usage,
    /// The data do not suffice to answer it.
    Inconclusive,
}

/// A question that is refused, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// A sentence for people.
    pub message: String,
}

/// Refuses a question about what cannot be read or made.
pub fn failure_refusal(message: String) -> anyhow::Error {
    let reason = RefusalReason::Failure;
    Refusal { reason, message }.into()
}

/// Refuses a question that cannot be meant.
pub fn usage_refusal(message: String) -> anyhow::Error {
    let reason = RefusalReason::Usage;
    Refusal { reason, message }.into()
}

/// Refuses a question that the data do not answer.
pub fn inconclusive_refusal(message: String) -> anyhow::Error {
    let reason = RefusalReason::Inconclusive;
    Refusal { reason, message }.into()
}
