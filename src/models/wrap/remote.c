/* SPDX-License-Identifier: MIT */
#include "models/wrap/remote.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/child.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/progress.h"
#include "core/rand.h"
#include "core/text.h"
#include "core/version.h"

/* One conversation. */
typedef struct line {
    struct line *next; /* in the pool */
    vt_child child;
    uint32_t id;
    int rows;       /* of shared memory; 0: bytes go over the socket */
    void *shared;   /* NULL: plain */
    size_t bytes;   /* of it */
    bool may_share; /* the other side has not refused */
    vt_err broken;  /* why it is over; code VT_OK: it is not */
} line;

struct vt_remote {
    char *where;
    int given; /* a socket that was there already; -1: it is taken, or there never was one */
    bool one;  /* there will be no other */
    double timeout, waited;
    const volatile sig_atomic_t *interrupt;
    vt_hello hello;
    pthread_mutex_t lock; /* pool, waited */
    line *pool;
};

const vt_hello *vt_remote_hello(const vt_remote *r) { return &r->hello; }
const char *vt_remote_where(const vt_remote *r) { return r->where; }
void vt_remote_interruptible(vt_remote *r, const volatile sig_atomic_t *interrupt) { r->interrupt = interrupt; }

double vt_remote_waited(vt_remote *r) {
    pthread_mutex_lock(&r->lock);
    double waited = r->waited;
    pthread_mutex_unlock(&r->lock);
    return waited;
}

/* ---- what went wrong, in words ---- */

/* "python3 model.py" in a sentence: the beginning of a long command */
static const char *named(const vt_remote *r, char buf[120]) {
    if (strlen(r->where) < 100)
        snprintf(buf, 120, "%s", r->where);
    else
        snprintf(buf, 120, "%.96s...", r->where);
    vt_text_plain(buf, strlen(buf), "", NULL);
    return buf;
}

__attribute__((format(printf, 4, 5))) static vt_status over(vt_remote *r, line *l, vt_err *e, const char *format, ...) {
    char name[120], text[1200];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    vt_fail(&l->broken, VT_E_MODEL, "the model %s %s", named(r, name), text);
    return vt_fail(e, VT_E_MODEL, "%s", l->broken.text);
}

static vt_status gone(vt_remote *r, line *l, vt_err *e, const char *when) {
    vt_child_wait(&l->child, 2);
    if (!l->child.ended) return over(r, l, e, "closed the connection %s", when);
    if (l->child.how > 128) return over(r, l, e, "ended %s: killed by signal %d", when, l->child.how - 128);
    if (l->child.how == 127) return over(r, l, e, "ended %s with exit status 127: there is no such command", when);
    return over(r, l, e, "ended %s with exit status %d", when, l->child.how);
}

static vt_status not_done(vt_remote *r, line *l, vt_io how, vt_err *e, const char *when) {
    if (how == VT_IO_CLOSED) return gone(r, l, e, when);
    if (how == VT_IO_INTERRUPTED) {
        vt_fail(&l->broken, VT_E_MODEL, "the model's answer was not waited for");
        return vt_fail(e, VT_INTERRUPTED, "interrupted");
    }
    if (how == VT_IO_LATE)
        return over(r, l, e, "did not answer %s within %g s (%s)", when, r->timeout, vt_argument("--oracle-timeout"));
    return over(r, l, e, "cannot be reached %s: the connection failed", when);
}

/* What came in place of a head: the first bytes of it, where they are text. */
static vt_status no_protocol(vt_remote *r, line *l, const void *bytes, size_t n, vt_err *e, const char *when) {
    char text[60];
    const unsigned char *b = bytes;
    size_t k = 0;
    for (; k < n && k < 40 && b[k] >= ' ' && b[k] < 127; k++) text[k] = (char)b[k];
    text[k] = 0;
    if (k >= 4)
        return over(r, l, e,
                    "wrote '%s...' %s in place of an answer: does it print to its standard output, which is the "
                    "connection?",
                    text, when);
    return over(r, l, e, "wrote %s what is no answer of the protocol", when);
}

/* ---- messages ---- */

