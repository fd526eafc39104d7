//! Sockets that a service manager listens on and passes to a server. Clients can connect before the
//! server runs, and while another server replaces this one.

use crate::args::ServeArgs;
use crate::error::{Error, failed};
use crate::process_start::passed_sockets;
use crate::socket_dir;
use crate::text::shortened;
use serve::{Address, Listening};

/// The sockets that the service manager passed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) nbd: Option<Listening>,
    pub(crate) control: Option<Listening>,
    pub(crate) metrics: Option<Listening>,
}

/// All sockets of a server.
pub(crate) struct Sockets {
    pub(crate) nbd: Listening,
    pub(crate) control: Listening,
    pub(crate) metrics: Option<Listening>,
}

impl Passed {
    /// Takes the sockets that the service manager passed. A socket named nbd, control or metrics is
    /// used for the purpose that its name states. Other sockets are used, in this order, for the
    /// remaining purposes.
    ///
    /// # Errors
    /// Fails if a socket is unsuitable, if too many sockets were passed, or if an option specifies
    /// an address for a purpose for which a socket was passed.
    pub(crate) fn take(args: &ServeArgs) -> Result<Self, Error> {
        let sockets = passed_sockets().map_err(|why| {
            failed(format!(
                "the sockets that the service manager passed can't be taken: {why}; correct \
                 LISTEN_FDS and LISTEN_FDNAMES, or leave them out"
            ))
        })?;
        let mut passed = Passed::default();
        let mut unnamed = Vec::new();
        for (name, socket) in sockets {
            let listening = Listening::passed(socket).map_err(failed)?;
            match passed.place(&name) {
                None => unnamed.push(listening),
                Some(place) if place.is_none() => *place = Some(listening),
                Some(_) => {
                    return Err(failed(format!(
                        "the service manager passed two sockets named '{}'; pass one",
                        shortened(&name)
                    )));
                }
            }
        }
        for listening in unnamed {
            let places = [&mut passed.nbd, &mut passed.control, &mut passed.metrics];
            let Some(place) = places.into_iter().find(|place| place.is_none()) else {
                return Err(failed(
                    "the service manager passed more sockets than there is use for: for clients, \
                     for control, and for metrics",
                ));
            };
            *place = Some(listening);
        }
        let control = passed.control.as_ref().map(Listening::address);
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

    /// Returns all sockets that a server needs: the sockets that were passed, and new sockets for
    /// the remaining purposes.
    ///
    /// # Errors
    /// Fails if a socket can't be created.
    pub(crate) fn or_made(self, args: &ServeArgs) -> Result<Sockets, Error> {
        let metrics = args.metrics.as_ref().map(Address::listen).transpose().map_err(failed)?;
        let control = args.control.clone().map(Address::Unix);
        Ok(Sockets {
            nbd: self.nbd.map_or_else(|| made(args.nbd.clone(), socket_dir::NBD), Ok)?,
            control: self.control.map_or_else(|| made(control, socket_dir::CONTROL), Ok)?,
            metrics: self.metrics.or(metrics),
        })
    }

    fn place(&mut self, name: &str) -> Option<&mut Option<Listening>> {
        match name {
            "nbd" => Some(&mut self.nbd),
            "control" => Some(&mut self.control),
            "metrics" => Some(&mut self.metrics),
            _ => None,
        }
    }

    /// Checks that no option specifies an address for a purpose for which a socket was passed.
    fn check(&self, args: &ServeArgs) -> Result<(), Error> {
        for (option, is_given, passed) in [
            ("--nbd", args.nbd.is_some(), &self.nbd),
            ("--control", args.control.is_some(), &self.control),
            ("--metrics", args.metrics.is_some(), &self.metrics),
        ] {
            if let (true, Some(listening)) = (is_given, passed) {
                return Err(Error::Usage(format!(
                    "{option}: the service manager passed a socket for that, {}; leave out the \
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
