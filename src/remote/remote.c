/* SPDX-License-Identifier: MIT */
#include "remote/remote.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "parallel/child.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/version.h"

/* A conversation: a child or a socket, its greeting, one question at a time. What goes wrong ends it for later ones. */
typedef struct conversation {
    struct conversation *next; /* in the pool */
    vt_remote *r;
    vt_child child;
    uint32_t id;
    int rows;       /* of shared memory; 0: bytes go over the socket */
    void *shared;   /* NULL: plain */
    size_t bytes;   /* of it */
    bool may_share; /* the other side has not refused */
    vt_err broken;  /* why it is over; code VT_OK: it is not */
    double until;   /* of the question that is being asked: when its answer is late, and what it is, in words */
    const char *when;
} conversation;

struct vt_remote {
    char *where;
    int given; /* a socket that was there already; -1: it is taken, or there never was one */
    bool one;  /* there will be no other */
    double timeout, waited;
    const volatile sig_atomic_t *interrupt;
    vt_handshake handshake;
    pthread_mutex_t lock; /* pool, waited */
    conversation *pool;
};

/* ---- what went wrong, in words ---- */

static vt_status fail_memory(vt_err *e) { return vt_fail(e, VT_E_MEMORY, "no memory for a model in another process"); }

/* Writes how a sentence calls the model, such as "python3 model.py": the beginning of a long command. Returns buf. */
static const char *name_in_sentence(const vt_remote *r, char buf[120]) {
    snprintf(buf, 120, strlen(r->where) < 100 ? "%s" : "%.96s...", r->where);
    vt_text_plain(buf, strlen(buf), "", NULL);
    return buf;
}

/* Ends the conversation with the sentence "the model NAME ...". */
__attribute__((format(printf, 3, 4))) static vt_status end_conversation(conversation *l, vt_err *e, const char *format,
                                                                        ...) {
    char name[120], text[1200];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    vt_fail(&l->broken, VT_E_MODEL, "the model %s %s", name_in_sentence(l->r, name), text);
    return vt_fail(e, VT_E_MODEL, "%s", l->broken.text);
}

/* Ends the conversation because the other side closed, with the exit status or signal of a child that has ended. */
static vt_status report_disconnect(conversation *l, vt_err *e) {
    vt_child_wait(&l->child, 2);
    if (!l->child.ended) return end_conversation(l, e, "closed the connection %s", l->when);
    if (l->child.how > 128) return end_conversation(l, e, "ended %s: killed by signal %d", l->when, l->child.how - 128);
    return end_conversation(l, e, "ended %s with exit status %d%s", l->when, l->child.how,
                            l->child.how == 127 ? ": there is no such command" : "");
}

/* Turns the result of a transfer into a status; every failure but an interruption ends the conversation. */
static vt_status take_result(conversation *l, vt_io how, vt_err *e) {
    if (how == VT_IO_DONE) return VT_OK;
    if (how == VT_IO_CLOSED) return report_disconnect(l, e);
    if (how == VT_IO_INTERRUPTED) {
        vt_fail(&l->broken, VT_E_MODEL, "the model's answer was not waited for");
        return vt_fail(e, VT_INTERRUPTED, "interrupted");
    }
    if (how == VT_IO_LATE)
        return end_conversation(l, e, "did not answer %s within %g s (%s)", l->when, l->r->timeout,
                                vt_argument("oracle-timeout"));
    return end_conversation(l, e, "cannot be reached %s: the connection failed", l->when);
}

/* Ends the conversation because the answer begins with no head: quotes its first bytes, if they are text. */
static vt_status no_protocol(conversation *l, const void *bytes, size_t n, vt_err *e) {
    char text[60];
    const unsigned char *b = bytes;
    size_t k = 0;
    for (; k < n && k < 40 && b[k] >= ' ' && b[k] < 127; k++) text[k] = (char)b[k];
    text[k] = 0;
    if (k < 4) return end_conversation(l, e, "wrote %s what is no answer of the protocol", l->when);
    return end_conversation(l, e,
                            "wrote '%s...' %s in place of an answer: does it print to its standard output, which is "
                            "the connection?",
                            text, l->when);
}

/* ---- messages ---- */

/* Writes n bytes to the model. pass: a descriptor to go along, -1: none. */
static vt_status write_bytes(conversation *l, const void *bytes, size_t n, int pass, vt_err *e) {
    return take_result(l, n ? vt_child_write(l->child.fd, bytes, n, l->until, l->r->interrupt, pass) : VT_IO_DONE, e);
}

