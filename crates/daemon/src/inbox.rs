//! Requests of clients: new ones, and those that wait for a merge.

use crate::control::{Answer, Asked, Request};
use crate::status::Status;
use std::sync::mpsc::Receiver;

/// Requests without an answer yet.
pub(crate) struct Inbox {
    requests: Receiver<Asked>,
    /// Requests with the tickets of the merges that they wait for; 0 for none.
    waiting: Vec<(u64, Asked)>,
    tickets: u64,
}

/// A new request.
pub(crate) struct NewRequest {
    /// The request.
    pub request: Request,
    /// Ticket of the merge that it waits for; 0 for none.
    pub ticket: u64,
}

impl Inbox {
    /// Makes an inbox without requests.
    pub(crate) fn new(requests: Receiver<Asked>) -> Self {
        Self {
            requests,
            waiting: Vec::new(),
            tickets: 0,
        }
    }

    /// Takes requests from another receiver: the socket was created again.
    pub(crate) fn move_to(&mut self, requests: Receiver<Asked>) {
        self.requests = requests;
    }

    /// Returns a new request, which now waits.
    pub(crate) fn next_request(&mut self) -> Option<NewRequest> {
        let (request, reply) = self.requests.try_recv().ok()?;
        let mut ticket = 0;
        if request.stores_samples() {
            self.tickets += 1;
            ticket = self.tickets;
        }
        self.waiting.push((ticket, (request, reply)));
        Some(NewRequest { request, ticket })
    }

    /// Returns whether a request can be answered once the merges up to a ticket are done.
    pub(crate) fn is_ready(&self, reached: u64) -> bool {
        self.waiting.iter().any(|(ticket, _)| *ticket <= reached)
    }

    /// Answers the requests that are ready. Returns whether one of them was to stop.
    pub(crate) fn answer_ready(&mut self, reached: u64, status: &Status) -> bool {
        let (answered, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(ticket, _)| *ticket <= reached);
        self.waiting = waiting;
        let mut is_stop = false;
        for (_, (request, reply)) in answered {
            // The client may have gone.
            let _ = reply.send(Answer::Status(Box::new(status.clone())));
            is_stop |= request == Request::Stop;
        }
        is_stop
    }
}
