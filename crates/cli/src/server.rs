//! `uzram serve`: a device as a disk for others, until a signal ends it.

mod conflicts;
mod device;
mod headroom;
mod locations;
mod lock;
mod save_file;
mod saving;
mod served;
mod signals;
mod turn;

use crate::args::ServeArgs;
use crate::error::{Error, failed, no_room, no_thread};
use crate::log::log;
use crate::socket_dir;
use crate::status::ServerStatus;
use measure::text::escaped;
use save_file::SaveFile;
use serve::control::Control;
use serve::fuse::Mounted;
use serve::nbd::{Export, Exports, Server};
use serve::{Address, Listening, Log, spawn};
use served::Served;
use signals::Signals;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use turn::Turn;
use zram::{Open, Zram};

/// Clients have so long to notice that the server ends. It ends then, whatever they do.
const GOODBYE: Duration = Duration::from_secs(3);

/// A client that sent a request while the disk was being saved has so long to take the answer.
const ANSWERED: Duration = Duration::from_secs(2);

/// Standard output has so long to take what is told; nothing waits for it longer.
const PRINTED_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked for signals meanwhile.
const TICK: Duration = Duration::from_millis(20);

/// Serves until a signal ends it.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Error> {
    // Better now than after the work.
    conflicts::check(args)?;
    let save_file = args.save_on_exit.as_deref().map(SaveFile::new).transpose()?.map(Arc::new);
    // Threads inherit it from the thread that starts them, so it is set before any other starts.
    if !is_io_flusher() && args.mount.is_some() {
        log!(
            "without CAP_SYS_RESOURCE this server may deadlock when memory is short, as the kernel \
             may make it wait for its own disk; run it in a memory cgroup apart from the programs \
             that write to the disk"
        );
    }
    headroom::keep(args)?;
    // Until it is made a signal ends all at once: there is nothing yet that would be left behind.
    let zram = Arc::new(device::make(args)?);
    let signals = Signals::new()?;
    let turn = Arc::new(Turn::default());
    let mut serving = Serving::start(args, zram, (save_file.clone(), turn.clone()))?;
    let started = serving.mount(args).and_then(|()| headroom::check());
    let started = started.and_then(|()| print_within(serving.announcement.clone(), &signals));
    if started.is_ok() {
        // Nobody may be waiting for it.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let signal = signals.end();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        log!("received {signal}, shutting down");
    } else {
        // Their sender wanted the server to end, and not to lose the data.
        signals.forget();
    }
    let ended = match &save_file {
        Some(save_file) => {
            // While it can be seen what lies on the disk.
            let places = locations::all(save_file);
            turn.take(false);
            let Stopped { disk, control, was_used } = serving.stop(Instant::now() + GOODBYE);
            let saved = if started.is_ok() || was_used {
                saving::save(&disk, save_file, &places, (&signals, &turn))
            } else {
                Ok(())
            };
            control.stop(ANSWERED);
            saved
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

/// Prints. Waits for a reader only for a while, and no longer once a signal has come.
fn print_within(text: String, signals: &Signals) -> Result<(), Error> {
    let (tell, is_told) = mpsc::channel();
    let prints = move || drop(tell.send(crate::print(&text)));
    spawn("print", headroom::STACK, prints).map_err(no_thread)?;
    let until = Instant::now() + PRINTED_WITHIN;
    while Instant::now() < until && !signals.is_end() {
        match is_told.recv_timeout(TICK) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::worker()),
            Ok(told) => return told,
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

/// What serves the disk.
struct Serving {
    served: Arc<Served>,
    control: Control,
    log: Log,
    mounted: Option<Mounted>,
    announcement: String,
}

/// What is left when all users of the disk have ended: the disk, and the control socket, which
/// still answers `stat` and saves.
struct Stopped {
    disk: Arc<Open>,
    control: Control,
    /// Whether someone may have been told that something is stored, also where it could not be
    /// started.
    was_used: bool,
}

impl Serving {
    fn start(
        args: &ServeArgs,
        zram: Arc<Zram>,
        (save_file, turn): (Option<Arc<SaveFile>>, Arc<Turn>),
    ) -> Result<Self, Error> {
        let disk = Arc::new(zram.open().map_err(Error::Device)?);
        if save_file.is_some() {
            disk.prepare_save().map_err(|_| no_room())?;
        }
        let nbd = listening(args.nbd.clone(), socket_dir::NBD)?;
        let control = listening(args.control.clone().map(Address::Unix), socket_dir::CONTROL)?;
        let status = ServerStatus::new(args, &disk, zram.settings().algorithm, &nbd, &control);
        let announcement = status.announcement();
        if status.is_open_to_all() {
            log!(
                "every user of this machine can read and write the disk through its TCP port; give \
                 --nbd unix:PATH to let in this user alone"
            );
        }

        let log = Log::new(|line| log!("{line}"));
        let export = Export {
            name: args.export.clone(),
            description: "uzram, compressed memory".to_owned(),
            disk: disk.clone(),
            mode: args.mode(),
        };
        let exports = Exports::new([export]);
        let nbd = Server::start(nbd, exports, args.options(), log.clone()).map_err(no_thread)?;
        let served = Arc::new(Served { status, zram, disk, nbd, save_file, turn });
        let control = Control::start(control, served.clone(), log.clone()).map_err(no_thread)?;

        Ok(Serving { served, control, log, mounted: None, announcement })
    }

    /// Mounts it, if that is asked for.
    fn mount(&mut self, args: &ServeArgs) -> Result<(), Error> {
        let Some(dir) = &args.mount else { return Ok(()) };
        let (served, disk, log) = (self.served.clone(), self.served.disk.clone(), self.log.clone());
        let mounted = Mounted::start(dir, served, disk, args.mode(), args.options().workers, log);
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

    /// Ends all users of the disk, and the job that is under way. No client is told any more that
    /// something is stored.
    fn stop(self, until: Instant) -> Stopped {
        let left = || until.saturating_duration_since(Instant::now());
        self.control.only_save();
        let Served { disk, nbd, .. } = &*self.served;
        disk.cancel_job();
        let have_left = nbd.stop(left());
        // Not before: until then one may come.
        let was_used = self.mounted.is_some() || nbd.was_used();
        let is_unmounted = self.mounted.is_none_or(|mounted| mounted.stop(left()));
        if !(have_left && is_unmounted) {
            // What is left of them ends with the process.
            log!("some clients did not disconnect in time; they get errors from now on");
        }
        Stopped { disk: disk.clone(), control: self.control, was_used }
    }
}

fn listening(address: Option<Address>, usual: &str) -> Result<Listening, Error> {
    let address = match address {
        Some(address) => address,
        None => Address::Unix(socket_dir::create()?.join(usual)),
    };
    address.listen().map_err(failed)
}

/// Has the kernel not wait for our own disk when it needs memory for us, and returns whether we
/// have the right to that.
fn is_io_flusher() -> bool {
    rustix::process::configure_io_flusher_behavior(true).is_ok()
}
