//! System calls on sockets.

use super::trial::{Case, Need, Trial, bytes_of, done, must};
use libc::*;

const ANY_PORT: [u8; 16] = [2, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
const NAME: usize = ANY_PORT.len();

/// Returns a datagram socket and its local address.
fn datagrams() -> (usize, [u8; NAME]) {
    let socket = must(SYS_socket, &[AF_INET as usize, SOCK_DGRAM as usize, 0]);
    must(SYS_bind, &[socket, ANY_PORT.as_ptr() as usize, NAME]);
    let (mut name, mut length) = ([0; NAME], NAME as u32);
    let (at, length) = (name.as_mut_ptr() as usize, &raw mut length as usize);
    must(SYS_getsockname, &[socket, at, length]);
    (socket, name)
}

/// Returns a socket from which five bytes can be read. The socket sent them to itself.
fn with_data() -> usize {
    let (socket, name) = datagrams();
    let data = b"hello".as_ptr() as usize;
    must(SYS_sendto, &[socket, data, 5, 0, name.as_ptr() as usize, NAME]);
    socket
}

/// Returns a listening Unix socket to which a client has connected.
fn listener() -> usize {
    let address = |socket| {
        let (mut name, mut length) = ([0_u8; 110], 110_u32);
        let (at, length_at) = (name.as_mut_ptr() as usize, &raw mut length as usize);
        must(SYS_getsockname, &[socket, at, length_at]);
        (name, length as usize)
    };
    let make = || must(SYS_socket, &[AF_UNIX as usize, SOCK_STREAM as usize, 0]);
    let (listener, client) = (make(), make());
    let unnamed = (AF_UNIX as u16).to_ne_bytes();
    must(SYS_bind, &[listener, unnamed.as_ptr() as usize, 2]);
    must(SYS_listen, &[listener, 1]);
    let (name, length) = address(listener);
    must(SYS_connect, &[client, name.as_ptr() as usize, length]);
    listener
}

fn pair() -> [i32; 2] {
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors to `ends`, a local array of this length.
    done(unsafe { socketpair(AF_UNIX, SOCK_DGRAM, 0, ends.as_mut_ptr()) });
    ends
}

/// Returns a message of five bytes, to be sent to `name`, with a descriptor if `control` contains
/// one.
fn message(name: usize, vector: usize, control: (usize, usize)) -> [usize; 7] {
    [name, if name == 0 { 0 } else { NAME }, vector, 1, control.0, control.1, 0]
}

fn sent(trial: &mut Trial) -> (usize, [usize; 7]) {
    let (socket, own) = datagrams();
    let (name, data) = (trial.input(&own), trial.input(b"hello"));
    let vector = trial.words(&[data, 5]);
    (socket, message(name, vector, (0, 0)))
}

fn received(trial: &mut Trial) -> (usize, [usize; 7]) {
    let socket = with_data();
    let (name, data) = (trial.output(NAME), trial.output(5));
    let vector = trial.words(&[data, 5]);
    // If the control data do not fit, the call succeeds and sets a flag.
    let control = trial.room(64, Need::Maybe);
    (socket, message(name, vector, (control, 64)))
}

/// Returns a message as an element of an array of messages. The element ends without padding.
fn element(message: &[usize]) -> Vec<u8> {
    [bytes_of(message), vec![0; 4]].concat()
}

pub const CASES: &[Case] = &[
    ("socketpair", |t| vec![AF_UNIX as usize, SOCK_STREAM as usize, 0, t.output(8)]),
    ("bind", |t| {
        let socket = must(SYS_socket, &[AF_INET as usize, SOCK_DGRAM as usize, 0]);
        vec![socket, t.input(&ANY_PORT), NAME]
    }),
    ("connect", |t| {
        let (socket, name) = datagrams();
        vec![socket, t.input(&name), NAME]
    }),
    ("accept", |t| vec![listener(), t.output(2), t.ints(&[2])]),
    ("accept4", |t| vec![listener(), t.output(2), t.ints(&[2]), 0]),
    ("getsockname", |t| vec![datagrams().0, t.output(NAME), t.ints(&[16])]),
    ("getpeername", |t| {
        let (socket, name) = datagrams();
        must(SYS_connect, &[socket, name.as_ptr() as usize, NAME]);
        vec![socket, t.output(NAME), t.ints(&[16])]
    }),
    ("getsockopt", |t| {
        vec![datagrams().0, SOL_SOCKET as usize, SO_TYPE as usize, t.output(4), t.ints(&[4])]
    }),
    ("getsockopt linger", |t| {
        vec![datagrams().0, SOL_SOCKET as usize, SO_LINGER as usize, t.output(8), t.ints(&[8])]
    }),
    ("setsockopt", |t| {
        vec![datagrams().0, SOL_SOCKET as usize, SO_RCVBUF as usize, t.ints(&[4096]), 4]
    }),
    ("setsockopt filter", |t| {
        let instructions = t.place(&[6, 0, 0, 0, 255, 0, 0, 0], Need::Unknown);
        let program = t.words(&[1, instructions]);
        vec![datagrams().0, SOL_SOCKET as usize, SO_ATTACH_FILTER as usize, program, 16]
    }),
    ("sendto", |t| {
        let (socket, name) = datagrams();
        vec![socket, t.input(b"hello"), 5, 0, t.input(&name), NAME]
    }),
    ("recvfrom", |t| vec![with_data(), t.output(5), 5, 0, t.output(NAME), t.ints(&[16])]),
    ("sendmsg", |t| {
        let (socket, message) = sent(t);
        vec![socket, t.words(&message), 0]
    }),
    ("sendmsg rights", |t| {
        let data = t.input(b"hello");
        let (vector, ends) = (t.words(&[data, 5]), pair());
        let control = t.ints(&[20, 0, SOL_SOCKET, SCM_RIGHTS, ends[0], 0]);
        vec![ends[0] as usize, t.words(&message(0, vector, (control, 24))), 0]
    }),
    ("sendmmsg", |t| {
        let (socket, message) = sent(t);
        vec![socket, t.input(&element(&message)), 1, 0]
    }),
    ("recvmsg", |t| {
        let (socket, message) = received(t);
        vec![socket, t.words(&message), 0]
    }),
    ("recvmmsg", |t| {
        let (socket, message) = received(t);
        vec![socket, t.input(&element(&message)), 1, 0, t.zeros(16)]
    }),
];
