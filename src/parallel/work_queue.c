/* SPDX-License-Identifier: MIT */
#include "parallel/work_queue.h"

#include "base/progress.h"

enum { TICKET, FINISHED, COUNTERS }; /* numbers of the shared counters */
#define PAST ((int64_t)1 << 40)      /* a ticket beyond every range, however many ranks add it */

bool vt_work_queue_range(size_t n, int takers, int64_t k, size_t *at, size_t *end) {
    size_t from = 0;
    for (;; k--) {
        size_t left = n - from, most = left / (2 * (size_t)takers);
        if (!left || k >= PAST / 2) return false;
        *at = from, *end = from += most ? most : 1;
        if (k <= 0) return true;
    }
}

vt_status vt_work_queue_begin(vt_work_queue *d, vt_team *t, size_t n, int threads, vt_err *e) {
    int32_t mine = threads;
    *d = (vt_work_queue){.team = t, .n = n, .end = t ? 0 : n};
    VT_TRY(vt_team_counters(t, COUNTERS, e));
    if (t) t->ops->gather(t->ctx, &mine, sizeof mine, t->room);
    for (int r = 0; t && r < t->size; r++) d->takers += t->room[r];
    pthread_mutex_init(&d->lock, NULL);
    return VT_OK;
}

void vt_work_queue_end(vt_work_queue *d) { pthread_mutex_destroy(&d->lock); }

/* Adds this process's finished items to the shared counter, sets d->elsewhere to the other ranks', and takes the next
 * range (d->at, end); without one d->n becomes 0. */
static void fetch_next_range(vt_work_queue *d) {
    int64_t all = vt_team_add(d->team, FINISHED, (int64_t)(d->finished - d->reported));
    d->elsewhere = (size_t)all - d->reported, d->reported = d->finished;
    if (!vt_work_queue_range(d->n, d->takers, vt_team_add(d->team, TICKET, 1), &d->at, &d->end))
        d->at = d->end = 0, d->n = 0;
}

/* Drops the range, and sets d->n to 0, if another rank has stopped all; looks at most twice a second. */
static void check_for_stop(vt_work_queue *d) {
    double now = vt_now();
    if (now - d->looked < 0.5) return;
    d->looked = now;
    if (vt_team_add(d->team, TICKET, 0) >= PAST / 2) d->at = d->end = d->n = 0;
}

bool vt_work_queue_next(vt_work_queue *d, size_t *item) {
    pthread_mutex_lock(&d->lock);
    if (d->team && d->at < d->end) check_for_stop(d);
    if (d->at == d->end && d->team && d->n) fetch_next_range(d);
    bool any = d->at < d->end;
    if (any) *item = d->at++;
    pthread_mutex_unlock(&d->lock);
    return any;
}

size_t vt_work_queue_finish(vt_work_queue *d) {
    pthread_mutex_lock(&d->lock);
    size_t all = ++d->finished + d->elsewhere;
    pthread_mutex_unlock(&d->lock);
    return all;
}

void vt_work_queue_stop(vt_work_queue *d) {
    pthread_mutex_lock(&d->lock);
    if (d->team && d->n) vt_team_add(d->team, TICKET, PAST);
    d->at = d->end = d->n = 0;
    pthread_mutex_unlock(&d->lock);
}
