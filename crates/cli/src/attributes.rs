//! `uzram attributes`: the table of attributes, for people and as JSON; and how `fill` sets and
//! shows them.

use crate::args::Form;
use crate::error::Error;
use serde::Serialize;
use zram::{Access, Attribute, Zram, attributes};

/// An attribute and the value that it is to have.
#[derive(Clone, Debug)]
pub(crate) struct AttributeSetting {
    name: &'static str,
    value: String,
}

/// What an attribute read as.
#[derive(Clone, Debug)]
pub(crate) struct AttributeText {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    access: String,
    summary: &'static str,
}

/// What is to be printed.
pub(crate) fn run(form: Form) -> String {
    match form {
        Form::Json => {
            let row = |attribute: &Attribute| Row {
                name: attribute.name,
                access: attribute.access().to_string(),
                summary: attribute.summary,
            };
            let rows: Vec<Row> = attributes().iter().map(row).collect();
            // All values are strings, so nothing can fail.
            serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n"
        }
        Form::Table => {
            let width = attributes().iter().map(|attribute| attribute.name.len()).max();
            let width = width.unwrap_or(0);
            let line = |attribute: &Attribute| {
                let Attribute { name, summary, .. } = attribute;
                format!("{name:<width$} {:<12} {summary}\n", attribute.access())
            };
            attributes().iter().map(line).collect()
        }
    }
}

/// The attribute of that name.
fn named(name: &str) -> Result<&'static Attribute, String> {
    let found = attributes().iter().find(|attribute| attribute.name == name);
    found.ok_or_else(|| "no such attribute; 'uzram attributes' lists them".to_owned())
}

/// `NAME=VALUE`, of an attribute that can be set before there are data. The size follows from the
/// files.
pub(crate) fn setting(text: &str) -> Result<AttributeSetting, String> {
    setting_but_size(text, "follows from the files; bound them with --input-limit")
}

/// The same, where the size is an argument.
pub(crate) fn setting_of_served(text: &str) -> Result<AttributeSetting, String> {
    setting_but_size(text, "is what --size says")
}

fn setting_but_size(text: &str, size: &str) -> Result<AttributeSetting, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let attribute = named(name)?;
    match attribute.name {
        "disksize" => Err(size.to_owned()),
        _ if attribute.access() == Access::Read => Err("can only be shown".to_owned()),
        name => Ok(AttributeSetting { name, value: value.to_owned() }),
    }
}

/// The name of an attribute that can be read.
pub(crate) fn readable(name: &str) -> Result<&'static str, String> {
    let attribute = named(name)?;
    match attribute.access() {
        Access::Write => Err("can only be set".to_owned()),
        _ => Ok(attribute.name),
    }
}

impl AttributeSetting {
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == name
    }

    pub(crate) fn apply(&self, zram: &Zram) -> Result<(), Error> {
        zram.store(self.name, &self.value).map_err(Error::Setting)
    }
}

impl AttributeText {
    pub(crate) fn new(zram: &Zram, name: &'static str) -> Result<Self, Error> {
        Ok(AttributeText { name, text: zram.show(name)? })
    }
}
