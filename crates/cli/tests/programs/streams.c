// Tests streams of the C library, which call `read` and `write` inside the library. The data are
// complete even if buffers were evicted. A thread that waits in a stream can be cancelled.
//
//   streams ROUNDS THREADS
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, WORDS = PAGE / 8, COLD = 8 << 20 };

static unsigned long rounds;
static volatile int is_over;

static char *mapped(size_t bytes) {
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

// Copies data from one stream to another, through a file or a pipe.
static void copy(FILE *to, FILE *from, int is_file) {
	char *buffers = mapped(2 * PAGE);
	CHECK(setvbuf(to, buffers, _IOFBF, PAGE) == 0);
	CHECK(setvbuf(from, buffers + PAGE, _IOFBF, PAGE) == 0);
	for (uint64_t round = 0; round < rounds; round++) {
		for (uint64_t nth = 0; nth < WORDS; nth++) {
			uint64_t word = round * WORDS + nth;
			CHECK(fwrite(&word, sizeof word, 1, to) == 1);
			if (nth == WORDS / 2 && round % 16 == 0)
				CHECK(madvise(buffers, 2 * PAGE, MADV_PAGEOUT) == 0);
		}
		CHECK(fflush(to) == 0);
		if (round % 16 == 1)
			CHECK(madvise(buffers, 2 * PAGE, MADV_PAGEOUT) == 0);
		if (is_file)
			CHECK(fseek(from, round * PAGE, SEEK_SET) == 0);
		for (uint64_t nth = 0, word; nth < WORDS; nth++)
			CHECK(fread(&word, sizeof word, 1, from) == 1 && word == round * WORDS + nth);
	}
	CHECK(fclose(to) == 0 && fgetc(from) == EOF && fclose(from) == 0);
	CHECK(munmap(buffers, 2 * PAGE) == 0);
}

static void by_pipe(void) {
	int ends[2];
	CHECK(pipe(ends) == 0);
	copy(fdopen(ends[1], "w"), fdopen(ends[0], "r"), 0);
}

static void by_file(void) {
	char name[] = "streamXXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0);
	FILE *from = fopen(name, "r");
	CHECK(from && unlink(name) == 0);
	copy(fdopen(file, "w"), from, 1);
}

static void errors(void) {
	int ends[2];
	CHECK(pipe(ends) == 0);
	FILE *from = fdopen(ends[0], "r");
	CHECK(from && close(ends[0]) == 0 && fgetc(from) == EOF && errno == EBADF);
	FILE *to = fdopen(ends[1], "w");
	CHECK(to && putc('x', to) == 'x' && fflush(to) == EOF && errno == EPIPE);
	fclose(from), fclose(to);
}

static void *press(void *argument) {
	volatile uint64_t *cold = malloc(COLD);
	CHECK(cold);
	for (uint64_t round = 0; !is_over; round++)
		for (size_t at = 0; at < COLD / 8; at += 16)
			cold[at] = at + round;
	free((void *)cold);
	return argument;
}

static void *gets_nothing(void *from) {
	CHECK(fgetc(from) == 'x');
	return fgetc(from) == EOF ? from : NULL;
}

static void *fills(void *to) {
	char page[PAGE] = {0};
	for (;;)
		CHECK(fwrite(page, 1, PAGE, to) == PAGE && fflush(to) == 0);
	return NULL;
}

static void *ends_anywhere(void *to) {
	CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
	for (;;)
		CHECK(write(fileno(to), "x", 1) == 1);
	return NULL;
}

static void *adds(void *to) {
	CHECK(eventfd_write(*(int *)to, 10) == 0);
	return NULL;
}

// Cancels a thread that waits in a system call, or that makes one call after another.
static void cancel(void *(*made)(void *), void *argument) {
	pthread_t thread;
	void *result;
	CHECK(pthread_create(&thread, NULL, made, argument) == 0 && usleep(20000) == 0);
	CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
	CHECK(result == PTHREAD_CANCELED);
}

static void *cancels_itself(void *to) {
	CHECK(pthread_cancel(pthread_self()) == 0);
	CHECK(fputc('x', to) == 'x' && fflush(to) == 0);
	return NULL;
}

static void cancel_all(void) {
	int ends[2], counter = eventfd(UINT32_MAX, 0);
	CHECK(pipe(ends) == 0 && eventfd_write(counter, UINT64_MAX - UINT32_MAX - 5) == 0);
	FILE *from = fdopen(ends[0], "r"), *to = fdopen(ends[1], "w");
	CHECK(putc('x', to) == 'x' && fflush(to) == 0);
	cancel(gets_nothing, from);
	cancel(fills, to);
	// If this stream stayed open, unwritten data in the other stream would block the end of the
	// program.
	CHECK(fclose(from) == 0);
	cancel(adds, &counter);
	FILE *nothing = fopen("/dev/null", "w");
	CHECK(nothing);
	cancel(fills, nothing);
	for (int round = 0; round < 20; round++)
		cancel(ends_anywhere, nothing);
	cancel(cancels_itself, nothing);
}

// Installs a filter that kills the process at `poll`. The program itself does not call `poll`.
static void confine(void) {
	struct sock_filter allowed[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_poll, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog filter = {sizeof allowed / sizeof *allowed, allowed};
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
	// From here on, each system call raises a signal.
	rounds = 20;
	by_pipe();
}

int main(int count, char **args) {
	CHECK(count == 3);
	rounds = strtoul(args[1], NULL, 10);
	int threads = atoi(args[2]);
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	pthread_t pressing;
	if (threads > 1)
		CHECK(pthread_create(&pressing, NULL, press, NULL) == 0);
	by_pipe();
	by_file();
	errors();
	if (threads > 1) {
		cancel_all();
		confine();
		is_over = 1;
		CHECK(pthread_join(pressing, NULL) == 0);
	}
	printf("all is there\n");
	return 0;
}