/* Reads n bytes of the answer; fails, and ends the conversation, if they do not come in time. */
static vt_status read_bytes(conversation *l, void *bytes, size_t n, vt_err *e) {
    vt_io how = n ? vt_child_read(l->child.fd, bytes, n, l->until, l->r->interrupt, NULL, NULL) : VT_IO_DONE;
    return take_result(l, how, e);
}

/* Ends the conversation with the sentence that the model sent. */
static vt_status report_model_error(conversation *l, const vt_wire_head *a, vt_err *e) {
    char text[601];
    size_t n = a->bytes < sizeof text - 1 ? (size_t)a->bytes : sizeof text - 1;
    VT_TRY(read_bytes(l, text, n, e));
    text[n] = 0;
    vt_text_plain(text, n, "", NULL);
    return end_conversation(l, e, "failed %s: %s", l->when, text);
}

/* Reads a message's head; where its first four bytes are no head's, fails without waiting for more. */
static vt_status read_message_head(conversation *l, vt_wire_head *a, vt_err *e) {
    size_t first = sizeof a->magic, got;
    unsigned char *bytes = (unsigned char *)a;
    VT_TRY(read_bytes(l, a, first, e));
    if (a->magic == VT_WIRE_MAGIC) return read_bytes(l, bytes + first, sizeof *a - first, e);
    vt_child_read(l->child.fd, bytes + first, sizeof *a - first, vt_now() + 0.2, l->r->interrupt, NULL, &got);
    return no_protocol(l, a, first + got, e);
}

/* Reads the head of the answer to q, which exactly `bytes` bytes must follow (most > 0: at most `most`). */
static vt_status read_answer_head(conversation *l, const vt_wire_head *q, vt_wire_head *a, size_t bytes, size_t most,
                                  vt_err *e) {
    VT_TRY(read_message_head(l, a, e));
    if (a->op == VT_WIRE_ERROR) return report_model_error(l, a, e);
    if (a->op != q->op || a->id != q->id)
        return end_conversation(l, e,
                                "answered another question %s than was asked (%u of kind %u, asked was %u of kind %u)",
                                l->when, a->id, a->op, q->id, q->op);
    if (most ? a->bytes > most : a->bytes != bytes)
        return end_conversation(l, e, "answered %s with %llu bytes, must be %s%zu: another shape than it greeted with",
                                l->when, (unsigned long long)a->bytes, most ? "at most " : "", most ? most : bytes);
    return VT_OK;
}

/* Returns the head of a new question, and starts the clock of its answer. */
static vt_wire_head begin_question(conversation *l, const char *when, vt_wire_op op, int rows, unsigned flags) {
    l->until = vt_now() + l->r->timeout, l->when = when;
    return (vt_wire_head){.magic = VT_WIRE_MAGIC, .op = op, .id = ++l->id, .rows = (uint32_t)rows, .flags = flags};
}

/* ---- a conversation begins ---- */

/* Exchanges greetings, the model's into *handshake. measure: it is asked to measure which batch suits it. */
static vt_status greet(conversation *l, bool measure, vt_handshake *handshake, vt_err *e) {
    char text[200];
    vt_wire_head a, q = begin_question(l, "when it was greeted", VT_WIRE_HANDSHAKE, 0, 0);
    vt_err why = {0};
    q.bytes = (uint64_t)snprintf(text, sizeof text, "{\"protocol\": %d, \"vitrine\": \"%s\"%s}", VT_WIRE_PROTOCOL,
                                 VT_VERSION, measure ? ", \"measure\": true" : "");
    VT_TRY(write_bytes(l, &q, sizeof q, -1, e));
    VT_TRY(write_bytes(l, text, (size_t)q.bytes, -1, e));
    VT_TRY(read_answer_head(l, &q, &a, 0, VT_WIRE_TEXT, e));
    char *reply = malloc((size_t)a.bytes + 1);
    if (!reply) return vt_fail(e, VT_E_MEMORY, "no memory for the model's greeting");
    vt_status s = read_bytes(l, reply, (size_t)a.bytes, e);
    if (s == VT_OK) {
        s = vt_handshake_read(handshake, reply, (size_t)a.bytes, &why);
        if (s == VT_E_MEMORY) vt_fail(e, s, "%s", why.text);
        if (s == VT_E_FORMAT) s = end_conversation(l, e, "cannot be asked: %s", why.text);
    }
    free(reply);
    return s;
}

/* Closes a conversation and frees it. patience: seconds that a child has to end by itself. */
static void close_conversation(conversation *l, double patience) {
    vt_child_end(&l->child, patience);
    vt_shared_close(l->shared, l->bytes);
    free(l);
}

