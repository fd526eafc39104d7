//! Listening sockets that a service manager passes to a server. Clients can connect before the
//! server runs, and while the service manager replaces the server.

use crate::args::ServeArgs;
use crate::error::{Error, failed};
use crate::process_start::passed_sockets;
use crate::socket_dir;
use crate::text::shortened;
use serve::{Address, Listening};

/// The purpose of each socket, which is also the socket's name.
const PURPOSES: [&str; 3] = ["nbd", "control", "metrics"];

/// The sockets that the service manager passed, in the order of `PURPOSES`.
#[derive(Debug, Default)]
pub(crate) struct Passed([Option<Listening>; 3]);

impl Passed {
    /// Takes the sockets that the service manager passed. A socket named nbd, control or metrics
    /// gets the purpose of that name. Sockets with other names get the remaining purposes, in this
    /// order.
    ///
    /// # Errors
    /// Fails if a socket is unsuitable, too many sockets were passed, or a socket and an option
    /// have the same purpose.
    pub(crate) fn take(args: &ServeArgs) -> Result<Self, Error> {
        let sockets = passed_sockets().map_err(|why| {
            failed(format!(
                "the sockets that the service manager passed can't be taken: {why}; correct \
                 LISTEN_FDS and LISTEN_FDNAMES, or leave them out"
            ))
        })?;
        let (mut passed, mut unnamed) = (Passed::default(), Vec::new());
        for (name, socket) in sockets {
            let listening = Listening::passed(socket).map_err(failed)?;
            match PURPOSES.iter().position(|purpose| *purpose == name) {
                None => unnamed.push(listening),
                Some(nth) if passed.0[nth].is_none() => passed.0[nth] = Some(listening),
                Some(_) => {
                    return Err(failed(format!(
                        "the service manager passed two sockets named '{}'; pass one",
                        shortened(&name)
                    )));
                }
            }
        }
        for listening in unnamed {
            let place = passed.0.iter_mut().find(|place| place.is_none());
            *place.ok_or_else(|| {
                failed(
                    "the service manager passed more sockets than there is use for: for clients, \
                     for control, and for metrics",
                )
            })? = Some(listening);
        }
        let control = passed.0[1].as_ref().map(Listening::address);
        if let Some(address) = control.filter(|address| !matches!(address, Address::Unix(_))) {
            return Err(failed(format!(
                "the socket that the service manager passed for control is at {address}, where no \
                 one knows who asks; give it a path, or say what each socket is for \
                 (FileDescriptorName=nbd, control or metrics)"
            )));
        }
        passed.check(args)?;
        Ok(passed)
    }

    pub(crate) fn has_metrics(&self) -> bool {
        self.0[2].is_some()
    }

    /// Returns the sockets that a server needs, in the order of `PURPOSES`. Creates a socket for
    /// each purpose without a passed socket.
    ///
    /// # Errors
    /// Fails if a socket can't be created.
    pub(crate) fn or_made(
        self,
        args: &ServeArgs,
    ) -> Result<(Listening, Listening, Option<Listening>), Error> {
        let [nbd, control, metrics] = self.0;
        let asked = args.metrics.as_ref().map(Address::listen).transpose().map_err(failed)?;
        let at = args.control.clone().map(Address::Unix);
        Ok((
            nbd.map_or_else(|| made(args.nbd.clone(), socket_dir::NBD), Ok)?,
            control.map_or_else(|| made(at, socket_dir::CONTROL), Ok)?,
            metrics.or(asked),
        ))
    }

    /// Checks that no option specifies an address for the purpose of a passed socket.
    fn check(&self, args: &ServeArgs) -> Result<(), Error> {
        let given = [args.nbd.is_some(), args.control.is_some(), args.metrics.is_some()];
        for ((option, is_given), passed) in PURPOSES.iter().zip(given).zip(&self.0) {
            if let (true, Some(listening)) = (is_given, passed) {
                return Err(Error::Usage(format!(
                    "--{option}: the service manager passed a socket for that, {}; leave out the \
                     one or the other",
                    listening.address()
                )));
            }
        }
        Ok(())
    }
}

/// Listens at `address`, or at the socket named `usual` in the directory of sockets if `address` is
/// `None`.
fn made(address: Option<Address>, usual: &str) -> Result<Listening, Error> {
    let address = match address {
        Some(address) => address,
        None => Address::Unix(socket_dir::create()?.join(usual)),
    };
    address.listen().map_err(failed)
}
