/* SPDX-License-Identifier: MIT */
/* Another program, at the other end of a socket: a command that is started here and ends when this process ends, in any
 * way; or one that listens on this machine already. All waits test the interrupt flag ten times a second. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/status.h"

typedef struct vt_child {
    int fd;       /* the socket; -1: none */
    int lifeline; /* closed, or this process gone: the child ends. -1: it was not started here */
    pid_t keeper;
    bool ended;
    int how; /* of a child that has ended: its exit status, or 128 + the signal */
} vt_child;

/* Runs `sh -c command` with the socket as its standard input and output and VITRINE_ORACLE=1 in its environment, by
 * which a child knows that these are no files, in a process group of its own: neither Ctrl-C nor another child's end
 * reaches it. A keeper process waits beside it, and ends the whole group, and what has left it, when the lifeline
 * closes, which the kernel does even after kill -9. */
vt_status vt_child_start(vt_child *c, const char *command, vt_err *e);
/* Returns whether text begins as an address: "unix:PATH", or "tcp:PORT" of this machine's loopback. */
bool vt_child_is_address(const char *text);
/* Connects c to a program that listens at "unix:PATH" or "tcp:PORT"; VT_E_IO if none does, VT_E_USAGE: path or port are
 * out of range. */
vt_status vt_child_connect(vt_child *c, const char *address, vt_err *e);
/* Listens at "unix:PATH" or "tcp:PORT"; *fd accepts, -1 on failure. A socket file that no one answers at is replaced;
 * VT_E_IO if another file is in the way. */
vt_status vt_child_listen(int *fd, const char *address, vt_err *e);
/* Closes the socket; a child that was started gets `seconds` to end by itself, then it is killed. c is then empty (fd
 * and lifeline -1), which is accepted too. */
void vt_child_end(vt_child *c, double seconds);
/* Waits at most `seconds` for a child whose socket has closed; if it ends, sets c->ended and c->how. Without a child no
 * effect. */
void vt_child_wait(vt_child *c, double seconds);

/* How a transfer of n bytes ended: VT_IO_DONE: all were moved. */
typedef enum vt_io { VT_IO_DONE, VT_IO_CLOSED, VT_IO_LATE, VT_IO_INTERRUPTED, VT_IO_FAILED } vt_io;
/* Reads n bytes. until: on vt_now's clock; interrupt may be NULL. *fd_in, -1 before: set to a descriptor that came
 * along (NULL: none is taken). *got: bytes that did come (may be NULL). */
vt_io vt_child_read(int fd, void *to, size_t n, double until, const volatile sig_atomic_t *interrupt, int *fd_in,
                    size_t *got);
/* Writes n bytes, until vt_now's clock shows `until` or *interrupt (may be NULL) is set. pass: a descriptor to go
 * along, -1: none. */
vt_io vt_child_write(int fd, const void *from, size_t n, double until, const volatile sig_atomic_t *interrupt,
                     int pass);

/* Makes zeroed memory that two processes share, at *at and as *fd, without a name, which ends with its last user;
 * sealed: neither can make it smaller while the other uses it. On failure -1 and NULL. */
vt_status vt_shared_make(int *fd, void **at, size_t bytes, vt_err *e);
/* Maps, on the other side, what came as fd, if it is sealed so and has exactly `bytes` bytes; NULL: it is not. */
void *vt_shared_map(int fd, size_t bytes);
void vt_shared_close(void *at, size_t bytes); /* accepts NULL */