static vt_status put(vt_remote *r, line *l, const void *bytes, size_t n, int pass, double until, vt_err *e,
                     const char *when) {
    vt_io how = n ? vt_child_write(l->child.fd, bytes, n, until, r->interrupt, pass) : VT_IO_DONE;
    return how == VT_IO_DONE ? VT_OK : not_done(r, l, how, e, when);
}

static vt_status get(vt_remote *r, line *l, void *bytes, size_t n, double until, vt_err *e, const char *when) {
    vt_io how = n ? vt_child_read(l->child.fd, bytes, n, until, r->interrupt, NULL, NULL) : VT_IO_DONE;
    return how == VT_IO_DONE ? VT_OK : not_done(r, l, how, e, when);
}

/* The other side's own words. */
static vt_status said(vt_remote *r, line *l, const vt_wire_head *a, double until, vt_err *e, const char *when) {
    char text[601];
    size_t n = a->bytes < sizeof text - 1 ? (size_t)a->bytes : sizeof text - 1;
    VT_TRY(get(r, l, text, n, until, e, when));
    text[n] = 0;
    vt_text_plain(text, n, "", NULL);
    return over(r, l, e, "failed %s: %s", when, text);
}

/* A head, and no more waiting than for its first four bytes where these are not its. */
static vt_status head(vt_remote *r, line *l, vt_wire_head *a, double until, vt_err *e, const char *when) {
    size_t first = sizeof a->magic, got;
    unsigned char *bytes = (unsigned char *)a;
    VT_TRY(get(r, l, a, first, until, e, when));
    if (a->magic == VT_WIRE_MAGIC) return get(r, l, bytes + first, sizeof *a - first, until, e, when);
    vt_child_read(l->child.fd, bytes + first, sizeof *a - first, vt_now() + 0.2, r->interrupt, NULL, &got);
    return no_protocol(r, l, a, first + got, e, when);
}

/* The head of the answer to q, with exactly so many bytes behind it (most > 0: up to so many). */
static vt_status answer(vt_remote *r, line *l, const vt_wire_head *q, vt_wire_head *a, size_t bytes, size_t most,
                        double until, vt_err *e, const char *when) {
    VT_TRY(head(r, l, a, until, e, when));
    if (a->op == VT_WIRE_ERROR) return said(r, l, a, until, e, when);
    if (a->op != q->op || a->id != q->id)
        return over(r, l, e, "answered another question %s than was asked (%u of kind %u, asked was %u of kind %u)",
                    when, a->id, a->op, q->id, q->op);
    if (most ? a->bytes > most : a->bytes != bytes)
        return over(r, l, e, "answered %s with %llu bytes, must be %s%zu: another shape than it greeted with", when,
                    (unsigned long long)a->bytes, most ? "at most " : "", most ? most : bytes);
    return VT_OK;
}

static vt_wire_head question(line *l, vt_wire_op op, int rows, unsigned flags, size_t bytes) {
    return (vt_wire_head){.magic = VT_WIRE_MAGIC,
                          .op = op,
                          .id = ++l->id,
                          .rows = (uint32_t)rows,
                          .flags = flags,
                          .bytes = bytes};
}

/* ---- a conversation begins ---- */

static vt_status greet(vt_remote *r, line *l, bool measure, vt_hello *hello, vt_err *e) {
    const char *when = "when it was greeted";
    char text[200];
    double until = vt_now() + r->timeout;
    vt_wire_head a;
    vt_err why = {0};
    int n = snprintf(text, sizeof text, "{\"protocol\": %d, \"vitrine\": \"%s\"%s}", VT_WIRE_PROTOCOL, VT_VERSION,
                     measure ? ", \"measure\": true" : "");
    vt_wire_head q = question(l, VT_WIRE_HELLO, 0, 0, (size_t)n);
    VT_TRY(put(r, l, &q, sizeof q, -1, until, e, when));
    VT_TRY(put(r, l, text, (size_t)n, -1, until, e, when));
    VT_TRY(answer(r, l, &q, &a, 0, VT_WIRE_TEXT, until, e, when));
    char *reply = malloc((size_t)a.bytes + 1);
    if (!reply) return vt_fail(e, VT_E_MEMORY, "no memory for the model's greeting");
    vt_status s = get(r, l, reply, (size_t)a.bytes, until, e, when);
    if (s == VT_OK) {
        s = vt_hello_read(hello, reply, (size_t)a.bytes, &why);
        if (s == VT_E_MEMORY) vt_fail(e, s, "%s", why.text);
        if (s == VT_E_FORMAT) s = over(r, l, e, "cannot be asked: %s", why.text);
    }
    free(reply);
    return s;
}

