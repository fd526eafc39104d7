// Calls functions of the C library with evicted memory. Another thread evicts the memory again
// during the calls. Checks that the functions return the same results as natively.
//
//   wrapped ROUNDS
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, COLD = 8 << 20 };

static volatile int is_over, has_gone_over;
static char *memory;

// Evicts the pages that hold paths and results.
static void evict(void) {
	CHECK(madvise(memory, 4 * PAGE, MADV_PAGEOUT) == 0);
}

static void *press(void *argument) {
	uint64_t *cold = malloc(COLD);
	CHECK(cold);
	for (uint64_t round = 0; !is_over; round++) {
		for (size_t at = 0; at < COLD / 8; at += 16)
			cold[at] = at + round;
		has_gone_over = 1;
		evict();
	}
	free(cold);
	return argument;
}

static char *path_of(const char *text) {
	// The path lies in two adjacent pages.
	char *path = memory + PAGE - 3;
	strcpy(path, text);
	return path;
}

static void look(void) {
	struct stat *facts = (struct stat *)(memory + 2 * PAGE - 60), direct;
	char *link = memory + 3 * PAGE - 2;
	char *path = path_of("file");
	evict();
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	CHECK(file >= 0);
	CHECK(syscall(SYS_fstat, file, &direct) == 0 && (direct.st_mode & 0777) == 0640);
	int (*stats[])(const char *, struct stat *) = {stat, lstat};
	for (int nth = 0; nth < 2; nth++) {
		memset(facts, 0x55, sizeof *facts);
		evict();
		CHECK(stats[nth](path, facts) == 0 && facts->st_ino == direct.st_ino);
	}
	evict();
	CHECK(fstat(file, facts) == 0 && memcmp(facts, &direct, sizeof direct) == 0);
	evict();
	CHECK(fstatat(AT_FDCWD, path, facts, 0) == 0 && facts->st_size == direct.st_size);
	evict();
	CHECK(access(path, R_OK) == 0);
	CHECK(pwrite(file, "abc", 3, 5) == 3 && lseek(file, -3, SEEK_END) == 5);
	evict();
	CHECK(pread(file, link, 3, 5) == 3 && memcmp(link, "abc", 3) == 0);
	CHECK(close(file) == 0 && close(file) == -1 && errno == EBADF);
	CHECK(ftruncate(file = openat(AT_FDCWD, path, O_RDWR), 0) == 0 && close(file) == 0);

	strcpy(path_of("link"), "link");
	CHECK(symlink("file", path) == 0 || errno == EEXIST);
	evict();
	CHECK(readlink(path, link, 100) == 4 && memcmp(link, "file", 4) == 0);
	evict();
	CHECK(lstat(path, facts) == 0 && S_ISLNK(facts->st_mode));
	evict();
	CHECK(stat(path, facts) == 0 && facts->st_ino == direct.st_ino);

	path_of("none");
	evict();
	CHECK(open(path, O_RDONLY) == -1 && errno == ENOENT);
	CHECK(stat(path, facts) == -1 && errno == ENOENT && access(path, F_OK) == -1);
	CHECK(fstat(-1, facts) == -1 && errno == EBADF && close(-1) == -1 && errno == EBADF);
	CHECK(lseek(0, 0, 99) == -1 && (errno == EINVAL || errno == ESPIPE));
	// No memory is mapped at these addresses, so the calls fail with EFAULT.
	CHECK(open((char *)1, O_RDONLY) == -1 && errno == EFAULT);
	CHECK(stat("/", (struct stat *)1) == -1 && errno == EFAULT);
}

static void wait_for_events(int poll, int *pipes) {
	struct epoll_event *events = (struct epoll_event *)(memory + 4 * PAGE - 20);
	for (int nth = 0; nth < 10; nth++) {
		CHECK(write(pipes[1], "x", 1) == 1);
		evict();
		CHECK(epoll_wait(poll, events, 1, 1000) == 1 && events->data.u64 == 0x123456789abcdef);
		CHECK(read(pipes[0], memory + 3 * PAGE, 1) == 1 && memory[3 * PAGE] == 'x');
	}
	CHECK(epoll_wait(poll, events, 1, 0) == 0);
	CHECK(epoll_wait(poll, events, 0, 0) == -1 && errno == EINVAL);
}

static void receive(const int *ends) {
	char *to = memory + 3 * PAGE - 2;
	CHECK(send(ends[1], "first", 5, 0) == 5 && send(ends[1], "second", 6, 0) == 6);
	CHECK(send(ends[1], "third", 5, 0) == 5);
	evict();
	CHECK(recv(ends[0], to, 9, 0) == 5 && memcmp(to, "first", 5) == 0);
	// The kernel drops a datagram that it can't copy. The runtime issues the call only once, so only
	// one datagram is dropped.
	CHECK(recv(ends[0], (char *)1, 9, 0) == -1 && errno == EFAULT);
	evict();
	CHECK(recv(ends[0], to, 9, MSG_DONTWAIT) == 5 && memcmp(to, "third", 5) == 0);
}

int main(int count, char **args) {
	CHECK(count == 2);
	unsigned long rounds = strtoul(args[1], NULL, 10);
	memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int poll = epoll_create1(EPOLL_CLOEXEC), pipes[2], ends[2];
	CHECK(memory != MAP_FAILED && poll >= 0 && pipe(pipes) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	// The kernel reports an edge-triggered event only once, so the event must not be lost.
	struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = 0x123456789abcdef}};
	CHECK(epoll_ctl(poll, EPOLL_CTL_ADD, pipes[0], &event) == 0);
	look();
	wait_for_events(poll, pipes);
	receive(ends);
	pthread_t pressing;
	CHECK(pthread_create(&pressing, NULL, press, NULL) == 0);
	for (unsigned long round = 0; round < rounds; round++) {
		look();
		wait_for_events(poll, pipes);
		receive(ends);
	}
	// Waits until the other thread has touched all cold memory once. That thread can get little
	// processor time.
	while (!has_gone_over)
		usleep(1000);
	is_over = 1;
	CHECK(pthread_join(pressing, NULL) == 0);
	printf("all is there\n");
	return 0;
}
