//! The configuration file of `uzram serve`, with one section per disk, in the format of
//! zram-generator.
//!
//! ```text
//!   file -> section -> keys: zram-generator's, or options without -- -> options, then those given
//! ```
//! The options of the command line come last, so they override the options in the file. The values
//! in the file are checked like those of the command line.

mod algorithms;
mod expression;
mod text;

use crate::error::{Error, failed};
use crate::memory;
use crate::text::{escaped, shortened};
use crate::usage_error::told;
use algorithms::{Given, algorithms};
use clap::error::ErrorKind;
use clap::{ArgAction, Command};
use ini::{Ini, ParseOption, Properties};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Keys of zram-generator for features of the kernel's device that uzram does not have.
const FOREIGN: [&str; 6] =
    ["host-memory-limit", "mount-point", "fs-type", "options", "swap-priority", "max-zram-size"];

/// Options that can't be keys of the file. These options select the file or its section, or do not
/// describe a disk.
const NOT_KEYS: [&str; 3] = ["config", "section", "help"];

/// Returns the command line of `uzram serve` with the file's options inserted before the user's
/// options. Changes `cli` so that later options override earlier ones. Returns `None` if the user
/// specified no configuration file.
///
/// # Errors
/// Fails as [`options`] does.
pub(crate) fn expanded(
    cli: &mut Command,
    given: &[OsString],
) -> Result<Option<Vec<OsString>>, Error> {
    let Some(file) = file(cli, given) else { return Ok(None) };
    *cli = cli.clone().mut_subcommand("serve", |serve| serve.args_override_self(true));
    let serve = cli.find_subcommand("serve").cloned().unwrap_or_default();
    let options = options(&file, &serve)?;
    check(&file.path, &serve, &options)?;
    let (command, rest) = given.split_at(2);
    Ok(Some([command, &options, rest].concat()))
}

/// The configuration file, its requested section, and the options of the command line that the file
/// is not allowed to override.
#[derive(Debug, Default)]
struct ConfigFile {
    path: PathBuf,
    section: Option<String>,
    given: Given,
}

fn file(cli: &Command, given: &[OsString]) -> Option<ConfigFile> {
    if given.get(1)? != "serve" {
        return None;
    }
    let matches = cli.clone().ignore_errors(true).try_get_matches_from(given).ok()?;
    let serve = matches.subcommand_matches("serve")?;
    let path = serve.try_get_one::<PathBuf>("config").ok()??.clone();
    let section = serve.try_get_one::<String>("section").ok()?.cloned();
    let is_given = |name| serve.try_contains_id(name).unwrap_or(false);
    let level = serve.try_get_one::<i32>("level").ok().flatten().copied();
    Some(ConfigFile { path, section, given: Given { algorithm: is_given("algorithm"), level } })
}

/// Checks the values of the file's options, so that an error names the file. Required options may
/// be missing, because the command line may have them.
///
/// # Errors
/// Fails if a value is invalid.
fn check(path: &Path, serve: &Command, options: &[OsString]) -> Result<(), Error> {
    let name = [OsString::from(serve.get_name())];
    let parsed = serve.clone().try_get_matches_from(name.iter().chain(options));
    match parsed {
        Err(error)
            if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) =>
        {
            Err(failed(format!("'{}': {}", escaped(path), told(error))))
        }
        _ => Ok(()),
    }
}

/// Returns the options that the requested section sets. `serve` is the definition of `uzram serve`.
///
/// # Errors
/// Fails if the file can't be read, or if a key or value in it is invalid.
fn options(file: &ConfigFile, serve: &Command) -> Result<Vec<OsString>, Error> {
    let path = &file.path;
    let text = text::read(path)?;
    let unfit = |why: String| failed(format!("'{}': {why}", escaped(path)));
    let plain = ParseOption { enabled_quote: false, enabled_escape: false, ..Default::default() };
    let ini = Ini::load_from_str_opt(&text, plain).map_err(|error| {
        unfit(format!("line {} is neither [SECTION] nor KEY = VALUE; correct it", error.line))
    })?;
    let properties = chosen(&ini, file.section.as_deref()).map_err(unfit)?;
    let mut options = Vec::new();
    for (key, value) in properties.iter() {
        let found = of_key(key, value, &file.given, serve);
        let (key, value) = (shortened(key), shortened(value));
        let found = found.map_err(|why| unfit(format!("{key} = {value}: {why}")))?;
        options.extend(found.into_iter().map(OsString::from));
    }
    Ok(options)
}

/// Returns the requested section. If `section` is `None`, returns the file's only section, or all
/// keys of a file without sections.
fn chosen<'i>(ini: &'i Ini, section: Option<&str>) -> Result<&'i Properties, String> {
    let names: Vec<&str> = ini.sections().flatten().collect();
    let listed = || match names.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", shortened(&names.join(", "))),
    };
    if let Some((key, _)) = ini.general_section().iter().next().filter(|_| !names.is_empty()) {
        let key = shortened(key);
        return Err(format!("'{key}' stands before the first section; put it into one"));
    }
    let twice = |name: &&&str| ini.section_all(Some(**name)).count() > 1;
    if let Some(name) = names.iter().find(twice) {
        let name = shortened(name);
        return Err(format!("there are several sections '{name}'; make one of them"));
    }
    match (section, &names[..]) {
        (Some(name), _) => ini.section(Some(name)).ok_or_else(|| {
            let name = shortened(name);
            format!("there is no section '{name}': {}; name one with --section", listed())
        }),
        (None, [one]) => ini.section(Some(*one)).ok_or_else(listed),
        (None, []) => ini.section(None::<String>).ok_or_else(|| "it is empty".to_owned()),
        (None, _) => Err(format!("{}; name one with --section", listed())),
    }
}

