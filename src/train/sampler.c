/* SPDX-License-Identifier: MIT */
#include "train/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "train/augment.h"
#include "train/validation.h"

vt_status vt_extra_open(vt_extra *x, const vt_choices *c, const vt_recipe *r, const vt_dataset *base, vt_err *e) {
    int n = 0;
    while (vt_chosen_nth(c, "extra", n)) n++;
    if (n != r->n_extra)
        return vt_fail(e, VT_E_USAGE,
                       "the recipe's key extra has %d share%s ('%s') for %d further data set%s: one for each (@set "
                       "extra=0.5)",
                       r->n_extra, r->n_extra == 1 ? "" : "s", r->top.extra, n, n == 1 ? "" : "s");
    for (int i = 0; i < n; i++) {
        VT_TRY(vt_dataset_open(&x->sets[i], vt_chosen_nth(c, "extra", i), VT_SPLIT_TRAIN, e));
        x->n = i + 1;
        const vt_dataset *d = x->sets[i];
        if (d->classes > base->classes || (d->classes < base->classes && !d->classes_open))
            return vt_fail(e, VT_E_SHAPE, "%s has %d classes, but %s has %d", d->path, d->classes, base->path,
                           base->classes);
    }
    return VT_OK;
}

void vt_extra_close(vt_extra *x) {
    for (int i = 0; i < x->n; i++) vt_dataset_close(x->sets[i]);
    x->n = 0;
}

int vt_extra_take(const vt_recipe *r, int k) { return (int)lrint(r->extra[k] * r->top.batch); }

/* Appends a set, of which every step takes `take` images. VT_E_USAGE: fewer that are not watched; VT_E_RANGE: above
 * 2^31. */
static vt_status add_dataset(vt_sampler *s, const vt_dataset *d, int64_t watched, int take, vt_err *e) {
    vt_sampled *p = &s->sets[s->n++];
    *p = (vt_sampled){.data = d, .images = d->count - watched, .watched = watched, .take = take, .pass = -1};
    if (p->images < take)
        return vt_fail(e, VT_E_USAGE, "%s has %lld images, fewer than the %d that each step takes of them", d->path,
                       (long long)p->images, take);
    if (p->images > INT32_MAX) return vt_fail(e, VT_E_RANGE, "%s has more than 2^31 images", d->path);
    p->order = calloc((size_t)p->images, sizeof *p->order);
    return p->order ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for training");
}

vt_status vt_sampler_open(vt_sampler *s, const vt_recipe *r, const vt_dataset *data, int64_t watched, const vt_extra *x,
                          vt_err *e) {
    int rest = r->top.batch;
    *s = (vt_sampler){.seed = (uint64_t)r->top.seed, .ids = calloc((size_t)rest, sizeof *s->ids)};
    if (!s->ids) return vt_fail(e, VT_E_MEMORY, "no memory for training");
    for (int i = 0; x && i < x->n; i++) rest -= vt_extra_take(r, i);
    VT_TRY(add_dataset(s, data, watched, rest, e));
    for (int i = 0; x && i < x->n; i++) VT_TRY(add_dataset(s, x->sets[i], 0, vt_extra_take(r, i), e));
    return VT_OK;
}

void vt_sampler_close(vt_sampler *s) {
    for (int i = 0; i < s->n; i++) free(s->sets[i].order);
    free(s->ids);
    memset(s, 0, sizeof *s);
}

void vt_sampler_step(vt_sampler *s, int64_t step) {
    int at = 0;
    for (int i = 0; i < s->n; i++) {
        vt_sampled *p = &s->sets[i];
        int64_t steps = p->images / p->take;
        if (p->pass != (int)(step / steps)) {
            p->pass = (int)(step / steps);
            vt_epoch_order(p->order, p->images, s->seed + ((uint64_t)i << 32), p->pass);
            for (int64_t k = 0; p->watched && k < p->images; k++)
                p->order[k] = (int32_t)vt_unwatched_image(p->order[k], p->watched, p->data->count);
        }
        memcpy(s->ids + at, p->order + step % steps * p->take, (size_t)p->take * sizeof *s->ids);
        at += p->take;
    }
}

const vt_sampled *vt_sampler_set(const vt_sampler *s, int at) {
    int i = 0;
    while (at >= s->sets[i].take) at -= s->sets[i++].take;
    return &s->sets[i];
}

void vt_sampler_hash(char out[65], const vt_dataset *data, const vt_extra *x) {
    char all[(1 + VT_RECIPE_EXTRA) * 65 + 1];
    int n = snprintf(all, sizeof all, "%s\n", data->hash);
    for (int i = 0; x && i < x->n; i++) n += snprintf(all + n, sizeof all - (size_t)n, "%s\n", x->sets[i]->hash);
    if (x && x->n)
        vt_sha_hex(all, (size_t)n, out);
    else
        snprintf(out, 65, "%s", data->hash);
}

size_t vt_sampler_bytes(int64_t images, const vt_extra *x) {
    int64_t n = images;
    for (int i = 0; x && i < x->n; i++) n += x->sets[i]->count;
    return (size_t)n * sizeof(int32_t);
}