/* Starts or connects, and greets; *out is NULL after a failure. VT_E_MODEL: the one socket that was given is taken. */
static vt_status open_conversation(vt_remote *r, conversation **out, vt_handshake *handshake, vt_err *e) {
    conversation *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return fail_memory(e);
    l->r = r, l->child = (vt_child){.fd = r->given, .lifeline = -1};
    l->may_share = !r->one && (!vt_child_is_address(r->where) || !strncmp(r->where, "unix:", 5));
    vt_status s = VT_OK;
    if (r->one && r->given < 0)
        s = vt_fail(e, VT_E_MODEL, "%s carries one conversation at a time", r->where);
    else if (!r->one)
        s = vt_child_is_address(r->where) ? vt_child_connect(&l->child, r->where, e)
                                          : vt_child_start(&l->child, r->where, e);
    r->given = -1;
    if (s == VT_OK) s = greet(l, false, handshake, e);
    *out = s == VT_OK ? l : NULL;
    if (s != VT_OK) close_conversation(l, 0);
    return s;
}

/* Shares memory for `rows` rows. A model that refuses, as over a socket to another machine, gets plain bytes: VT_OK. */
static vt_status share_memory(conversation *l, int rows, vt_err *e) {
    int fd;
    vt_err why = {0};
    vt_wire_head a;
    if (!l->may_share || l->rows >= rows) return VT_OK;
    vt_shared_close(l->shared, l->bytes);
    l->shared = NULL, l->rows = 0, l->bytes = vt_wire_layout(&l->r->handshake, rows).bytes;
    VT_TRY(vt_shared_make(&fd, &l->shared, l->bytes, e));
    vt_wire_head q = begin_question(l, "when memory was shared", VT_WIRE_SHARE, rows, 0);
    vt_status s = write_bytes(l, &q, sizeof q, fd, &why);
    close(fd);
    if (s == VT_OK) s = read_answer_head(l, &q, &a, 0, 0, &why);
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

/* Returns row i of a question or of its answer in shared memory. */
static char *shared_row(const conversation *l, vt_wire_op op, bool answer, int i) {
    const vt_wire_parts p = vt_wire_layout(&l->r->handshake, l->rows);
    return (char *)l->shared + vt_wire_place(&p, op, answer) +
           (size_t)i * vt_wire_row_bytes(&l->r->handshake, op, answer);
}

/* Asks one question and waits for its answer. in [rows]: inputs (NULL: not asked for), out: where their answers go. */
static vt_status ask(conversation *l, vt_wire_op op, int rows, bool keep, const void *const *in, void *const *out,
                     vt_err *e) {
    static const char *const whens[] = {[VT_WIRE_LOGITS] = "when it was asked for logits",
                                        [VT_WIRE_VJP] = "when it was asked for a vjp",
                                        [VT_WIRE_LOGITS64] = "when it was asked for logits in double"};
    const vt_handshake *h = &l->r->handshake;
    const bool shared = l->shared != NULL;
    const size_t in_bytes = vt_wire_row_bytes(h, op, false), out_bytes = vt_wire_row_bytes(h, op, true);
    const double began = vt_now();
    unsigned char mask[VT_WIRE_BATCH];
    int asked = 0;
    if (l->broken.code) return vt_fail(e, l->broken.code, "%s", l->broken.text);
    for (int i = 0; i < rows; i++) asked += mask[i] = in[i] != NULL;
    vt_wire_head a, q = begin_question(l, whens[op], op, rows, keep ? VT_WIRE_KEEP : 0);
    q.bytes = vt_wire_question_bytes(h, &q, asked, shared);
    for (int i = 0; shared && i < rows; i++) /* rows not wanted hold zeros: what an earlier one left cannot matter */
        if (in[i])
            memcpy(shared_row(l, op, false, i), in[i], in_bytes);
        else
            memset(shared_row(l, op, false, i), 0, in_bytes);
    VT_TRY(write_bytes(l, &q, sizeof q, -1, e));
    VT_TRY(write_bytes(l, mask, (size_t)rows, -1, e));
    for (int i = 0; !shared && i < rows; i++)
        if (in[i]) VT_TRY(write_bytes(l, in[i], in_bytes, -1, e));
    VT_TRY(read_answer_head(l, &q, &a, vt_wire_answer_bytes(h, &q, asked, shared), 0, e));
    for (int i = 0; i < rows; i++) {
        if (in[i] && shared)
            memcpy(out[i], shared_row(l, op, true, i), out_bytes);
        else if (in[i])
            VT_TRY(read_bytes(l, out[i], out_bytes, e));
        if (in[i] && !vt_wire_expand_label(h, op, out[i]))
            return end_conversation(l, e, "answered %s with a label above %d, its last class", l->when, h->classes - 1);
    }
    pthread_mutex_lock(&l->r->lock);
    l->r->waited += vt_now() - began;
    pthread_mutex_unlock(&l->r->lock);
    return VT_OK;
}

const vt_handshake *vt_remote_handshake(const vt_remote *r) { return &r->handshake; }
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
    conversation *l;
    int capacity, votes, beside; /* beside: neighbours of one that is asked again */
    float *neighbours;           /* [beside, pixels]: the same for everyone */
    float *scratch;              /* [classes] */
    const void **in;             /* [rows] */
    void **out;
} engine;

