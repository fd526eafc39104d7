/* Sorts linked lists of a file's lines, and prints a checksum of the sorted order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line { struct line *next; unsigned long number; char text[]; };

static struct line *merged(struct line *a, struct line *b) {
    struct line *head = NULL, **end = &head;
    while (a && b) {
        struct line **least = strcmp(a->text, b->text) <= 0 ? &a : &b;
        *end = *least;
        end = &(*least)->next;
        *least = *end;
    }
    *end = a ? a : b;
    return head;
}

static struct line *sorted(struct line *list) {
    if (!list || !list->next) return list;
    struct line *slow = list, *fast = list->next, *second;
    while (fast && fast->next) slow = slow->next, fast = fast->next->next;
    second = slow->next;
    slow->next = NULL;
    return merged(sorted(list), sorted(second));
}

int main(int count, char **arguments) {
    static char text[1 << 16];
    struct line *list = NULL;
    FILE *file = fopen(arguments[count - 1], "r");
    unsigned long number = 0, sum = 0;
    while (file && fgets(text, sizeof text, file)) {
        struct line *line = malloc(sizeof *line + strlen(text) + 1);
        strcpy(line->text, text);
        line->number = number++;
        line->next = list;
        list = line;
    }
    list = sorted(list);
    for (struct line *line = list; line; line = line->next) sum = sum * 31 + line->number;
    printf("%lu %lu\n", number, sum);
    return 0;
}
