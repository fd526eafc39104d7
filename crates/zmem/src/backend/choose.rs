//! Chooses the requested backend, or the backend that suits this system best.

use super::Backend;
use super::signal::{Beside, Marks, Signal, SignalRemap};
use super::userfaultfd::Userfaultfd;
use crate::memory::Managed;
use crate::probes::{has_guards, writes_below_protection};
use crate::uffd::{CanMove, Delivery};
use crate::{BackendKind, Error, Options};

const GUARDS: &str = "signal: marks of page tables; needs no right";
const NO_GUARDS: &str =
    "signal-mappings: a mapping for each run of marked blocks; the system has no guards";
const MAPPINGS: &str = "signal-mappings: a mapping for each run of marked blocks; asked for";
const NO_MEMORY_FILE: &str =
    "signal-remap: blocks are moved to their places; /proc/self/mem is refused";
const REMAP: &str = "signal-remap: blocks are moved to their places; asked for";

/// The descriptions of the backends of arenas: the name, and the reason for the choice.
pub const ARENA_BACKENDS: [&str; 5] = [GUARDS, NO_GUARDS, MAPPINGS, NO_MEMORY_FILE, REMAP];

/// Creates a backend for a region whose memory is `memory`.
pub(crate) fn choose(options: &Options, memory: &Managed) -> Result<Box<dyn Backend>, Error> {
    let deliveries: &[Delivery] = match options.backend {
        kind if kind.is_signal() => &[],
        BackendKind::UserfaultfdSigbus | BackendKind::UserfaultfdSigbusProtected => {
            &[Delivery::Signal]
        }
        _ => &[Delivery::Messages, Delivery::Signal],
    };
    let protects = [BackendKind::UserfaultfdProtected, BackendKind::UserfaultfdSigbusProtected];
    let wants_move = if protects.contains(&options.backend) { CanMove::No } else { CanMove::Yes };
    let mut refused = None;
    for delivery in deliveries {
        match Userfaultfd::new(memory.bytes(), *delivery, wants_move, options.fork) {
            Ok(backend) => return Ok(Box::new(backend)),
            Err(errno) => refused = Some(errno),
        }
    }
    match refused {
        Some(errno) => Err(Error::Userfaultfd { errno: errno.raw_os_error() }),
        None => signal(options.backend, memory),
    }
}

fn signal(kind: BackendKind, memory: &Managed) -> Result<Box<dyn Backend>, Error> {
    let (marks, name) = match (kind, writes_below_protection()) {
        (BackendKind::SignalRemap, _) => return remap(memory, REMAP),
        (BackendKind::SignalMappings, Ok(())) => (Marks::Mappings, MAPPINGS),
        (BackendKind::SignalMappings, Err(errno)) => {
            return Err(Error::ProcessMemory { errno: errno.raw_os_error() });
        }
        (_, Err(_)) => return remap(memory, NO_MEMORY_FILE),
        (_, Ok(())) if has_guards() => (Marks::Guards, GUARDS),
        (_, Ok(())) => (Marks::Mappings, NO_GUARDS),
    };
    Ok(Box::new(Signal { marks, name, beside: Beside::default() }))
}

fn remap(memory: &Managed, name: &'static str) -> Result<Box<dyn Backend>, Error> {
    let backend = SignalRemap::new(memory, name);
    Ok(Box::new(backend.map_err(Error::system("address space for blocks"))?))
}