/* Returns the rows of a batch: for an independent model it ends with the last row that is wanted. */
static int rows_of(const engine *n, const void *const *in) {
    int rows = n->capacity;
    while (n->r->handshake.independent && rows > 1 && !in[rows - 1]) rows--;
    return rows;
}

static vt_status forward(void *self, float *const *z, const float *const *x, bool keep, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++) n->in[i] = x[i], n->out[i] = z[i];
    const int rows = keep ? n->capacity : rows_of(n, n->in); /* any row of a kept batch may be asked for a vjp */
    return ask(n->l, VT_WIRE_LOGITS, rows, keep, n->in, n->out, e);
}

static vt_status vjp(void *self, vt_vjp *rows, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++) n->in[i] = rows[i].dx ? rows[i].dz : NULL, n->out[i] = rows[i].dx;
    return ask(n->l, VT_WIRE_VJP, n->capacity, false, n->in, n->out, e);
}

/* Computes one image as the last of a batch, after `beside` neighbours. */
static vt_status ask_single_image(engine *n, vt_wire_op op, const float *x, int beside, void *out, vt_err *e) {
    size_t pixels = vt_handshake_pixels(&n->r->handshake);
    const void *in[VT_REMOTE_NEIGHBOURS + 1];
    void *to[VT_REMOTE_NEIGHBOURS + 1];
    for (int i = 0; i < beside; i++) in[i] = n->neighbours + (size_t)i * pixels, to[i] = n->scratch;
    in[beside] = x, to[beside] = out;
    return ask(n->l, op, beside + 1, false, in, to, e);
}

static vt_status alone(void *self, float *const *z, const float *const *x, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++)
        if (x[i]) VT_TRY(ask_single_image(n, VT_WIRE_LOGITS, x[i], 0, z[i], e));
    return VT_OK;
}

