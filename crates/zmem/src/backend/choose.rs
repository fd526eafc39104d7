//! Chooses the requested backend, or the backend that suits this system best.

use super::Backend;
use super::remap::{Beside, SignalRemap};
use super::signal::{Marks, Signal};
use super::userfaultfd::Userfaultfd;
use crate::described;
use crate::memory::Managed;
use crate::probes::{has_guards, writes_below_protection};
use crate::uffd::{CanMove, Delivery};
use crate::{BackendKind, Error, Options};

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
        (BackendKind::SignalRemap, _) => return remap(memory, described::REMAP),
        (BackendKind::SignalMappings, Ok(())) => (Marks::Mappings, described::MAPPINGS),
        (BackendKind::SignalMappings, Err(errno)) => {
            return Err(Error::ProcessMemory { errno: errno.raw_os_error() });
        }
        (_, Err(_)) => return remap(memory, described::NO_MEMORY_FILE),
        (_, Ok(())) if has_guards() => (Marks::Guards, described::GUARDS),
        (_, Ok(())) => (Marks::Mappings, described::NO_GUARDS),
    };
    Ok(Box::new(Signal { marks, name, beside: Beside::default() }))
}

fn remap(memory: &Managed, name: &'static str) -> Result<Box<dyn Backend>, Error> {
    let backend = SignalRemap::new(memory, name);
    Ok(Box::new(backend.map_err(Error::system("address space for blocks"))?))
}
