//! `uzram serve`: serves a device as a disk until a signal ends the server.

mod conflicts;
mod device;
mod fullness;
mod headroom;
mod locations;
mod lock;
mod save_file;
mod saving;
mod served;
mod serving;
mod signals;
mod turn;

use crate::admin::passed::Passed;
use crate::args::ServeArgs;
use crate::error::{Error, no_thread};
use crate::log::log;
use crate::policy::{ANSWERED, FULLNESS_EVERY, GOODBYE, PRINTED_WITHIN, SIGNAL_TICK, STACK};
use fullness::Fullness;
use save_file::SaveFile;
use serve::spawn;
use serving::Serving;
use signals::Signals;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;
use turn::Turn;

pub(crate) fn run(args: &ServeArgs) -> Result<(), Error> {
    let passed = Passed::take(args)?;
    // Conflicts are reported first, because creating or restoring the device can take long.
    conflicts::check(args)?;
    let given = args.save_on_exit.as_deref();
    let save_file = given.map(|path| SaveFile::new(path, args.config.as_slice())).transpose()?;
    save_file.iter().for_each(|file| file.warn_unless(args.restored()));
    // This setting is made before threads start, because a new thread inherits it from its creator.
    if !is_io_flusher() && args.mount.is_some() {
        log!(
            "without CAP_SYS_RESOURCE this server may deadlock when memory is short, as the kernel \
             may make it wait for its own disk; run it in a memory cgroup apart from the programs \
             that write to the disk"
        );
    }
    headroom::keep(args, &passed)?;
    // While the device is created, no socket or mount exists, so a signal can end the process at
    // once.
    let zram = Arc::new(device::make(args)?);
    let signals = Signals::new()?;
    let turn = Arc::new(Turn::default());
    let (mut serving, sockets) =
        Serving::start((args, passed), zram, (save_file.clone(), turn.clone()))?;
    let started = serving.start_later(sockets).and_then(|()| serving.mount(args));
    let started = started.and_then(|()| headroom::check(0));
    let started =
        started.and_then(|()| print_within(serving.served.status.announcement(), &signals));
    if started.is_ok() {
        // The call fails if no service manager waits for the notification, which is no error.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let mut fullness = Fullness::default();
        let mut look = || fullness.look(&serving.served.disk);
        let signal = signals.end(FULLNESS_EVERY, &mut look);
        look();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        log!("received {signal}, shutting down");
    } else {
        // Only signals from now on cancel the save. Earlier signals requested the server's end.
        signals.forget();
    }
    let ended = match &save_file {
        Some(save_file) => {
            // A save location on the disk itself can be recognized only while the disk is served.
            let places = locations::all(save_file);
            turn.take(false);
            let is_unused = serving.check_unused();
            let (disk, control, was_used) = serving.stop(Instant::now() + GOODBYE);
            let save = || saving::save(&disk, save_file, &places, (&signals, &turn));
            let saved = if started.is_ok() || was_used { save() } else { Ok(()) };
            control.map(|control| control.stop(ANSWERED));
            saved.and(is_unused)
        }
        None => {
            signals.end_at_once();
            let until = Instant::now() + GOODBYE;
            let (_, control, _) = serving.stop(until);
            let left = until.saturating_duration_since(Instant::now());
            control.map(|control| control.stop(left));
            Ok(())
        }
    };
    if let (Err(_), Err(ended)) = (&started, &ended) {
        log!("{ended}");
    }
    started.and(ended)
}

/// Prints `text`. Waits until standard output accepts the text, `PRINTED_WITHIN` has passed, or a
/// signal arrives.
fn print_within(text: String, signals: &Signals) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel();
    let prints = move || drop(sender.send(crate::print(&text)));
    spawn("print", STACK, prints).map_err(no_thread)?;
    let until = Instant::now() + PRINTED_WITHIN;
    while Instant::now() < until && !signals.is_end() {
        match receiver.recv_timeout(SIGNAL_TICK) {
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

/// Asks the kernel not to wait for this process's own disk when the kernel reclaims memory for this
/// process. Returns whether the process has the privilege for this request.
fn is_io_flusher() -> bool {
    rustix::process::configure_io_flusher_behavior(true).is_ok()
}
