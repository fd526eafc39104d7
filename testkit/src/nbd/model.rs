//! Successive clients of the NBD server. The server's answers are compared with the protocol's
//! document. The server must answer every option and request, must send no other answers, and must
//! keep the written data. The answers must not depend on the way in which the client's bytes are
//! split.

use super::session::{EXPORTS, Expected, Session, Shape, Stage, Terms, What, description};
use super::*;
use crate::contents::{Data as Payload, shorter};
use crate::{Choices, Model};
use serve::nbd::bounds::{
    HEAVY_BYTES, INPUT_BUFFER, OPTION_DATA_MAX, PAYLOAD_MAX, READ_PART, WORKER_BUFFER,
};
use serve::nbd::{Export, Exports, Mode, converse};
use std::sync::Arc;
use zram::{Config, Device, SLOT_BYTES};

pub use super::data::{Data, Data::*, Name, Name::*, Query, Query::*};
pub use crate::contents::Data::*;

/// The maximum length in bytes of a drawn write, unless the write is deliberately too long.
const WRITTEN_MAX: usize = 300 << 10;

#[derive(Clone, Debug)]
pub struct Setup {
    pub slots: usize,
    pub block: usize,
    /// The number of bytes that the server receives at a time.
    pub step: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub kind: u16,
    pub flags: u16,
    pub offset: u64,
    pub len: u32,
    /// The data of a write.
    pub data: Payload,
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The client disconnects. Another client connects and does not choose an export yet.
    Connect {
        flags: u32,
    },
    /// The client disconnects. Another client connects and chooses an export.
    Client {
        name: Name,
        is_structured: bool,
    },
    Haggle(u32, Data),
    Ask(Request),
    /// The client sends this number of the option's bytes, but never all of them, and disconnects.
    HaggleInPart(u32, Data, usize),
    AskInPart(Request, usize),
    /// Sends bytes that begin neither an option nor a request.
    Garbage(usize),
}
use Event::*;

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub clients: usize,
    pub options: usize,
    pub done: usize,
    pub refused: usize,
    /// The number of bytes that were read.
    pub read: usize,
    pub extents: usize,
}

/// A disk, and the exports of its server.
struct Side {
    device: Arc<Device>,
    exports: Exports,
}

impl Side {
    fn new(setup: &Setup) -> Self {
        let config = Config::new((setup.slots * SLOT_BYTES) as u64).expect("there are codecs");
        let config = Config { block: setup.block, ..config };
        let device = Arc::new(Device::new(config).expect("there is memory"));
        let exports = EXPORTS.map(|(name, is_read_only)| Export {
            name: name.to_owned(),
            description: description(name),
            disk: Arc::new(device.clone()),
            mode: if is_read_only { Mode::ReadOnly } else { Mode::ReadWrite },
        });
        Side { device, exports: Exports::new(exports) }
    }
}

pub struct NbdModel {
    setup: Setup,
    shape: Shape,
    /// Two servers. The first server receives all bytes at once, the second server in steps.
    sides: [Side; 2],
    session: Session,
    /// The contents of the disk after all requests so far.
    bytes: Vec<u8>,
    stored: Vec<bool>,
    report: Report,
}

impl NbdModel {
    /// Checks all answers to the old client and the contents of the disk. After these checks,
    /// connects a new client.
    fn connect(&mut self, flags: u32) {
        let session = std::mem::replace(&mut self.session, Session::new(flags));
        let answers = [(&self.sides[0], usize::MAX), (&self.sides[1], self.setup.step)]
            .map(|(side, step)| converse(&side.exports, &session.sent, step));
        session.verify(&answers[0]);
        assert!(answers[0] == answers[1], "by {} bytes it is answered otherwise", self.setup.step);
        for side in &self.sides {
            let mut found = vec![0xee; self.bytes.len()];
            side.device.read(0, &mut found).expect("all can be read");
            let differs = found.iter().zip(&self.bytes).position(|(found, byte)| found != byte);
            assert_eq!(differs, None, "the disk differs from that byte on");
        }
        self.report.clients += 1;
        session.expected.iter().for_each(|expected| self.report.count(expected));
    }

    fn send(&mut self, request: &Request) {
        let cookie = self.session.requests + 1;
        let sent = request.bytes(cookie);
        let Stage::Requests(terms) = self.session.stage else {
            return self.session.send_wrong(&sent);
        };
        if request.kind == DISC || request.is_too_long() {
            return self.session.send_wrong(&sent);
        }
        self.session.requests = cookie;
        self.session.sent.extend(sent);
        let what = match self.error(request, terms) {
            Some(error) => What::Error(error),
            None => self.done(request),
        };
        self.session.expected.push(Expected::Reply { cookie, what });
    }