static void line_free(line *l, double patience) {
    vt_child_end(&l->child, patience);
    vt_shared_close(l->shared, l->bytes);
    free(l);
}

static vt_status line_open(vt_remote *r, line **out, vt_hello *hello, vt_err *e) {
    line *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return vt_fail(e, VT_E_MEMORY, "no memory for a model in another process");
    l->child = (vt_child){.fd = r->given, .lifeline = -1};
    l->may_share = !r->one && (!vt_child_is_address(r->where) || !strncmp(r->where, "unix:", 5));
    vt_status s = VT_OK;
    if (r->one && r->given < 0)
        s = vt_fail(e, VT_E_MODEL, "%s carries one conversation at a time", r->where);
    else if (!r->one)
        s = vt_child_is_address(r->where) ? vt_child_connect(&l->child, r->where, e)
                                          : vt_child_start(&l->child, r->where, e);
    r->given = -1;
    if (s == VT_OK) s = greet(r, l, false, hello, e);
    if (s == VT_OK)
        *out = l;
    else
        line_free(l, 0);
    return s;
}

/* Shared memory for so many rows. What does not understand, a socket that leads to another machine for one, goes on in
 * plain bytes. */
static vt_status share(vt_remote *r, line *l, int rows, vt_err *e) {
    const char *when = "when memory was shared";
    int fd;
    vt_err why = {0};
    vt_wire_head a;
    if (!l->may_share || l->rows >= rows) return VT_OK;
    vt_shared_close(l->shared, l->bytes);
    l->shared = NULL, l->rows = 0, l->bytes = vt_wire_layout(&r->hello, rows).bytes;
    VT_TRY(vt_shared_make(&fd, &l->shared, l->bytes, e));
    double until = vt_now() + r->timeout;
    vt_wire_head q = question(l, VT_WIRE_SHARE, rows, 0, 0);
    vt_status s = put(r, l, &q, sizeof q, fd, until, &why, when);
    close(fd);
    if (s == VT_OK) s = answer(r, l, &q, &a, 0, 0, until, &why, when);
    if (s != VT_OK) return vt_fail(e, s, "%s", why.text);
    if (a.flags) {
        l->rows = rows;
        return VT_OK;
    }
    vt_shared_close(l->shared, l->bytes);
    l->shared = NULL, l->may_share = false;
    return VT_OK;
}

/* ---- one question ---- */

/* rows [batch] of inputs (NULL: not asked for) and where their answers go; sizes of one in bytes. */
typedef struct batch {
    vt_wire_op op;
    int rows;
    bool keep;
    const void *const *in;
    void *const *out;
    size_t in_bytes, out_bytes;
} batch;

static char *part(const line *l, const vt_remote *r, const batch *b, bool in) {
    vt_wire_parts p = vt_wire_layout(&r->hello, l->rows);
    size_t at = in ? (b->op == VT_WIRE_VJP ? p.dz : p.x)
                   : (b->op == VT_WIRE_VJP        ? p.dx
                      : b->op == VT_WIRE_LOGITS64 ? p.z64
                                                  : p.z);
    return (char *)l->shared + at;
}

