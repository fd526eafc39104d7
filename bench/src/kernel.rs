//! The rival: zram devices of the kernel, made for one measurement and removed after it, whatever
//! happens.

mod device;
mod made;
mod mm_stat;
mod paged;
mod swap;

pub use device::KernelZram;
pub use mm_stat::MmStat;
pub use paged::PagedMemory;
pub use swap::KernelSwap;

/// A rival that may not be there.
#[derive(Debug)]
pub enum Rival<T> {
    /// It is here.
    Present(T),
    /// It is not, and why.
    Absent(String),
}

impl<T> Rival<T> {
    /// What `figure` makes of the rival, if it is here.
    pub fn map<U>(self, figure: impl FnOnce(T) -> U) -> Rival<U> {
        match self {
            Rival::Present(rival) => Rival::Present(figure(rival)),
            Rival::Absent(reason) => Rival::Absent(reason),
        }
    }

    /// The rival, if it is here.
    pub fn present(self) -> Option<T> {
        match self {
            Rival::Present(rival) => Some(rival),
            Rival::Absent(_) => None,
        }
    }
}
