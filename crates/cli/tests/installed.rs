//! Checks that `make install` into a scratch root installs all files, and that another user can use
//! the installed files.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use support::{Ended, Server, UZRAM, end, text};
use testkit::beside;
use testkit::rights::NOBODY;

/// Returns the scratch root, in which the files are installed once. Every user can read the files.
fn root() -> &'static Path {
    static ROOT: OnceLock<tempfile::TempDir> = OnceLock::new();
    ROOT.get_or_init(|| {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        make(&["install"], root.path());
        root
    })
    .path()
}

/// Returns the folder with the files to install. The files are built with the same profile as the
/// command.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Path::new(UZRAM).parent().unwrap().to_owned();
        let archive = beside::dependencies(Path::new(UZRAM)).join("libuzram_capi.a");
        let mut link = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/link.sh"));
        is_fine(&end(link.arg(archive).arg(built.join("libuzram"))));
        built
    })
}

fn make(targets: &[&str], root: &Path) {
    // All users can read the installed files, whatever the umask is.
    let mut make = Command::new("sh");
    make.args(["-c", "umask 077; exec make \"$@\"", "make", "-C"]);
    make.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).args(targets);
    make.args(["PREFIX=/usr", "SYSCONFDIR=/etc"]).arg(format!("DESTDIR={}", root.display()));
    let ended = end(make.arg(format!("BUILT={}", built().display())).env_remove("MAKEFLAGS"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Returns the installed command. If this process is root, the command runs as user nobody.
fn installed(dir: &Path) -> Command {
    let uzram = root().join("usr/bin/uzram");
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        command.args([&user, &group, "--clear-groups", "--no-new-privs"]).arg(uzram);
        command
    } else {
        eprintln!("SKIPPED: to run the installed program as another user takes root; as this one");
        Command::new(uzram)
    };
    command.current_dir(dir).env_clear().env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Creates a directory in which the user `nobody` is allowed to write.
fn scratch() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    dir
}

/// Returns whether a program is installed. If not, prints that the checks with this program are
/// skipped.
fn has(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let is_there = asked.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("SKIPPED: {program} is not installed, and does not check what is installed");
    }
    is_there
}

fn is_fine(ended: &Ended) {
    assert!(ended.code == Some(0) && ended.err.is_empty(), "{ended:?}");
}

#[test]
fn it_runs_as_another_user() {
    let dir = scratch();
    let version = end(installed(dir.path()).arg("--version"));
    assert_eq!(version.out, concat!("uzram ", env!("CARGO_PKG_VERSION"), "\n"));
    fs::write(dir.path().join("file"), text(1, 100_000)).unwrap();
    is_fine(&end(installed(dir.path()).args(["fill", "file"])));

    let config = root().join("etc/uzram.conf");
    let mut serve = installed(dir.path());
    serve.args(["serve", "--config"]).arg(&config).args(["--section", "scratch", "--size", "1M"]);
    serve.args(["--nbd", "unix:nbd.sock", "--control", "control.sock"]);
    let mut server = Server::announced(serve.spawn().unwrap(), dir);
    let stat =
        end(installed(server.dir.path()).args(["stat", "--json", "--control", "control.sock"]));
    let stat = stat.json();
    // The size is set on the command line, and all other values are set in the file.
    assert_eq!((&stat["disksize"], &stat["algorithm"]), (&(1 << 20).into(), &"zstd".into()));
    assert!(stat["mem_limit"].as_u64().unwrap() > 0, "{stat}");
    let stop = format!("kill -TERM {}", server.child.id());
    assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
    assert_eq!(server.ended().0, Some(0), "{}", server.said());
}

#[test]
#[cfg(target_arch = "x86_64")]
fn programs_find_the_installed_host() {
    let dir = scratch();
    let maps = ["run", "--limit", "64M", "--", "sh", "-c", "env -i cat /proc/self/maps"];
    let ended = end(installed(dir.path()).args(maps));
    is_fine(&ended);
    let host = root().join("usr/lib/uzram/uzram-host");
    assert!(ended.out.contains(host.to_str().unwrap()), "{}", ended.out);
}

