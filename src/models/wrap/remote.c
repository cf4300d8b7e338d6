/* SPDX-License-Identifier: MIT */
#include "models/wrap/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/json.h"
#include "core/mem.h"
#include "core/progress.h"
#include "core/rand.h"
#include "models/wrap/conversation.h"

const vt_hello *vt_remote_hello(const vt_remote *r) { return &r->hello; }
const char *vt_remote_where(const vt_remote *r) { return r->where; }
void vt_remote_interruptible(vt_remote *r, const volatile sig_atomic_t *interrupt) { r->interrupt = interrupt; }

double vt_remote_waited(vt_remote *r) {
    pthread_mutex_lock(&r->lock);
    double waited = r->waited;
    pthread_mutex_unlock(&r->lock);
    return waited;
}

/* ---- an engine ---- */

typedef struct engine {
    vt_remote *r;
    vt_conversation *l;
    int capacity, votes, beside; /* beside: neighbours of one that is asked again */
    float *neighbours;           /* [beside, pixels]: the same for everyone */
    float *scratch;              /* [classes] */
    const void **in;             /* [rows] */
    void **out;
} engine;

static size_t image_bytes(const engine *n) { return vt_hello_pixels(&n->r->hello) * sizeof(float); }
static size_t class_count(const engine *n) { return (size_t)n->r->hello.classes; }

/* An independent model is asked in a batch that ends with the last row that somebody asks for. */
static int rows_of(const engine *n, const void *const *in) {
    int rows = n->capacity;
    while (n->r->hello.independent && rows > 1 && !in[rows - 1]) rows--;
    return rows;
}

static vt_status forward(void *self, float *const *z, const float *const *x, bool keep, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++) n->in[i] = x[i], n->out[i] = z[i];
    const vt_asked b = {.op = VT_WIRE_LOGITS, /* a kept batch has all rows: any of them may be asked for a vjp */
                        .rows = keep ? n->capacity : rows_of(n, n->in),
                        .keep = keep,
                        .in = n->in,
                        .out = n->out,
                        .in_bytes = image_bytes(n),
                        .out_bytes = class_count(n) * sizeof(float)};
    return vt_conversation_ask(n->r, n->l, &b, e);
}

static vt_status vjp(void *self, vt_vjp *rows, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++) n->in[i] = rows[i].dx ? rows[i].dz : NULL, n->out[i] = rows[i].dx;
    const vt_asked b = {.op = VT_WIRE_VJP,
                        .rows = n->capacity,
                        .in = n->in,
                        .out = n->out,
                        .in_bytes = class_count(n) * sizeof(float),
                        .out_bytes = image_bytes(n)};
    return vt_conversation_ask(n->r, n->l, &b, e);
}

/* One image, the last of a batch with so many neighbours. */
static vt_status ask_single_image(engine *n, vt_wire_op op, const float *x, int beside, void *out, vt_err *e) {
    size_t pixels = vt_hello_pixels(&n->r->hello);
    const void *in[VT_REMOTE_NEIGHBOURS + 1];
    void *to[VT_REMOTE_NEIGHBOURS + 1];
    for (int i = 0; i < beside; i++) in[i] = n->neighbours + (size_t)i * pixels, to[i] = n->scratch;
    in[beside] = x, to[beside] = out;
    const vt_asked b = {.op = op,
                        .rows = beside + 1,
                        .in = in,
                        .out = to,
                        .in_bytes = pixels * sizeof(float),
                        .out_bytes = class_count(n) * (op == VT_WIRE_LOGITS64 ? sizeof(double) : sizeof(float))};
    return vt_conversation_ask(n->r, n->l, &b, e);
}

static vt_status alone(void *self, float *const *z, const float *const *x, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++)
        if (x[i]) VT_TRY(ask_single_image(n, VT_WIRE_LOGITS, x[i], 0, z[i], e));
    return VT_OK;
}

/* The repeated queries of one image, as doubles. */
static vt_status ask_image_repeatedly(engine *n, const float *x, double *z64, vt_err *e) {
    if (n->votes == 1) return ask_single_image(n, VT_WIRE_LOGITS64, x, 0, z64, e);
    for (int k = 0; k < n->votes; k++) {
        VT_TRY(ask_single_image(n, VT_WIRE_LOGITS, x, k == n->votes - 1 ? n->beside : 0, n->scratch, e));
        for (size_t i = 0; i < class_count(n); i++) z64[(size_t)k * class_count(n) + i] = (double)n->scratch[i];
    }
    return VT_OK;
}

static vt_status forward64(void *self, double *const *z, const float *const *x, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++)
        if (x[i]) VT_TRY(ask_image_repeatedly(n, x[i], z[i], e));
    return VT_OK;
}

/* ---- opening and closing ---- */

static vt_conversation *from_pool(vt_remote *r) {
    pthread_mutex_lock(&r->lock);
    vt_conversation *l = r->pool;
    if (l) r->pool = l->next, l->next = NULL;
    pthread_mutex_unlock(&r->lock);
    return l;
}

static void to_pool(vt_remote *r, vt_conversation *l) {
    pthread_mutex_lock(&r->lock);
    l->next = r->pool, r->pool = l;
    pthread_mutex_unlock(&r->lock);
}

static void free_engine(engine *n) {
    free(n->neighbours), free(n->scratch), free(n->in), free(n->out);
    free(n);
}

