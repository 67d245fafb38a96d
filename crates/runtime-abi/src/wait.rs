//! Waits for events outside of the program (a disk, a timer, another process), and running in the
//! kernel.
//!
//! At the end of a system call the kernel reports how long the call waited ([`ExternalWait`]) and
//! how often it was sampled ([`CallEnd`]). If the line that made the call is sped up, the other
//! threads owe delays for that time. They have to pay while the wait lasts: a thread that pays all
//! of it at the end is late, and a thread woken at that moment is forgiven the debt. So the
//! controller charges long waits as they go on ([`ThreadWaits::charge_early`]); it knows the line
//! from the last wait at that place of the thread's stack. The thread charges the rest.

use crate::clock::Clock;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

const LENGTH_BITS: u32 = 40;
const CALL_BITS: u32 = 12;
const TICKS_SHIFT: u32 = 53;
/// Maximum number of waiting places remembered of a thread.
const SITES: usize = 4;

/// Results of a completed system call, from the value of its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// The wait in the call, if it was long enough.
    pub wait: Option<ExternalWait>,
    /// Number of times that the processor's timer found the thread in the kernel during the call,
    /// less than 2^11.
    pub ticks: u32,
}

impl CallEnd {
    /// Unpacks the signal's value; `None`: the signal does not report the end of a system call.
    pub fn unpack(value: u64) -> Option<Self> {
        (value != 0).then(|| Self {
            wait: ExternalWait::unpack(value),
            ticks: (value >> TICKS_SHIFT) as u32,
        })
    }
}

/// A wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalWait {
    /// Length in nanoseconds, less than 2^40 (18 minutes).
    pub ns: u64,
    /// The number of the system call, less than 2^12.
    pub call: u32,
    /// True if the call reads a socket, a pipe or a terminal: the peer decides when there is work.
    pub from_peer: bool,
}

impl ExternalWait {
    fn unpack(value: u64) -> Option<Self> {
        let ns = value & ((1 << LENGTH_BITS) - 1);
        (ns > 0).then_some(Self {
            ns,
            call: (value >> LENGTH_BITS) as u32 & ((1 << CALL_BITS) - 1),
            from_peer: value >> (LENGTH_BITS + CALL_BITS) & 1 != 0,
        })
    }

    /// Packs the system call and [`Self::from_peer`] into one word that is not 0.
    pub fn call_word(self) -> u32 {
        1 << 31 | u32::from(self.from_peer) << CALL_BITS | self.call
    }

    /// Unpacks [`Self::call_word`]; `None`: there was no call.
    pub fn of_call_word(word: u32) -> Option<(u32, bool)> {
        let call = word & ((1 << CALL_BITS) - 1);
        (word != 0).then_some((call, word >> CALL_BITS & 1 != 0))
    }
}

/// Messages between a thread and the controller about the thread's waits.
#[repr(C)]
#[derive(Default)]
pub struct ThreadWaits {
    /// Delay that the controller charged while the thread waits and that is not in
    /// [`crate::Thread::local`] yet ([`Clock`]); both.
    early: AtomicU64,
    /// The part of the early charges that no wait has accounted for yet ([`Clock`]); thread.
    settled: AtomicU64,
    sites: [Site; SITES],
    /// The site that is replaced next; thread.
    next: AtomicU32,
}

/// A place at which the thread waited for an outside event; thread.
#[repr(C)]
#[derive(Default)]
struct Site {
    /// Code address behind the system call; 0: none.
    pc: AtomicU64,
    /// The stack pointer there.
    sp: AtomicU64,
    /// The fragment that made the call.
    fragment: AtomicU32,
}

impl ThreadWaits {
    /// Clears the state for another thread in the slot.
    pub fn clear(&self) {
        self.early.store(0, Relaxed);
        self.settled.store(0, Relaxed);
        for site in &self.sites {
            site.pc.store(0, Relaxed);
        }
    }

    /// Charges a delay for the current wait. Only the controller calls this.
    pub fn charge_early(&self, epoch: u16, ns: u64) {
        let add = |word| Some(add_to(word, epoch, ns));
        let _ = self.early.fetch_update(AcqRel, Relaxed, add);
    }

    /// Returns the early charge that is not in the thread's count yet, in nanoseconds.
    pub fn pending_charge(&self, epoch: u16) -> u64 {
        Clock::unpack(self.early.load(Acquire)).delay_in(epoch)
    }

    /// Takes the early charge; the thread adds it to its count.
    pub fn take_early(&self, epoch: u16) -> u64 {
        if self.early.load(Relaxed) == 0 {
            return 0;
        }
        let ns = Clock::unpack(self.early.swap(0, AcqRel)).delay_in(epoch);
        let settled = add_to(self.settled.load(Relaxed), epoch, ns);
        self.settled.store(settled, Relaxed);
        ns
    }

