/* SPDX-License-Identifier: MIT */
/* One conversation with a model in another process: a child or a socket, its greeting, one question at a time. What
 * goes wrong ends it, with a sentence that every later question gets. For remote.c alone. */
#pragma once

#include <pthread.h>
#include "core/child.h"
#include "models/wrap/remote.h"

/* One conversation. */
typedef struct vt_conversation {
    struct vt_conversation *next; /* in the pool */
    vt_child child;
    uint32_t id;
    int rows;       /* of shared memory; 0: bytes go over the socket */
    void *shared;   /* NULL: plain */
    size_t bytes;   /* of it */
    bool may_share; /* the other side has not refused */
    vt_err broken;  /* why it is over; code VT_OK: it is not */
} vt_conversation;

struct vt_remote {
    char *where;
    int given; /* a socket that was there already; -1: it is taken, or there never was one */
    bool one;  /* there will be no other */
    double timeout, waited;
    const volatile sig_atomic_t *interrupt;
    vt_hello hello;
    pthread_mutex_t lock; /* pool, waited */
    vt_conversation *pool;
};

/* "python3 model.py" in a sentence: the beginning of a long command. Returns buf. */
const char *vt_remote_named(const vt_remote *r, char buf[120]);

/* Starts or connects, and greets; the conversation is the caller's. */
vt_status vt_conversation_open(vt_remote *r, vt_conversation **out, vt_hello *hello, vt_err *e);
/* patience: seconds that a child has to end by itself. */
void vt_conversation_close(vt_conversation *l, double patience);
/* Greets again; measure: the other side says which batch suits it. */
vt_status vt_conversation_greet(vt_remote *r, vt_conversation *l, bool measure, vt_hello *hello, vt_err *e);
/* Ends it: "the model NAME ...". */
__attribute__((format(printf, 4, 5))) vt_status vt_conversation_over(vt_remote *r, vt_conversation *l, vt_err *e,
                                                                     const char *format, ...);
/* Shared memory for so many rows. What does not understand, a socket that leads to another machine for one, goes on in
 * plain bytes. */
vt_status vt_conversation_share(vt_remote *r, vt_conversation *l, int rows, vt_err *e);

/* rows [batch] of inputs (NULL: not asked for) and where their answers go; sizes of one in bytes. */
typedef struct vt_asked {
    vt_wire_op op;
    int rows;
    bool keep;
    const void *const *in;
    void *const *out;
    size_t in_bytes, out_bytes;
} vt_asked;
vt_status vt_conversation_ask(vt_remote *r, vt_conversation *l, const vt_asked *b, vt_err *e);
