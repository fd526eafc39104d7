#!/usr/bin/env bash
# Tests `uzram run` without a container engine, in a root like Debian's and in a root like Alpine's: tools/container.sh UZRAM HOST.
# The program runs as process 1 and as an unprivileged user. The root is read-only and has no
# /dev/shm. A filter refuses the system calls that Docker's default profile refuses. Exits
# with 0, with 1 if a check failed, or with 77 if the system can't run the tests.
set -euo pipefail
[ $# = 2 ] || { echo "container: take: UZRAM HOST" >&2; exit 2; }
uzram=$(realpath "$1") host=$(realpath "$2") failed=0 started=''
cannot() { echo "container: LEFT OUT: $1"; exit 77; }
[ "$(id -u)" = 0 ] || cannot "this user is not root"
for tool in unshare gcc musl-gcc busybox /usr/bin/python3 /lib/ld-musl-x86_64.so.1; do [ "$(type -P $tool)" ] || cannot "no $tool"; done
unshare --mount --pid --ipc --net --uts --fork true 2> /dev/null || cannot "unshare is refused"

work=$(mktemp -d) group=/sys/fs/cgroup/memory/uzram-container-$$
undo() { # No mount remains, because the namespace of the mounts ends with `unshare`.
  [ -z "$started" ] || { kill -9 "$started" && wait "$started"; } 2> /dev/null || true
  [ ! -d "$group" ] || rmdir "$group" 2> /dev/null || { sleep 1; rmdir "$group"; }
  rm -rf --one-file-system "$work"
}
trap undo EXIT; trap 'exit 1' INT TERM HUP

cat > "$work/static.c" <<C
$(printf '#include <%s.h>\n' signal stdio stdlib unistd)
static void end(int signal) { _exit(write(1, "term\n", 5) == 5 ? 42 : signal); }
/* job MIB CODE: fills memory, reads it twice, prints a sum and exits with CODE. job MIB: waits for SIGTERM instead. */
int main(int count, char **args) {
  size_t words = strtoul(args[1], 0, 0) << 17, sum = 0;
  unsigned long *memory = malloc(words * 8);
  for (size_t at = 0; at < words; at++) memory[at] = at % 512 < 64 ? at * 0x9e3779b97f4a7c15 : at >> 9;
  for (size_t at = 0; at < 2 * words; at++) sum = sum * 31 + memory[at % words];
  if (count > 2) return printf("sum %zx\\n", sum), atoi(args[2]);
  signal(SIGTERM, end), puts("ready"), fflush(stdout);
  for (;;) pause();
}
C
# Docker's default profile refuses these system calls, and unknown ones, to a container without capabilities.
refused='acct add_key bpf chroot clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick get_mempolicy
  init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind
  migrate_pages mount mount_setattr move_mount move_pages open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root
  process_madvise quotactl quotactl_fd reboot request_key set_mempolicy setdomainname sethostname setns settimeofday swapoff swapon
  sysfs syslog umount2 unshare uselib userfaultfd ustat vhangup'
cat > "$work/confine.c" <<C
$(printf '#include <%s.h>\n' errno grp linux/filter linux/seccomp stddef stdio sys/prctl sys/syscall unistd)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(test, value, error) BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, 1), BPF_STMT(BPF_RET, SECCOMP_RET_ERRNO | (error))
/* The filter refuses new namespaces. It can read the flags of clone, but not those of clone3. */
static struct sock_filter rules[] = {LOAD(nr), REFUSE(BPF_JGT, 452, ENOSYS), REFUSE(BPF_JEQ, SYS_clone3, ENOSYS),
  $(printf 'REFUSE(BPF_JEQ, SYS_%s, EPERM), ' $refused)
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3), LOAD(args[0]), REFUSE(BPF_JSET, 0x7e020000, EPERM),
  BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW)};
/* confine PROGRAM ...: executes PROGRAM as an unprivileged user, with this filter. */
int main(int count, char **args) {
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  if (count < 2 || setgroups(0, 0) || setgid(65534) || setuid(65534) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) || syscall(SYS_userfaultfd, 0) != -1 || errno != EPERM)
    return perror("confine"), 125;
  return execvp(args[1], args + 1), perror(args[1]), 127;
}
C
# Debian's root has this machine's /usr. Alpine's root has busybox, musl, and the libraries that `uzram` needs.
for root in "$work/debian" "$work/alpine"; do
  mkdir -p "$root"/{dev,proc,tmp,sys/fs/cgroup/memory,usr/local,local/bin,local/lib/uzram}; touch "$root/dev/null"
  install "$uzram" "$root/local/bin/uzram"; install "$host" "$root/local/lib/uzram/uzram-host"
  for name in confine static; do gcc -O2 -static -o "$root/local/bin/$name" "$work/$name.c"; done