static void close_engine(void *self) {
    engine *n = self;
    vt_conversation *l = n->l;
    if (l && l->broken.code) {
        vt_conversation_close(l, 0);
    } else if (l) {
        to_pool(n->r, l);
    }
    free_engine(n);
}

/* It is the same model that greets again. */
static vt_status take_line(engine *n, vt_err *e) {
    vt_hello again;
    char name[120];
    if (n->capacity > n->r->hello.batch)
        return vt_fail(e, VT_E_RANGE, "the model %s takes batches of at most %d images, asked for are %d (@batch)",
                       vt_remote_named(n->r, name), n->r->hello.batch, n->capacity);
    if (!(n->l = from_pool(n->r))) {
        VT_TRY(vt_conversation_open(n->r, &n->l, &again, e));
        if (memcmp(&again, &n->r->hello, sizeof again))
            return vt_conversation_over(n->r, n->l, e,
                                        "greeted otherwise than the first time: it is not the same model");
    }
    int most = n->capacity > n->beside + 1 ? n->capacity : n->beside + 1;
    return vt_conversation_share(n->r, n->l, most, e);
}

static bool take_memory(engine *n) {
    const vt_hello *h = &n->r->hello;
    size_t pixels = vt_hello_pixels(h), rows = (size_t)n->capacity;
    vt_rng r = {.purpose = vt_rng_purpose("remote neighbours")};
    n->neighbours = vt_alloc(((size_t)n->beside * pixels + 1) * sizeof *n->neighbours);
    n->scratch = vt_alloc(2 * class_count(n) * sizeof *n->scratch); /* of double too */
    n->in = calloc(rows, sizeof *n->in), n->out = calloc(rows, sizeof *n->out);
    for (size_t i = 0; n->neighbours && i < (size_t)n->beside * pixels; i++)
        n->neighbours[i] = (float)(vt_rng_bits(&r, i) >> 24) / 255;
    return n->neighbours && n->scratch && n->in && n->out;
}

vt_status vt_remote_engine(vt_engine *out, vt_remote *r, int capacity, vt_err *e) {
    const vt_hello *h = &r->hello;
    engine *n = calloc(1, sizeof *n);
    *out = (vt_engine){0};
    if (!n) return vt_fail(e, VT_E_MEMORY, "no memory for a model in another process");
    n->r = r, n->capacity = capacity;
    n->votes = h->random ? VT_REMOTE_VOTES : h->logits64 ? 1 : 2;
    n->beside = n->votes != 2 ? 0 : h->batch > VT_REMOTE_NEIGHBOURS ? VT_REMOTE_NEIGHBOURS : h->batch - 1;
    vt_status s =
        take_memory(n) ? take_line(n, e) : vt_fail(e, VT_E_MEMORY, "no memory for a model in another process");
    if (s != VT_OK) {
        if (n->l && !n->l->broken.code) vt_fail(&n->l->broken, s, "it was not opened");
        close_engine(n);
        return s;
    }
    *out = (vt_engine){.classes = h->classes,
                       .capacity = capacity,
                       .pixels = vt_hello_pixels(h),
                       .votes = n->votes,
                       .random = h->random,
                       .self = n,
                       .forward = forward,
                       .vjp = vjp,
                       .alone = alone,
                       .forward64 = forward64,
                       .close = close_engine};
    return VT_OK;
}

static int usual_of(const vt_hello *h) {
    enum { MOST = 64 };
    int usual = h->usual ? h->usual : MOST;
    return usual < h->batch ? usual : h->batch;
}

int vt_remote_usual(const vt_remote *r) { return usual_of(&r->hello); }

vt_status vt_remote_measure(vt_remote *r, int *images, vt_err *e) {
    vt_hello again;
    vt_conversation *l = r->hello.usual ? from_pool(r) : NULL;
    *images = usual_of(&r->hello);
    if (!l) return VT_OK;
    vt_status s = vt_conversation_greet(r, l, true, &again, e);
    if (s == VT_OK) *images = usual_of(&again);
    to_pool(r, l);
    return s;
}

size_t vt_remote_bytes(const vt_remote *r, int rows) { return vt_wire_layout(&r->hello, rows).bytes; }

static vt_status open_remote(vt_remote **out, const char *where, int given, double timeout, vt_err *e) {
    vt_remote *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r || !(r->where = strdup(where))) {
        free(r);
        if (given >= 0) close(given);
        return vt_fail(e, VT_E_MEMORY, "no memory for a model in another process");
    }
    r->given = given, r->one = given >= 0;
    pthread_mutex_init(&r->lock, NULL);
    r->timeout = timeout;
    vt_status s = vt_conversation_open(r, &r->pool, &r->hello, e);
    if (s == VT_OK)
        *out = r;
    else
        vt_remote_close(r);
    return s;
}

vt_status vt_remote_open(vt_remote **out, const char *where, double timeout, vt_err *e) {
    return open_remote(out, where, -1, timeout, e);
}

vt_status vt_remote_over(vt_remote **out, int fd, double timeout, vt_err *e) {
    return open_remote(out, "behind the socket", fd, timeout, e);
}

void vt_remote_close(vt_remote *r) {
    if (r && r->given >= 0) close(r->given);
    if (!r) return;
    while (r->pool) {
        vt_conversation *next = r->pool->next;
        vt_conversation_close(r->pool, 5);
        r->pool = next;
    }
    pthread_mutex_destroy(&r->lock);
    free(r->where);
    free(r);
}
