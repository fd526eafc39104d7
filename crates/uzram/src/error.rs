//! One error type for all layers, and the errno of each error.

use rustix::io::Errno;

/// The reason why a call failed: an error of one of the layers.
///
/// ```
/// fn first_bytes(device: &uzram::Device) -> Result<uzram::Handle, uzram::Error> {
///     let mut bytes = [0; 16];
///     device.read(0, &mut bytes)?;
///     Ok(uzram::Pool::new(uzram::PoolConfig::default())?.store(&bytes)?)
/// }
/// let device = uzram::Device::new(uzram::Config::new(8192)?)?;
/// assert!(first_bytes(&device).is_ok());
/// # Ok::<(), uzram::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of a device.
    #[error(transparent)]
    Device(#[from] zram::Error),
    /// An error of a pool.
    #[error(transparent)]
    Pool(#[from] zsmalloc::Error),
    /// An error of a codec.
    #[error(transparent)]
    Codec(#[from] zcomp::Error),
    /// An error of pages, or of the tables that manage pages.
    #[error(transparent)]
    Pages(#[from] page::Error),
    /// An error of an object cache.
    #[cfg(feature = "slab")]
    #[error(transparent)]
    Cache(#[from] slab::Error),
    /// An error of an LRU cache.
    #[cfg(feature = "lru")]
    #[error(transparent)]
    Lru(#[from] lru::Error),
    /// An error of a region.
    #[cfg(feature = "zmem")]
    #[error(transparent)]
    Region(#[from] zmem::Error),
}

impl Error {
    /// Returns the errno that the corresponding C function would return. The errno is ENOSPC if a
    /// limit is reached, ENOMEM if the system has no more memory, and EINVAL for invalid arguments.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Device(error) => of_device(error),
            Error::Pool(error) => of_pool(error).raw_os_error(),
            Error::Codec(error) => of_codec(error).raw_os_error(),
            Error::Pages(error) => of_pages(error).raw_os_error(),
            #[cfg(feature = "slab")]
            Error::Cache(slab::Error::Pages(error)) => of_pages(error).raw_os_error(),
            #[cfg(feature = "slab")]
            Error::Cache(error) => error.errno(),
            #[cfg(feature = "lru")]
            Error::Lru(error) => of_lru(error).raw_os_error(),
            #[cfg(feature = "zmem")]
            Error::Region(error) => of_region(error),
        }
    }
}

/// Returns the errno of a device's error. Like the kernel's block device, returns ENOMEM even if a
/// limit is reached, and EINVAL for most errors of codecs.
fn of_device(error: &zram::Error) -> i32 {
    match error {
        zram::Error::OutOfMemory { total_limit: Some(_), .. } => Errno::NOSPC.raw_os_error(),
        zram::Error::OutOfMemory { source, .. } | zram::Error::Pool(source) => {
            of_pool(source).raw_os_error()
        }
        zram::Error::Codec(source) => of_codec(source).raw_os_error(),
        // The limit is too low for any device, so the argument is invalid.
        zram::Error::TotalLimit { .. } => Errno::INVAL.raw_os_error(),
        error => error.errno(),
    }
}

fn of_pool(error: &zsmalloc::Error) -> Errno {
    use zsmalloc::Error::*;
    match error {
        Pages(pages) | Meta(zsmalloc::meta::Error::Pages(pages)) => of_pages(pages),
        Meta(_) => Errno::NOMEM,
        LeftBehind => Errno::NODEV,
        // The object that the handle refers to was freed.
        Handle { .. } => Errno::STALE,
        _ => Errno::INVAL,
    }
}

fn of_pages(error: &page::Error) -> Errno {
    use page::Error::*;
    match error {
        Limit { .. } | Exhausted => Errno::NOSPC,
        ExtentLength { .. } => Errno::INVAL,
        _ => Errno::NOMEM,
    }
}

fn of_codec(error: &zcomp::Error) -> Errno {
    use zcomp::Error::*;
    match error {
        NoMemory { .. } => Errno::NOMEM,
        Corrupt { .. } => Errno::BADMSG,
        Library { .. } => Errno::IO,
        _ => Errno::INVAL,
    }
}

#[cfg(feature = "lru")]
fn of_lru(error: &lru::Error) -> Errno {
    use lru::Error::*;
    match error {
        NoRoom { .. } => Errno::NOSPC,
        NoMemory { .. } => Errno::NOMEM,
        Pool(error) => of_pool(error),
        Codec(error) => of_codec(error),
        _ => Errno::INVAL,
    }
}

#[cfg(feature = "zmem")]
fn of_region(error: &zmem::Error) -> i32 {
    use zmem::Error::*;
    let errno = match error {
        ProcessMemory { errno } | Userfaultfd { errno } | System { errno, .. } => return *errno,
        Device(error) => return of_device(error),
        Regions { .. } => Errno::MFILE,
        Overlap { .. } => Errno::EXIST,
        Locked { .. } => Errno::BUSY,
        Forked => Errno::NODEV,
        _ => Errno::INVAL,
    };
    errno.raw_os_error()
}
