//! A client's connection: the bytes that the client sends, and the answers that it expects.

use super::data::{Data, asked};
use super::*;
use serve::nbd::bounds::{OPTION_DATA_MAX, OPTIONS_MAX};

/// An expected answer.
#[derive(Debug)]
pub enum Expected {
    /// The answer to an option; `None` accepts any data.
    Option {
        option: u32,
        kind: u32,
        data: Option<Vec<u8>>,
    },
    /// The answer to EXPORT_NAME.
    Export(Vec<u8>),
    Reply {
        cookie: u64,
        what: What,
    },
}

/// The expected contents of a reply.
#[derive(Debug)]
pub enum What {
    Done,
    Error(u32),
    Data { at: u64, bytes: Vec<u8> },
    Extents(Vec<(u32, u32)>),
}

/// The stage of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    Options,
    Requests(Terms),
    /// The server reads nothing more.
    Over,
}

/// The result of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub is_read_only: bool,
    pub is_structured: bool,
    /// Whether the client is allowed to request a block status with `base:allocation`.
    pub has_context: bool,
}

/// The export that a name selects.
pub struct Found {
    pub name: &'static str,
    pub is_read_only: bool,
}

/// The exports of every model: a writable export and a read-only export of one disk.
pub const EXPORTS: [(&str, bool); 2] = [("disk", false), ("fixed", true)];

/// The sizes that a server reports for the disk.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub size: u64,
    pub block: u32,
    pub longest: u32,
}

#[derive(Debug)]
pub struct Session {
    pub stage: Stage,
    pub sent: Vec<u8>,
    pub expected: Vec<Expected>,
    /// The number of requests that were sent. Each request has its number as its cookie.
    pub requests: u64,
    options: usize,
    has_zeroes: bool,
    is_structured: bool,
    /// The export name with which the client chose `base:allocation`.
    context: Option<String>,
}

fn find(name: &str) -> Option<Found> {
    let named = EXPORTS.into_iter().find(|(own, _)| *own == name);
    let found = named.or_else(|| name.is_empty().then_some(EXPORTS[0]));
    found.map(|(name, is_read_only)| Found { name, is_read_only })
}

impl Session {
    /// Returns a client that has received the greeting, and sends its flags.
    pub fn new(flags: u32) -> Self {
        let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
        Session {
            stage: if flags & !known == 0 { Stage::Options } else { Stage::Over },
            sent: flags.to_be_bytes().to_vec(),
            expected: Vec::new(),
            requests: 0,
            options: 0,
            has_zeroes: flags & u32::from(NO_ZEROES) == 0,
            is_structured: false,
            context: None,
        }
    }

    /// Sends bytes that are not valid at this stage.
    pub fn send_wrong(&mut self, bytes: &[u8]) {
        self.sent.extend(bytes);
        self.stage = Stage::Over;
    }

    /// Sends an option, and expects the answer to it.
    pub fn haggle(&mut self, kind: u32, data: &Data, shape: Shape) {
        let bytes = data.bytes();
        let is_possible = self.stage == Stage::Options
            && bytes.len() <= OPTION_DATA_MAX
            && self.options < OPTIONS_MAX;
        if !is_possible {
            return self.send_wrong(&option(kind, &bytes));
        }
        self.sent.extend(option(kind, &bytes));
        self.options += 1;
        let has_data = !bytes.is_empty();
        match kind {
            EXPORT_NAME => self.choose_by_name(&bytes, shape),
            ABORT => {
                self.answer(kind, ACK, Some(Vec::new()));
                self.stage = Stage::Over;
            }
            LIST | STARTTLS | STRUCTURED_REPLY if has_data => self.refuse(kind, ERR_INVALID),
            LIST => {
                for (name, _) in EXPORTS {
                    let len = (name.len() as u32).to_be_bytes();
                    let text = description(name);
                    let data = [&len, name.as_bytes(), text.as_bytes()].concat();
                    self.answer(kind, REP_SERVER, Some(data));
                }
                self.answer(kind, ACK, Some(Vec::new()));
            }
            STARTTLS => self.refuse(kind, ERR_POLICY),
            STRUCTURED_REPLY => {
                self.is_structured = true;
                self.answer(kind, ACK, Some(Vec::new()));
            }
            INFO | GO => self.tell(kind, data, shape),
            LIST_META_CONTEXT | SET_META_CONTEXT => self.contexts(kind, data),
            _ => self.refuse(kind, ERR_UNSUP),
        }
    }

    fn answer(&mut self, option: u32, kind: u32, data: Option<Vec<u8>>) {
        self.expected.push(Expected::Option { option, kind, data });
    }

    /// Expects a reply that refuses the option and contains a text.
    fn refuse(&mut self, option: u32, kind: u32) {
        self.answer(option, kind, None);
    }

    fn flags(&self, found: &Found) -> u16 {
        let all = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN | SEND_CACHE;
        let mode = match found.is_read_only {
            true => READ_ONLY,
            false => SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO,
        };
        all | mode | if self.is_structured { SEND_DF } else { 0 }
    }

    fn begin(&mut self, found: &Found, name: &str) {
        self.stage = Stage::Requests(Terms {
            is_read_only: found.is_read_only,
            is_structured: self.is_structured,
            has_context: self.is_structured && self.context.as_deref() == Some(name),
        });
    }

