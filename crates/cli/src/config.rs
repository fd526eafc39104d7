//! The configuration file of `uzram serve`: a section a disk, in the format of zram-generator.
//!
//! ```text
//!   file -> section -> keys: zram-generator's, or options without -- -> options, then those given
//! ```
//! So the command line overrides the file, and each value is checked as on the command line.

mod expression;

use crate::error::{Error, failed};
use clap::{ArgAction, Command};
use ini::{Ini, ParseOption, Properties};
use measure::memory;
use measure::text::escaped;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What zram-generator does with its device, and nothing does here.
const FOREIGN: [&str; 6] =
    ["host-memory-limit", "mount-point", "fs-type", "options", "swap-priority", "max-zram-size"];

/// Options that say where the file is, or nothing of a disk.
const NOT_KEYS: [&str; 3] = ["config", "section", "help"];

/// Returns the command line with what the configuration file has, where `uzram serve` is given one:
/// what is given stands behind that, and `cli` has it override it then.
///
/// # Errors
/// As [`options`].
pub(crate) fn expanded(
    cli: &mut Command,
    given: &[OsString],
) -> Result<Option<Vec<OsString>>, Error> {
    let Some((path, section)) = file(cli, given) else { return Ok(None) };
    *cli = cli.clone().mut_subcommand("serve", |serve| serve.args_override_self(true));
    let serve = cli.find_subcommand("serve").cloned().unwrap_or_default();
    let options = options(&path, section.as_deref(), &serve)?;
    let (command, rest) = given.split_at(2);
    Ok(Some([command, &options, rest].concat()))
}

/// Returns the file that `uzram serve` is given, and the section.
fn file(cli: &Command, given: &[OsString]) -> Option<(PathBuf, Option<String>)> {
    if given.get(1)? != "serve" {
        return None;
    }
    let matches = cli.clone().ignore_errors(true).try_get_matches_from(given).ok()?;
    let serve = matches.subcommand_matches("serve")?;
    let path = serve.try_get_one::<PathBuf>("config").ok()??.clone();
    Some((path, serve.try_get_one::<String>("section").ok()?.cloned()))
}

/// Returns the options that a section of the file stands for. `serve` is the command that has them.
///
/// # Errors
/// The file can't be read, or a key or value of it can't be used.
fn options(path: &Path, section: Option<&str>, serve: &Command) -> Result<Vec<OsString>, Error> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|why| {
        Error::of_file(path, "can't be read", why, "give --config a file that this user can read")
    })?;
    let unfit = |why: String| failed(format!("'{}': {why}", escaped(path)));
    let plain = ParseOption { enabled_quote: false, enabled_escape: false, ..Default::default() };
    let ini = Ini::load_from_str_opt(&text, plain).map_err(|error| {
        let why = error.msg.trim_end_matches('.');
        unfit(format!("line {}: {why}; give lines [SECTION] and KEY = VALUE", error.line))
    })?;
    let properties = chosen(&ini, section).map_err(unfit)?;
    let mut options = Vec::new();
    for (key, value) in properties.iter() {
        let found = of_key(key, value, serve);
        let found = found.map_err(|why| unfit(format!("{key} = {value}: {why}")))?;
        options.extend(found.into_iter().map(OsString::from));
    }
    Ok(options)
}

/// Returns the section that is asked for, or else the only one.
fn chosen<'i>(ini: &'i Ini, section: Option<&str>) -> Result<&'i Properties, String> {
    let names: Vec<&str> = ini.sections().flatten().collect();
    let listed = || match names.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", names.join(", ")),
    };
    match (section, &names[..]) {
        (Some(name), _) => ini.section(Some(name)).ok_or_else(|| {
            format!("there is no section '{name}': {}; name one with --section", listed())
        }),
        (None, [one]) => ini.section(Some(*one)).ok_or_else(listed),
        (None, []) => ini.section(None::<String>).ok_or_else(|| "it is empty".to_owned()),
        (None, _) => Err(format!("{}; name one with --section", listed())),
    }
}

/// Returns the options that a key stands for.
fn of_key(key: &str, value: &str, serve: &Command) -> Result<Vec<String>, String> {
    let size = |option: &str| {
        let bytes = expression::bytes(value, memory::room());
        bytes.map(|bytes| vec![format!("--{option}={bytes}")])
    };
    match key {
        "zram-size" => size("size"),
        "zram-resident-limit" => size("mem-limit"),
        "writeback-device" => Ok(vec![format!("--backing={value}")]),
        "compression-algorithm" => algorithms(value),
        key if FOREIGN.contains(&key) => {
            Err("that is for the kernel's device alone; leave it out".to_owned())
        }
        key => option(key, value, serve),
    }
}

/// Returns the option that has the key's name.
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

/// Reads `NAME(PARAMETERS) NAME ...`: the disk's algorithm, and those of recompression, of priority
/// 1 on.
fn algorithms(value: &str) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    for (priority, word) in words(value)?.into_iter().enumerate() {
        let (name, params) = match word.split_once('(') {
            Some((name, params)) => (name, params.trim_end_matches(')').replace(',', " ")),
            None => (word.as_str(), String::new()),
        };
        match (priority, name) {
            (_, "") => {
                return Err(
                    "parameters of recompression itself are none of the disk's; give them \
                            to 'uzram recompress'"
                        .to_owned(),
                );
            }
            (0, name) => options.push(format!("--algorithm={name}")),
            (_, name) => {
                options.push(format!("--set=recomp_algorithm=algo={name} priority={priority}"));
            }
        }
        if !params.trim().is_empty() {
            options.push(format!("--set=algorithm_params=priority={priority} {params}"));
        }
    }
    match options.is_empty() {
        true => Err("expected the name of an algorithm".to_owned()),
        false => Ok(options),
    }
}

/// Divides a text at spaces that are in no brackets.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_inside) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '(' if is_inside => return Err("one bracket lies in another".to_owned()),
            '(' => is_inside = true,
            ')' if !is_inside => return Err("a bracket is closed that was not opened".to_owned()),
            ')' => is_inside = false,
            c if c.is_whitespace() && !is_inside => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    if is_inside {
        return Err("a bracket is not closed".to_owned());
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Ok(words)
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
        let options = options(&path, section, &serve()).map_err(|error| error.to_string())?;
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
            ("[one\n", None, "line 2: "),
        ] {
            let error = read(text, section).unwrap_err();
            assert!(error.contains(part) && error.contains("/f'"), "{text}: {error}");
        }
    }
}
