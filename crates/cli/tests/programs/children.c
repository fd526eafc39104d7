// Forks children of a program that has evicted much memory. Each child does little work, which its
// statistics show when the child ends.
//
//   children MIB
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

int main(int count, char **args) {
	CHECK(count == 2);
	size_t words = strtoul(args[1], NULL, 10) << 17;
	uint64_t *memory = malloc(words * 8);
	CHECK(memory);
	for (size_t at = 0; at < words; at++)
		memory[at] = at / 16;
	for (int nth = 0; nth < 100; nth++)
		CHECK(getppid() > 0);
	for (int way = 0; way < 3; way++) {
		pid_t child = way == 0   ? fork()
					  : way == 1 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
								 : vfork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(way == 2 || memory[50] == 3 ? 7 : 1);
		int status;
		CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
	}
	for (size_t at = 0; at < words; at += 512)
		CHECK(memory[at] == at / 16);
	return 0;
}
