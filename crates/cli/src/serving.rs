//! `uzram serve`: a device as a disk for others, until a signal ends it.

use crate::args::MemLimit;
use crate::error::Error;
use crate::memory;
use crate::runtime;
use crate::serve_args::ServeArgs;
use crate::served::Served;
use serve::control::{Control, Steered};
use serve::fuse::Mounted;
use serve::nbd::{Export, Exports, Server};
use serve::{Address, Listening, Log};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use zram::Zram;

/// Clients have so long to notice that the server ends. It ends then, whatever they do.
const GOODBYE: Duration = Duration::from_secs(3);

/// What a server takes beside the pool's pages: the slots' words, at most, and buffers.
const SLOT_BYTES: u64 = 22;
const BUFFERS: u64 = 64 << 20;

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Error> {
    // Before anything that a signal must not end half done.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Error::Signal)?;
    // Threads have it of who starts them.
    is_io_flusher();
    let zram = Arc::new(device(args)?);
    let disk = Arc::new(zram.open().map_err(Error::Device)?);
    let nbd = listening(args.nbd.clone(), runtime::NBD)?;
    let control = listening(args.control.clone().map(Address::Unix), runtime::CONTROL)?;
    let served = Arc::new(Served::new(args, &nbd, &control));

    let log = Log::new(|line| eprintln!("uzram: {line}"));
    let export = Export {
        name: args.export.clone(),
        description: "uzram, compressed memory".to_owned(),
        disk: disk.clone(),
        mode: args.mode,
    };
    let exports = Exports::new([export]);
    let server =
        Arc::new(Server::start(nbd, exports, args.options, log.clone()).map_err(Error::Serving)?);
    let stat = {
        let (served, zram, server) = (served.clone(), zram.clone(), server.clone());
        Box::new(move || served.stat(&zram, server.connections()))
    };
    let steered = Steered { zram: zram.clone(), stat };
    let control = Control::start(control, steered, log).map_err(Error::Serving)?;

    let mounted = args.mount.as_ref().map(|dir| {
        let threads = args.options.workers;
        let started = Mounted::start(dir, zram.clone(), disk, args.mode, threads);
        started.map_err(|source| Error::Mount { path: dir.clone(), source })
    });
    let mounted = mounted.transpose()?;

    crate::print(&served.announcement())?;
    // Nobody may be waiting for it.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let signal = signals.forever().next();
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    eprintln!(
        "uzram: ending, as {} came",
        if signal == Some(SIGINT) { "SIGINT" } else { "SIGTERM" }
    );
    end_on_another(signals)?;
    let unmounted = mounted.is_none_or(|mounted| mounted.stop(GOODBYE));
    let all_left = unmounted & server.stop(GOODBYE) & control.stop(GOODBYE);
    if !all_left {
        // What is left of them ends with the process.
        eprintln!("uzram: some who use it did not leave in time; they get errors from now on");
    }
    Ok(())
}

/// Has a second signal end the process at once.
fn end_on_another(signals: Signals) -> Result<(), Error> {
    let came = Arc::new(AtomicBool::new(true));
    [SIGTERM, SIGINT]
        .iter()
        .try_for_each(|signal| {
            flag::register_conditional_shutdown(*signal, 1, came.clone()).map(|_| ())
        })
        .map_err(Error::Signal)?;
    drop(signals);
    Ok(())
}

/// The device that the arguments ask for.
fn device(args: &ServeArgs) -> Result<Zram, Error> {
    args.algorithm.check(&args.params).map_err(Error::Level)?;
    let zram = Zram::new();
    zram.configure("settings", |settings| {
        settings.algorithm = args.algorithm;
        settings.params = args.params.clone();
        settings.block = args.block;
        settings.mem_limit = match args.mem_limit {
            MemLimit::Bytes(bytes) => Some(bytes),
            MemLimit::None => None,
            MemLimit::Default => {
                let beside = (args.size / zram::BLOCK as u64).saturating_mul(SLOT_BYTES);
                memory::room().map(|room| memory::limit_of(room, beside.min(room / 4) + BUFFERS))
            }
        };
        Ok(())
    })?;
    args.set.iter().try_for_each(|setting| setting.apply(&zram))?;
    zram.set_disksize(args.size).map_err(Error::Size)?;
    Ok(zram)
}

fn listening(address: Option<Address>, usual: &str) -> Result<Listening, Error> {
    let address = match address {
        Some(address) => address,
        None => Address::Unix(runtime::made_directory()?.join(usual)),
    };
    address.listen().map_err(Error::Address)
}

/// Has the kernel not wait for our own disk when it needs memory for us. Takes a right that not everyone has.
fn is_io_flusher() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}
