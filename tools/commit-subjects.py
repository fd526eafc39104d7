#!/usr/bin/env python3
"""Checks the subjects of commits: an imperative of at most 72 characters.

tools/commit-subjects.py [BASE] checks the commits after BASE, without merges. If this folder has no
git history, or the history lacks BASE, the program checks nothing, prints the reason and succeeds.
tools/commit-subjects.py --self-test runs the check on planted subjects and histories.

Exit codes: 0 all subjects are right, 1 a subject is wrong, 2 wrong use.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The last commit before the rule existed. Its subject and earlier subjects are not imperatives.
BASE = "ff1168052f62d107f8942168ef035d7c31323d0d"
LENGTH = 72
# An optional scope before the imperative, such as "zmem: ", "zmem, preload: " or "make test: ".
SCOPE = re.compile(r"[a-z][\w/.,-]*(?: [\w/.,-]+){0,3}: ")
# If one of these words follows a word of IMPERATIVES, the word of IMPERATIVES is a noun.
AFTER_NOUNS = set("is are was were be has have had can can't may must will of that's which and".split())

IMPERATIVES = set("""
    abort accept account acknowledge adapt add adjust admit advertise align allocate allow analyze announce answer append apply
    arm ask assert assign assume attach avoid back balance batch begin benchmark bind block boot bound break bring build bump
    bypass cache calculate call cancel cap carry catch change charge check choose clamp clarify clean clear clone close collapse
    collect combine commit compact compare compile complete compress compute configure confine connect consume continue convert
    copy correct count cover create cut deallocate debug decide declare decode decompress decrease deduplicate default defer
    define delay delete deliver deny deprecate derive describe destroy detach detect determine disable disarm discard disconnect
    discover dispatch display distinguish distribute divide document double download drain draw drop dump duplicate elide embed
    emit empty enable encode end enforce enlarge ensure enter enumerate escape establish estimate evict examine exclude execute
    exercise exit expand expect explain export expose extend extract fail fall fence fetch fill filter find finish fit fix flag
    flush fold follow forbid force forget fork format forward free freeze fuzz gather generate get give grant greet group grow
    guarantee guard handle harden hash hide hold honour hook host identify ignore implement import improve include increase
    index inherit initialize inline insert inspect install instrument interrupt introduce invalidate invoke isolate join judge
    keep kill label launch leave lend let lift limit link list listen load locate lock log look lower maintain make manage map
    mark mask match measure mention merge migrate mirror model modify mount move name narrow negotiate note notify number
    observe obtain offer omit open optimize order overwrite own pack pad panic parse pass pause pin place plant poison poll
    populate port postpone prefer prepare preserve prevent print probe process produce profile prohibit promise promote
    propagate protect prove provide prune publish pull punch put quantify query queue quote raise randomize read rebase rebuild
    recalculate receive recheck recommend record recover redirect reduce refactor refer refresh refuse register reject relax
    release reload remember remove rename render reorder repair repeat rephrase replace reply report reproduce request require
    rerun reserve reset reshape resize resolve respect respond restart restore restrict restructure resume retain retire retry
    return reuse revert review revise rewrite ring roll rotate round route run salvage sample save say scale scan schedule scrub
    seal search seed select send separate serialize serve set settle shard share shift shorten show shrink shut sign silence
    simplify simulate skip sleep slice smooth snapshot soak sort speed spell split spread stabilize stage start state stop store
    stream strengthen stress strip structure study submit substitute subtract suggest sum supply support suppress suspend swap
    switch synchronize take teach tell terminate test thaw throttle tidy tie tighten time tolerate trace track train transfer
    transform translate trap treat trigger trim truncate try tune turn unblock undo unify uninstall unite unlink unlock unmap
    unmount unpack unpin unregister update upgrade use validate verify wait wake walk warn watch weaken weigh widen wipe
    withdraw work wrap write yield zero
