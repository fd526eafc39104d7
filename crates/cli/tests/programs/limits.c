// Checks that limits of address space and data are enforced, and that executed programs inherit
// them.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { MIB = 1 << 20, LIMIT = 300 * MIB };

// Allocates memory until an allocation fails. Returns the size of the allocated memory in MiB.
static int taken(void) {
	int count = 0;
	for (char *memory; count < 1000 && (memory = malloc(MIB)); count++)
		memset(memory, count, MIB);
	return count;
}

static void keeps(int resource) {
	struct rlimit limit, before;
	CHECK(getrlimit(resource, &before) == 0);
	limit = (struct rlimit){LIMIT, before.rlim_max};
	CHECK(setrlimit(resource, &limit) == 0);
	memset(&limit, 0, sizeof limit);
	CHECK(getrlimit(resource, &limit) == 0 && limit.rlim_cur == LIMIT);
	CHECK(limit.rlim_max == before.rlim_max);
	errno = 0;
	int count = taken();
	printf("%d %d %s\n", resource, count > 200 && count < 300, strerror(errno));
	char *large = mmap(0, LIMIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("%d %s\n", large == MAP_FAILED, strerror(errno));
	printf("%d\n", sbrk(LIMIT) == (void *)-1);
	CHECK(setrlimit(resource, &before) == 0 && malloc(LIMIT));
}

int main(void) {
	for (int nth = 0; nth < 2; nth++) {
		fflush(stdout);
		if (fork() == 0) {
			keeps(nth ? RLIMIT_DATA : RLIMIT_AS);
			exit(0);
		}
		int status;
		CHECK(wait(&status) > 0 && status == 0);
	}
	struct rlimit wrong = {LIMIT, LIMIT / 2};
	CHECK(setrlimit(RLIMIT_AS, &wrong) == -1 && errno == EINVAL);
	fflush(stdout);
	CHECK(system("ulimit -Sv; ulimit -Sv 400000; ulimit -Sv; sh -c 'ulimit -Sv; ulimit -Hv'; "
	             "ulimit -Sd 300000; sh -c 'ulimit -Sd; sh -c \"ulimit -Sd\"'") == 0);
	return 0;
}
