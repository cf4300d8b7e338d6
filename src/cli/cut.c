/* SPDX-License-Identifier: MIT */
/* The end of a command whose mapped file was cut while it was read (SIGBUS), in a sentence. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "base/text.h"

/* A line of /proc/self/maps, as far as it is read: BEGIN-END PERMISSIONS OFFSET DEVICE INODE PATH */
typedef struct line {
    uintptr_t bound[2];
    int field; /* 0, 1: a bound; 2: the rest, before the path; 3: the path */
    vt_text_at at;
} line;

/* Reads one more byte of /proc/self/maps; writes it to stderr if it belongs to the path of the mapping that holds
 * `address`, and then sets *found. */
static void scan_map_byte(line *l, char c, uintptr_t address, bool *found) {
    if (c == '\n') {
        *l = (line){0};
        return;
    }
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (l->field < 2 && digit >= 0)
        l->bound[l->field] = l->bound[l->field] << 4 | (uintptr_t)digit;
    else if (l->field < 2)
        l->field++;
    else if (c == '/')
        l->field = 3;
    if (l->field < 3 || address < l->bound[0] || address >= l->bound[1]) return;
    vt_text_plain(&c, 1, "", &l->at);
    *found = write(STDERR_FILENO, &c, 1) == 1;
}

/* Writes a text to stderr; ends the program if it cannot. */
static void write_stderr(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(1);
}

/* Handles SIGBUS: prints which mapped file was cut and ends with status 1. Calls only what a signal handler may. */
static void on_cut(int number, siginfo_t *why, void *context) {
    (void)number, (void)context;
    char piece[512];
    bool found = false;
    line l = {0};
    write_stderr("vitrine: ");
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0;)
        for (ssize_t i = 0; i < n; i++) scan_map_byte(&l, piece[i], (uintptr_t)why->si_addr, &found);
    write_stderr(found ? ": was cut while it was read\n" : "a mapped file was cut while it was read\n");
    _exit(1);
}

void vt_cli_guard_mapped(void) {
    const struct sigaction a = {.sa_sigaction = on_cut, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGBUS, &a, NULL);
}
