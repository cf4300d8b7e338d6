/* SPDX-License-Identifier: MIT */
/* A team whose ranks are threads of this program: parallel/team.h without MPI. Whoever waits for another rank for more
 * than a minute ends the program: a test of teams shall not hang. */
#ifndef THREADS_TEAM_H
#define THREADS_TEAM_H

#include "t.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "parallel/team.h"

enum { TT_MOST = 8 };

/* A copy of a message on its way. */
typedef struct tt_letter {
    struct tt_letter *next;
    size_t bytes;
    char data[];
} tt_letter;

typedef struct tt_hub {
    int size;
    pthread_mutex_t lock;
    pthread_cond_t change;
    int arrived, round;
    const void *from[TT_MOST];
    tt_letter *first[TT_MOST][TT_MOST]; /* from, to */
    int64_t *numbers;
} tt_hub;

typedef struct tt_rank {
    vt_team team;
    tt_hub *hub;
    int32_t room[TT_MOST];
    void (*body)(vt_team *t, void *ctx);
    void *ctx;
    pthread_t id;
} tt_rank;

static inline void tt_wait(tt_hub *h) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    if (pthread_cond_timedwait(&h->change, &h->lock, &until)) {
        fprintf(stderr, "a rank waits for one that does not come\n");
        _exit(3);
    }
}

static inline void tt_barrier(tt_hub *h) {
    pthread_mutex_lock(&h->lock);
    int round = h->round;
    if (++h->arrived == h->size)
        h->arrived = 0, h->round++;
    else
        while (h->round == round) tt_wait(h);
    pthread_cond_broadcast(&h->change);
    pthread_mutex_unlock(&h->lock);
}

static inline void tt_gather(void *ctx, const void *mine, size_t bytes, void *all) {
    tt_rank *r = ctx;
    r->hub->from[r->team.rank] = mine;
    tt_barrier(r->hub);
    for (int k = 0; k < r->team.size; k++)
        if (bytes) memcpy((char *)all + (size_t)k * bytes, r->hub->from[k], bytes);
    tt_barrier(r->hub);
}

static inline void tt_broadcast(void *ctx, int root, void *data, size_t bytes) {
    tt_rank *r = ctx;
    r->hub->from[r->team.rank] = data;
    tt_barrier(r->hub);
    if (r->team.rank != root && bytes) memcpy(data, r->hub->from[root], bytes);
    tt_barrier(r->hub);
}

static inline void tt_exchange(void *ctx, const vt_message *out, size_t n_out, const vt_message *in, size_t n_in) {
    tt_rank *r = ctx;
    tt_hub *h = r->hub;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < n_out; i++) {
        tt_letter *l = malloc(sizeof *l + out[i].bytes), **at = &h->first[r->team.rank][out[i].rank];
        l->next = NULL, l->bytes = out[i].bytes;
        memcpy(l->data, out[i].data, l->bytes);
        while (*at) at = &(*at)->next;
        *at = l;
    }
    pthread_cond_broadcast(&h->change);
    for (size_t i = 0; i < n_in; i++) {
        tt_letter **at = &h->first[in[i].rank][r->team.rank], *l;
        while (!*at) tt_wait(h);
        l = *at;
        if (l->bytes != in[i].bytes) {
            fprintf(stderr, "a message of %zu bytes where one of %zu is waited for\n", l->bytes, in[i].bytes);
            _exit(3);
        }
        memcpy(in[i].data, l->data, l->bytes);
        *at = l->next;
        free(l);
    }
    pthread_mutex_unlock(&h->lock);
}

static inline bool tt_board(void *ctx, size_t n) {
    tt_rank *r = ctx;
    tt_barrier(r->hub);
    if (!r->team.rank) {
        free(r->hub->numbers);
        r->hub->numbers = calloc(n, sizeof *r->hub->numbers);
    }
    tt_barrier(r->hub);
    return true;
}

static inline int64_t tt_add(void *ctx, size_t i, int64_t by) {
    tt_rank *r = ctx;
    pthread_mutex_lock(&r->hub->lock);
    int64_t before = r->hub->numbers[i];
    r->hub->numbers[i] += by;
    pthread_mutex_unlock(&r->hub->lock);
    return before;
}

static inline void *tt_start(void *arg) {
    tt_rank *r = arg;
    r->body(&r->team, r->ctx);
    return NULL;
}

/* body(team, ctxs + rank * size of one) on every rank; what it finds wrong it keeps for the test to assert afterwards,
 * on the test's own thread. */
static inline void tt_run(int size, void (*body)(vt_team *t, void *ctx), void *ctxs, size_t one) {
    static const vt_team_ops ops = {tt_gather, tt_broadcast, tt_exchange, tt_board, tt_add};
    tt_hub h = {.size = size};
    tt_rank ranks[TT_MOST] = {0};
    assert_true(size <= TT_MOST);
    pthread_mutex_init(&h.lock, NULL);
    pthread_cond_init(&h.change, NULL);
    for (int k = 0; k < size; k++) {
        tt_rank *r = &ranks[k];
        *r = (tt_rank){.team = {.rank = k, .size = size, .ops = &ops}, .hub = &h, .body = body};
        r->team.ctx = r, r->team.room = r->room, r->ctx = (char *)ctxs + (size_t)k * one;
        assert_int_equal(pthread_create(&r->id, NULL, tt_start, r), 0);
    }
    for (int k = 0; k < size; k++) pthread_join(ranks[k].id, NULL);
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++) assert_null(h.first[a][b]); /* nothing is left unread */
    free(h.numbers);
    pthread_mutex_destroy(&h.lock), pthread_cond_destroy(&h.change);
}

#endif
