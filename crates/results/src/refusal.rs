//! Refused questions, with the kind of reason; errors in one line.

/// Reason for refusing a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The subject of the question cannot be read or made.
    Failure,
    /// The question is invalid.
    Usage,
    /// The data do not suffice to answer the question.
    Inconclusive,
}

/// A refused question, with advice for the user.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Reason of the refusal.
    pub reason: RefusalReason,
    /// A sentence for people.
    pub message: String,
}

/// Refuses a question whose subject cannot be read or made.
pub fn failure_refusal(message: String) -> anyhow::Error {
    let reason = RefusalReason::Failure;
    Refusal { reason, message }.into()
}

/// Refuses an invalid question.
pub fn usage_refusal(message: String) -> anyhow::Error {
    let reason = RefusalReason::Usage;
    Refusal { reason, message }.into()
}

/// Refuses a question that the data do not answer.
pub fn inconclusive_refusal(message: String) -> anyhow::Error {
    let reason = RefusalReason::Inconclusive;
    Refusal { reason, message }.into()
}

/// Returns the chain of causes in one line, without repetitions.
pub fn error_chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