    /// Expects the answer to EXPORT_NAME, the old option that chooses an export. If the export does
    /// not exist, the connection ends.
    fn choose_by_name(&mut self, name: &[u8], shape: Shape) {
        let name = String::from_utf8_lossy(name);
        let Some(found) = find(&name) else {
            self.stage = Stage::Over;
            return;
        };
        let zeroes = vec![0; if self.has_zeroes { 124 } else { 0 }];
        let told = [&shape.size.to_be_bytes()[..], &self.flags(&found).to_be_bytes(), &zeroes];
        self.expected.push(Expected::Export(told.concat()));
        self.begin(&found, &name);
    }

    /// Expects the answers to INFO or GO.
    fn tell(&mut self, option: u32, data: &Data, shape: Shape) {
        let Data::Info { name, asked } = data else { return self.refuse(option, ERR_INVALID) };
        let name = name.text();
        if name.len() > STRING_BYTES {
            return self.refuse(option, ERR_TOO_BIG);
        }
        let Some(found) = find(&name) else { return self.refuse(option, ERR_UNKNOWN) };
        let info = |kind: u16, data: &[u8]| Some([&kind.to_be_bytes(), data].concat());
        let export = [&shape.size.to_be_bytes()[..], &self.flags(&found).to_be_bytes()].concat();
        self.answer(option, REP_INFO, info(INFO_EXPORT, &export));
        let sizes = [1, shape.block, shape.longest].map(u32::to_be_bytes);
        self.answer(option, REP_INFO, info(INFO_BLOCK_SIZE, sizes.as_flattened()));
        if asked.contains(&INFO_NAME) {
            self.answer(option, REP_INFO, info(INFO_NAME, found.name.as_bytes()));
        }
        if asked.contains(&INFO_DESCRIPTION) {
            let text = description(found.name);
            self.answer(option, REP_INFO, info(INFO_DESCRIPTION, text.as_bytes()));
        }
        self.answer(option, ACK, Some(Vec::new()));
        if option == GO {
            self.begin(&found, &name);
        }
    }

    fn contexts(&mut self, option: u32, data: &Data) {
        let is_set = option == SET_META_CONTEXT;
        if is_set {
            self.context = None;
        }
        let Data::Contexts { name, queries } = data else {
            return self.refuse(option, ERR_INVALID);
        };
        let (name, queries) = (name.text(), asked(queries));
        let is_long = |text: &String| text.len() > STRING_BYTES;
        if !self.is_structured {
            return self.refuse(option, ERR_INVALID);
        }
        if is_long(&name) || queries.iter().any(is_long) {
            return self.refuse(option, ERR_TOO_BIG);
        }
        if find(&name).is_none() {
            return self.refuse(option, ERR_UNKNOWN);
        }
        let has = |text: &str| queries.iter().any(|query| query == text);
        let is_named = match is_set {
            true => has(BASE_ALLOCATION),
            false => queries.is_empty() || has("base:") || has(BASE_ALLOCATION),
        };
        if is_named {
            // In the answer to LIST_META_CONTEXT, a context id has no meaning.
            let data = [&u32::from(is_set).to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat();
            self.answer(option, REP_META_CONTEXT, Some(data));
        }
        if is_named && is_set {
            self.context = Some(name);
        }
        self.answer(option, ACK, Some(Vec::new()));
    }

    /// Compares the answers of the server with the expected answers.
    pub fn verify(&self, mut answers: &[u8]) {
        let answers = &mut answers;
        greeting(answers);
        let mut replies = Replies::default();
        for expected in &self.expected {
            match expected {
                Expected::Option { option, kind, data } => {
                    let (found, text) = option_reply(answers, *option);
                    assert_eq!(found, *kind, "option {option}: {}", String::from_utf8_lossy(&text));
                    assert!(
                        data.as_ref().is_none_or(|data| *data == text),
                        "{expected:?}: {text:?}"
                    );
                }
                Expected::Export(told) => assert_eq!(bytes(answers, told.len()), *told),
                Expected::Reply { cookie, what } => {
                    let len = if let What::Data { bytes, .. } = what { bytes.len() } else { 0 };
                    let reply = replies.next(answers, |_| len as u32);
                    assert_eq!(reply.cookie, *cookie, "one after the other is answered");
                    what.verify(&reply);
                }
            }
        }
        assert!(replies.is_empty() && answers.is_empty(), "{} bytes behind all", answers.len());
    }
}

impl What {
    fn verify(&self, reply: &Reply) {
        match self {
            What::Error(error) => assert_eq!(reply.error, *error, "request {}", reply.cookie),
            _ => assert_eq!(reply.error, 0, "request {}", reply.cookie),
        }
        match self {
            What::Done | What::Error(_) => {
                assert!(reply.parts.iter().all(|(_, bytes)| bytes.is_empty()));
                assert!(reply.extents.is_empty());
            }
            What::Data { at, bytes } => {
                // A simple reply does not contain the offset of its bytes.
                let mut next = reply.parts.first().map_or(0, |(first, _)| *first);
                assert!(next == *at || (next == 0 && reply.parts.len() == 1));
                let mut found: Vec<u8> = Vec::with_capacity(bytes.len());
                for (start, part) in &reply.parts {
                    assert_eq!(*start, next, "parts lie one behind the other");
                    next += part.len() as u64;
                    found.extend(part);
                }
                assert!(found == *bytes, "{} bytes at {at} are others", bytes.len());
            }
            What::Extents(extents) => assert_eq!(reply.extents, *extents),
        }
    }
}

/// Returns the description of an export.
pub fn description(name: &str) -> String {
    format!("disk {name}")
}
