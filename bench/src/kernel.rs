//! The kernel's zram devices, with which uzram is compared. Each device is created for one
//! measurement and removed after it.

mod device;
mod made;
mod mm_stat;
mod paged;
mod swap;

pub use device::KernelZram;
pub use mm_stat::MmStat;
pub use paged::PagedMemory;
pub use swap::KernelSwap;

use crate::Error;

/// A rival that may be unavailable.
#[derive(Debug)]
pub enum Rival<T> {
    /// The rival is available.
    Present(T),
    /// The rival is not available, for this reason.
    Absent(String),
}

impl<T> Rival<T> {
    /// Applies `figure` to the rival if it is available.
    pub fn map<U>(self, figure: impl FnOnce(T) -> U) -> Rival<U> {
        match self {
            Rival::Present(rival) => Rival::Present(figure(rival)),
            Rival::Absent(reason) => Rival::Absent(reason),
        }
    }

    /// Applies `work`, which can fail, to the rival if the rival is available.
    pub fn try_map<U>(self, work: impl FnOnce(T) -> Result<U, Error>) -> Result<Rival<U>, Error> {
        match self {
            Rival::Present(rival) => work(rival).map(Rival::Present),
            Rival::Absent(reason) => Ok(Rival::Absent(reason)),
        }
    }

    /// Returns a reference to the rival if it is available.
    pub fn as_ref(&self) -> Rival<&T> {
        match self {
            Rival::Present(rival) => Rival::Present(rival),
            Rival::Absent(reason) => Rival::Absent(reason.clone()),
        }
    }

    /// Returns the rival if it is available.
    pub fn present(self) -> Option<T> {
        match self {
            Rival::Present(rival) => Some(rival),
            Rival::Absent(_) => None,
        }
    }
}