    /// Returns the error that the server must return for the request, if any.
    fn error(&self, request: &Request, terms: Terms) -> Option<u32> {
        let Request { kind, flags, offset, len, .. } = *request;
        let own = match kind {
            READ if terms.is_structured => DF,
            WRITE_ZEROES => NO_HOLE | FAST_ZERO,
            BLOCK_STATUS => REQ_ONE,
            READ | WRITE | FLUSH | TRIM | CACHE => 0,
            _ => return Some(EINVAL),
        };
        let is_changed = matches!(kind, WRITE | TRIM | WRITE_ZEROES);
        let is_on_disk =
            offset.checked_add(len.into()).is_some_and(|end| end <= self.bytes.len() as u64);
        match kind {
            _ if flags & !(FUA | own) != 0 => Some(EINVAL),
            _ if is_changed && terms.is_read_only => Some(EPERM),
            FLUSH => ((offset, len) != (0, 0)).then_some(EINVAL),
            WRITE | WRITE_ZEROES => (!is_on_disk).then_some(ENOSPC),
            _ if !is_on_disk => Some(EINVAL),
            READ if flags & DF != 0 && len as usize > READ_PART => Some(EOVERFLOW),
            BLOCK_STATUS => (len == 0 || !terms.has_context).then_some(EINVAL),
            _ => None,
        }
    }

    /// Applies the request to the model, and returns the expected answer.
    fn done(&mut self, request: &Request) -> What {
        let (at, len) = (request.offset as usize, request.len as usize);
        let range = at..at + len;
        let (touched, whole) = (
            at / SLOT_BYTES..(at + len).div_ceil(SLOT_BYTES),
            at.div_ceil(SLOT_BYTES)..(at + len) / SLOT_BYTES,
        );
        match request.kind {
            READ if len > 0 => {
                return What::Data { at: request.offset, bytes: self.bytes[range].to_vec() };
            }
            BLOCK_STATUS => {
                let mut extents = self.extents(at, at + len);
                extents.truncate(if request.flags & REQ_ONE != 0 { 1 } else { usize::MAX });
                return What::Extents(extents);
            }
            WRITE if len > 0 => {
                self.bytes[range].copy_from_slice(&request.data.bytes(len));
                self.stored[touched].fill(true);
            }
            WRITE_ZEROES | TRIM if len > 0 => {
                self.bytes[range].fill(0);
                let is_stored = request.kind == WRITE_ZEROES && request.flags & NO_HOLE != 0;
                match is_stored {
                    true => self.stored[touched].fill(true),
                    false if whole.start < whole.end => self.stored[whole].fill(false),
                    false => {}
                }
            }
            _ => {}
        }
        What::Done
    }

    /// Returns the extents of the range. An extent is a run of stored slots, or a run of slots that
    /// are not stored.
    fn extents(&self, at: usize, end: usize) -> Vec<(u32, u32)> {
        let mut extents: Vec<(u32, u32)> = Vec::new();
        let mut from = at;
        while from < end {
            let slot = from / SLOT_BYTES;
            let to = ((slot + 1) * SLOT_BYTES).min(end);
            let state = if self.stored[slot] { 0 } else { STATE_HOLE | STATE_ZERO };
            match extents.last_mut().filter(|(_, last)| *last == state) {
                Some((len, _)) => *len += (to - from) as u32,
                None => extents.push(((to - from) as u32, state)),
            }
            from = to;
        }
        extents
    }

    fn send_part(&mut self, bytes: &[u8], sent: usize) {
        self.session.send_wrong(&bytes[..sent.min(bytes.len() - 1)]);
        self.connect(3);
    }

    /// Returns a stamp for the contents of the next request. Each request has a different stamp.
    fn stamp(&self) -> u64 {
        (self.report.clients as u64) << 32 | self.session.requests
    }

