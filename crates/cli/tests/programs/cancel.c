// Checks that functions of the C library are cancellation points, as they are natively. The
// cancelled thread waits, or never has to wait, or was cancelled before the call. After the
// cancellation, the memory of the functions' system calls can be evicted again.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, LARGE = 64 << 10, COLD = 8 << 20, ROUNDS = 200 };

// The descriptors are an empty pipe, a full pipe, a pair of sockets that is both empty and full,
// files that are always ready, and a FIFO that no process opens.
static int empty[2], full[2], pair[2], null, file;
static char fifo[] = "fifo";
static volatile int is_over, were_cleaned;

// A function that makes a system call with the memory at `at`. If `waits` is set, the call waits
// forever.
typedef ssize_t Function(char *at, int waits);

static ssize_t reads(char *at, int waits) {
	return read(waits ? empty[0] : file, at, PAGE);
}
static ssize_t writes(char *at, int waits) {
	return write(waits ? full[1] : null, at, PAGE);
}
static ssize_t reads_parts(char *at, int waits) {
	struct iovec *parts = (struct iovec *)at;
	parts[0] = (struct iovec){at + PAGE, 100};
	parts[1] = (struct iovec){at + 2 * PAGE, 100};
	return readv(waits ? empty[0] : file, parts, 2);
}
static ssize_t writes_parts(char *at, int waits) {
	struct iovec *parts = (struct iovec *)at;
	parts[0] = (struct iovec){at + PAGE, PAGE};
	return writev(waits ? full[1] : null, parts, 1);
}
static ssize_t preads(char *at, int waits) {
	(void)waits;
	return pread(file, at, PAGE, 0);
}
static ssize_t preads64(char *at, int waits) {
	(void)waits;
	return pread64(file, at, PAGE, 0);
}
static ssize_t pwrites(char *at, int waits) {
	(void)waits;
	return pwrite(file, at, PAGE, 0);
}
static ssize_t pwrites64(char *at, int waits) {
	(void)waits;
	return pwrite64(file, at, PAGE, 0);
}
static ssize_t receives(char *at, int waits) {
	return recv(pair[0], at, PAGE, waits ? 0 : MSG_DONTWAIT);
}
static ssize_t receives_from(char *at, int waits) {
	socklen_t length = 0;
	return recvfrom(pair[0], at, PAGE, waits ? 0 : MSG_DONTWAIT, NULL, &length);
}
static ssize_t sends(char *at, int waits) {
	return send(pair[1], at, PAGE, waits ? 0 : MSG_DONTWAIT);
}
static ssize_t sends_to(char *at, int waits) {
	return sendto(pair[1], at, PAGE, waits ? 0 : MSG_DONTWAIT, NULL, 0);
}
static ssize_t polls(char *at, int waits) {
	struct pollfd *asked = (struct pollfd *)at;
	*asked = (struct pollfd){empty[0], POLLIN, 0};
	return poll(asked, 1, waits ? -1 : 0);
}
static ssize_t closes(char *at, int waits) {
	(void)at, (void)waits;
	return close(-1);
}
static ssize_t opens(char *at, int waits) {
	strcpy(at, waits ? fifo : "nothing");
	return open(at, O_RDONLY);
}
static ssize_t opens64(char *at, int waits) {
	strcpy(at, waits ? fifo : "nothing");
	return open64(at, O_RDONLY);
}
static ssize_t opens_at(char *at, int waits) {
	strcpy(at, waits ? fifo : "nothing");
	return openat(AT_FDCWD, at, O_RDONLY);
}
static ssize_t opens_at64(char *at, int waits) {
	strcpy(at, waits ? fifo : "nothing");
	return openat64(AT_FDCWD, at, O_RDONLY);
}

static ssize_t reads_much(char *at, int waits) {
	(void)waits;
	return read(empty[0], at, LARGE);
}

// The first NEVER_WAIT functions never wait.
static Function *const functions[] = {
	preads, preads64, pwrites, pwrites64, closes,
	reads, writes, reads_parts, writes_parts, receives, receives_from, sends, sends_to, polls,
	opens, opens64, opens_at, opens_at64,
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, NEVER_WAIT = 5 };

struct Task {
	Function *function;
	char *at;
	int waits, times;
	volatile int began, forbids;
};

static void clean(void *task) {
	struct Task *of = task;
	CHECK(!of->forbids);
	// Another call can use the memory of the cancelled call.
	CHECK(write(null, of->at, LARGE) == LARGE && pread(file, of->at, PAGE, 0) >= 0);
	were_cleaned++;
}

static int is_deferred(void) {
	int type;
	CHECK(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type) == 0);
	return type == PTHREAD_CANCEL_DEFERRED;
}

// Calls the function `times` times, or endlessly if `times` is 0.
static void *calls(void *task) {
	struct Task *of = task;
	pthread_cleanup_push(clean, task);
	for (int time = 0; of->times == 0 || time < of->times; time++) {
		of->began = 1;
		of->function(of->at, of->waits);
		CHECK(is_deferred());
	}
	pthread_cleanup_pop(0);
	return NULL;
}

// A thread that cancels itself before its first call. The call is never issued.
static void *calls_too_late(void *task) {
	struct Task *of = task;
	CHECK(pthread_cancel(pthread_self()) == 0);
	calls(task);
	CHECK(!"it went on");
	return of;
}