/// Returns the flags to compile a program with libuzram: the output of pkg-config, or the flags in
/// libuzram's file for pkg-config.
fn flags() -> Vec<String> {
    let lib = root().join("usr/lib");
    let text = fs::read_to_string(lib.join("pkgconfig/uzram.pc")).unwrap();
    // The file contains the final paths, not the paths in the scratch root.
    assert!(text.starts_with("prefix=/usr\n"), "{text}");
    assert!(!text.contains(root().to_str().unwrap()) && !text.contains("pcfiledir"), "{text}");
    let line = if has("pkg-config") {
        let mut asks = Command::new("pkg-config");
        asks.args(["--cflags", "--libs", "uzram"]).env("PKG_CONFIG_SYSROOT_DIR", root());
        asks.env("PKG_CONFIG_LIBDIR", lib.join("pkgconfig"));
        let ended = end(&mut asks);
        is_fine(&ended);
        ended.out
    } else {
        let lines = text.lines().filter_map(|line| line.split_once(": "));
        let flags = lines.filter(|(name, _)| ["Cflags", "Libs"].contains(name));
        let flags: Vec<_> = flags.map(|(_, flags)| flags).collect();
        let dirs = [("${includedir}", "usr/include"), ("${libdir}", "usr/lib")];
        dirs.iter().fold(flags.join(" "), |flags, (name, dir)| {
            flags.replace(name, root().join(dir).to_str().unwrap())
        })
    };
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn programs_in_c_are_built_with_the_installed_library() {
    let dir = scratch();
    let [source, program] = ["program.c", "program"].map(|name| dir.path().join(name));
    fs::write(
        &source,
        "#include <stdio.h>\n#include <string.h>\n#include <uzram.h>\nint main(void)\n{\n\
         struct uzram_pool_options options = UZRAM_INIT(struct uzram_pool_options);\n\
         uzram_pool *pool; uint64_t handle; char bytes[8] = \"\";\n\
         if (uzram_pool_new(&options, &pool) || uzram_pool_store(pool, \"kept\", 5, &handle) ||\n\
         uzram_pool_read(pool, handle, bytes, sizeof bytes, NULL)) return 1;\n\
         uzram_pool_destroy(pool);\nputs(bytes);\nreturn uzram_version() >> 16 != \
         UZRAM_VERSION_MAJOR;\n}\n",
    )
    .unwrap();
    let mut cc = Command::new("cc");
    is_fine(&end(cc.args(["-Wall", "-Werror", "-o"]).arg(&program).arg(&source).args(flags())));
    let lib = root().join("usr/lib");
    let ended = end(Command::new(&program).env("LD_LIBRARY_PATH", &lib));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "kept\n"), "{ended:?}");
    // The program requires a library with this version of the interface. Any later library with
    // this interface works.
    let asks = end(Command::new("readelf").arg("-d").arg(&program)).out;
    assert!(asks.contains("Shared library: [libuzram.so.0.1]"), "{asks}");
    let version = env!("CARGO_PKG_VERSION");
    for (link, to) in [
        ("libuzram.so", "libuzram.so.0.1".to_owned()),
        ("libuzram.so.0.1", format!("libuzram.so.{version}")),
    ] {
        assert_eq!(fs::read_link(lib.join(link)).unwrap(), Path::new(&to));
    }
    assert!(fs::read(lib.join("libuzram.a")).unwrap().starts_with(b"!<arch>\n"));
}

#[test]
fn every_command_has_a_man_page() {
    let pages = root().join("usr/share/man/man1");
    let help = end(Command::new(UZRAM).arg("--help")).out;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<_> = names.map(|line| line.split_whitespace().next().unwrap()).collect();
    let commands: Vec<_> = names.into_iter().filter(|name| *name != "help").collect();
    assert!(commands.len() > 10, "{help}");
    for command in &commands {
        assert!(pages.join(format!("uzram-{command}.1")).is_file(), "{command}");
    }
    assert_eq!(fs::read_dir(&pages).unwrap().count(), commands.len() + 1);
    let serve = fs::read_to_string(pages.join("uzram-serve.1")).unwrap();
    for part in [".SH NAME\nuzram\\-serve", ".SH \"EXIT STATUS\"", ".SH EXAMPLES", ".SH OPTIONS"] {
        assert!(serve.contains(part), "{part}: {serve}");
    }
    let synopsis = serve.split(".SH SYNOPSIS\n").nth(1).unwrap().lines().next().unwrap();
    let synopsis = synopsis.replace('\\', "");
    assert!(synopsis.contains("[OPTIONS] <--size <SIZE>|--restore <FILE>>"), "{synopsis}");
    if !has("man") {
        return;
    }
    for page in fs::read_dir(&pages).unwrap() {
        let page = page.unwrap().path();
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&page).env("MANWIDTH", "80");
        let ended = end(man.env("MANPAGER", "cat").env("LC_ALL", "C.UTF-8"));
        is_fine(&ended);
        let is_top = page.ends_with("uzram.1");
        assert!(is_top || ended.out.contains("SEE ALSO\n       uzram(1)"), "{}", ended.out);
        if page.ends_with("uzram-serve.1") {
            let example = "EXAMPLES\n       uzram serve --size 4G\n";
            assert!(ended.out.contains(example), "{}", ended.out);
        }
    }
}

#[test]
fn shells_take_the_completions() {
    let share = root().join("usr/share");
    let file = |name: &str| -> PathBuf { share.join(name) };
    let bash = file("bash-completion/completions/uzram");
    let asks = format!(
        ". {} && COMP_WORDS=(uzram sta) COMP_CWORD=1 && _uzram uzram sta uzram && \
         echo ${{COMPREPLY[@]}}",
        bash.display()
    );
    let ended = end(Command::new("bash").args(["-c", &asks]));
    assert_eq!(ended.out, "stat\n", "{ended:?}");
    for (shell, name) in
        [("zsh", "zsh/site-functions/_uzram"), ("fish", "fish/vendor_completions.d/uzram.fish")]
    {
        let text = fs::read_to_string(file(name)).unwrap();
        assert!(text.contains("train-dictionary") && !text.contains("generate"), "{name}");
        if has(shell) {
            is_fine(&end(Command::new(shell).arg("-n").arg(file(name))));
        }
    }
}