""".split())


def fault(subject):
    """Returns the reason why a subject is wrong, or None if the subject is right."""
    if len(subject) > LENGTH:
        return f"{len(subject)} characters, {LENGTH} at most"
    scope = SCOPE.match(subject)
    words = subject[scope.end() if scope else 0:].split()
    if not words:
        return "no words"
    first = words[0]
    if first.lower() not in IMPERATIVES:
        return f'"{first}" is no known imperative; if it is one, add it to the list in tools/commit-subjects.py'
    if len(words) > 1 and words[1] in AFTER_NOUNS:
        return f'"{first} {words[1]}" does not begin with an imperative'
    if not scope and not first[0].isupper():
        return f'"{first}" begins without a capital'
    if subject.endswith("."):
        return "a period at the end"
    return None


def git(root, *arguments):
    """Returns the output of a git command, or None if the command fails."""
    try:
        ran = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return ran.stdout if ran.returncode == 0 else None


def check(root, base):
    """Checks the commits in the repository `root` after `base`. Returns the exit code and the lines to print."""
    top = git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top.rstrip("\n")).resolve() != root:
        return 0, ["commit-subjects: LEFT OUT: this folder has no history of git"]
    if git(root, "merge-base", "--is-ancestor", base, "HEAD") is None:
        return 0, [f"commit-subjects: LEFT OUT: the history lacks the commit {base} (a shallow clone?)"]
    log = git(root, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD")
    if log is None:
        return 1, ["commit-subjects: git log failed"]
    commits = [line.partition(" ") for line in log.splitlines()]
    wrong = [f"{commit}: {subject}\n  {fault(subject)}" for commit, _, subject in commits if fault(subject)]
    if wrong:
        remedy = "commit-subjects: reword these (git rebase -i, reword): an imperative of at most 72 characters"
        return 1, [*wrong, remedy]
    return 0, [f"commit-subjects: {len(commits)} checked"]


RIGHT = [
    "Reserve descriptors for control and save",
    "Add a test",
    "zmem: charge copy-on-write copies after fork",
    "zmem, preload: Charge each process for its own memory",
    "make test: check the subjects of commits",
    "Test that a shallow clone is left out",
    "Keep " + "x" * (LENGTH - 5),
]
WRONG = {
    "Keep " + "x" * (LENGTH - 4): "73 characters",
    "Adds a test": "no known imperative",
    "Added a test": "no known imperative",
    "Adding a test": "no known imperative",
    "add a test": "without a capital",
    "Add a test.": "a period",
    "A slot is taken with one look at its zspage": "no known imperative",
    "The limit holds": "no known imperative",
    "Who forks finds one thread": "no known imperative",
    "What is stored counts": "no known imperative",
    "zmem: seats by one expression": "no known imperative",
    "zmem: a small limit has seats": "no known imperative",
    "zmem: Added a test": "no known imperative",
    "Limit of a group is kept": "does not begin",
    "bench: results": "no known imperative",
    "fixup! Add a test": "no known imperative",
    "zmem: ": "no words",
    "": "no words",
}


def planted(folder, subjects):
    """Makes a repository with a first commit, a commit for each subject, and a merge. Returns the first commit."""
    def run(*arguments):
        if git(folder, *arguments) is None:
            raise RuntimeError(f"git {' '.join(arguments)} failed")

    folder.mkdir()
    run("init", "--quiet", "--initial-branch=main")
    run("commit", "--quiet", "--allow-empty", "-m", "What was before the rule")
    base = git(folder, "rev-parse", "HEAD").strip()
    run("checkout", "--quiet", "-b", "side")
    run("commit", "--quiet", "--allow-empty", "-m", "Add a side")
    run("checkout", "--quiet", "main")
    for subject in subjects:
        run("commit", "--quiet", "--allow-empty", "-m", subject, "-m", "Adds a body.")
    run("merge", "--quiet", "--no-ff", "-m", "Merged the side", "side")
    return base


def histories(folder):
    """Makes histories in `folder`, and runs the check on them. Returns the unexpected results."""
    right, wrong = folder / "right", folder / "wrong"
    base = planted(right, ["Add a test"])
    faults = []

    def expect(name, root, base, code, text):
        found, lines = check(root, base)
        if found != code or text not in "\n".join(lines):
            faults.append(f"{name}: {found}, {lines}")

    expect("right subjects", right, base, 0, "2 checked")
    expect("wrong subjects", wrong, planted(wrong, ["Add a test", "Adds a test"]), 1, ": Adds a test\n")
    expect("no history", folder, base, 0, "LEFT OUT")
    inner = right / "inner"
    inner.mkdir()
    expect("a folder of another history", inner, base, 0, "LEFT OUT")
    shallow = folder / "shallow"
    git(folder, "clone", "--quiet", "--depth=1", wrong.as_uri(), str(shallow))
    expect("a shallow clone", shallow, base, 0, "LEFT OUT: the history lacks")
    return faults


def self_test():
    """Runs the check on planted subjects and histories. Returns the exit code."""
    faults = [f"{subject!r}: {fault(subject)}" for subject in RIGHT if fault(subject)]
    faults += [f"{subject!r}: {fault(subject)}, not {expected!r}"
               for subject, expected in WRONG.items() if expected not in (fault(subject) or "")]
    if git(ROOT, "--version") is None:
        print("commit-subjects: git is not installed: the test of histories is LEFT OUT")
    else:
        os.environ.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull,
                          GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.org",
                          GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.org")
        with tempfile.TemporaryDirectory() as folder:
            faults += histories(Path(folder).resolve())
    print("\n".join(faults) or "commit-subjects: the self-test passed")
    return 1 if faults else 0


def main(arguments):
    """Runs the command, and returns its exit code."""
    # In a git hook, variables name the hook's repository. They must not apply to the planted repositories.
    for name in (git(ROOT, "rev-parse", "--local-env-vars") or "").split():
        if not name.startswith("GIT_CONFIG"):
            os.environ.pop(name, None)
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print("usage: tools/commit-subjects.py [BASE | --self-test]", file=sys.stderr)
        return 2
    code, lines = check(ROOT, *(arguments or [BASE]))
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
