//! System calls on files, pipes and terminals, and calls that wait for them.

use super::trial::{Case, Need, Trial, done, must};
use libc::*;

/// Returns the two ends of a pipe that holds five bytes.
pub fn pipe() -> (usize, usize) {
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors to `ends`, a local array of this length.
    done(unsafe { libc::pipe(ends.as_mut_ptr()) });
    must(SYS_write, &[ends[1] as usize, b"hello".as_ptr() as usize, 5]);
    (ends[0] as usize, ends[1] as usize)
}

/// Returns a file in memory that contains `bytes`.
pub fn file(bytes: &[u8]) -> usize {
    let file = must(SYS_memfd_create, &[c"calls".as_ptr() as usize, 0]);
    must(SYS_pwrite64, &[file, bytes.as_ptr() as usize, bytes.len(), 0]);
    file
}

pub fn open(path: &std::ffi::CStr, flags: i32) -> usize {
    must(SYS_open, &[path.as_ptr() as usize, flags as usize])
}

/// Returns a vector (`iovec`) of two buffers.
fn vector(trial: &mut Trial) -> usize {
    let (first, second) = (trial.output(5), trial.output(3));
    trial.words(&[first, 5, second, 3])
}

fn epoll() -> usize {
    let epoll = must(SYS_epoll_create1, &[0]);
    let mut event = epoll_event { events: EPOLLIN as u32, u64: 7 };
    let event = &raw mut event as usize;
    must(SYS_epoll_ctl, &[epoll, EPOLL_CTL_ADD as usize, pipe().0, event]);
    epoll
}

/// Returns a `flock` for a lock of the whole file, which no other process holds.
fn lock(trial: &mut Trial) -> usize {
    trial.zeros(size_of::<flock>())
}

fn poll_entry(trial: &mut Trial) -> usize {
    let entry = [&(pipe().0 as i32).to_ne_bytes()[..], &POLLIN.to_ne_bytes(), &[0, 0]].concat();
    trial.input(&entry)
}

fn terminal() -> usize {
    open(c"/dev/ptmx", O_RDWR | O_NOCTTY)
}