#[test]
fn its_unit_is_hardened() {
    let units = root().join("usr/lib/systemd/system");
    let service = fs::read_to_string(units.join("uzram-serve@.service")).unwrap();
    let line = "ExecStart=/usr/bin/uzram serve --config /etc/uzram.conf --section %i\n";
    assert!(service.contains(line) && !service.contains("DIR@"), "{service}");
    // A restore can take long. After a failed restore, the socket is stopped, because otherwise a
    // server with an empty disk would start.
    for line in ["TimeoutStartSec=infinity\n", "stop \"uzram-serve@$$1.socket\"' sh %i\n"] {
        assert!(service.contains(line), "{line} in {service}");
    }
    if !has("systemd-analyze") {
        return;
    }
    // systemd-analyze can check an instance of a unit, but not a template.
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("uzram-serve@x.service");
    fs::write(&unit, &service).unwrap();
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=yes", "--threshold=30", "--no-pager"]).arg(&unit);
    let ended = end(&mut analyze);
    assert_eq!(ended.code, Some(0), "its exposure is above 3.0: {ended:?}");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(format!("--root={}", root().display()));
    let ended = end(verify.arg("uzram-serve@x.service"));
    // The scratch root lacks the units of other packages, so errors about these units are expected.
    assert!(
        !ended.err.contains("uzram-serve@.so") && !ended.err.contains("bin/uzram is not exec"),
        "{ended:?}"
    );
}

#[test]
fn a_package_has_all_of_it() {
    if !has("dpkg-deb") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("root");
    make(&["install"], &tree);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/deb.sh");
    let mut deb = Command::new("sh");
    deb.args(["-c", "umask 077; exec \"$@\"", "sh", script])
        .arg(&tree)
        .arg("0.1.0")
        .arg(dir.path())
        .env("COMPRESSION", "none");
    let ended = end(&mut deb);
    is_fine(&ended);
    let package = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let package = package.into_iter().find(|path| path.extension().is_some_and(|e| e == "deb"));
    let package = package.unwrap();
    let listed = end(Command::new("dpkg-deb").arg("--contents").arg(&package)).out;
    for name in [
        "bin/uzram",
        "include/uzram.h",
        "lib/libuzram.a",
        concat!("lib/libuzram.so.", env!("CARGO_PKG_VERSION")),
        "lib/pkgconfig/uzram.pc",
        "lib/uzram/uzram-host",
        "share/doc/uzram/changelog.gz",
        "share/doc/uzram/copyright",
        "share/man/man1/uzram-serve.1.gz",
    ] {
        let line = listed.lines().find(|line| line.ends_with(&format!(" ./usr/{name}"))).unwrap();
        assert!(line.contains(" root/root "), "{line}");
    }
    let depends = end(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends")).out;
    assert!(depends.starts_with("libc6 (>= 2.") && depends.contains(", libgcc-s1"), "{depends}");
    let [files, control] = ["files", "control"].map(|name| dir.path().join(name));
    is_fine(&end(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&files)));
    is_fine(&end(Command::new("dpkg-deb").arg("--control").arg(&package).arg(&control)));
    let told = |name: &str| fs::read_to_string(control.join(name)).unwrap();
    let (sums, triggers, shlibs) = (told("md5sums"), told("triggers"), told("shlibs"));
    let mut md5sum = Command::new("md5sum");
    let checked =
        end(md5sum.args(["--check", "--strict"]).arg(control.join("md5sums")).current_dir(&files));
    assert_eq!((checked.code, checked.out.lines().count()), (Some(0), sums.lines().count()));
    let all = end(Command::new("find").arg(files.join("usr")).args(["-type", "f"])).out;
    assert_eq!(sums.lines().count(), all.lines().count(), "{sums}");
    assert!(triggers.contains("\nactivate-noawait ldconfig\n"), "{triggers}");
    assert_eq!(shlibs, "libuzram 0.1 uzram (>= 0.1.0)\n");
    // The command in the package runs.
    let version = end(Command::new(files.join("usr/bin/uzram")).arg("--version"));
    assert_eq!(version.out, concat!("uzram ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn what_was_installed_goes_but_the_configuration() {
    let dir = scratch();
    // The path of the installation root can contain a space.
    let (root, other) = (dir.path().join("a b"), dir.path().join("a"));
    fs::write(&other, "stays").unwrap();
    make(&["install"], &root);
    fs::write(root.join("etc/uzram.conf"), "[own]\n").unwrap();
    make(&["install"], &root);
    assert_eq!(fs::read_to_string(root.join("etc/uzram.conf")).unwrap(), "[own]\n");
    make(&["uninstall"], &root);
    assert_eq!(fs::read_to_string(&other).unwrap(), "stays");
    let found = end(Command::new("find").arg(&root).args(["!", "-type", "d", "-printf", "%P\n"]));
    assert_eq!(found.out, "etc/uzram.conf\n");
}