static vt_status ask(vt_remote *r, line *l, const batch *b, vt_err *e) {
    const char *when = b->op == VT_WIRE_VJP ? "a vjp" : b->op == VT_WIRE_LOGITS64 ? "logits in double" : "logits";
    char asked_for[40];
    unsigned char mask[VT_WIRE_BATCH];
    int asked = 0;
    vt_wire_head a;
    if (l->broken.code) return vt_fail(e, l->broken.code, "%s", l->broken.text);
    snprintf(asked_for, sizeof asked_for, "when it was asked for %s", when);
    for (int i = 0; i < b->rows; i++) asked += mask[i] = b->in[i] != NULL;
    vt_wire_head q = question(l, b->op, b->rows, b->keep ? VT_WIRE_KEEP : 0, 0);
    q.bytes = vt_wire_question_bytes(&r->hello, &q, asked, l->shared != NULL);
    double began = vt_now(), until = began + r->timeout;
    for (int i = 0; l->shared && i < b->rows; i++) { /* nobody asks for zeros: what a neighbour left cannot matter */
        char *to = part(l, r, b, true) + (size_t)i * b->in_bytes;
        if (b->in[i])
            memcpy(to, b->in[i], b->in_bytes);
        else
            memset(to, 0, b->in_bytes);
    }
    VT_TRY(put(r, l, &q, sizeof q, -1, until, e, asked_for));
    VT_TRY(put(r, l, mask, (size_t)b->rows, -1, until, e, asked_for));
    for (int i = 0; !l->shared && i < b->rows; i++)
        if (b->in[i]) VT_TRY(put(r, l, b->in[i], b->in_bytes, -1, until, e, asked_for));
    VT_TRY(answer(r, l, &q, &a, vt_wire_answer_bytes(&r->hello, &q, asked, l->shared != NULL), 0, until, e, asked_for));
    for (int i = 0; i < b->rows; i++) {
        if (!b->in[i]) continue;
        if (l->shared)
            memcpy(b->out[i], part(l, r, b, false) + (size_t)i * b->out_bytes, b->out_bytes);
        else
            VT_TRY(get(r, l, b->out[i], b->out_bytes, until, e, asked_for));
    }
    pthread_mutex_lock(&r->lock);
    r->waited += vt_now() - began;
    pthread_mutex_unlock(&r->lock);
    return VT_OK;
}

/* ---- an engine ---- */

typedef struct engine {
    vt_remote *r;
    line *l;
    int capacity, opinions, beside; /* beside: neighbours of one that is asked again */
    float *neighbours;              /* [beside, pixels]: the same for everyone */
    float *scratch;                 /* [classes] */
    const void **in;                /* [rows] */
    void **out;
} engine;

static size_t image_bytes(const engine *n) { return vt_hello_pixels(&n->r->hello) * sizeof(float); }
static size_t scores(const engine *n) { return (size_t)n->r->hello.classes; }

/* An independent model is asked in a batch that ends with the last row that somebody asks for. */
static int rows_of(const engine *n, const void *const *in) {
    int rows = n->capacity;
    while (n->r->hello.independent && rows > 1 && !in[rows - 1]) rows--;
    return rows;
}

static vt_status forward(void *self, float *const *z, const float *const *x, bool keep, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++) n->in[i] = x[i], n->out[i] = z[i];
    const batch b = {.op = VT_WIRE_LOGITS, /* a kept batch has all rows: any of them may be asked for a vjp */
                     .rows = keep ? n->capacity : rows_of(n, n->in),
                     .keep = keep,
                     .in = n->in,
                     .out = n->out,
                     .in_bytes = image_bytes(n),
                     .out_bytes = scores(n) * sizeof(float)};
    return ask(n->r, n->l, &b, e);
}

static vt_status vjp(void *self, vt_vjp *rows, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++) n->in[i] = rows[i].dx ? rows[i].dz : NULL, n->out[i] = rows[i].dx;
    const batch b = {.op = VT_WIRE_VJP,
                     .rows = n->capacity,
                     .in = n->in,
                     .out = n->out,
                     .in_bytes = scores(n) * sizeof(float),
                     .out_bytes = image_bytes(n)};
    return ask(n->r, n->l, &b, e);
}

/* One image, the last of a batch with so many neighbours. */
static vt_status single(engine *n, vt_wire_op op, const float *x, int beside, void *out, vt_err *e) {
    size_t pixels = vt_hello_pixels(&n->r->hello);
    const void *in[VT_REMOTE_NEIGHBOURS + 1];
    void *to[VT_REMOTE_NEIGHBOURS + 1];
    for (int i = 0; i < beside; i++) in[i] = n->neighbours + (size_t)i * pixels, to[i] = n->scratch;
    in[beside] = x, to[beside] = out;
    const batch b = {.op = op,
                     .rows = beside + 1,
                     .in = in,
                     .out = to,
                     .in_bytes = pixels * sizeof(float),
                     .out_bytes = scores(n) * (op == VT_WIRE_LOGITS64 ? sizeof(double) : sizeof(float))};
    return ask(n->r, n->l, &b, e);
}

