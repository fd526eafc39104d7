//! The command lines that control a running server.

use crate::error::Error;
use crate::socket_dir;
use crate::text::shortened;
use crate::values::whole_number;
use clap::{Args, Subcommand};
use rustix::process::Pid;
use std::path::PathBuf;

/// The exit codes of the commands that send requests to a server.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the server was not reached, refused, or could not do all of it
  2    wrong use";

/// The server that receives the request.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// Control socket of the server [default: control.sock in $XDG_RUNTIME_DIR/uzram, or else
    /// /run/uzram or /tmp/uzram-UID]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// The arguments of `uzram stat`.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub(crate) server: ControlArgs,
    /// ID of a process of a program that 'uzram run' has started, or of the command itself; all
    /// processes that share its limit are shown
    #[arg(value_name = "PID", value_parser = process, conflicts_with = "control")]
    pub(crate) process: Option<Pid>,
    /// Print a line every second
    #[arg(long, conflicts_with = "prometheus")]
    pub(crate) watch: bool,
    /// Print metrics in the text format of Prometheus; for a disk, the same metrics that 'uzram
    /// serve --metrics' serves
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
    /// Print one JSON object instead of a table, with --watch one per line; all sizes are bytes
    #[arg(long)]
    pub(crate) json: bool,
}

/// A subcommand that sends a request to a server.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Read and write attributes of a device that is served
    ///
    /// Without a name, prints every attribute that can be read, except lists of all slots or
    /// classes. With a name, prints that attribute; with a value, sets it. 'uzram attributes'
    /// describes the attributes.
    #[command(after_help = EXIT_CODES)]
    Attr {
        #[command(flatten)]
        server: ControlArgs,
        /// Name of the attribute
        #[arg(value_parser = attribute)]
        name: Option<String>,
        /// New value of the attribute
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
        /// Print one JSON object instead of text
        #[arg(long, conflicts_with = "value")]
        json: bool,
    },
    /// Show the memory of the device that is served, or of programs of 'uzram run'
    ///
    /// Without PID, shows the size and memory of the device, as zramctl does.
    ///
    /// With PID, shows the memory and the activity of each process of a program that 'uzram run'
    /// has started. The processes publish these figures a few milliseconds late; reading the
    /// figures does not slow the processes down.
    ///
    /// With --watch, prints a line every second until Ctrl-C, or until the server or the program
    /// ends. On a terminal, bars show how full the disk and its memory are, or which share of the
    /// program's memory is stored compressed, and which share of its limit is used.
    #[command(after_help = EXIT_CODES)]
    Stat(StatArgs),
    /// Move objects of the device together, and free pages
    #[command(after_help = EXIT_CODES)]
    Compact(ControlArgs),
    /// Mark all slots, or slots that were not accessed for some time, as idle
    #[command(after_help = EXIT_CODES)]
    Idle {
        #[command(flatten)]
        server: ControlArgs,
        /// Mark only slots that were not accessed for more than SECONDS; needs 'uzram serve --set
        /// track_access=1'
        #[arg(long, value_name = "SECONDS")]
        #[arg(value_parser = |text: &str| whole_number(text, 0..=u64::MAX))]
        older: Option<u64>,
    },
    /// Compress data again, with an algorithm that makes them smaller
    ///
    /// Needs 'uzram serve --set recomp_algorithm=algo=NAME'. Clients are served during the job;
    /// data that clients change during the job are not recompressed. The job continues if this
    /// command is ended; 'uzram cancel' ends the job.
    #[command(after_help = EXIT_CODES)]
    Recompress {
        #[command(flatten)]
        server: ControlArgs,
        /// Print one JSON object instead of a line
        #[arg(long)]
        json: bool,
        /// Data to recompress: idle, huge or huge_idle [default: all]; threshold=BYTES, algo=NAME,
        /// priority=N, max_pages=N
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Write data to the backing store, and free their memory
    ///
    /// Needs 'uzram serve --backing FILE'. Clients are served during the job; data that clients
    /// access during the job stay in memory. The job continues if this command is ended; 'uzram
    /// cancel' ends the job.
    #[command(after_help = EXIT_CODES)]
    Writeback {
        #[command(flatten)]
        server: ControlArgs,
        /// Print one JSON object instead of a line
        #[arg(long)]
        json: bool,
        /// Data to write back: idle, huge, huge_idle or incompressible; page_index=N;
        /// page_indexes=FIRST-LAST
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Save the device that is served to a file
    ///
    /// Each page is saved with its contents at some moment during the save; pages that no client
    /// writes during the save are saved exactly. An existing file is replaced when the new one is
    /// complete. The server writes the file, as the server's user and on the server's machine. The
    /// save continues if this command is ended; 'uzram cancel' ends the save.
    #[command(after_help = EXIT_CODES)]
    Save {
        #[command(flatten)]
        server: ControlArgs,
        /// Print one JSON object instead of a line
        #[arg(long)]
        json: bool,
        /// File to save to
        file: PathBuf,
    },
    /// End the running job: a save, restore, recompress or writeback
    ///
    /// Data that the job has already recompressed stay recompressed, and data that it has written
    /// back stay in the backing store. A cancelled save leaves no file, a cancelled restore leaves
    /// an empty disk.
    #[command(after_help = EXIT_CODES)]
    Cancel(ControlArgs),
}

fn attribute(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, value)) => {
            let (name, value) = (shortened(name), shortened(value));
            Err(format!("expected a name and then a value: '{name} {value}'"))
        }
        None => Ok(text.to_owned()),
    }
}

fn process(text: &str) -> Result<Pid, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.and_then(Pid::from_raw).ok_or_else(|| "expected the number of a process".to_owned())
}

impl ControlArgs {
    /// Returns the path of the server's control socket.
    ///
    /// # Errors
    /// Fails if another user could have created the socket.
    pub(crate) fn path(&self) -> Result<PathBuf, Error> {
        let usual = || socket_dir::directory().join(socket_dir::CONTROL);
        let path = self.control.clone().unwrap_or_else(usual);
        socket_dir::check_default(&path)?;
        Ok(path)
    }
}
