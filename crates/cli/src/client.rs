//! Commands that send requests to a server: attributes, memory use and jobs.

mod job;
mod program;
mod watch;

use crate::admin::{metrics, watch::run as watch_it};
use crate::args::{ClientCommand, ControlArgs, StatArgs};
use crate::error::{Error, failed};
use crate::output;
use crate::status::Stat;
use crate::text::{escaped, human, json_line};
use serve::control::{Request, ask};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use watch::Disk;
use zram::{Access, Attribute, JobKind, attributes};

/// The attributes whose values are paths. The paths are made absolute, because the server may have
/// another working directory.
const PATHS: [&str; 2] = ["save", "restore"];

/// The attributes that list all slots or all classes. `uzram attr` without a name leaves out these
/// long lists.
const LONG: [&str; 2] = ["block_state", "classes"];

/// Sends the request of `command` to the server, and prints the answer.
pub(crate) fn run(command: &ClientCommand) -> Result<(), Error> {
    match command {
        ClientCommand::Attr { server, name: None, json, .. } => {
            crate::print(&all(&server.path()?, *json)?)
        }
        ClientCommand::Attr { server, name: Some(name), value: Some(value), .. } => {
            let is_path = PATHS.contains(&name.as_str());
            store(server, name, if is_path { absolute(value) } else { value.clone() })
        }
        ClientCommand::Attr { server, name: Some(name), json: true, .. } => {
            crate::print(&json_line(&BTreeMap::from([(
                name,
                text(&server.path()?, &Request::Show(name.clone()))?,
            )])))
        }
        ClientCommand::Attr { server, name: Some(name), .. } => {
            let mut out = Out { out: std::io::stdout().lock(), fault: None };
            let asked =
                ask(&Request::Show(name.clone()), &server.path()?, &mut out).map_err(failed);
            match out.fault {
                Some(fault) => crate::print_result(Err(fault)),
                None => asked.and_then(|()| crate::print_result(out.out.flush())),
            }
        }
        ClientCommand::Stat(args) => match args.process {
            Some(process) => program::stat(process, args),
            None => stat(args),
        },
        ClientCommand::Compact(server) => store(server, "compact", "1".to_owned()),
        ClientCommand::Cancel(server) => store(server, "cancel_job", "1".to_owned()),
        ClientCommand::Idle { server, older } => {
            let age = older.map_or_else(|| "all".to_owned(), |seconds| seconds.to_string());
            store(server, "idle", age)
        }
        ClientCommand::Recompress { server, json, words } => {
            // A word without `=` is a value of the parameter `type`.
            let typed = |word: &String| match word.contains('=') {
                true => word.clone(),
                false => format!("type={word}"),
            };
            let words: Vec<_> = words.iter().map(typed).collect();
            job::run(&server.path()?, JobKind::Recompress, &words.join(" "), *json)
        }
        ClientCommand::Writeback { server, json, words } => {
            job::run(&server.path()?, JobKind::WriteBack, &words.join(" "), *json)
        }
        ClientCommand::Save { server, json, file } => on_file(server, JobKind::Save, file, *json),
    }
}

/// Prints the memory of the served device.
fn stat(args: &StatArgs) -> Result<(), Error> {
    let control = args.server.path()?;
    if args.watch {
        return watch_it(Disk::new(control), args.json);
    }
    let stat = text(&control, &Request::Stat)?;
    crate::print(&match args {
        StatArgs { prometheus: true, .. } => metrics::text(&parsed(&stat)?),
        StatArgs { json: true, .. } => stat,
        _ => table(parsed(&stat)?),
    })
}

/// Requests a job that reads or writes the file at `path`. Makes the path absolute, because the
/// server may have another working directory.
pub(crate) fn on_file(
    server: &ControlArgs,
    kind: JobKind,
    file: &Path,
    json: bool,
) -> Result<(), Error> {
    if kind == JobKind::Save {
        output::check_name(file)?;
    }
    let path = std::path::absolute(file).map_err(|why| output::out_path(file, why))?;
    let text = path.to_str().ok_or_else(|| {
        Error::Usage(format!(
            "'{}' is not valid UTF-8, and a server takes no other paths; give another path",
            escaped(&path)
        ))
    })?;
    job::run(&server.path()?, kind, text, json)
}

/// Makes `path` absolute. If that fails, returns `path` unchanged, and the server refuses the path.
fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).ok();
    let absolute = absolute.and_then(|path| path.to_str().map(str::to_owned));
    absolute.unwrap_or_else(|| path.to_owned())
}

fn store(server: &ControlArgs, name: &str, value: String) -> Result<(), Error> {
    text(&server.path()?, &Request::Store(name.to_owned(), value)).map(drop)
}

/// Standard output, and the last error of a write to standard output. Without this record, the
/// error would be reported as an error of the server.
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
    ask(request, control, &mut answer).map_err(failed)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns every attribute that can be read, except the long lists.
fn all(control: &Path, is_json: bool) -> Result<String, Error> {
    let is_shown = |attribute: &&Attribute| {
        attribute.access() != Access::Write && !LONG.contains(&attribute.name)
    };
    let named = |attribute: &Attribute| {
        let shown = text(control, &Request::Show(attribute.name.to_owned()))?;
        Ok((attribute.name, shown))
    };
    let texts: Vec<_> =
        attributes().iter().filter(is_shown).map(named).collect::<Result<_, Error>>()?;
    if is_json {
        return Ok(json_line(&texts.into_iter().collect::<BTreeMap<_, _>>()));
    }
    let width = texts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, text): &(&str, String)| {
        format!("{name:<width$} {}\n", text.trim_end().replace('\n', " "))
    };
    Ok(texts.iter().map(line).collect())
}

/// Parses the answer of a server to `stat`.
fn parsed(stat: &str) -> Result<Stat, Error> {
    serde_json::from_str(stat)
        .map_err(|error| failed(serve::control::AskError::Broken(error.into())))
}

/// Returns a line of headings and a line of values, as `zramctl` prints them.
fn table(stat: Stat) -> String {
    let name = if stat.name.is_empty() { "-".into() } else { stat.name.escape_debug().to_string() };
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
            // Writing to a `String` can't fail.
            let _ = write!(line, "{text:<width$}  ");
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}
