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
  1    the server was not reached, refused the request, or could not complete it
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
    /// ID of a process of a program that 'uzram run' has started, or of 'uzram run' itself; all
    /// processes that share the program's limit are shown
    #[arg(value_name = "PID", value_parser = process, conflicts_with = "control")]
    pub(crate) process: Option<Pid>,
    /// Print a line every second
    #[arg(long, conflicts_with = "prometheus")]
    pub(crate) watch: bool,
    /// Print metrics in the text format of Prometheus; for a disk, the same metrics that 'uzram
    /// serve --metrics' serves
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
    /// Print one JSON object instead of a table, or with --watch one JSON object per line; all
    /// sizes are in bytes
    #[arg(long)]
    pub(crate) json: bool,
}

/// A subcommand that sends a request to a server.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Read and write attributes of the served device
    ///
    /// Without NAME, prints every attribute that can be read, except lists of all slots or classes.
    /// With NAME alone, prints the attribute. With NAME and VALUE, sets the attribute. 'uzram
    /// attributes' describes the attributes.
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
    /// Show the memory of the served device, or of a program under 'uzram run'
    ///
    /// Without PID, shows the size and memory of the device, in the format of zramctl.
    ///
    /// With PID, shows the memory and the activity of each process of a program that 'uzram run'
    /// has started. The values are a few milliseconds old.
    ///
    /// With --watch, prints a line every second until Ctrl-C, or until the server or the program
    /// ends. On a terminal, two bars show the used parts of the disk and of its memory limit. For a
    /// program, the bars show the compressed part of its memory and the used part of its limit.
    #[command(after_help = EXIT_CODES)]
    Stat(StatArgs),
    /// Compact the device: move its objects together, and free pages
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
    /// Compress data again with an algorithm that compresses better
    ///
    /// Needs 'uzram serve --set recomp_algorithm=algo=NAME'. Clients are served during the job.
    /// Data that clients change during the job are not recompressed. The job continues if this
    /// command is ended; 'uzram cancel' ends the job.
    #[command(after_help = EXIT_CODES)]
    Recompress {
        #[command(flatten)]
        server: ControlArgs,
        /// Print one JSON object instead of a line
        #[arg(long)]
        json: bool,
        /// Data to recompress (idle, huge or huge_idle) [default: all data], or a parameter of the
        /// job (threshold=BYTES, algo=NAME, priority=N or max_pages=N)
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Write data to the backing store, and free their memory
    ///
    /// Needs 'uzram serve --backing FILE'. Clients are served during the job. Data that clients
    /// access during the job stay in memory. The job continues if this command is ended; 'uzram
    /// cancel' ends the job.
    #[command(after_help = EXIT_CODES)]
    Writeback {
        #[command(flatten)]
        server: ControlArgs,
        /// Print one JSON object instead of a line
        #[arg(long)]
        json: bool,
        /// Data to write back: idle, huge, huge_idle, incompressible, page_index=N or
        /// page_indexes=FIRST-LAST
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
    },
    /// Save the served device to a file
    ///
    /// Each page is saved with its contents at some moment during the save. An existing file is
    /// replaced when the new file is complete. The server writes the file on its own machine, with
    /// the rights of its own user. The save continues if this command is ended; 'uzram cancel' ends
    /// the save.
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
    /// Data that the job has already recompressed stay recompressed. Data that the job has already
    /// written back stay in the backing store. A cancelled save leaves no file, and a cancelled
    /// restore leaves an empty disk.
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
    /// Fails if another user could have created the socket.
    pub(crate) fn path(&self) -> Result<PathBuf, Error> {
        let usual = || socket_dir::directory().join(socket_dir::CONTROL);
        let path = self.control.clone().unwrap_or_else(usual);
        socket_dir::check_default(&path)?;
        Ok(path)
    }
}
