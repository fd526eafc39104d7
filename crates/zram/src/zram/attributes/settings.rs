//! Functions that execute writes to the attributes that are settings or commands.

use super::keywords;
use super::params::AlgorithmLine;
use super::value::{Base, Value};
use crate::algorithms::Algorithm;
use crate::layout::Layout;
use crate::zram::lifecycle::Instance;
use crate::{BadValue, Config, Error, Zram};
use std::sync::Arc;
use zcomp::Params;

/// The minimum length of an algorithm's name, in bytes, for which the kernel returns E2BIG.
const NAME_BYTES: usize = 128;

/// Returns the device, or the error of the attribute `name` if no device exists.
pub(super) fn instance(zram: &Zram, name: &'static str) -> Result<Arc<Instance>, Error> {
    zram.instance().ok_or(Error::Uninitialised { name })
}

/// Changes settings with a function that can't fail.
pub(super) fn set(
    zram: &Zram,
    name: &'static str,
    change: impl FnOnce(&mut Config),
) -> Result<(), Error> {
    zram.configure(name, |settings| {
        change(settings);
        Ok(())
    })
}

pub(super) fn disksize(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    match value.size()? {
        0 => Err(value.invalid("expected 1 byte or more")),
        bytes => zram.set_disksize(bytes),
    }
}

pub(super) fn reset(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let expected = "expected 1, or another number up to 65535";
    match value.number::<u16>(Base::Ten, expected)? {
        0 => Err(value.invalid(expected)),
        _ => zram.reset(),
    }
}

pub(super) fn block_size(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let bytes = usize::try_from(value.size()?).unwrap_or(usize::MAX);
    zram.configure(value.name, |settings| {
        Layout::new(bytes, 1).map_err(|error| value.invalid(&error.to_string()))?;
        settings.block = bytes;
        Ok(())
    })
}

pub(super) fn comp_algorithm(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    if value.text.len() >= NAME_BYTES {
        return Err(value.bad(BadValue::TooLong, "no algorithm has such a long name"));
    }
    let found = zcomp::by_name(value.text);
    let algorithm = found.map_err(|error| value.invalid(&error.to_string()))?;
    set(zram, value.name, |settings| {
        (settings.algorithm, settings.params) = (algorithm, Params::default());
    })
}

pub(super) fn algorithm_params(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let line = AlgorithmLine::parse(value)?;
    zram.configure(value.name, |settings| {
        let nth = line.target(settings, value)?;
        let target = match nth.checked_sub(1).and_then(|nth| settings.recompression[nth].as_mut()) {
            Some(Algorithm { params, .. }) => params,
            None => &mut settings.params,
        };
        *target = line.params;
        Ok(())
    })
}

pub(super) fn geometry(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let geometry = keywords::geometry(value.text).map_err(|reason| value.invalid(&reason))?;
    set(zram, value.name, |settings| settings.geometry = geometry)
}

pub(super) fn mem_used_max(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let reason = "expected 0, which resets the peak";
    // Only 0 is valid. A number that does not fit in 64 bits also results in EINVAL.
    let Ok(0) = value.number::<u64>(Base::Ten, reason) else { return Err(value.invalid(reason)) };
    zram.instance().inspect(|instance| instance.device.reset_mem_used_max());
    Ok(())
}

pub(super) fn idle(zram: &Zram, value: Value<'_>) -> Result<(), Error> {
    let reason = "expected all, or an age in seconds";
    let age = match value.text {
        "all" => None,
        _ => Some(value.number(Base::Any, reason).map_err(|_| value.invalid(reason))?),
    };
    let instance = instance(zram, value.name)?;
    match age {
        None => instance.device.mark_idle(),
        Some(seconds) => instance.device.mark_idle_older(seconds),
    }
}
