//! The rival: zram devices of the kernel, made for one measurement and removed after it, whatever happens.

mod device;
mod made;
mod mm_stat;

pub use device::KernelZram;
pub use mm_stat::MmStat;

/// A rival that may not be there.
#[derive(Debug)]
pub enum Rival<T> {
    /// It is here.
    Present(T),
    /// It is not, and why.
    Absent(String),
}

impl<T> Rival<T> {
    /// The rival, if it is here.
    pub fn present(self) -> Option<T> {
        match self {
            Rival::Present(rival) => Some(rival),
            Rival::Absent(_) => None,
        }
    }
}
