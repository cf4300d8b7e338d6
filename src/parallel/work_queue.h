/* SPDX-License-Identifier: MIT */
/* Items 0 to n - 1, handed out once each to the threads of a process and to the ranks of a team, in ranges that shrink
 * towards the end, so that no thread is left with many while others wait ("guided self-scheduling": Polychronopoulos
 * and Kuck, 1987). A process alone takes one range. Which item goes where changes no result. */
#pragma once

#include <pthread.h>
#include "parallel/team.h"

typedef struct vt_work_queue {
    vt_team *team;
    size_t n;
    int takers;                /* threads of all ranks */
    size_t at, end;            /* what is left of this process's range */
    size_t finished, reported; /* items of this process; those that the shared counters include */
    size_t elsewhere;          /* finished by other ranks, as of this process's last look */
    double looked;             /* when it last saw that no rank has stopped all */
    pthread_mutex_t lock;
} vt_work_queue;

/* Begins a queue of n items; threads: of this process. Collective; agrees. */
vt_status vt_work_queue_begin(vt_work_queue *d, vt_team *t, size_t n, int threads, vt_err *e);
/* Frees the queue's lock. */
void vt_work_queue_end(vt_work_queue *d);
/* Takes the next item for a thread of this process; false: none is left. */
bool vt_work_queue_next(vt_work_queue *d, size_t *item);
/* Counts an item as finished; returns how many are, of all ranks, as far as is known. */
size_t vt_work_queue_finish(vt_work_queue *d);
/* Ends the queue: no thread gets another item; other ranks stop within half a second of their next. */
void vt_work_queue_stop(vt_work_queue *d);

/* Returns range number k of n items for `takers` threads: [*at, *end); false: there is none. */
bool vt_work_queue_range(size_t n, int takers, int64_t k, size_t *at, size_t *end);
