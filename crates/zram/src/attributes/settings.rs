//! What writing an attribute does.

use super::keywords::{COMPACTION, FORK, SWITCH, geometry as geometry_of, parse_keyword};
use super::numbers::{Base, unsigned};
use super::params;
use crate::algorithms::Algorithm;
use crate::layout::Layout;
use crate::{BadValue, Config, Error, Zram, memparse};
use zcomp::Params;

type Stored = Result<(), Error>;

/// Bytes of a name of an algorithm, from which on the kernel finds it too long.
const NAME_BYTES: usize = 128;

/// An error that says why a value can't be.
pub(super) fn bad(name: &'static str, value: &str, why: BadValue, reason: &str) -> Error {
    Error::Value { name, value: value.to_owned(), why, reason: reason.to_owned() }
}

/// A size with a suffix.
fn size(name: &'static str, text: &str) -> Result<u64, Error> {
    memparse::parse(text).map_err(|reason| bad(name, text, BadValue::Invalid, &reason))
}

/// A limit: 0 is none.
fn limit(name: &'static str, text: &str) -> Result<Option<u64>, Error> {
    Ok(Some(size(name, text)?).filter(|&bytes| bytes > 0))
}

/// One of some words, for a setting.
fn setting<T: Copy>(
    zram: &Zram,
    name: &'static str,
    (words, text): (&[(&str, T)], &str),
    set: impl FnOnce(&mut Config, T),
) -> Stored {
    let value =
        parse_keyword(words, text).map_err(|why| bad(name, text, BadValue::Invalid, &why))?;
    zram.configure(name, |settings| {
        set(settings, value);
        Ok(())
    })
}

pub(super) fn disksize(zram: &Zram, text: &str) -> Stored {
    match size("disksize", text)? {
        0 => Err(bad("disksize", text, BadValue::Invalid, "expected 1 byte or more")),
        bytes => zram.set_disksize(bytes),
    }
}

pub(super) fn reset(zram: &Zram, text: &str) -> Stored {
    let expected = |why| bad("reset", text, why, "expected 1, or another number up to 65535");
    match unsigned::<u16>(text, Base::Ten).map_err(expected)? {
        0 => Err(expected(BadValue::Invalid)),
        _ => zram.reset(),
    }
}

pub(super) fn block_size(zram: &Zram, text: &str) -> Stored {
    let name = "block_size";
    let bytes = usize::try_from(size(name, text)?).unwrap_or(usize::MAX);
    zram.configure(name, |settings| {
        let refused = |error: Error| bad(name, text, BadValue::Invalid, &error.to_string());
        Layout::new(bytes, 1).map_err(refused)?;
        settings.block = bytes;
        Ok(())
    })
}

pub(super) fn comp_algorithm(zram: &Zram, text: &str) -> Stored {
    let name = "comp_algorithm";
    if text.len() >= NAME_BYTES {
        let reason = "no algorithm has such a long name";
        return Err(bad(name, text, BadValue::TooLong, reason));
    }
    let algorithm = zcomp::by_name(text)
        .map_err(|error| bad(name, text, BadValue::Invalid, &error.to_string()))?;
    zram.configure(name, |settings| {
        settings.algorithm = algorithm;
        settings.params = Params::default();
        Ok(())
    })
}

pub(super) fn algorithm_params(zram: &Zram, text: &str) -> Stored {
    let params = params::parse(text)?;
    zram.configure(params::NAME, |settings| {
        let nth = params.target(settings, text)?;
        let target = match nth.checked_sub(1).and_then(|nth| settings.recompression[nth].as_mut()) {
            Some(Algorithm { params, .. }) => params,
            None => &mut settings.params,
        };
        *target = params.of_codec;
        Ok(())
    })
}

pub(super) fn mem_limit(zram: &Zram, text: &str) -> Stored {
    zram.set_mem_limit(limit("mem_limit", text)?);
    Ok(())
}

pub(super) fn total_limit(zram: &Zram, text: &str) -> Stored {
    zram.set_total_limit(limit("total_limit", text)?);
    Ok(())
}

pub(super) fn mem_used_max(zram: &Zram, text: &str) -> Stored {
    let Ok(0) = unsigned::<u64>(text, Base::Ten) else {
        let reason = "expected 0, which resets the peak";
        return Err(bad("mem_used_max", text, BadValue::Invalid, reason));
    };
    zram.instance().inspect(|instance| instance.device.reset_mem_used_max());
    Ok(())
}

pub(super) fn compact(zram: &Zram, _text: &str) -> Stored {
    let instance = zram.instance().ok_or(Error::Uninitialised { name: "compact" })?;
    instance.device.compact();
    Ok(())
}

pub(super) fn idle(zram: &Zram, text: &str) -> Stored {
    let name = "idle";
    let reason = "expected all, or an age in seconds";
    let age = match text {
        "all" => None,
        _ => Some(
            unsigned(text, Base::Any).map_err(|_| bad(name, text, BadValue::Invalid, reason))?,
        ),
    };
    let instance = zram.instance().ok_or(Error::Uninitialised { name })?;
    match age {
        None => instance.device.mark_idle(),
        Some(seconds) => instance.device.mark_idle_older(seconds),
    }
}

pub(super) fn track_access(zram: &Zram, text: &str) -> Stored {
    setting(zram, "track_access", (&SWITCH, text), |settings, on| settings.track_access = on)
}

pub(super) fn checksums(zram: &Zram, text: &str) -> Stored {
    setting(zram, "checksums", (&SWITCH, text), |settings, on| settings.checksums = on)
}

pub(super) fn geometry(zram: &Zram, text: &str) -> Stored {
    let name = "geometry";
    let geometry =
        geometry_of(text).map_err(|reason| bad(name, text, BadValue::Invalid, &reason))?;
    zram.configure(name, |settings| {
        settings.geometry = geometry;
        Ok(())
    })
}

pub(super) fn compaction(zram: &Zram, text: &str) -> Stored {
    setting(zram, "compaction", (&COMPACTION, text), |settings, when| settings.compaction = when)
}

pub(super) fn fork(zram: &Zram, text: &str) -> Stored {
    setting(zram, "fork", (&FORK, text), |settings, fork| settings.fork = fork)
}

pub(super) fn dump(zram: &Zram, text: &str) -> Stored {
    setting(zram, "dump", (&SWITCH, text), |settings, on| settings.dump = on)
}