/* Asks the repeated queries of one image, as doubles. */
static vt_status ask_image_repeatedly(engine *n, const float *x, double *z64, vt_err *e) {
    if (n->votes == 1) return ask_single_image(n, VT_WIRE_LOGITS64, x, 0, z64, e);
    for (int k = 0; k < n->votes; k++) {
        VT_TRY(ask_single_image(n, VT_WIRE_LOGITS, x, k == n->votes - 1 ? n->beside : 0, n->scratch, e));
        for (int i = 0; i < n->r->handshake.classes; i++) *z64++ = (double)n->scratch[i];
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

/* Takes a conversation that a closed engine left, which is then the caller's; NULL: there is none. */
static conversation *take_from_pool(vt_remote *r) {
    pthread_mutex_lock(&r->lock);
    conversation *l = r->pool;
    if (l) r->pool = l->next, l->next = NULL;
    pthread_mutex_unlock(&r->lock);
    return l;
}

static void to_pool(vt_remote *r, conversation *l) {
    pthread_mutex_lock(&r->lock);
    l->next = r->pool, r->pool = l;
    pthread_mutex_unlock(&r->lock);
}

/* Frees an engine; its conversation goes back to the pool, or is ended if it broke. */
static void close_engine(void *self) {
    engine *n = self;
    conversation *l = n->l;
    if (l && l->broken.code)
        close_conversation(l, 0);
    else if (l)
        to_pool(n->r, l);
    free(n->neighbours), free(n->in), free(n->out), free(n);
}

/* Sets n->l, from the pool or opened. VT_E_RANGE: above the model's batch; VT_E_MODEL: another model greets. */
static vt_status take_line(engine *n, vt_err *e) {
    vt_handshake again;
    char name[120];
    if (n->capacity > n->r->handshake.batch)
        return vt_fail(e, VT_E_RANGE, "the model %s takes batches of at most %d images, asked for are %d (@batch)",
                       name_in_sentence(n->r, name), n->r->handshake.batch, n->capacity);
    if (!(n->l = take_from_pool(n->r))) {
        VT_TRY(open_conversation(n->r, &n->l, &again, e));
        if (memcmp(&again, &n->r->handshake, sizeof again))
            return end_conversation(n->l, e, "greeted otherwise than the first time: it is not the same model");
    }
    int most = n->capacity > n->beside + 1 ? n->capacity : n->beside + 1;
    return share_memory(n->l, most, e);
}

/* Allocates the engine's rows and draws its neighbour images; false: no memory. */
static bool take_memory(engine *n) {
    const size_t beside = (size_t)n->beside * vt_handshake_pixels(&n->r->handshake), rows = (size_t)n->capacity;
    vt_rng r = {.purpose = vt_rng_purpose("remote neighbours")};
    n->neighbours = vt_alloc((beside + (size_t)n->r->handshake.classes) * sizeof *n->neighbours);
    n->in = calloc(rows, sizeof *n->in), n->out = calloc(rows, sizeof *n->out);
    if (!n->neighbours || !n->in || !n->out) return false;
    n->scratch = n->neighbours + beside;
    for (size_t i = 0; i < beside; i++) n->neighbours[i] = (float)(vt_rng_bits(&r, i) >> 24) / 255;
    return true;
}

vt_status vt_remote_engine(vt_engine *out, vt_remote *r, int capacity, vt_err *e) {
    const vt_handshake *h = &r->handshake;
    engine *n = calloc(1, sizeof *n);
    *out = (vt_engine){0};
    if (!n) return fail_memory(e);
    n->r = r, n->capacity = capacity;
    n->votes = h->random ? VT_REMOTE_VOTES : h->logits64 ? 1 : 2;
    n->beside = n->votes != 2 ? 0 : h->batch > VT_REMOTE_NEIGHBOURS ? VT_REMOTE_NEIGHBOURS : h->batch - 1;
    vt_status s = take_memory(n) ? take_line(n, e) : fail_memory(e);
    if (s != VT_OK) {
        if (n->l && !n->l->broken.code) vt_fail(&n->l->broken, s, "it was not opened");
        close_engine(n);
        return s;
    }
    *out = (vt_engine){.classes = h->classes,
                       .capacity = capacity,
                       .pixels = vt_handshake_pixels(h),
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

/* Returns how many images to ask about at a time: what the model reports, or 64, and at most its batch. */
static int usual_of(const vt_handshake *h) {
    int usual = h->usual ? h->usual : 64;
    return usual < h->batch ? usual : h->batch;
}

int vt_remote_usual(const vt_remote *r) { return usual_of(&r->handshake); }

vt_status vt_remote_measure(vt_remote *r, int *images, vt_err *e) {
    vt_handshake again;
    conversation *l = r->handshake.usual ? take_from_pool(r) : NULL;
    *images = usual_of(&r->handshake);
    if (!l) return VT_OK;
    vt_status s = greet(l, true, &again, e);
    if (s == VT_OK) *images = usual_of(&again);
    to_pool(r, l);
    return s;
}

size_t vt_remote_bytes(const vt_remote *r, int rows) { return vt_wire_layout(&r->handshake, rows).bytes; }

/* Opens a remote at an address or command, or over socket `given` (-1: none), and exchanges the first greeting. */
static vt_status open_remote(vt_remote **out, const char *where, int given, double timeout, vt_err *e) {
    vt_remote *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r || !(r->where = strdup(where))) {
        free(r);
        if (given >= 0) close(given);
        return fail_memory(e);
    }
    r->given = given, r->one = given >= 0;
    pthread_mutex_init(&r->lock, NULL);
    r->timeout = timeout;
    vt_status s = open_conversation(r, &r->pool, &r->handshake, e);
    *out = s == VT_OK ? r : NULL;
    if (s != VT_OK) vt_remote_close(r);
    return s;
}

vt_status vt_remote_open(vt_remote **out, const char *where, double timeout, vt_err *e) {
    return open_remote(out, where, -1, timeout, e);
}

vt_status vt_remote_over(vt_remote **out, int fd, double timeout, vt_err *e) {
    return open_remote(out, "behind the socket", fd, timeout, e);
}

void vt_remote_close(vt_remote *r) {
    if (!r) return;
    if (r->given >= 0) close(r->given);
    while (r->pool) {
        conversation *next = r->pool->next;
        close_conversation(r->pool, 5);
        r->pool = next;
    }
    pthread_mutex_destroy(&r->lock);
    free(r->where);
    free(r);
}