done
(cd "$work/debian"; ln -s usr/{bin,lib,lib64} .; gcc -O2 -o local/bin/job ../static.c)
(cd "$work/alpine"; mkdir bin lib; cp "$(type -P busybox)" bin/busybox; ln -s busybox bin/sh; cp -L /lib/ld-musl-x86_64.so.1 lib
 musl-gcc -O2 -o local/bin/job ../static.c; { ldd "$uzram" 2> /dev/null | grep -o '/[^ ]*' || true; } | xargs -r cp -L --parents -t .)

# enter ROOT PROGRAM ...: runs the program as process 1 in ROOT, and in the memory cgroup if one exists.
# /tmp is writable only with the option --stats.
enter() {
  [ ! -d "$group" ] || echo 0 > "$group/cgroup.procs"
  exec nice -n 5 unshare --mount --pid --ipc --net --uts --fork --kill-child --propagation private sh -ec '
    root=$1 group=$2; shift 2
    mount --bind "$root" "$root"; cd "$root"; [ ! -h bin ] || mount --bind /usr usr; mount --bind local usr/local
    mount -t proc proc proc; mount --bind proc/sys proc/sys; mount --bind /dev/null dev/null
    [ ! -d "$group" ] || mount --bind -o ro "$group" sys/fs/cgroup/memory
    case " $* " in *" --stats "*) mount -t tmpfs tmpfs tmp ;; esac
    for place in proc/sys usr/local usr .; do ! mountpoint -q $place || mount -o remount,bind,ro $place; done
    exec chroot . /usr/local/bin/confine "$@"' sh "$work/$1" "$group" "${@:2}"
}

# ran COMMAND ...: prints the command's output and its exit code on one line.
ran() { local code=0 out; out=$("$@" 2>&1) || code=$?; echo $out $code; }
check() { if [ "$2" = "$3" ]; then echo "ok      $1"; else echo "FAILED  $1: '$3' instead of '$2'"; failed=1; fi; }
# check_held NAME PROCESSES MIB PROGRAM ...: all processes together must hold at most 105% of the
# limit, which is MIB. The exit code must be 7.
check_held() {
  local figures held most=$(($3 << 20))
  figures=$(ran enter "$root" uzram run --limit "$3M" --stats --json -- "${@:4}")
  held=$(sed -n 's/.* "tree_held_max": \([0-9]*\) } 7$/\1/p' <<< "$figures")
  check "$1: ${held:=0} bytes of $most" "$2 1" "$(grep -o '"process":' <<< "$figures" | wc -l) $((0 < held && held <= most / 100 * 105))"
}
# check_term NAME PROGRAM ...: sends SIGTERM to process 1 of the namespace. The program
# must handle the signal and exit with 42.
check_term() {
  local code=0; rm -f "$work/out"; touch "$work/out"
  enter "$root" "${@:2}" > "$work/out" 2>&1 & started=$!
  for _ in $(seq 100); do if grep -q ready "$work/out"; then break; fi; sleep 0.1; done
  kill -TERM $(cat "/proc/$started/task/$started/children") || kill -9 "$started"
  wait "$started" || code=$?
  check "$1" "ready term 42" "$(ran head -n 2 "$work/out" | sed 's/ 0$//') $code"
  started=''
}
sum=$("$work/debian/local/bin/job" 64 0) run='uzram run --limit 16M'
first='[ /proc/1/exe -ef "$(command -v sh)" ] && echo is the shell'
python='print(sum(map(len, {n: str(n) * 99 for n in range(99999)}.values())))'
for root in debian alpine; do
  for job in job static; do
    check "$root, $job: output and exit code" "$sum 7" "$(ran enter $root $run -- $job 64 7)"
    check_held "$root, $job: memory" 1 16 $job 64 7
    check_term "$root, $job: SIGTERM" $run -- $job 32
    check_term "$root, $job: SIGTERM that the command passes on" $run --stats -- $job 32
  done
  check_held "$root: memory of a shell and two jobs" 3 64 sh -c 'job 128 7 & static 128 7; wait; exit 7'
  check "$root: executable of process 1" "$(ran enter $root sh -c "$first")" "$(ran enter $root $run -- sh -c "$first")"
  check "$root: exit code of a program that is missing" 127 "$(ran enter $root $run -- missing | sed 's/.* //')"
done
check "debian: output of python3" "$(ran python3 -c "$python")" "$(ran enter debian $run -- /usr/bin/python3 -c "$python")"
if mkdir "$group" 2> /dev/null && echo 0 > "$group/memory.swappiness" && echo 32M > "$group/memory.limit_in_bytes"; then
  for root in debian alpine; do check "$root: default limit in 32 MiB" "$sum 7" "$(ran enter $root uzram run -- job 64 7)"; done
  ended() { grep '^oom_kill ' "$group/memory.oom_control"; }
  check "natively the kernel ends the job" "oom_kill 0, then oom_kill 1" "$(ended), then $(ran enter debian job 64 7 > /dev/null; ended)"
else echo "container: LEFT OUT: the default limit, because no memory cgroup of version 1 can be made"; fi
exit $failed
