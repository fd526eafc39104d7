//! The command lines of those who steer a server.

use super::Form;
use crate::error::{Error, out_path};
use crate::socket_dir;
use clap::Args;
use measure::text::escaped;
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

/// What is asked, of which server.
#[derive(Debug, Args)]
pub(super) struct Ask<T: Args> {
    #[command(flatten)]
    server: ControlArgs,
    #[command(flatten)]
    what: T,
}

/// The server that is asked.
#[derive(Debug, Args)]
pub(super) struct ControlArgs {
    /// Control socket of the server [default: control.sock in $XDG_RUNTIME_DIR/uzram, or else
    /// /run/uzram or /tmp/uzram-UID]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct AttrArgs {
    /// Name of the attribute
    name: Option<String>,
    /// Its new value
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long, conflicts_with = "value")]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct StatArgs {
    /// Print one JSON object instead of a table; all sizes are bytes
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct CompactArgs;

#[derive(Debug, Args)]
pub(super) struct IdleArgs {
    /// Only slots not accessed for more than SECONDS; needs 'uzram serve --set track_access=1'
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    older: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct SaveArgs {
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// File to save to
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct RecompressArgs {
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// What to recompress: idle, huge or huge_idle [default: all]; threshold=BYTES, algo=NAME,
    /// priority=N, max_pages=N
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct WritebackArgs {
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
    /// What to write back: idle, huge, huge_idle or incompressible; page_index=N;
    /// page_indexes=FIRST-LAST
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct CancelArgs;

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

impl ControlArgs {
    pub(super) fn path(self) -> PathBuf {
        self.control.unwrap_or_else(|| socket_dir::directory().join(socket_dir::CONTROL))
    }
}

impl<T: Args + Into<ClientRequest>> From<Ask<T>> for ClientArgs {
    fn from(ask: Ask<T>) -> Self {
        ClientArgs { control: ask.server.path(), request: ask.what.into() }
    }
}

impl TryFrom<Ask<SaveArgs>> for ClientArgs {
    type Error = Error;

    fn try_from(Ask { server, what }: Ask<SaveArgs>) -> Result<Self, Error> {
        ClientArgs::on_file(server, JobKind::Save, &what.file, what.json)
    }
}

impl ClientArgs {
    /// A job on a file, which the server finds from wherever it runs.
    pub(super) fn on_file(
        server: ControlArgs,
        kind: JobKind,
        file: &Path,
        json: bool,
    ) -> Result<Self, Error> {
        let path = std::path::absolute(file).map_err(|why| out_path(file, why))?;
        let text = path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::Usage(format!(
                "'{}' is not valid UTF-8, and a server takes no other paths; give another path",
                escaped(&path)
            ))
        })?;
        let request = ClientRequest::Job(kind, text, Form::new(json));
        Ok(ClientArgs { control: server.path(), request })
    }
}

impl ClientRequest {
    fn store(name: &str, value: &str) -> Self {
        ClientRequest::Store(name.to_owned(), value.to_owned())
    }
}

impl From<AttrArgs> for ClientRequest {
    fn from(args: AttrArgs) -> Self {
        let form = Form::new(args.json);
        match (args.name, args.value) {
            (None, _) => ClientRequest::All(form),
            (Some(name), None) => ClientRequest::Show(name, form),
            (Some(name), Some(value)) => {
                let value = if PATHS.contains(&name.as_str()) { absolute(value) } else { value };
                ClientRequest::Store(name, value)
            }
        }
    }
}

impl From<StatArgs> for ClientRequest {
    fn from(args: StatArgs) -> Self {
        ClientRequest::Stat(Form::new(args.json))
    }
}

impl From<CompactArgs> for ClientRequest {
    fn from(_: CompactArgs) -> Self {
        ClientRequest::store("compact", "1")
    }
}

impl From<CancelArgs> for ClientRequest {
    fn from(_: CancelArgs) -> Self {
        ClientRequest::store("cancel_job", "1")
    }
}

impl From<IdleArgs> for ClientRequest {
    fn from(args: IdleArgs) -> Self {
        let age = args.older.map_or_else(|| "all".to_owned(), |seconds| seconds.to_string());
        ClientRequest::store("idle", &age)
    }
}

impl From<RecompressArgs> for ClientRequest {
    fn from(args: RecompressArgs) -> Self {
        // Only of the kind the name may be left out.
        let typed = |word: String| if word.contains('=') { word } else { format!("type={word}") };
        let words: Vec<_> = args.words.into_iter().map(typed).collect();
        ClientRequest::Job(JobKind::Recompress, words.join(" "), Form::new(args.json))
    }
}

impl From<WritebackArgs> for ClientRequest {
    fn from(args: WritebackArgs) -> Self {
        ClientRequest::Job(JobKind::WriteBack, args.words.join(" "), Form::new(args.json))
    }
}
