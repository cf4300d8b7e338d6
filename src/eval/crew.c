/* SPDX-License-Identifier: MIT */
#include "eval/crew.h"

#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "eval/eight_bit.h"

vt_task vt_eval_dims(const vt_eval *v) {
    return vt_attacker_dims(vt_subject_pixels(v->subject), vt_subject_classes(v->subject), &v->patch);
}

static void worker_close(vt_worker *w) {
    vt_oracle_close(&w->oracle);
    vt_attacker_close(&w->attacker);
    vt_grid8_close(&w->grid);
    vt_classifier_close(&w->model), vt_classifier_close(&w->surrogate);
    free(w->x), free(w->z), free(w->z64);
    memset(w, 0, sizeof *w);
}

bool vt_eval_transfers(const vt_eval *v) {
    bool any = false;
    for (int i = 0; i < v->n_attacks; i++) any = any || vt_attack_needs_surrogate(&v->attacks[i]);
    return any;
}

size_t vt_eval_work(const vt_eval *v, const vt_task *dims) {
    size_t work = 1;
    for (int i = 0; i < v->n_attacks; i++) {
        size_t need = vt_attacker_work(&v->attacks[i], dims);
        if (need > work) work = need;
    }
    return work;
}

static vt_status worker_open(vt_worker *w, const vt_eval *v, const vt_crew *c, int slot, vt_err *e) {
    vt_task dims = vt_eval_dims(v);
    VT_TRY(vt_subject_seat(&w->model, v->subject, NULL, c->batchers[0], slot, e));
    VT_TRY(vt_oracle_open(&w->oracle, &w->model, e));
    if (vt_eight_bit_wanted(v)) VT_TRY(vt_grid8_open(&w->grid, dims.n, e));
    VT_TRY(vt_attacker_open(&w->attacker, dims.n, vt_eval_work(v, &dims), e));
    w->oracle.interrupt = v->interrupt;
    if (c->n_batchers > 1) {
        VT_TRY(vt_subject_seat(&w->surrogate, v->subject, v->subject->surrogate, c->batchers[1], slot, e));
        w->oracle.surrogate = &w->surrogate;
    }
    size_t k = (size_t)dims.classes;
    w->x = vt_alloc(dims.n * sizeof(float)), w->z = vt_alloc(k * sizeof(float)), w->z64 = vt_alloc(k * sizeof(double));
    if (w->x && w->z && w->z64) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more image at a time");
}

int vt_eval_batch(const vt_eval *v) { return v->batch ? v->batch : 1; }

void vt_crew_close(vt_crew *c, int batch) {
    for (int i = 0; c->workers && i < batch; i++) worker_close(&c->workers[i]);
    for (int i = 0; i < c->n_batchers; i++) vt_batcher_close(c->batchers[i]);
    vt_lane_close(c->lane);
    free(c->workers);
    *c = (vt_crew){0};
}

vt_status vt_crew_open(vt_crew *c, const vt_eval *v, vt_err *e) {
    int batch = vt_eval_batch(v);
    c->workers = calloc((size_t)batch, sizeof *c->workers);
    if (!c->workers) return vt_fail(e, VT_E_MEMORY, "no memory for %d images at a time", batch);
    VT_TRY(vt_lane_open(&c->lane, batch, e));
    VT_TRY(vt_subject_batcher(&c->batchers[c->n_batchers], v->subject, NULL, batch, c->lane, e));
    c->n_batchers++;
    if (vt_eval_transfers(v)) {
        VT_TRY(vt_subject_batcher(&c->batchers[c->n_batchers], v->subject, v->subject->surrogate, batch, c->lane, e));
        c->n_batchers++;
    }
    for (int i = 0; i < batch; i++) VT_TRY(worker_open(&c->workers[i], v, c, i, e));
    return VT_OK;
}
