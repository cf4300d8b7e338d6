/* SPDX-License-Identifier: MIT */
/* Items 0 to n - 1, handed out once each to the threads of a process and to the ranks of a team, in ranges that shrink
 * towards the end, so that nobody is left with many while others wait ("guided self-scheduling": Polychronopoulos and
 * Kuck, 1987). A process alone takes one range. Which item goes where changes no result. */
#ifndef VT_CORE_DEAL_H
#define VT_CORE_DEAL_H

#include <pthread.h>
#include "core/team.h"

typedef struct vt_deal {
    vt_team *team;
    size_t n;
    int takers;            /* threads of all ranks */
    size_t at, end;        /* what is left of this process's range */
    size_t finished, told; /* items of this process; those that the board knows of */
    size_t elsewhere;      /* finished by other ranks, as of the last time that this process asked */
    double looked;         /* when it last saw that nobody has stopped all */
    pthread_mutex_t lock;
} vt_deal;

/* Collective; agrees. threads: of this process. */
vt_status vt_deal_begin(vt_deal *d, vt_team *t, size_t n, int threads, vt_err *e);
void vt_deal_end(vt_deal *d);
/* The next item for a thread of this process; false: none is left. */
bool vt_deal_next(vt_deal *d, size_t *item);
/* An item is finished; returns how many are, of all ranks, as far as is known. */
size_t vt_deal_finish(vt_deal *d);
/* Nobody gets another item; other ranks notice within half a second of their next. */
void vt_deal_stop(vt_deal *d);

/* Range number k of n items for so many takers: [*at, *end); false: there is none. */
bool vt_deal_range(size_t n, int takers, int64_t k, size_t *at, size_t *end);

#endif
