/* SPDX-License-Identifier: MIT */
/* Several processes that do one job, each started with the same arguments: a team of ranks, as MPI calls them, by a
 * table of operations (src/mpi/ranks.c fills it in). A team that is NULL is a single process.
 *
 * All functions but vt_team_add are collective: every rank calls them, in one order. A rank that fails between two of
 * them must not leave the others waiting: so each common step begins with vt_team_agree, after which bytes move and
 * nothing can fail. A rank that gives up calls vt_team_leave next, which is the others' next agreement. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

/* Bytes for or from another rank. Messages from one rank to another arrive in the order in which both name them. */
typedef struct vt_message {
    int rank;
    void *data;
    size_t bytes;
} vt_message;

typedef struct vt_team_ops {
    void (*gather)(void *ctx, const void *mine, size_t bytes, void *all); /* all [size, bytes] */
    void (*broadcast)(void *ctx, int root, void *data, size_t bytes);
    void (*exchange)(void *ctx, const vt_message *out, size_t n_out, const vt_message *in, size_t n_in);
    bool (*counters)(void *ctx, size_t n); /* false: no memory */
    int64_t (*add)(void *ctx, size_t i, int64_t by);
} vt_team_ops;

typedef struct vt_team {
    int rank, size; /* rank in [0, size) */
    const vt_team_ops *ops;
    void *ctx;
    int32_t *room; /* [size], the creator's: an agreement needs no memory */
    bool over;     /* an agreement was on a failure: no rank may wait for another any more */
} vt_team;

/* Returns this process's rank; 0 without a team. */
static inline int vt_team_rank(const vt_team *t) { return t ? t->rank : 0; }
/* Returns the number of ranks; 1 without a team. */
static inline int vt_team_size(const vt_team *t) { return t ? t->size : 1; }

/* Returns the worst status of all ranks, with its sentence ("rank 2 on HOST: ..." where it is not this process's own):
 * a failure before VT_INTERRUPTED before VT_OK, of equals the lowest rank's. */
vt_status vt_team_agree(vt_team *t, vt_status mine, vt_err *e);
/* Makes this rank's last agreement; without effect where one was on a failure. VT_E_USAGE for all where others do not
 * leave: they were given other words. */
vt_status vt_team_leave(vt_team *t, vt_status mine, vt_err *e);

/* Sets *all, malloc'ed, to the bytes of every rank, one after another, and sizes [size] to how many of each. Agrees: if
 * one rank lacks memory, all fail with *all NULL. */
vt_status vt_team_collect(vt_team *t, const void *mine, size_t bytes, void **all, size_t *sizes, vt_err *e);
/* Sets *out, malloc'ed, to rank 0's text on all ranks; the others' `text` is not looked at. Agrees: on failure *out is
 * NULL. */
vt_status vt_team_text(vt_team *t, const char *text, char **out, vt_err *e);

/* Gives the sentence and status for a rank whose text `mine` is not rank 0's, `first`; VT_OK if that does not matter
 * after all. */
typedef vt_status (*vt_differs_fn)(const void *ctx, const char *first, const char *mine, vt_err *e);
/* Fails on all ranks, with what differs() says, unless every rank's text is rank 0's. mine NULL: there was no memory
 * for it. Agrees. */
vt_status vt_team_same(vt_team *t, const char *mine, vt_differs_fn differs, const void *ctx, vt_err *e);

/* Makes n shared counters, 0 now, that every rank may add to without the others (not collective). Agrees. */
vt_status vt_team_counters(vt_team *t, size_t n, vt_err *e);
/* Adds to shared counter i; returns its value before. Not collective. */
int64_t vt_team_add(vt_team *t, size_t i, int64_t by);