    fn draw_request(&self, choices: &mut Choices) -> Request {
        let kind = match choices.below(16) as u16 {
            10..=12 => READ,
            13.. => WRITE,
            // These commands disconnect the client or are unknown, so they are drawn rarely.
            DISC | 8 | 9 if !choices.one_in(4) => READ,
            kind => kind,
        };
        let edges =
            [HEAVY_BYTES, INPUT_BUFFER, READ_PART, WORKER_BUFFER, self.bytes.len(), WRITTEN_MAX];
        let most = if kind == WRITE { WRITTEN_MAX } else { self.bytes.len() + SLOT_BYTES };
        let len = match choices.below(8) {
            0 => 0,
            1 => choices.beside(&edges, most),
            2 => SLOT_BYTES * choices.below(17.min(self.setup.slots + 1)),
            _ => choices.below(5000).min(self.bytes.len()),
        };
        let offset = match choices.below(8) {
            0 => choices.beside(&[0, self.bytes.len()], self.bytes.len() + SLOT_BYTES),
            1 => (self.bytes.len() + choices.below(2)).saturating_sub(len),
            2 => choices.below(self.setup.slots) * SLOT_BYTES,
            _ if kind == FLUSH => 0,
            _ => choices.below(self.bytes.len().saturating_sub(len).max(1)),
        };
        let (offset, len) = match choices.below(64) {
            0 => (u64::MAX - offset as u64, len as u32),
            1 => (offset as u64, PAYLOAD_MAX + choices.below(3) as u32 - 1),
            2 if kind != WRITE => (offset as u64, u32::MAX),
            _ if kind == FLUSH && !choices.one_in(4) => (0, 0),
            _ => (offset as u64, len as u32),
        };
        let own: &[u16] = match kind {
            READ => &[DF],
            WRITE_ZEROES => &[NO_HOLE, FAST_ZERO, NO_HOLE | FAST_ZERO],
            BLOCK_STATUS => &[REQ_ONE],
            _ => &[0],
        };
        let flags = match choices.below(8) {
            0 => FUA,
            1..=3 => *choices.pick(own),
            4 if choices.one_in(4) => choices.u64() as u16,
            _ => 0,
        };
        // Shortens some of the longest writes, because it takes long to send and compare them.
        let is_long = kind == WRITE && len >= PAYLOAD_MAX - 1;
        let len = if is_long && len <= PAYLOAD_MAX { WRITTEN_MAX as u32 } else { len };
        Request { kind, flags, offset, len, data: Payload::draw(choices, self.stamp()) }
    }
}

impl Request {
    /// Returns true if the request is a write that is too long for the server to read completely.
    fn is_too_long(&self) -> bool {
        self.kind == WRITE && self.len > PAYLOAD_MAX
    }

    fn bytes(&self, cookie: u64) -> Vec<u8> {
        let mut bytes = header(self.kind, self.flags, cookie, self.offset, self.len);
        if self.kind == WRITE && !self.is_too_long() {
            bytes.extend(self.data.bytes(self.len as usize));
        }
        bytes
    }
}

impl Report {
    fn count(&mut self, expected: &Expected) {
        let Expected::Reply { what, .. } = expected else {
            self.options += 1;
            return;
        };
        let is_refused = matches!(what, What::Error(_));
        *if is_refused { &mut self.refused } else { &mut self.done } += 1;
        match what {
            What::Data { bytes, .. } => self.read += bytes.len(),
            What::Extents(extents) => self.extents += extents.len(),
            What::Done | What::Error(_) => {}
        }
    }
}

fn draw_name(choices: &mut Choices) -> Name {
    *choices.pick(&[First, Disk, Disk, Fixed, Unknown, Longest, TooLong])
}

fn draw_option(choices: &mut Choices) -> (u32, Data) {
    let option = match choices.below(16) as u32 {
        13.. => GO,
        // The numbers 4, 11 and 12 are no options of the protocol.
        option => option,
    };
    let name = draw_name(choices);
    let data = match option {
        _ if choices.one_in(8) => match choices.below(16) {
            0 => Junk(OPTION_DATA_MAX + choices.below(3) - 1),
            len => Junk(len),
        },
        EXPORT_NAME => Named(name),
        INFO | GO => Info { name, asked: [(); 2].map(|()| choices.below(5) as u16) },
        LIST_META_CONTEXT | SET_META_CONTEXT => {
            let queries = [Nothing, Base, Allocation, Allocation, Other, LongQuery];
            Contexts { name, queries: [(); 2].map(|()| *choices.pick(&queries)) }
        }
        _ => Junk(0),
    };
    (option, data)
}

impl Model for NbdModel {
    type Setup = Setup;
    type Event = Event;
    type Report = Report;

    fn setup(choices: &mut Choices) -> Setup {
        let block = SLOT_BYTES << choices.below(5);
        let step = match choices.bool() {
            true => choices.within(1..=64),
            false => choices.within(1..=300_000),
        };
        Setup { slots: choices.within(1..=128), block, step }
    }

