/* SPDX-License-Identifier: MIT */
#include "eval/eval_thread.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

static void worker_close(vt_worker *w) {
    vt_oracle_close(&w->oracle);
    vt_sensor_sessions_close(w->inside.self);
    vt_attacker_close(&w->attacker);
    vt_grid8_close(&w->grid);
    vt_classifier_close(&w->model), vt_classifier_close(&w->surrogate), vt_classifier_close(&w->draft);
    free(w->x), free(w->z), free(w->z64);
    memset(w, 0, sizeof *w);
}

static vt_status worker_open(vt_worker *w, const vt_eval_options *v, const vt_eval_thread *c, int slot, vt_err *e) {
    const vt_subject *s = v->subject;
    vt_task dims = vt_eval_dims(v);
    VT_TRY(vt_subject_seat(&w->model, s, NULL, c->batchers[0], slot, e));
    VT_TRY(vt_oracle_open(&w->oracle, &w->model, e));
    if (vt_eval_eight_bit(v)) VT_TRY(vt_grid8_open(&w->grid, dims.n, e));
    VT_TRY(vt_attacker_open(&w->attacker, dims.shape, vt_eval_work(v, &dims), e));
    w->oracle.interrupt = v->interrupt;
    if (vt_eval_transfers(v)) {
        VT_TRY(vt_subject_seat(&w->surrogate, s, s->surrogate, c->batchers[1], slot, e));
        w->oracle.surrogate = &w->surrogate;
    }
    if (s->sensors) {
        vt_sensor_sessions *sessions;
        vt_status st = vt_sensor_sessions_open(&sessions, s->sensors, e);
        w->inside = (vt_inside){s->sensors->count, sessions, vt_sensor_gradient};
        VT_TRY(st);
        w->oracle.inside = &w->inside;
    }
    if (s->search) {
        VT_TRY(vt_subject_seat(&w->draft, s, NULL, c->batchers[c->n_batchers - 1], slot, e));
        w->oracle.draft.classifier = &w->draft;
    }
    size_t k = (size_t)dims.classes;
    w->x = vt_alloc(dims.n * sizeof(float)), w->z = vt_alloc(k * sizeof(float));
    w->z64 = vt_alloc((size_t)vt_classifier_votes(&w->model) * k * sizeof(double));
    if (w->x && w->z && w->z64) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more image at a time");
}

static vt_status add_network(vt_eval_thread *c, const vt_subject *s, const vt_model *other, vt_err *e) {
    VT_TRY(vt_subject_batcher(&c->batchers[c->n_batchers], s, other, c->batch, c->pool, e));
    c->n_batchers++;
    return VT_OK;
}

vt_status vt_eval_thread_open(vt_eval_thread *c, const vt_eval_options *v, vt_err *e) {
    const vt_subject *s = v->subject;
    int batch = vt_eval_batch(v);
    *c = (vt_eval_thread){.batch = batch, .workers = calloc((size_t)batch, sizeof *c->workers)};
    if (!c->workers) return vt_fail(e, VT_E_MEMORY, "no memory for %d images at a time", batch);
    VT_TRY(vt_fiber_open(&c->pool, batch, e));
    VT_TRY(add_network(c, s, NULL, e));
    if (vt_eval_transfers(v)) VT_TRY(add_network(c, s, s->surrogate, e));
    if (s->search) {
        VT_TRY(vt_subject_draft(&c->batchers[c->n_batchers], s, batch, c->pool, e));
        c->n_batchers++;
    }
    for (int i = 0; i < batch; i++) VT_TRY(worker_open(&c->workers[i], v, c, i, e));
    return VT_OK;
}

void vt_eval_thread_close(vt_eval_thread *c) {
    for (int i = 0; c->workers && i < c->batch; i++) worker_close(&c->workers[i]);
    for (int i = 0; i < c->n_batchers; i++) vt_batcher_close(c->batchers[i]);
    vt_fiber_close(c->pool);
    free(c->workers);
    *c = (vt_eval_thread){0};
}
