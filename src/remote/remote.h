/* SPDX-License-Identifier: MIT */
/* A model in another process, as engines: docs/oracle.md says what goes over the socket. A remote knows how to reach
 * it, what it said of itself, and how long it was waited for; each engine has a conversation of its own, which the next
 * one takes over. Everything that can go wrong (it dies, hangs, prints, answers otherwise than asked) is VT_E_MODEL
 * with a sentence that names the command; from then on that engine answers the same. */
#pragma once

#include <signal.h>
#include "inference/engine.h"
#include "remote/wire.h"

typedef struct vt_remote vt_remote;

#define VT_REMOTE_TIMEOUT 600.0 /* seconds for one answer, the greeting too, by default */
enum {
    VT_REMOTE_NEIGHBOURS = 3, /* images beside one that is asked again in another batch */
    VT_REMOTE_VOTES = 20      /* repeated queries of a model that reports to be random */
};

/* Opens a model in another process. where: an address (parallel/child.h), else a command; kept. Starts or reaches it
 * once, and reads its greeting. A greeting that says another thing the next time is refused: it is another model. */
vt_status vt_remote_open(vt_remote **r, const char *where, double timeout, vt_err *e);
/* Opens a remote over a socket that is there already, which it takes over (also on failure): it serves one engine at a
 * time, with plain bytes. */
vt_status vt_remote_over(vt_remote **r, int fd, double timeout, vt_err *e);
void vt_remote_close(vt_remote *r); /* accepts NULL; its engines are closed before */
const vt_handshake *vt_remote_handshake(const vt_remote *r);
/* Returns the address or command, as it was given. */
const char *vt_remote_where(const vt_remote *r);
/* Sets a flag that ends every waiting, or NULL. Set while no call runs. */
void vt_remote_interruptible(vt_remote *r, const volatile sig_atomic_t *interrupt);
/* Sets *images to how many to ask about at a time, as the model measures it (seconds) where it can; else, or while no
 * conversation is free, as vt_remote_usual says. */
vt_status vt_remote_measure(vt_remote *r, int *images, vt_err *e);
/* Returns how many images to ask about at a time, without measuring: what the model greeted with, else 64, and at most
 * its batch. */
int vt_remote_usual(const vt_remote *r);
/* Returns the seconds that all threads together have waited for it. */
double vt_remote_waited(vt_remote *r);
/* Returns the bytes of shared memory that a conversation of `rows` rows takes. */
size_t vt_remote_bytes(const vt_remote *r, int rows);

/* Makes an engine; VT_E_RANGE: capacity is above what the model greeted with. forward and vjp are batches of exactly
 * `capacity` rows, wanted or not (for an independent model, of the wanted ones), alone batches of one. forward64: the
 * model in double where it can; else, as there is none, n->votes repeated queries in float: alone once more, and as the
 * last of a batch of VT_REMOTE_NEIGHBOURS + 1 (of 1 where it takes no more); of a random model VT_REMOTE_VOTES times
 * alone. */
vt_status vt_remote_engine(vt_engine *n, vt_remote *r, int capacity, vt_err *e);

/* ---- the other side: answers the questions of a conversation out of an engine of this process ---- */

typedef struct vt_serve {
    const vt_handshake *handshake; /* batch: at most the engine's capacity */
    const vt_engine *engine;
    int in, out; /* descriptors: one socket, or two pipes */
    const volatile sig_atomic_t *interrupt;
} vt_serve;

/* Answers questions until the other side closes: VT_OK. What is no question is answered by a sentence, which is *e's
 * too: VT_E_FORMAT. VT_INTERRUPTED: by the flag. */
vt_status vt_serve_run(const vt_serve *s, vt_err *e);
