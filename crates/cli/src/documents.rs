//! `uzram generate`: a hidden command that writes man pages and completions for packagers. Both are
//! made from the definition of the command line.

use crate::error::Error;
use crate::output;
use crate::text::one_line;
use clap::builder::StyledStr;
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use roff::{Roff, bold, roman};
use std::fs::create_dir_all;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Each shell, and the path of its completions below `share`.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/uzram"),
    (Shell::Zsh, "zsh/site-functions/_uzram"),
    (Shell::Fish, "fish/vendor_completions.d/uzram.fish"),
];

/// Write man pages and completions below a directory, such as /usr/share
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct GenerateArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &GenerateArgs, cli: Command) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |why: io::Error| Error::of_file(&path, "can't be written", why, "give another DIR")
    };
    let put = |name: &str, bytes: Vec<u8>| {
        let path = args.dir.join(name);
        let parent = path.parent().unwrap_or(&args.dir);
        create_dir_all(parent).map_err(failed(parent))?;
        output::write(&path, 0o666, |file| file.write_all(&bytes).map_err(failed(&path)))
    };
    let mut cli = listed(&cli);
    for (shell, name) in SHELLS {
        let mut script = Vec::new();
        generate(shell, &mut cli, "uzram", &mut script);
        put(name, script)?;
    }
    cli.build();
    let commands: Vec<&Command> = cli.get_subcommands().collect();
    for command in &commands {
        // The display name includes `uzram-`, so that `man uzram-serve` finds the page.
        let name = format!("uzram-{}", command.get_name());
        let page = page((*command).clone().display_name(name.clone()), &[]);
        put(&format!("man/man1/{name}.1"), page.map_err(failed(&args.dir))?)?;
    }
    let names: Vec<_> = commands.iter().map(|of| format!("uzram-{}", of.get_name())).collect();
    put("man/man1/uzram.1", page(cli.clone(), &names).map_err(failed(&args.dir))?)
}

/// Returns the command without hidden subcommands, because completions would list them.
fn listed(cli: &Command) -> Command {
    let commands = cli.get_subcommands().filter(|of| !of.is_hide_set()).cloned();
    let listed = Command::new("uzram").disable_help_subcommand(true).subcommands(commands);
    let text = |text: Option<&StyledStr>| text.cloned().unwrap_or_default();
    let listed = listed.about(text(cli.get_about())).long_about(text(cli.get_long_about()));
    listed.version(env!("CARGO_PKG_VERSION"))
}

/// Returns the man page of a command. Each paragraph that clap prints after the options becomes a
/// section.
fn page(command: Command, related: &[String]) -> io::Result<Vec<u8>> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let version = format!("uzram {}", env!("CARGO_PKG_VERSION"));
    let has_commands = command.has_subcommands();
    // The usage line of the help names the options' values. The usage line of clap's man page does
    // not.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let man = Man::new(command.override_usage(usage)).source(version).manual("uzram");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if has_commands {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    for part in after.split("\n\n") {
        match part.split_once('\n') {
            Some(("Exit codes:", list)) => exit_codes(&mut roff, list),
            Some(("Examples:", lines)) => examples(&mut roff, lines),
            _ if part.trim().is_empty() => {}
            _ => _ = roff.control("SH", ["NOTES"]).text([roman(one_line(part))]),
        }
    }
    see_also(&mut roff, related);
    roff.to_writer(&mut out)?;
    Ok(out)
}

/// Writes a list of exit codes and their meanings. A meaning may have several lines.
fn exit_codes(roff: &mut Roff, list: &str) {
    roff.control("SH", ["EXIT STATUS"]);
    for line in list.lines() {
        match line.trim().split_once("  ") {
            Some((code, meaning)) => {
                roff.control("TP", []).text([bold(code)]).text([roman(meaning.trim())]);
            }
            None => _ = roff.text([roman(line.trim())]),
        }
    }
}

fn examples(roff: &mut Roff, lines: &str) {
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line.trim())]);
    }
    roff.control("fi", []);
}

fn see_also(roff: &mut Roff, related: &[String]) {
    let own = ["uzram".to_owned()];
    let names = if related.is_empty() { &own } else { related };
    let listed: Vec<_> = names.iter().map(|name| format!("{name}(1)")).collect();
    roff.control("SH", ["SEE ALSO"]).text([roman(listed.join(", "))]);
}
