// Copies a file, with a read and a write for each byte.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **args) {
    int from = open("/dev/zero", O_RDONLY), to = open("/dev/null", O_WRONLY);
    char *byte = malloc(1);
    if (count != 2 || from < 0 || to < 0 || byte == NULL) return 2;
    for (long left = atol(args[1]); left > 0; left--)
        if (read(from, byte, 1) != 1 || write(to, byte, 1) != 1) return 1;
    return 0;
}
