//! `uzram serve`: serves a device as a disk to other programs, until a signal ends the server.

mod conflicts;
mod device;
mod fullness;
mod headroom;
mod locations;
mod lock;
mod save_file;
mod saving;
mod served;
mod signals;
mod turn;

use crate::admin::passed::{Passed, Sockets};
use crate::args::ServeArgs;
use crate::error::{Error, no_room, no_thread};
use crate::log::log;
use crate::status::ServerStatus;
use fullness::Fullness;
use measure::text::escaped;
use save_file::SaveFile;
use serve::control::Control;
use serve::fuse::{MountOptions, Mounted};
use serve::metrics::Metrics;
use serve::nbd::{Export, Exports, Server};
use serve::{Log, spawn};
use served::Served;
use signals::Signals;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use turn::Turn;
use zram::{Open, Zram};

/// How long clients have to disconnect when the server ends. After that it ends whatever they do.
const GOODBYE: Duration = Duration::from_secs(3);

/// After a save at the end, how long clients of the control socket have to take their answers.
const ANSWERED: Duration = Duration::from_secs(2);

/// How long standard output has to take the announcement. The server waits no longer for it.
const PRINTED_WITHIN: Duration = Duration::from_secs(10);

/// How often the server checks whether the disk nears its limit of memory.
const FULLNESS_EVERY: Duration = Duration::from_secs(1);

/// How often the server checks for signals while it waits for standard output.
const TICK: Duration = Duration::from_millis(20);

/// Serves a disk until a signal ends the server.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Error> {
    let passed = Passed::take(args)?;
    // Conflicts are reported before the device is made, or restored, which may take long.
    conflicts::check(args)?;
    let save_file = args.save_on_exit.as_deref().map(|path| SaveFile::new(path, &args.inputs()));
    let save_file = save_file.transpose()?.map(Arc::new);
    save_file.iter().for_each(|file| file.warn_unless(args.restored()));
    // Threads inherit this setting from the thread that starts them, so it comes before them.
    if !is_io_flusher() && args.mount.is_some() {
        log!(
            "without CAP_SYS_RESOURCE this server may deadlock when memory is short, as the kernel \
             may make it wait for its own disk; run it in a memory cgroup apart from the programs \
             that write to the disk"
        );
    }
    headroom::keep(args, &passed)?;
    // Until the device is made, a signal ends the process at once: no socket or mount would stay.
    let zram = Arc::new(device::make(args)?);
    let signals = Signals::new()?;
    let turn = Arc::new(Turn::default());
    let mut serving = Serving::start((args, passed), zram, (save_file.clone(), turn.clone()))?;
    let started = serving.mount(args).and_then(|()| headroom::check());
    let started = started.and_then(|()| print_within(serving.announcement.clone(), &signals));
    if started.is_ok() {
        // An error means that no service manager waits for this.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let mut fullness = Fullness::default();
        let signal = signals.end(FULLNESS_EVERY, || fullness.look(&serving.served.disk));
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        log!("received {signal}, shutting down");
    } else {
        // The senders of earlier signals wanted the server to end, not the data to be lost.
        signals.forget();
    }
    let ended = match &save_file {
        Some(save_file) => {
            // While the disk is served, locations that lie on it can be recognised.
            let places = locations::all(save_file);
            turn.take(false);
            let Stopped { disk, control, was_used, holders } =
                serving.stop(Instant::now() + GOODBYE);
            let saved = if started.is_ok() || was_used {
                saving::save(&disk, save_file, &places, (&signals, &turn))
            } else {
                Ok(())
            };
            control.stop(ANSWERED);
            saved.and(holders.is_empty().then_some(()).ok_or_else(|| lost_writes(&holders)))
        }
        None => {
            signals.end_at_once();
            let until = Instant::now() + GOODBYE;
            let control = serving.stop(until).control;
            control.stop(until.saturating_duration_since(Instant::now()));
            Ok(())
        }
    };
    if let (Err(_), Err(ended)) = (&started, &ended) {
        log!("{ended}");
    }
    started.and(ended)
}

/// Prints `text`. Waits for a reader of it for a while, and no longer once a signal has come.
fn print_within(text: String, signals: &Signals) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel();
    let prints = move || drop(sender.send(crate::print(&text)));
    spawn("print", headroom::STACK, prints).map_err(no_thread)?;
    let until = Instant::now() + PRINTED_WITHIN;
    while Instant::now() < until && !signals.is_end() {
        match receiver.recv_timeout(TICK) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::worker()),
            Ok(printed) => return printed,
        }
    }
    if !signals.is_end() {
        log!(
            "nobody reads standard output, so the addresses of the disk are not printed; it is \
             served all the same"
        );
    }
    Ok(())
}

/// A disk that is served, and its servers.
struct Serving {
    served: Arc<Served>,
    control: Control,
    metrics: Option<Metrics>,
    log: Log,
    mounted: Option<Mounted>,
    announcement: String,
}

