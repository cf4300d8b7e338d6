/* SPDX-License-Identifier: MIT */
#include "train/batch.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

int vt_reduce_own(int rank, int size, int micros) { return (micros - rank + size - 1) / size; }

static size_t slice_at(const vt_reduce *r, int rank) { return r->total * (size_t)rank / (size_t)r->team->size; }
static size_t slice_len(const vt_reduce *r, int rank) { return slice_at(r, rank + 1) - slice_at(r, rank); }

size_t vt_reduce_bytes(int size, size_t total, int micros) {
    size_t own = (size_t)vt_reduce_own(0, size, micros), slice = total / (size_t)size + 1;
    return (own * total + (size_t)micros * slice) * sizeof(float);
}

vt_status vt_reduce_open(vt_reduce *r, vt_team *t, size_t total, int micros, vt_err *e) {
    *r = (vt_reduce){.team = t, .total = total, .micros = micros};
    size_t own = (size_t)vt_reduce_own(t->rank, t->size, micros);
    r->out = vt_alloc((own * total + 1) * sizeof(float));
    r->in = vt_alloc(((size_t)micros * slice_len(r, t->rank) + 1) * sizeof(float));
    r->messages = calloc(own * (size_t)t->size + (size_t)micros + 2 * (size_t)t->size, sizeof *r->messages);
    if (r->out && r->in && r->messages) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for the gradients of %d micro-batches (%zu bytes)", micros,
                   vt_reduce_bytes(t->size, total, micros));
}

void vt_reduce_close(vt_reduce *r) {
    free(r->out), free(r->in), free(r->messages);
    *r = (vt_reduce){0};
}

void vt_reduce_put(vt_reduce *r, int own, const float *grad) {
    memcpy(r->out + (size_t)own * r->total, grad, r->total * sizeof *grad);
}

/* Sends every rank its slice of this rank's micro-batches, and receives this rank's slice of all. */
static void exchange_slices(vt_reduce *r) {
    vt_team *t = r->team;
    int own = vt_reduce_own(t->rank, t->size, r->micros);
    vt_message *out = r->messages, *in = out;
    size_t mine = slice_len(r, t->rank), n = 0;
    for (int to = 0; to < t->size; to++)
        for (int k = 0; k < own; k++)
            out[n++] =
                (vt_message){to, r->out + (size_t)k * r->total + slice_at(r, to), slice_len(r, to) * sizeof(float)};
    in += n;
    for (int m = 0; m < r->micros; m++)
        in[m] = (vt_message){m % t->size, r->in + (size_t)m * mine, mine * sizeof(float)};
    t->ops->exchange(t->ctx, out, n, in, (size_t)r->micros);
}

/* Sends the sum of this rank's slice to all others, and receives theirs. */
static void share_sums(vt_reduce *r, float *grad) {
    vt_team *t = r->team;
    vt_message *out = r->messages, *in = out + t->size;
    size_t n = 0;
    for (int k = 0; k < t->size; k++) {
        if (k == t->rank) continue;
        out[n] = (vt_message){k, grad + slice_at(r, t->rank), slice_len(r, t->rank) * sizeof *grad};
        in[n++] = (vt_message){k, grad + slice_at(r, k), slice_len(r, k) * sizeof *grad};
    }
    t->ops->exchange(t->ctx, out, n, in, n);
}

void vt_reduce_sum(vt_reduce *r, float *grad) {
    size_t n = slice_len(r, r->team->rank);
    float *to = grad + slice_at(r, r->team->rank);
    exchange_slices(r);
    memcpy(to, r->in, n * sizeof *to);
    for (int m = 1; m < r->micros; m++)
        for (size_t i = 0; i < n; i++) to[i] += r->in[(size_t)m * n + i];
    share_sums(r, grad);
}
