/* SPDX-License-Identifier: MIT */
#include "inference/batcher.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

typedef enum kind { NOTHING, FORWARD, VJP, ALONE, FORWARD64 } kind;

/* The call that one slot waits for, and what the slot needs for it. */
typedef struct seat {
    vt_batcher *g;
    int row;
    kind waits_for;
    const float *x;
    float *z;
    double *z64;
    bool keep;
    vt_vjp vjp;
    vt_status status;
    vt_err *why;
    float *z_kept, *dz, *x_kept; /* [classes] logits of the last kept call, a loss's gradient there; [pixels] its x */
    bool kept;                   /* the engine still has that call */
} seat;

struct vt_batcher {
    vt_engine n;
    vt_fiber_pool *pool;
    /* one batch: the arguments of each row; NULL: none */
    const float **x;
    float **z;
    double **z64;
    vt_vjp *vjp;
    seat seat[]; /* [capacity] */
};

/* ---- answering ---- */

/* Ends all waiting calls of one kind with status s and its sentence, and wakes their fibers. */
static void finish_requests(vt_batcher *g, kind k, vt_status s, const vt_err *why) {
    for (int i = 0; i < g->n.capacity; i++) {
        seat *at = &g->seat[i];
        if (at->waits_for != k) continue;
        at->waits_for = NOTHING;
        at->status = s == VT_OK ? VT_OK : vt_fail(at->why, s, "%s", why->text);
        if (g->pool) vt_fiber_wake(g->pool, i);
    }
}

/* Runs the batch of rows in g->x, into g->z, and sets `kept` of all seats: whether the engine keeps the row's
 * forward. */
static vt_status forward_batch(vt_batcher *g, bool keep, vt_err *e) {
    for (int i = 0; i < g->n.capacity; i++) g->seat[i].kept = keep && g->x[i];
    vt_status s = vt_engine_forward(&g->n, g->z, g->x, keep, e);
    for (int i = 0; s != VT_OK && i < g->n.capacity; i++) g->seat[i].kept = false;
    return s;
}

/* Repeats the forwards of waiting gradients, at the same points, if another forward has overwritten one; overwrites
 * g->x and g->z. */
static vt_status restore_kept_forward(vt_batcher *g, vt_err *e) {
    bool any = false;
    for (int i = 0; i < g->n.capacity; i++) {
        seat *at = &g->seat[i];
        const bool waits = at->waits_for == VJP;
        any = any || (waits && !at->kept);
        g->x[i] = waits ? at->x_kept : NULL, g->z[i] = waits ? at->z_kept : NULL;
    }
    return any ? forward_batch(g, true, e) : VT_OK;
}

/* Computes all waiting gradients as one batch, and copies each row's vt_vjp back to its seat. */
static vt_status serve_vjps(vt_batcher *g, vt_err *e) {
    VT_TRY(restore_kept_forward(g, e));
    for (int i = 0; i < g->n.capacity; i++) g->vjp[i] = g->seat[i].waits_for == VJP ? g->seat[i].vjp : (vt_vjp){0};
    VT_TRY(vt_engine_vjp(&g->n, g->vjp, e));
    for (int i = 0; i < g->n.capacity; i++)
        if (g->seat[i].waits_for == VJP) g->seat[i].vjp = g->vjp[i];
    return VT_OK;
}

/* Runs all waiting calls of one kind as one batch; false: there are none. */
static bool serve_kind(vt_batcher *g, kind k) {
    bool keep = false, any = false;
    vt_err why = {0};
    for (int i = 0; i < g->n.capacity; i++) {
        const seat *at = &g->seat[i];
        const bool waits = at->waits_for == k;
        g->x[i] = waits ? at->x : NULL, g->z[i] = waits ? at->z : NULL, g->z64[i] = waits ? at->z64 : NULL;
        keep = keep || (waits && at->keep), any = any || waits;
    }
    if (!any) return false;
    vt_status s = k == VJP       ? serve_vjps(g, &why)
                  : k == ALONE   ? vt_engine_alone(&g->n, g->z, g->x, &why)
                  : k == FORWARD ? forward_batch(g, keep, &why)
                                 : vt_engine_forward64(&g->n, g->z64, g->x, &why);
    finish_requests(g, k, s, &why);
    return true;
}

void vt_batchers_serve(vt_batcher *const *g, int n) {
    bool any = false;
    for (int i = 0; i < n; i++)
        for (kind k = VJP; k <= FORWARD64; k++) any = serve_kind(g[i], k) || any;
    for (int i = 0; !any && i < n; i++) serve_kind(g[i], FORWARD);
}

/* ---- calls of a classifier ---- */

/* Registers a slot's call and sleeps until it is served; without a pool serves it at once. Returns its status. */
static vt_status request_and_wait(seat *at, kind k, vt_err *e) {
    at->waits_for = k, at->why = e;
    if (at->g->pool)
        vt_fiber_sleep(at->g->pool);
    else
        vt_batchers_serve(&at->g, 1);
    return at->status;
}

/* Puts the image's question to the batch and sleeps until z [K] is there (vt_classifier.logits); keep: also keeps z
 * and, for a batch of several, x. */
static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    seat *at = self;
    const vt_engine *n = &at->g->n;
    at->x = x, at->z = z, at->keep = keep;
    VT_TRY(request_and_wait(at, FORWARD, e));
    if (!keep) return VT_OK;
    memcpy(at->z_kept, z, (size_t)n->classes * sizeof *z);
    if (n->capacity > 1) memcpy(at->x_kept, x, n->pixels * sizeof *x);
    return VT_OK;
}

