// A program with one thread evicts much memory, and makes a call that fails in a process with
// several threads (`unshare`). The children of the program count their own threads. With `exits`,
// the program ends when its only thread ends.
//
//   single namespaces|exits
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { WORDS = 40 << 17 };

static uint64_t *memory;

// Touches all memory, so that much memory is evicted and filled.
static void go_over(uint64_t round) {
	for (size_t at = 0; at < WORDS; at++) {
		if (round > 0)
			CHECK(memory[at] == at / 16 + round - 1);
		memory[at] = at / 16 + round;
	}
}

// Returns the number of threads of this process, as far as a program can see them.
static int threads(void) {
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	int count = 0;
	for (struct dirent *entry; (entry = readdir(tasks));)
		count += entry->d_name[0] != '.';
	closedir(tasks);
	return count;
}

int main(int count, char **args) {
	CHECK(count == 2 || count == 3);
	// A child that must evict at once has a compressor thread.
	int most = count == 3 && strcmp(args[2], "tight") == 0 ? 2 : 1;
	memory = malloc(WORDS * 8);
	CHECK(memory);
	go_over(0);
	for (uint64_t round = 1; round < 5; round++) {
		go_over(round);
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			CHECK(threads() <= most);
			CHECK(memory[50] == 3 + round);
			CHECK(unshare(CLONE_THREAD) == 0);
			_exit(7);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
		// The kernel refuses this call in a process with several threads. In a process with one thread,
		// the call has no effect.
		CHECK(unshare(CLONE_THREAD) == 0);
		CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	}
	printf("all is there\n");
	fflush(stdout);
	if (strcmp(args[1], "exits") == 0) {
		go_over(5);
		// Ends this thread instead of the process.
		syscall(SYS_exit, 0);
	}
	return 0;
}
