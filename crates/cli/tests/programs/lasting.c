// Memory that the kernel may touch after a system call returns is not evicted: the pages of a pipe,
// of an asynchronous transfer, and of a message that the network sends without a copy.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

enum { PAGE = 4096, PAGES = 8, BYTES = PAGES * PAGE };

// Returns pages that the runtime has evicted. Without the runtime, the pages stay resident if the
// system has no swap.
static char *gone(int byte) {
	char *at = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	memset(at, byte, BYTES);
	CHECK(madvise(at, BYTES, MADV_PAGEOUT) == 0);
	return at;
}

// Returns whether the system has swap. With swap, the kernel itself can evict pages.
static int has_swap(void) {
	char lines[4096];
	int file = open("/proc/swaps", O_RDONLY);
	ssize_t bytes = read(file, lines, sizeof lines);
	close(file);
	return bytes > 0 && memchr(lines, '\n', bytes) != lines + bytes - 1;
}

// Checks that the pages stay resident although the program requests their eviction.
static void stays(char *at) {
	unsigned char pages[PAGES];
	if (has_swap())
		return;
	CHECK(madvise(at, BYTES, MADV_PAGEOUT) == 0);
	CHECK(mincore(at, BYTES, pages) == 0);
	for (int nth = 0; nth < PAGES; nth++)
		CHECK(pages[nth] & 1);
}

// After `vmsplice`, a pipe holds the program's pages, so a reader of the pipe gets later writes to
// the pages.
static void spliced(void) {
	int pipes[2];
	char *at = gone(1), back[BYTES];
	struct iovec part = {at, BYTES};
	CHECK(pipe(pipes) == 0 && vmsplice(pipes[1], &part, 1, 0) == BYTES);
	stays(at);
	memset(at, 2, BYTES);
	CHECK(read(pipes[0], back, BYTES) == BYTES);
	for (int nth = 0; nth < BYTES; nth++)
		CHECK(back[nth] == 2);
}

static void transferred(void) {
	aio_context_t context = 0;
	char name[] = "lastingXXXXXX", *from = gone(3), *into = gone(4);
	int file = mkstemp(name);
	CHECK(file >= 0 && unlink(name) == 0);
	// Some file systems do not support direct I/O.
	fcntl(file, F_SETFL, O_DIRECT);
	CHECK(syscall(SYS_io_setup, 2, &context) == 0);
	struct iocb write = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (unsigned)file};
	struct iocb read = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (unsigned)file};
	write.aio_buf = (uintptr_t)from, read.aio_buf = (uintptr_t)into;
	write.aio_nbytes = read.aio_nbytes = BYTES;
	struct iocb *both[] = {&write, &read};
	for (int nth = 0; nth < 2; nth++) {
		struct io_event event;
		CHECK(syscall(SYS_io_submit, context, 1, &both[nth]) == 1);
		stays(nth ? into : from);
		CHECK(syscall(SYS_io_getevents, context, 1, 1, &event, 0) == 1 && event.res == BYTES);
	}
	CHECK(memcmp(from, into, BYTES) == 0 && into[BYTES - 1] == 3);
	CHECK(syscall(SYS_io_destroy, context) == 0);
}

static void sent(int is_vector, int is_there) {
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	int ends[2] = {socket(AF_INET, SOCK_STREAM, 0)};
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof name;
	CHECK(bind(listener, (struct sockaddr *)&name, length) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&name, &length) == 0);
	CHECK(connect(ends[0], (struct sockaddr *)&name, length) == 0);
	ends[1] = accept(listener, 0, 0);
	CHECK(setsockopt(ends[0], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0);
	char *at = gone(5), back[BYTES];
	if (is_there)
		memset(at, 5, BYTES);
	struct iovec part = {at, BYTES};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	CHECK((is_vector ? sendmsg(ends[0], &message, MSG_ZEROCOPY)
					 : send(ends[0], at, BYTES, MSG_ZEROCOPY)) == BYTES);
	stays(at);
	CHECK(recv(ends[1], back, BYTES, MSG_WAITALL) == BYTES && memcmp(at, back, BYTES) == 0);
	for (int nth = 0; nth < 2; nth++)
		close(ends[nth]);
	close(listener);
}

int main(void) {
	spliced();
	transferred();
	for (int nth = 0; nth < 4; nth++)
		sent(nth & 1, nth >> 1);
	printf("all is as it has to be\n");
	return 0;
}
