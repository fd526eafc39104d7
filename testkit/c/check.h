// Functions for programs that check their own results.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                                                \
	do {                                                                                           \
		if (!(what)) {                                                                             \
			fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno);                   \
			abort();                                                                               \
		}                                                                                          \
	} while (0)