pub const CASES: &[Case] = &[
    ("read", |t| vec![pipe().0, t.output(5), 5]),
    ("write", |t| vec![pipe().1, t.input(b"hello"), 5]),
    ("write long", |t| vec![file(b""), t.zeros(9000), 9000]),
    ("pread64", |t| vec![file(b"hello"), t.output(5), 5, 0]),
    ("pwrite64", |t| vec![file(b""), t.input(b"hello"), 5, 0]),
    ("readv", |t| vec![file(b"12345678"), vector(t), 2]),
    ("writev", |t| vec![file(b""), vector(t), 2]),
    ("preadv", |t| vec![file(b"12345678"), vector(t), 2, 0]),
    ("pwritev", |t| vec![file(b""), vector(t), 2, 0]),
    ("preadv2", |t| vec![file(b"12345678"), vector(t), 2, 0, 0, 0]),
    ("pwritev2", |t| vec![file(b""), vector(t), 2, 0, 0, 0]),
    ("sendfile", |t| vec![file(b""), file(b"hello"), t.zeros(8), 5]),
    ("copy_file_range", |t| vec![file(b"hello"), t.zeros(8), file(b""), t.zeros(8), 5, 0]),
    ("splice in", |t| vec![file(b"hello"), t.zeros(8), pipe().1, 0, 5, 0]),
    ("splice out", |t| vec![pipe().0, 0, file(b""), t.zeros(8), 5, 0]),
    ("vmsplice", |t| vec![pipe().1, vector(t), 2, 0]),
    ("open", |t| vec![t.text("/dev/null"), 0]),
    ("creat", |t| vec![t.text("/"), 0]),
    ("openat", |t| vec![0, t.text("/dev/null"), 0]),
    ("openat2", |t| vec![0, t.text("/dev/null"), t.zeros(24), 24]),
    ("pipe", |t| vec![t.output(8)]),
    ("pipe2", |t| vec![t.output(8), 0]),
    ("fcntl F_GETLK", |t| vec![file(b""), F_GETLK as usize, lock(t)]),
    ("fcntl F_SETLK", |t| vec![file(b""), F_SETLK as usize, lock(t)]),
    ("fcntl F_SETLKW", |t| vec![file(b""), F_SETLKW as usize, lock(t)]),
    ("fcntl F_OFD_GETLK", |t| vec![file(b""), F_OFD_GETLK as usize, lock(t)]),
    ("fcntl F_OFD_SETLK", |t| vec![file(b""), F_OFD_SETLK as usize, lock(t)]),
    ("fcntl F_SETOWN_EX", |t| vec![pipe().0, 15, t.ints(&[1, 0])]),
    ("fcntl F_GETOWN_EX", |t| vec![pipe().0, 16, t.output(8)]),
    ("fcntl F_GET_RW_HINT", |t| vec![file(b""), 1035, t.output(8)]),
    ("fcntl F_SET_RW_HINT", |t| vec![file(b""), 1036, t.zeros(8)]),
    ("ioctl FIONREAD", |t| vec![pipe().0, FIONREAD as usize, t.output(4)]),
    ("ioctl FIONBIO", |t| vec![pipe().0, FIONBIO as usize, t.zeros(4)]),
    ("ioctl FIOASYNC", |t| vec![pipe().0, FIOASYNC as usize, t.zeros(4)]),
    ("ioctl FIOQSIZE", |t| vec![file(b""), 0x5460, t.output(8)]),
    ("ioctl FIGETBSZ", |t| vec![file(b""), 2, t.output(4)]),
    ("ioctl TCGETS", |t| vec![terminal(), TCGETS as usize, t.output(36)]),
    ("ioctl TCSETS", |t| vec![terminal(), TCSETS as usize, t.zeros(36)]),
    ("ioctl TCGETA", |t| vec![terminal(), TCGETA as usize, t.output(18)]),
    ("ioctl TCGETS2", |t| vec![terminal(), TCGETS2 as usize, t.output(44)]),
    ("ioctl TIOCGWINSZ", |t| vec![terminal(), TIOCGWINSZ as usize, t.output(8)]),
    ("ioctl TIOCSWINSZ", |t| vec![terminal(), TIOCSWINSZ as usize, t.zeros(8)]),
    ("ioctl TIOCOUTQ", |t| vec![terminal(), TIOCOUTQ as usize, t.output(4)]),
    ("ioctl TIOCGETD", |t| vec![terminal(), TIOCGETD as usize, t.output(4)]),
    ("ioctl TIOCSETD", |t| vec![terminal(), TIOCSETD as usize, t.zeros(4)]),
    ("ioctl TIOCPKT", |t| vec![terminal(), 0x5420, t.zeros(4)]),
    ("ioctl TIOCGPTN", |t| vec![terminal(), 0x8004_5430, t.output(4)]),
    ("ioctl TIOCSPTLCK", |t| vec![terminal(), 0x4004_5431, t.zeros(4)]),
    ("getdents", |t| vec![open(c"/", O_RDONLY), t.room(4096, Need::Part), 4096]),
    ("getdents64", |t| vec![open(c"/", O_RDONLY), t.room(4096, Need::Part), 4096]),
    ("memfd_create", |t| vec![t.text("name"), 0]),
    ("cachestat", |t| vec![file(b"hello"), t.zeros(16), t.output(40), 0]),
    ("epoll_ctl", |t| vec![must(SYS_epoll_create1, &[0]), 1, pipe().0, t.zeros(12)]),
    ("epoll_ctl del", |_| vec![must(SYS_epoll_create1, &[0]), 2, pipe().0, 16]),
    ("epoll_wait", |t| vec![epoll(), t.output(12), 1, 0]),
    ("epoll_pwait", |t| vec![epoll(), t.output(12), 1, 0, t.zeros(8), 8]),
    ("epoll_pwait2", |t| vec![epoll(), t.output(12), 1, t.zeros(16), t.zeros(8), 8]),
    ("poll", |t| vec![poll_entry(t), 1, 0]),
    ("ppoll", |t| vec![poll_entry(t), 1, t.zeros(16), t.zeros(8), 8]),
    ("select", |t| vec![64, t.zeros(8), t.zeros(8), t.zeros(8), t.zeros(16)]),
    ("select 65", |t| vec![65, t.place(&[0; 16], Need::Part), 0, 0, t.zeros(16)]),
    ("pselect6", |t| {
        let set = t.zeros(8);
        let packed = t.words(&[set, 8]);
        vec![3, t.zeros(8), t.zeros(8), t.zeros(8), t.zeros(16), packed]
    }),
    ("inotify_add_watch", |t| vec![must(SYS_inotify_init1, &[0]), t.text("/"), IN_OPEN as usize]),
    ("fanotify_mark", |t| {
        let answer = super::trial::raw(SYS_fanotify_init, &[FAN_CLASS_NOTIF as usize, 0]);
        let Ok(group) = usize::try_from(answer) else { return t.leave_out() };
        vec![group, FAN_MARK_ADD as usize, FAN_OPEN as usize, 0, t.text("/")]
    }),
    ("uselib", |t| vec![t.text("/no such file")]),
    ("truncate", |t| vec![t.text("/no such file"), 0]),
];
