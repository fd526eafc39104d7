//! The data of the options that a client sends.

use super::*;

/// The data of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// The given number of meaningless bytes.
    Junk(usize),
    Named(Name),
    Info {
        name: Name,
        asked: [u16; 2],
    },
    Contexts {
        name: Name,
        queries: [Query; 2],
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    First,
    Disk,
    Fixed,
    Unknown,
    Longest,
    TooLong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    Nothing,
    Base,
    Allocation,
    Other,
    LongQuery,
}

impl Name {
    pub fn text(self) -> String {
        match self {
            Name::First => String::new(),
            Name::Disk => "disk".to_owned(),
            Name::Fixed => "fixed".to_owned(),
            Name::Unknown => "no".to_owned(),
            Name::Longest => "x".repeat(STRING_BYTES),
            Name::TooLong => "x".repeat(STRING_BYTES + 1),
        }
    }
}

/// Returns the texts of the queries, without `Nothing`.
pub fn asked(queries: &[Query]) -> Vec<String> {
    let text = |query: &Query| match query {
        Query::Nothing => None,
        Query::Base => Some("base:".to_owned()),
        Query::Allocation => Some(BASE_ALLOCATION.to_owned()),
        Query::Other => Some("x:y".to_owned()),
        Query::LongQuery => Some("x".repeat(STRING_BYTES + 1)),
    };
    queries.iter().filter_map(text).collect()
}

impl Data {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Data::Junk(len) => vec![0xff; *len],
            Data::Named(name) => name.text().into_bytes(),
            Data::Info { name, asked } => info(&name.text(), asked),
            Data::Contexts { name, queries } => {
                let queries = asked(queries);
                let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
                contexts(&name.text(), &queries)
            }
        }
    }
}