    /// Ends a wait that costs `charge` nanoseconds of delay. Returns the part that was not charged
    /// early.
    pub fn set_off(&self, epoch: u16, charge: u64) -> u64 {
        let settled = Clock::unpack(self.settled.load(Relaxed)).delay_in(epoch);
        let delay_ns = settled.saturating_sub(charge);
        self.settled
            .store(Clock { epoch, delay_ns }.pack(), Relaxed);
        charge.saturating_sub(settled)
    }

    /// Records the fragment of the wait at a place.
    pub fn remember_site(&self, pc: u64, sp: u64, fragment: u32) {
        if self.fragment_at(pc, sp) == Some(fragment) {
            return;
        }
        let same = |site: &&Site| site.pc.load(Relaxed) == pc && site.sp.load(Relaxed) == sp;
        let next = || {
            let next = self.next.fetch_add(1, Relaxed) as usize;
            self.sites.get(next % SITES)
        };
        if let Some(site) = self.sites.iter().find(same).or_else(next) {
            site.pc.store(0, Release);
            site.sp.store(sp, Relaxed);
            site.fragment.store(fragment, Relaxed);
            site.pc.store(pc, Release);
        }
    }

    /// Returns the fragment of the waits that began at a place; `None`: unknown, or the waits there
    /// were not for outside events.
    pub fn fragment_at(&self, pc: u64, sp: u64) -> Option<u32> {
        let there = |site: &&Site| site.pc.load(Acquire) == pc && site.sp.load(Relaxed) == sp;
        let site = self.sites.iter().find(there)?;
        Some(site.fragment.load(Relaxed))
    }
}

fn add_to(word: u64, epoch: u16, ns: u64) -> u64 {
    let delay_ns = Clock::unpack(word).delay_in(epoch) + ns;
    Clock { epoch, delay_ns }.pack()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_length_call_peer_and_samples() {
        assert_eq!(CallEnd::unpack(0), None);
        let wait = ExternalWait {
            ns: 1_500_000,
            call: 74,
            from_peer: true,
        };
        let both = CallEnd::unpack(3 << 53 | 1 << 52 | 74 << 40 | 1_500_000).unwrap();
        assert_eq!((both.wait, both.ticks), (Some(wait), 3));
        let ran = CallEnd::unpack(2047 << 53).unwrap();
        assert_eq!((ran.wait, ran.ticks), (None, 2047));
        assert_eq!(
            ExternalWait::of_call_word(wait.call_word()),
            Some((74, true))
        );
        assert_eq!(ExternalWait::of_call_word(0), None);
    }

    #[test]
    fn what_was_charged_early_is_not_charged_again() {
        let waits = ThreadWaits::default();
        waits.charge_early(3, 400);
        waits.charge_early(3, 300);
        assert_eq!(waits.pending_charge(3), 700);
        assert_eq!(waits.take_early(3), 700);
        assert_eq!(waits.take_early(3), 0);
        assert_eq!(waits.set_off(3, 1000), 300);
        assert_eq!(waits.set_off(3, 1000), 1000);
    }

    #[test]
    fn what_was_charged_too_much_is_set_off_later() {
        let waits = ThreadWaits::default();
        waits.charge_early(3, 700);
        waits.take_early(3);
        assert_eq!(waits.set_off(3, 500), 0);
        assert_eq!(waits.set_off(3, 500), 300);
    }

    #[test]
    fn nothing_reaches_the_next_experiment() {
        let waits = ThreadWaits::default();
        waits.charge_early(3, 700);
        assert_eq!(waits.take_early(4), 0);
        waits.charge_early(4, 50);
        assert_eq!(waits.take_early(4), 50);
        assert_eq!(waits.set_off(5, 100), 100);
    }

    #[test]
    fn sites_are_known_until_others_take_their_place() {
        let waits = ThreadWaits::default();
        waits.remember_site(10, 100, 1);
        waits.remember_site(10, 200, 2);
        assert_eq!(waits.fragment_at(10, 100), Some(1));
        assert_eq!(waits.fragment_at(10, 200), Some(2));
        waits.remember_site(10, 100, 3);
        assert_eq!(waits.fragment_at(10, 100), Some(3));
        for more in 0..4 {
            waits.remember_site(20 + more, 0, 9);
        }
        assert_eq!(waits.fragment_at(10, 100), None);
        assert_eq!(waits.fragment_at(23, 0), Some(9));
        waits.clear();
        assert_eq!(waits.fragment_at(23, 0), None);
    }
}