static vt_status alone(void *self, float *const *z, const float *const *x, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++)
        if (x[i]) VT_TRY(single(n, VT_WIRE_LOGITS, x[i], 0, z[i], e));
    return VT_OK;
}

/* The askings of one image, as doubles. */
static vt_status opinions(engine *n, const float *x, double *z64, vt_err *e) {
    if (n->opinions == 1) return single(n, VT_WIRE_LOGITS64, x, 0, z64, e);
    for (int k = 0; k < n->opinions; k++) {
        VT_TRY(single(n, VT_WIRE_LOGITS, x, k == n->opinions - 1 ? n->beside : 0, n->scratch, e));
        for (size_t i = 0; i < scores(n); i++) z64[(size_t)k * scores(n) + i] = (double)n->scratch[i];
    }
    return VT_OK;
}

static vt_status forward64(void *self, double *const *z, const float *const *x, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++)
        if (x[i]) VT_TRY(opinions(n, x[i], z[i], e));
    return VT_OK;
}

/* ---- opening and closing ---- */

static line *from_pool(vt_remote *r) {
    pthread_mutex_lock(&r->lock);
    line *l = r->pool;
    if (l) r->pool = l->next, l->next = NULL;
    pthread_mutex_unlock(&r->lock);
    return l;
}

static void to_pool(vt_remote *r, line *l) {
    pthread_mutex_lock(&r->lock);
    l->next = r->pool, r->pool = l;
    pthread_mutex_unlock(&r->lock);
}

static void release(engine *n) {
    free(n->neighbours), free(n->scratch), free(n->in), free(n->out);
    free(n);
}

static void close_engine(void *self) {
    engine *n = self;
    line *l = n->l;
    if (l && l->broken.code) {
        line_free(l, 0);
    } else if (l) {
        to_pool(n->r, l);
    }
    release(n);
}

/* It is the same model that greets again. */
static vt_status take_line(engine *n, vt_err *e) {
    vt_hello again;
    char name[120];
    if (n->capacity > n->r->hello.batch)
        return vt_fail(e, VT_E_RANGE, "the model %s takes batches of at most %d images, asked for are %d (--batch)",
                       named(n->r, name), n->r->hello.batch, n->capacity);
    if (!(n->l = from_pool(n->r))) {
        VT_TRY(line_open(n->r, &n->l, &again, e));
        if (memcmp(&again, &n->r->hello, sizeof again))
            return over(n->r, n->l, e, "greeted otherwise than the first time: it is not the same model");
    }
    int most = n->capacity > n->beside + 1 ? n->capacity : n->beside + 1;
    return share(n->r, n->l, most, e);
}

static bool take_memory(engine *n) {
    const vt_hello *h = &n->r->hello;
    size_t pixels = vt_hello_pixels(h), rows = (size_t)n->capacity;
    vt_rng r = {.purpose = vt_rng_purpose("remote neighbours")};
    n->neighbours = vt_alloc(((size_t)n->beside * pixels + 1) * sizeof *n->neighbours);
    n->scratch = vt_alloc(2 * scores(n) * sizeof *n->scratch); /* of double too */
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
    n->opinions = h->random ? VT_REMOTE_VOTES : h->logits64 ? 1 : 2;
    n->beside = n->opinions != 2 ? 0 : h->batch > VT_REMOTE_NEIGHBOURS ? VT_REMOTE_NEIGHBOURS : h->batch - 1;
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
                       .opinions = n->opinions,
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
    line *l = r->hello.usual ? from_pool(r) : NULL;
    *images = usual_of(&r->hello);
    if (!l) return VT_OK;
    vt_status s = greet(r, l, true, &again, e);
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
    vt_status s = line_open(r, &r->pool, &r->hello, e);
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
        line *next = r->pool->next;
        line_free(r->pool, 5);
        r->pool = next;
    }
    pthread_mutex_destroy(&r->lock);
    free(r->where);
    free(r);
}