/// Returns the options for a key of the file.
fn of_key(key: &str, value: &str, given: &Given, serve: &Command) -> Result<Vec<String>, String> {
    let size = |option: &str| {
        let bytes = expression::bytes(value, memory::room());
        bytes.map(|bytes| vec![format!("--{option}={bytes}")])
    };
    match key {
        "zram-size" => size("size"),
        "zram-resident-limit" => size("mem-limit"),
        "writeback-device" => Ok(vec![format!("--backing={value}")]),
        "compression-algorithm" => algorithms(value, given),
        key if FOREIGN.contains(&key) => {
            Err("that is for the kernel's device alone; leave it out".to_owned())
        }
        key => option(key, value, serve),
    }
}

/// Returns the option `key` of `uzram serve` with its value.
fn option(key: &str, value: &str, serve: &Command) -> Result<Vec<String>, String> {
    let is_it = |arg: &&clap::Arg| arg.get_long() == Some(key);
    let arg = serve.get_arguments().find(is_it).filter(|_| !NOT_KEYS.contains(&key));
    let arg = arg.ok_or("there is no such key; 'uzram serve --help' lists the options")?;
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, "yes" | "true" | "1") => Ok(vec![format!("--{key}")]),
        (ArgAction::SetTrue, "no" | "false" | "0") => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("expected yes or no".to_owned()),
        _ => Ok(vec![format!("--{key}={value}")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn serve() -> Command {
        let flag = Arg::new("read_only").long("read-only").action(ArgAction::SetTrue);
        let config = Arg::new("config").long("config");
        Command::new("serve").args([flag, config, Arg::new("nbd").long("nbd")])
    }

    fn read(text: &str, section: Option<&str>) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, text).unwrap();
        let section = section.map(str::to_owned);
        let file = ConfigFile { path, section, given: Given::default() };
        let options = options(&file, &serve()).map_err(|error| error.to_string())?;
        Ok(options.into_iter().map(|option| option.into_string().unwrap()).collect())
    }

    #[test]
    fn keys_become_options() {
        let text = "# disks\n[one]\nzram-size = 4096\n\
            compression-algorithm = zstd(level=3,dict=/d) lz4hc\n\
            zram-resident-limit = 1G\n; more\nwriteback-device = /dev/x\n\
            nbd = unix:/a b\nread-only = yes\n[two]\nread-only = no\n";
        let expected = [
            "--size=4294967296",
            "--algorithm=zstd",
            "--set=algorithm_params=priority=0 level=3 dict=/d",
            "--set=recomp_algorithm=algo=lz4hc priority=1",
            "--mem-limit=1073741824",
            "--backing=/dev/x",
            "--nbd=unix:/a b",
            "--read-only",
        ];
        assert_eq!(read(text, Some("one")).unwrap(), expected);
        assert_eq!(read(text, Some("two")).unwrap(), Vec::<String>::new());
        assert_eq!(read("[x]\nnbd=tcp\n", None).unwrap(), ["--nbd=tcp"]);
        assert_eq!(read("nbd=tcp\n", None).unwrap(), ["--nbd=tcp"]);
        assert_eq!(read("\u{feff}[x]\nnbd=tcp\n", None).unwrap(), ["--nbd=tcp"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, section, part) in [
            ("[one]\n[two]\n", None, "it has one, two; name one with --section"),
            ("[one]\n", Some("three"), "there is no section 'three'"),
            ("[one]\nnosuch = 1\n", None, "nosuch = 1: there is no such key"),
            ("[one]\nconfig = f\n", None, "there is no such key"),
            ("[one]\nread-only = maybe\n", None, "expected yes or no"),
            ("[one]\nswap-priority = 5\n", None, "swap-priority = 5: that is for the kernel's"),
            ("[one]\nzram-size = ram /\n", None, "zram-size = ram /: "),
            ("[one]\ncompression-algorithm = zstd (type=idle)\n", None, "'uzram recompress'"),
            ("[one]\ncompression-algorithm = zstd(level=3\n", None, "not closed"),
            ("[one\n", None, "line 2 is neither"),
            ("[one]\nx\n", None, "line 3 is neither"),
            ("size = 1G\n[one]\nnbd = tcp\n", None, "'size' stands before the first section"),
            ("[a]\nnbd = tcp\n[a]\nnosuch = 1\n", Some("a"), "several sections 'a'"),
            ("[one]\nzram-size = 0x1000\n", None, "unexpected at '0x1000'"),
        ] {
            let error = read(text, section).unwrap_err();
            assert!(error.contains(part) && error.contains("/f'"), "{text}: {error}");
        }
    }
}
