//! The command lines of those who steer a server.

use super::Form;
use crate::error::Error;
use crate::socket_dir;
use clap::Args;
use std::path::{Path, PathBuf};
use zram::JobKind;

/// Attributes that are paths of files. The server runs elsewhere.
const PATHS: [&str; 2] = ["save", "restore"];

/// A path from where this command runs; one that there can't be is for the server to refuse.
fn absolute(path: String) -> String {
    let absolute =
        std::path::absolute(&path).ok().and_then(|path| path.to_str().map(str::to_owned));
    absolute.unwrap_or(path)
}

/// The server that is asked.
#[derive(Debug, Args)]
pub(super) struct ControlLine {
    /// Its control socket [default: control.sock in $XDG_RUNTIME_DIR/uzram, or else /run/uzram or
    /// /tmp/uzram-UID]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Read and write attributes of a device that is served
///
/// Without a name, all that can be read are printed, but lists of all slots or classes; with one,
/// that; with a value, the attribute is set to it. 'uzram attributes' tells what they are.
#[derive(Debug, Args)]
pub(super) struct AttrLine {
    #[command(flatten)]
    server: ControlLine,
    /// The attribute
    name: Option<String>,
    /// What it is to be set to
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long, conflicts_with = "value")]
    json: bool,
}

/// Show the device that is served as zramctl does
#[derive(Debug, Args)]
pub(super) struct StatLine {
    #[command(flatten)]
    server: ControlLine,
    /// Print one JSON object instead of a table; all sizes are bytes
    #[arg(long)]
    json: bool,
}

/// Move objects of the device together, so that pages become free
#[derive(Debug, Args)]
pub(super) struct CompactLine {
    #[command(flatten)]
    server: ControlLine,
}

/// Mark slots of the device idle: all, or those not accessed for long
#[derive(Debug, Args)]
pub(super) struct IdleLine {
    #[command(flatten)]
    server: ControlLine,
    /// Only those not accessed for more than so many seconds, which takes --set track_access=1
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    older: Option<u64>,
}

/// Save the device that is served to a file
///
/// Each page is saved as it is at one moment while the save is under way; what no client writes
/// meanwhile, exactly. A file that is there is replaced when the new one is whole. The server
/// writes it: as its user, on its machine. It goes on when this command is ended.
#[derive(Debug, Args)]
pub(super) struct SaveLine {
    #[command(flatten)]
    server: ControlLine,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// The file
    file: PathBuf,
}

/// Compress data of the device once more, with an algorithm that makes them smaller
///
/// Takes 'uzram serve --set recomp_algorithm=algo=NAME'. Requests go on meanwhile, and what they
/// change is left as they have it. It goes on when this command is ended.
#[derive(Debug, Args)]
pub(super) struct RecompressLine {
    #[command(flatten)]
    server: ControlLine,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// Of what: idle, huge or huge_idle [default: all]; threshold=BYTES, algo=NAME, priority=N,
    /// max_pages=N
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

/// Write data of the device back to its backing store, so that they leave memory
///
/// Takes 'uzram serve --backing FILE'. Requests go on meanwhile, and what they touch stays. It goes
/// on when this command is ended.
#[derive(Debug, Args)]
pub(super) struct WritebackLine {
    #[command(flatten)]
    server: ControlLine,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// What: idle, huge, huge_idle or incompressible; page_index=N; page_indexes=FIRST-LAST
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
}

/// End the job that is under way: a save, restore, recompress or writeback
///
/// What was recompressed or written back by then stays so; of a save nothing is left, of a restore
/// an empty disk.
#[derive(Debug, Args)]
pub(super) struct CancelLine {
    #[command(flatten)]
    server: ControlLine,
}

/// What is to be asked of a server.
#[derive(Debug)]
pub(crate) struct ClientArgs {
    pub(crate) control: PathBuf,
    pub(crate) request: ClientRequest,
}

/// What there is to ask.
#[derive(Debug)]
pub(crate) enum ClientRequest {
    /// All attributes.
    All(Form),
    Show(String, Form),
    Store(String, String),
    Stat(Form),
    /// A job, with a path or words.
    Job(JobKind, String, Form),
}

impl ControlLine {
    pub(super) fn path(self) -> PathBuf {
        self.control.unwrap_or_else(|| socket_dir::directory().join(socket_dir::CONTROL))
    }
}

impl From<AttrLine> for ClientArgs {
    fn from(line: AttrLine) -> Self {
        let form = Form::new(line.json);
        let request = match (line.name, line.value) {
            (None, _) => ClientRequest::All(form),
            (Some(name), None) => ClientRequest::Show(name, form),
            (Some(name), Some(value)) => {
                let value = if PATHS.contains(&name.as_str()) { absolute(value) } else { value };
                ClientRequest::Store(name, value)
            }
        };
        ClientArgs { control: line.server.path(), request }
    }
}

impl From<StatLine> for ClientArgs {
    fn from(line: StatLine) -> Self {
        ClientArgs {
            control: line.server.path(),
            request: ClientRequest::Stat(Form::new(line.json)),
        }
    }
}

impl From<CompactLine> for ClientArgs {
    fn from(line: CompactLine) -> Self {
        let request = ClientRequest::Store("compact".to_owned(), "1".to_owned());
        ClientArgs { control: line.server.path(), request }
    }
}

impl From<CancelLine> for ClientArgs {
    fn from(line: CancelLine) -> Self {
        let request = ClientRequest::Store("cancel_job".to_owned(), "1".to_owned());
        ClientArgs { control: line.server.path(), request }
    }
}

impl From<IdleLine> for ClientArgs {
    fn from(line: IdleLine) -> Self {
        let age = line.older.map_or_else(|| "all".to_owned(), |seconds| seconds.to_string());
        ClientArgs {
            control: line.server.path(),
            request: ClientRequest::Store("idle".to_owned(), age),
        }
    }
}

impl ClientArgs {
    /// A job on a file, which the server finds from wherever it runs.
    pub(super) fn on_file(
        server: ControlLine,
        kind: JobKind,
        file: &Path,
        json: bool,
    ) -> Result<Self, Error> {
        let unknown = |source| Error::OutPath { path: file.to_owned(), source };
        let path = std::path::absolute(file).map_err(unknown)?;
        let text = path.to_str().map(str::to_owned).ok_or(Error::NotText { path })?;
        Ok(ClientArgs {
            control: server.path(),
            request: ClientRequest::Job(kind, text, Form::new(json)),
        })
    }
}

impl TryFrom<SaveLine> for ClientArgs {
    type Error = Error;

    fn try_from(line: SaveLine) -> Result<Self, Error> {
        ClientArgs::on_file(line.server, JobKind::Save, &line.file, line.json)
    }
}

impl From<RecompressLine> for ClientArgs {
    fn from(line: RecompressLine) -> Self {
        // Only of the kind the name may be left out.
        let typed = |word: String| if word.contains('=') { word } else { format!("type={word}") };
        let words: Vec<_> = line.words.into_iter().map(typed).collect();
        let request =
            ClientRequest::Job(JobKind::Recompress, words.join(" "), Form::new(line.json));
        ClientArgs { control: line.server.path(), request }
    }
}

impl From<WritebackLine> for ClientArgs {
    fn from(line: WritebackLine) -> Self {
        let request =
            ClientRequest::Job(JobKind::WriteBack, line.words.join(" "), Form::new(line.json));
        ClientArgs { control: line.server.path(), request }
    }
}
