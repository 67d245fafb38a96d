//! System calls during which a thread can be borrowed.

/// Returns whether a system call only waits, without side effects, and can be restarted with the
/// same arguments.
pub(super) fn is_plain_wait(number: i64, arguments: &[u64; 6]) -> bool {
    let [.., d, e, f] = *arguments;
    match number {
        libc::SYS_futex
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_poll
        | libc::SYS_select
        | libc::SYS_epoll_wait
        | libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_wait4
        | libc::SYS_pause => true,
        // With a signal mask for the time of the wait the call does more than wait.
        libc::SYS_ppoll => d == 0,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => e == 0,
        libc::SYS_pselect6 => f == 0,
        _ => false,
    }
}

/// Returns whether the restarted call would wait for its whole timeout again.
pub(super) fn would_wait_longer(number: i64, arguments: &[u64; 6]) -> bool {
    let [_, _, _, timeout, ..] = *arguments;
    match number {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => timeout as i32 > 0,
        libc::SYS_epoll_pwait2 => timeout != 0,
        _ => false,
    }
}

/// Returns whether an interrupted system call without effects so far can be restarted unnoticed;
/// its timeout begins anew. The kernel restarts many calls itself, but not these.
pub(super) fn can_begin_again(number: i64, arguments: &[u64; 6]) -> bool {
    is_plain_wait(number, arguments)
        || matches!(
            number,
            libc::SYS_epoll_pwait
                | libc::SYS_epoll_pwait2
                | libc::SYS_semop
                | libc::SYS_semtimedop
                | libc::SYS_io_getevents
                | libc::SYS_io_uring_enter
                | libc::SYS_rt_sigtimedwait
                // On sockets with a timeout.
                | libc::SYS_write
                | libc::SYS_writev
                | libc::SYS_sendto
                | libc::SYS_sendmsg
                | libc::SYS_sendmmsg
                | libc::SYS_recvmmsg
        )
}