// No call is interrupted until cancellation is enabled again.
static void *calls_unless_disabled(void *task) {
	struct Task *of = task;
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
	CHECK(pthread_cancel(pthread_self()) == 0);
	of->times = 3;
	calls(task);
	CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
	calls(task);
	CHECK(!"it went on");
	return of;
}

// A thread that repeatedly disables and enables cancellation between calls.
static void *forbids(void *task) {
	struct Task *of = task;
	pthread_cleanup_push(clean, task);
	for (;;) {
		of->began = 1;
		CHECK(write(null, of->at, 1) == 1);
		CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
		of->forbids = 1;
		for (int time = 0; time < 50; time++)
			CHECK(write(null, of->at, 1) == 1);
		of->forbids = 0;
		CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static char *mapped(size_t bytes) {
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	for (size_t at = 0; at < bytes; at += 64)
		memory[at] = at / 64;
	return memory;
}

// A cancelled thread that reaches no cancellation point. The memory of the thread is evicted and
// filled, also in child processes.
static void *goes_on(void *task) {
	struct Task *of = task;
	pthread_cleanup_push(clean, task);
	CHECK(pthread_cancel(pthread_self()) == 0);
	for (int round = 0; round < of->times; round++) {
		char *memory = mapped(COLD / 4);
		CHECK(madvise(memory, COLD / 4, MADV_PAGEOUT) == 0 && memory[64 * 7] == 7);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			memory[64 * 9] += memory[64 * 8];
			_exit(memory[64 * 9]);
		}
		int status;
		CHECK(syscall(SYS_wait4, child, &status, 0, NULL) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 17);
		CHECK(munmap(memory, COLD / 4) == 0);
	}
	of->began = 2;
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

// Checks that a cancelled thread ends and that its cleanup handlers run.
static void cancel(void *(*made)(void *), struct Task *task, int is_sent) {
	pthread_t thread;
	void *result;
	int before = were_cleaned;
	task->began = 0;
	CHECK(pthread_create(&thread, NULL, made, task) == 0);
	while (is_sent && !task->began)
		sched_yield();
	if (is_sent && task->waits)
		usleep(rand() % 400);
	for (volatile int spin = rand() % 2000; is_sent && spin > 0; spin--)
		;
	CHECK(!is_sent || pthread_cancel(thread) == 0);
	CHECK(pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED && were_cleaned == before + 1);
}

static void *press(void *argument) {
	volatile unsigned long *cold = malloc(COLD);
	CHECK(cold);
	for (unsigned long round = 0; !is_over; round++)
		for (size_t at = 0; at < COLD / 8; at += 16)
			cold[at] = at + round;
	free((void *)cold);
	return argument;
}

static void each(int has_gone) {
	for (int nth = 0; nth < FUNCTIONS; nth++) {
		struct Task task = {functions[nth], mapped(LARGE), 1, 0, 0, 0};
		if (has_gone)
			CHECK(madvise(task.at, LARGE, MADV_PAGEOUT) == 0);
		if (nth >= NEVER_WAIT)
			cancel(calls, &task, 1);
		task.waits = 0;
		cancel(calls, &task, 1);
		cancel(calls_too_late, &task, 0);
		cancel(calls_unless_disabled, &task, 0);
		CHECK(munmap(task.at, LARGE) == 0);
	}
}

// A process can cancel its only thread. The process then exits successfully.
static void alone(void) {
	for (int nth = 0; nth < FUNCTIONS; nth++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			char *at = mapped(LARGE);
			CHECK(pthread_cancel(pthread_self()) == 0);
			functions[nth](at, 0);
			_exit(3);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
}

// Checks that memory that a cancelled call had pinned can be evicted again. If this memory stayed
// pinned, all calls together would pin more memory than the limit.
static void many(void) {
	for (int round = 0; round < ROUNDS; round++) {
		struct Task task = {reads_much, mapped(LARGE), 1, 0, 0, 0};
		cancel(calls, &task, 1);
	}
}

static void all(void) {
	alone();
	pthread_t pressing;
	CHECK(pthread_create(&pressing, NULL, press, NULL) == 0);
	each(0);
	each(1);
	struct Task forbidding = {writes, mapped(LARGE), 0, 0, 0, 0};
	for (int round = 0; round < ROUNDS; round++)
		cancel(forbids, &forbidding, 1);
	struct Task whole = {reads, mapped(LARGE), 0, 20, 0, 0};
	cancel(goes_on, &whole, 0);
	CHECK(whole.began == 2);
	is_over = 1;
	CHECK(pthread_join(pressing, NULL) == 0);
}

int main(int count, char **args) {
	CHECK(count == 2);
	CHECK(pipe(empty) == 0 && pipe(full) == 0 && mkfifo(fifo, 0600) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	null = open("/dev/null", O_RDWR), file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(null >= 0 && file >= 0 && unlink("file") == 0);
	char page[PAGE] = {0};
	CHECK(write(file, page, PAGE) == PAGE);
	CHECK(fcntl(full[1], F_SETFL, O_NONBLOCK) == 0);
	while (write(full[1], page, PAGE) == PAGE)
		;
	CHECK(errno == EAGAIN && fcntl(full[1], F_SETFL, 0) == 0);
	while (send(pair[1], page, PAGE, MSG_DONTWAIT) > 0)
		;
	CHECK(errno == EAGAIN);
	if (strcmp(args[1], "held") == 0)
		many();
	else
		all();
	CHECK(unlink(fifo) == 0);
	printf("all were cancelled\n");
	return 0;
}
