/* SPDX-License-Identifier: MIT */
#include "core/deal.h"

#include "core/progress.h"

enum { TICKET, FINISHED, BOARD }; /* numbers of the board */
#define PAST ((int64_t)1 << 40)   /* a ticket beyond every range, however many ranks add it */

bool vt_deal_range(size_t n, int takers, int64_t k, size_t *at, size_t *end) {
    size_t from = 0;
    for (;; k--) {
        size_t left = n - from, most = left / (2 * (size_t)takers);
        if (!left || k >= PAST / 2) return false;
        *at = from, *end = from += most ? most : 1;
        if (k <= 0) return true;
    }
}

vt_status vt_deal_begin(vt_deal *d, vt_team *t, size_t n, int threads, vt_err *e) {
    int32_t mine = threads;
    *d = (vt_deal){.team = t, .n = n, .end = t ? 0 : n};
    VT_TRY(vt_team_board(t, BOARD, e));
    if (t) t->ops->gather(t->ctx, &mine, sizeof mine, t->room);
    for (int r = 0; t && r < t->size; r++) d->takers += t->room[r];
    pthread_mutex_init(&d->lock, NULL);
    return VT_OK;
}

void vt_deal_end(vt_deal *d) { pthread_mutex_destroy(&d->lock); }

/* Tells the others what was done here, hears what they did, takes the next range. */
static void fetch_next_range(vt_deal *d) {
    int64_t all = vt_team_add(d->team, FINISHED, (int64_t)(d->finished - d->told));
    d->elsewhere = (size_t)all - d->told, d->told = d->finished;
    if (!vt_deal_range(d->n, d->takers, vt_team_add(d->team, TICKET, 1), &d->at, &d->end)) d->at = d->end = 0, d->n = 0;
}

/* Within its range: has another rank stopped all? */
static void check_for_stop(vt_deal *d) {
    double now = vt_now();
    if (now - d->looked < 0.5) return;
    d->looked = now;
    if (vt_team_add(d->team, TICKET, 0) >= PAST / 2) d->at = d->end = d->n = 0;
}

bool vt_deal_next(vt_deal *d, size_t *item) {
    pthread_mutex_lock(&d->lock);
    if (d->team && d->at < d->end) check_for_stop(d);
    if (d->at == d->end && d->team && d->n) fetch_next_range(d);
    bool any = d->at < d->end;
    if (any) *item = d->at++;
    pthread_mutex_unlock(&d->lock);
    return any;
}

size_t vt_deal_finish(vt_deal *d) {
    pthread_mutex_lock(&d->lock);
    size_t all = ++d->finished + d->elsewhere;
    pthread_mutex_unlock(&d->lock);
    return all;
}

void vt_deal_stop(vt_deal *d) {
    pthread_mutex_lock(&d->lock);
    if (d->team && d->n) vt_team_add(d->team, TICKET, PAST);
    d->at = d->end = d->n = 0;
    pthread_mutex_unlock(&d->lock);
}