    fn new(setup: &Setup) -> Option<Self> {
        let size = setup.slots * SLOT_BYTES;
        let shape = Shape { size: size as u64, block: setup.block as u32, longest: PAYLOAD_MAX };
        Some(NbdModel {
            shape,
            sides: [Side::new(setup), Side::new(setup)],
            session: Session::new(3),
            bytes: vec![0; size],
            stored: vec![false; setup.slots],
            report: Report::default(),
            setup: setup.clone(),
        })
    }

    fn draw(&self, choices: &mut Choices) -> Event {
        let weights = match self.session.stage {
            Stage::Options => {
                [(0, 'c'), (5, 'n'), (20, 'h'), (1, 'a'), (1, 'H'), (0, 'A'), (1, 'g')]
            }
            Stage::Requests(_) => {
                [(0, 'c'), (2, 'n'), (1, 'h'), (80, 'a'), (0, 'H'), (2, 'A'), (1, 'g')]
            }
            Stage::Over => [(2, 'c'), (4, 'n'), (1, 'h'), (1, 'a'), (0, 'H'), (0, 'A'), (0, 'g')],
        };
        match choices.weighted(&weights) {
            'c' => Connect { flags: *choices.pick(&[3, 0, 1, 2, 3, 4, 1 << 31]) },
            'n' => {
                let name = *choices.pick(&[Disk, Disk, Disk, First, Fixed]);
                Client { name, is_structured: choices.bool() }
            }
            'h' => {
                let (option, data) = draw_option(choices);
                Haggle(option, data)
            }
            'H' => {
                let (option, data) = draw_option(choices);
                HaggleInPart(option, data, choices.below(64))
            }
            'a' => Ask(self.draw_request(choices)),
            'A' => {
                let request = self.draw_request(choices);
                AskInPart(request, choices.beside(&[28], 28 + request.len.min(1 << 20) as usize))
            }
            _ => Garbage(choices.within(1..=64)),
        }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Connect { flags } => self.connect(flags),
            Client { name, is_structured } => {
                self.connect(3);
                if is_structured {
                    self.session.haggle(STRUCTURED_REPLY, &Junk(0), self.shape);
                    let data = Contexts { name, queries: [Allocation, Nothing] };
                    self.session.haggle(SET_META_CONTEXT, &data, self.shape);
                }
                self.session.haggle(GO, &Info { name, asked: [0; 2] }, self.shape);
            }
            Haggle(kind, data) => self.session.haggle(kind, &data, self.shape),
            Ask(request) => self.send(&request),
            HaggleInPart(kind, data, sent) => self.send_part(&option(kind, &data.bytes()), sent),
            AskInPart(request, sent) => {
                let bytes = request.bytes(self.session.requests + 1);
                self.send_part(&bytes, sent);
            }
            Garbage(len) => self.session.send_wrong(&vec![0xee; len]),
        }
    }

    fn check(&mut self) {
        self.sides.iter().for_each(|side| side.device.check());
    }

    fn finish(mut self) -> Report {
        self.connect(3);
        self.check();
        self.report
    }

    fn simpler(event: &Event) -> Vec<Event> {
        match *event {
            Client { name, is_structured: true } => vec![Client { name, is_structured: false }],
            Client { name: First | Fixed, is_structured } => {
                vec![Client { name: Disk, is_structured }]
            }
            Ask(request) => simpler(request).into_iter().map(Ask).collect(),
            HaggleInPart(..) | AskInPart(..) => vec![Connect { flags: 3 }],
            Garbage(len) => shorter(len).map(Garbage).collect(),
            _ => vec![],
        }
    }
}

/// Returns requests to try instead of `request`.
fn simpler(request: Request) -> Vec<Request> {
    let Request { flags, offset, len, data, .. } = request;
    let mut simpler: Vec<Request> =
        shorter(len as usize).map(|len| Request { len: len as u32, ..request }).collect();
    let offsets = [0, offset / SLOT_BYTES as u64 * SLOT_BYTES as u64];
    let lower = offsets.into_iter().filter(|lower| *lower < offset);
    simpler.extend(lower.map(|offset| Request { offset, ..request }));
    simpler.extend((flags != 0).then_some(Request { flags: 0, ..request }));
    simpler.extend(data.simpler().into_iter().map(|data| Request { data, ..request }));
    simpler
}
