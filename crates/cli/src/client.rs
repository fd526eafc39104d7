//! Asking a server: its device's attributes, and how full it is.

mod job;

use crate::args::{ClientArgs, ClientRequest, Form};
use crate::error::{Error, failed};
use crate::socket_dir;
use crate::status::Stat;
use measure::text::human;
use serve::control::Request;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use zram::{Access, Attribute, attributes};

/// Lists of all slots and of all classes: too long to be printed with the others.
const LONG: [&str; 2] = ["block_state", "classes"];

/// Asks, and prints the answer.
pub(crate) fn run(args: &ClientArgs) -> Result<(), Error> {
    let control = &args.control;
    socket_dir::check_default(control)?;
    match &args.request {
        ClientRequest::Show(name, Form::Table) => {
            let mut out = Out { out: std::io::stdout().lock(), fault: None };
            let asked = Request::Show(name.clone()).ask(control, &mut out).map_err(failed);
            match out.fault {
                Some(fault) => crate::print_result(Err(fault)),
                None => asked.and_then(|_| crate::print_result(out.out.flush())),
            }
        }
        ClientRequest::Show(name, Form::Json) => {
            crate::print(&json([(name.as_str(), show(control, name)?)]))
        }
        ClientRequest::Store(name, value) => {
            text(control, &Request::Store(name.clone(), value.clone())).map(|_| ())
        }
        ClientRequest::All(form) => crate::print(&all(control, *form)?),
        ClientRequest::Job(kind, text, form) => {
            let (text, failure) = job::run(control, *kind, text, *form)?;
            crate::print(&text)?;
            failure.map_or(Ok(()), Err)
        }
        ClientRequest::Stat(form) => {
            let stat = text(control, &Request::Stat)?;
            match form {
                Form::Json => crate::print(&stat),
                Form::Table => crate::print(&table(&stat)?),
            }
        }
    }
}

/// Standard output, and what is wrong with it: that is not the server's fault.
struct Out<W> {
    out: W,
    fault: Option<io::Error>,
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|error| self.fault = Some(error.kind().into()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn text(control: &Path, request: &Request) -> Result<String, Error> {
    let mut answer = Vec::new();
    request.ask(control, &mut answer).map_err(failed)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn show(control: &Path, name: &str) -> Result<String, Error> {
    text(control, &Request::Show(name.to_owned()))
}

fn json<'n>(texts: impl IntoIterator<Item = (&'n str, String)>) -> String {
    let texts: serde_json::Map<String, serde_json::Value> =
        texts.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
    serde_json::Value::Object(texts).to_string() + "\n"
}

/// Every attribute that can be read, but the long ones.
fn all(control: &Path, form: Form) -> Result<String, Error> {
    let is_shown = |attribute: &&Attribute| {
        attribute.access() != Access::Write && !LONG.contains(&attribute.name)
    };
    let named = |attribute: &Attribute| Ok((attribute.name, show(control, attribute.name)?));
    let texts =
        attributes().iter().filter(is_shown).map(named).collect::<Result<Vec<_>, Error>>()?;
    let width = texts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    Ok(match form {
        Form::Json => json(texts),
        Form::Table => texts
            .iter()
            .map(|(name, text)| format!("{name:<width$} {}\n", text.trim_end().replace('\n', " ")))
            .collect(),
    })
}

/// As `zramctl` prints a device: a head and a line.
fn table(stat: &str) -> Result<String, Error> {
    let stat: Stat = serde_json::from_str(stat)
        .map_err(|error| failed(serve::control::AskError::Broken(error.into())))?;
    let name = if stat.name.is_empty() { "-".to_owned() } else { stat.name };
    let cells = [
        ("NAME", name),
        ("ALGORITHM", stat.algorithm),
        ("DISKSIZE", human(stat.disksize)),
        ("DATA", human(stat.orig_data_size)),
        ("COMPR", human(stat.compr_data_size)),
        ("TOTAL", human(stat.mem_used_total)),
        ("LIMIT", if stat.mem_limit == 0 { "-".to_owned() } else { human(stat.mem_limit) }),
        ("CLIENTS", stat.connections.to_string()),
        ("NBD", stat.nbd),
    ];
    let mut lines = [String::new(), String::new()];
    for (head, cell) in &cells {
        let width = head.len().max(cell.chars().count());
        for (line, text) in lines.iter_mut().zip([*head, cell]) {
            // A string takes all.
            let _ = write!(line, "{text:<width$}  ");
        }
    }
    Ok(lines.iter().map(|line| format!("{}\n", line.trim_end())).collect())
}