/// What remains when the users of the disk are disconnected: the disk, and the control socket,
/// which still answers `stat` and saves the disk for clients.
struct Stopped {
    disk: Arc<Open>,
    control: Control,
    /// Whether a write may have been acknowledged, even if the server did not start completely.
    was_used: bool,
    /// The users of the mount when it ended, as words for a message.
    holders: Vec<String>,
}

impl Serving {
    /// Makes the sockets and starts their servers.
    fn start(
        (args, passed): (&ServeArgs, Passed),
        zram: Arc<Zram>,
        (save_file, turn): (Option<Arc<SaveFile>>, Arc<Turn>),
    ) -> Result<Self, Error> {
        let disk = Arc::new(zram.open().map_err(Error::Device)?);
        if save_file.is_some() {
            disk.prepare_save().map_err(|_| no_room())?;
        }
        let Sockets { nbd, control, metrics } = passed.or_made(args)?;
        let algorithm = zram.settings().algorithm;
        let sockets = (&nbd, &control);
        let status = ServerStatus::new(args, &disk, algorithm, sockets, metrics.as_ref());
        let announcement = status.announcement();
        warn_of_readers(&status);

        let log = Log::new(|line| log!("{line}"));
        let export = Export {
            name: args.export.clone(),
            description: "uzram, compressed memory".to_owned(),
            disk: disk.clone(),
            mode: args.nbd_mode(),
        };
        let exports = Exports::new([export]);
        let nbd = Server::start(nbd, exports, args.options(), log.clone()).map_err(no_thread)?;
        let served = Arc::new(Served { status, zram, disk, nbd, save_file, turn });
        let control = Control::start(control, served.clone(), log.clone()).map_err(no_thread)?;
        let told = served.clone();
        let start = |at| Metrics::start(at, move || told.metrics(), log.clone());
        let metrics = metrics.map(start).transpose().map_err(no_thread)?;

        Ok(Serving { served, control, metrics, log, mounted: None, announcement })
    }

    /// Mounts the disk, if the arguments say so.
    fn mount(&mut self, args: &ServeArgs) -> Result<(), Error> {
        let Some(dir) = &args.mount else { return Ok(()) };
        let (served, disk, log) = (self.served.clone(), self.served.disk.clone(), self.log.clone());
        let threads = args.options().workers;
        let options = MountOptions { mode: args.mode(), mapping: args.mapping(), threads };
        let mounted = Mounted::start(dir, served, disk, options, log);
        self.mounted = Some(mounted.map_err(|source| match source.kind() {
            io::ErrorKind::OutOfMemory => no_room(),
            _ => Error::Failed(format!(
                "can't mount at '{}': {source}; give an existing directory ('umount' what a killed \
                 server left mounted there), and be root or install fuse3",
                escaped(dir)
            )),
        })?);
        Ok(())
    }

    /// Disconnects all users of the disk, and cancels the job that is under way. After that no
    /// write is acknowledged.
    fn stop(self, until: Instant) -> Stopped {
        let left = || until.saturating_duration_since(Instant::now());
        self.control.only_save();
        let holders = self.mounted.as_ref().map(Mounted::holders).unwrap_or_default();
        self.metrics.into_iter().for_each(Metrics::stop);
        let Served { disk, nbd, .. } = &*self.served;
        disk.cancel_job();
        let have_left = nbd.stop(left());
        // Until the server has stopped, another client may come.
        let was_used = self.mounted.is_some() || nbd.was_used();
        let is_unmounted = self.mounted.is_none_or(|mounted| mounted.stop(left()));
        if !(have_left && is_unmounted) {
            // The threads of these clients end with the process.
            log!("some clients did not disconnect in time; they get errors from now on");
        }
        Stopped { disk: disk.clone(), control: self.control, was_used, holders }
    }
}

/// Returns the error that the users of a mount may have had data that are not in the saved file.
fn lost_writes(holders: &[String]) -> Error {
    Error::Failed(format!(
        "the disk was in use when the server ended: {}; writes that had not reached the disk are \
         not in the saved file; before you end a server, unmount what lies on its disk and detach \
         loop devices ('losetup -d')",
        holders.join("; ")
    ))
}

/// Logs who else can use the disk, or read of it.
fn warn_of_readers(status: &ServerStatus) {
    match status.open_to_others() {
        Some(address) if address.is_local() => log!(
            "every user of this machine can read and write the disk through its TCP port; give \
             --nbd unix:PATH to let in this user alone"
        ),
        Some(address) => log!(
            "everyone who can reach {address} over the network can read and write the disk, as NBD \
             has no authentication; give --nbd unix:PATH or a loopback address such as \
             tcp:127.0.0.1:10809, or let a firewall or a TLS proxy decide who reaches it"
        ),
        None => {}
    }
    if let Some(address) = status.metrics_for_all() {
        log!("everyone who can reach {address} can read the metrics; give --metrics a port alone");
    }
}

/// Tells the kernel that, when it reclaims memory for this process, it must not wait for this
/// process's own disk. Returns whether the process has the right to that.
fn is_io_flusher() -> bool {
    rustix::process::configure_io_flusher_behavior(true).is_ok()
}