/* Puts the image's question, to be computed alone, and sleeps until z [K] is there. */
static vt_status alone(void *self, const float *x, float *z, vt_err *e) {
    seat *at = self;
    at->x = x, at->z = z;
    return request_and_wait(at, ALONE, e);
}

/* Puts the image's question in double to the batch and sleeps until z [K] is there. */
static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    seat *at = self;
    at->x = x, at->z64 = z;
    return request_and_wait(at, FORWARD64, e);
}

/* Sets *value to the loss at the kept logits, and sleeps until the batch has dx [pixels] (vt_classifier.backward); with
 * attention its loss is added, or (alone) counts alone. */
static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    seat *at = self;
    bool alone = loss->attention && loss->attention->alone;
    *value = alone ? 0 : vt_loss_eval_f32(at->dz, loss, at->z_kept, at->g->n.classes);
    at->vjp = (vt_vjp){.dx = dx, .dz = alone ? NULL : at->dz, .open = loss->open, .attention = loss->attention};
    VT_TRY(request_and_wait(at, VJP, e));
    *value += at->vjp.attention_value;
    return VT_OK;
}

/* ---- opening ---- */

/* Allocates the buffers of slot i; false: no memory. */
static bool take_seat(vt_batcher *g, int i) {
    size_t classes = (size_t)g->n.classes * sizeof(float), pixels = g->n.capacity > 1 ? g->n.pixels * sizeof(float) : 1;
    seat *at = &g->seat[i];
    at->g = g, at->row = i;
    at->z_kept = vt_alloc(classes), at->dz = vt_alloc(classes), at->x_kept = vt_alloc(pixels);
    return at->z_kept && at->dz && at->x_kept;
}

vt_status vt_batcher_open(vt_batcher **out, vt_engine *n, vt_fiber_pool *pool, vt_err *e) {
    size_t rows = (size_t)n->capacity;
    vt_batcher *g = calloc(1, sizeof *g + rows * sizeof g->seat[0]);
    *out = NULL;
    if (!g) {
        vt_engine_close(n);
        return vt_fail(e, VT_E_MEMORY, "no memory for a classifier");
    }
    g->n = *n, g->pool = pool;
    *n = (vt_engine){0};
    g->x = calloc(rows, sizeof *g->x), g->z = calloc(rows, sizeof *g->z), g->z64 = calloc(rows, sizeof *g->z64);
    g->vjp = calloc(rows, sizeof *g->vjp);
    bool good = g->x && g->z && g->z64 && g->vjp;
    for (int i = 0; i < g->n.capacity; i++) good = take_seat(g, i) && good;
    *out = g;
    if (good) return VT_OK;
    vt_batcher_close(g);
    *out = NULL;
    return vt_fail(e, VT_E_MEMORY, "no memory for a classifier");
}

void vt_batcher_close(vt_batcher *g) {
    if (!g) return;
    for (int i = 0; i < g->n.capacity; i++) free(g->seat[i].z_kept), free(g->seat[i].dz), free(g->seat[i].x_kept);
    vt_engine_close(&g->n);
    free(g->x), free(g->z), free(g->z64), free(g->vjp);
    free(g);
}

vt_classifier vt_batcher_classifier(vt_batcher *g, int slot) {
    const vt_engine *n = &g->n;
    vt_classifier c = {.classes = n->classes,
                       .pixels = n->pixels,
                       .self = &g->seat[slot],
                       .votes = n->votes,
                       .random = n->random,
                       .finite = n->finite,
                       .exact = n->exact,
                       .logits = logits,
                       .alone = n->alone ? alone : NULL,
                       .logits64 = n->forward64 ? logits64 : NULL,
                       .backward = backward,
                       .tokens = vt_engine_tokens(n, slot)};
    memcpy(c.mean, n->mean, sizeof c.mean), memcpy(c.std, n->std, sizeof c.std);
    return c;
}

/* ---- a network alone ---- */

/* Closes the batcher behind a classifier of its own (vt_classifier_of). */
static void close_alone(void *self) { vt_batcher_close(((seat *)self)->g); }

vt_status vt_classifier_of(vt_classifier *c, vt_engine *n, vt_err *e) {
    vt_batcher *g;
    *c = (vt_classifier){0};
    VT_TRY(vt_batcher_open(&g, n, NULL, e));
    *c = vt_batcher_classifier(g, 0);
    c->close = close_alone;
    return VT_OK;
}

/* Opens a classifier of one image on m; f64: with a double copy. */
static vt_status open_alone(vt_classifier *c, const vt_model *m, bool f64, vt_err *e) {
    vt_engine n;
    *c = (vt_classifier){0};
    VT_TRY(vt_engine_open(&n, m, 1, f64, NULL, e));
    return vt_classifier_of(c, &n, e);
}

vt_status vt_classifier_open(vt_classifier *c, const vt_model *m, vt_err *e) { return open_alone(c, m, true, e); }
vt_status vt_classifier_open_f32(vt_classifier *c, const vt_model *m, vt_err *e) { return open_alone(c, m, false, e); }

void vt_classifier_close(vt_classifier *c) {
    if (c->close) c->close(c->self);
    memset(c, 0, sizeof *c);
}
