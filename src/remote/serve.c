/* SPDX-License-Identifier: MIT */
/* The other side of a conversation (remote.h): answers its questions out of an engine of this process. */
#include "remote/remote.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "parallel/child.h"
#include "base/json.h"
#include "base/mem.h"

typedef struct talk {
    const vt_serve *s;
    int rows, kept;   /* of one question at most; of the batch that was kept, 0: none */
    size_t pixels;    /* of an image */
    bool overwritten; /* the engine has computed something else since */
    unsigned char mask[VT_WIRE_BATCH], kept_mask[VT_WIRE_BATCH];
    float *plain, *x, *kept_x, *spare; /* [rows, ...] an answer's, a question's; of the kept batch; [classes] */
    char *shared;                      /* NULL: plain */
    vt_wire_parts parts;
    int shared_rows;
    const float **in; /* [rows] */
    float **out;
    double **out64;
    vt_vjp *vjp;
} talk;

/* ---- bytes ---- */

/* Reads n bytes; fd: a descriptor that comes along, or NULL. *closed, with VT_OK: the other side has closed before the
 * first of them; VT_E_IO: later. */
static vt_status read_bytes(talk *t, void *to, size_t n, int *fd, bool *closed, vt_err *e) {
    size_t got;
    vt_io how = vt_child_read(t->s->in, to, n, INFINITY, t->s->interrupt, fd, &got);
    if (closed) *closed = how == VT_IO_CLOSED && !got;
    if (how == VT_IO_INTERRUPTED) return VT_INTERRUPTED;
    if (how == VT_IO_DONE || (closed && *closed)) return VT_OK;
    return vt_fail(e, VT_E_IO, "the conversation ended in the middle of a question");
}

/* Writes n bytes of an answer; VT_INTERRUPTED, or VT_E_IO if the other side is gone. */
static vt_status write_bytes(talk *t, const void *from, size_t n, vt_err *e) {
    vt_io how = vt_child_write(t->s->out, from, n, INFINITY, t->s->interrupt, -1);
    if (how == VT_IO_INTERRUPTED) return VT_INTERRUPTED;
    return how == VT_IO_DONE ? VT_OK : vt_fail(e, VT_E_IO, "the conversation ended in the middle of an answer");
}

/* Sends the head of the answer to q, which `bytes` bytes will follow. */
static vt_status send_head(talk *t, const vt_wire_head *q, vt_wire_op op, unsigned flags, size_t bytes, vt_err *e) {
    vt_wire_head a = {.magic = VT_WIRE_MAGIC, .op = op, .id = q->id, .rows = q->rows, .flags = flags, .bytes = bytes};
    return write_bytes(t, &a, sizeof a, e);
}

/* Sends an answer's head and its n bytes. */
static vt_status send_reply(talk *t, const vt_wire_head *q, vt_wire_op op, unsigned flags, const void *bytes, size_t n,
                            vt_err *e) {
    VT_TRY(send_head(t, q, op, flags, n, e));
    return n ? write_bytes(t, bytes, n, e) : VT_OK;
}

/* Sends the sentence to the other side, and fails with it. */
static vt_status send_error(talk *t, const vt_wire_head *q, vt_status s, const char *text, vt_err *e) {
    char said[600];
    snprintf(said, sizeof said, "%s", text);
    send_reply(t, q, VT_WIRE_ERROR, 0, said, strlen(said), NULL);
    return vt_fail(e, s, "%s", said);
}

/* ---- greeting, sharing ---- */

/* Reads the other side's greeting and answers with the handshake as JSON. VT_E_FORMAT: it is longer than 4096 bytes. */
static vt_status answer_greeting(talk *t, const vt_wire_head *q, vt_err *e) {
    char theirs[4096];
    if (q->bytes > sizeof theirs) return send_error(t, q, VT_E_FORMAT, "a greeting of more than 4096 bytes", e);
    VT_TRY(read_bytes(t, theirs, (size_t)q->bytes, NULL, NULL, e));
    json_t *o = vt_handshake_json(t->s->handshake);
    json_object_set_new(o, "protocol", json_integer(VT_WIRE_PROTOCOL));
    char *text = vt_json_text(o, JSON_COMPACT);
    json_decref(o);
    vt_status s = text ? send_reply(t, q, VT_WIRE_HANDSHAKE, 0, text, strlen(text), e)
                       : send_error(t, q, VT_E_MEMORY, "no memory for a greeting", e);
    free(text);
    return s;
}

/* Maps the memory whose descriptor *fd came along in place of what was shared before, and answers: flags 1 if it is
 * mapped. VT_E_FORMAT: no such number of rows. */
static vt_status map_shared_memory(talk *t, const vt_wire_head *q, int *fd, vt_err *e) {
    if (q->bytes || !q->rows || q->rows > VT_WIRE_BATCH) return send_error(t, q, VT_E_FORMAT, "no memory to share", e);
    vt_wire_parts p = vt_wire_layout(t->s->handshake, (int)q->rows);
    vt_shared_close(t->shared, t->parts.bytes);
    t->shared = *fd >= 0 ? vt_shared_map(*fd, p.bytes) : NULL;
    t->parts = p, t->shared_rows = (int)q->rows;
    return send_reply(t, q, VT_WIRE_SHARE, t->shared != NULL, NULL, 0, e);
}

/* ---- questions ---- */

/* Returns row i of a question or of its answer. */
static void *row_at(const talk *t, const vt_wire_head *q, bool answer, int i) {
    char *plain = (char *)(answer ? t->plain : t->x);
    char *first = t->shared ? t->shared + vt_wire_place(&t->parts, q->op, answer) : plain;
    return first + (size_t)i * vt_wire_row_bytes(t->s->handshake, q->op, answer);
}

/* Takes the rows of a question into t->mask and t->in: in shared memory where they are, else read. *asked: how many.
 * VT_E_FORMAT, which the other side is told: no good question. */
static vt_status read_question_rows(talk *t, const vt_wire_head *q, int *asked, vt_err *e) {
    const char *why = vt_wire_refuses(t->s->handshake, q, t->shared != NULL);
    if (!why && t->shared && q->rows > (uint32_t)t->shared_rows) why = "more rows than are shared";
    if (why) return send_error(t, q, VT_E_FORMAT, why, e);
    VT_TRY(read_bytes(t, t->mask, q->rows, NULL, NULL, e));
    *asked = 0;
    for (uint32_t i = 0; i < q->rows; i++) *asked += t->mask[i] != 0;
    if (q->bytes != vt_wire_question_bytes(t->s->handshake, q, *asked, t->shared != NULL))
        return send_error(t, q, VT_E_FORMAT, "a message of another length than its rows have", e);
    for (uint32_t i = 0; i < q->rows; i++) {
        void *at = row_at(t, q, false, (int)i);
        t->in[i] = t->mask[i] ? at : NULL;
        if (t->mask[i] && !t->shared)
            VT_TRY(read_bytes(t, at, vt_wire_row_bytes(t->s->handshake, q->op, false), NULL, NULL, e));
    }
    for (int i = (int)q->rows; i < t->rows; i++) t->in[i] = NULL;
    return VT_OK;
}

/* Sends what was computed for the `asked` rows; through shared memory the head alone. */
static vt_status send_answer(talk *t, const vt_wire_head *q, int asked, vt_err *e) {
    const vt_handshake *h = t->s->handshake;
    size_t all = vt_wire_answer_bytes(h, q, asked, t->shared != NULL);
    VT_TRY(send_head(t, q, q->op, 0, all, e));
    for (int i = 0; all && i < (int)q->rows; i++)
        if (t->mask[i]) VT_TRY(write_bytes(t, row_at(t, q, true, i), vt_wire_row_bytes(h, q->op, true), e));
    return VT_OK;
}

/* Computes the logits of the rows in t->in into the answer's, and keeps the batch if the question wants that; else the
 * kept one is overwritten in the engine. */
static vt_status compute_logits(talk *t, const vt_wire_head *q, vt_err *e) {
    bool keep = q->flags & VT_WIRE_KEEP;
    for (int i = 0; i < t->rows; i++) t->out[i] = t->in[i] ? row_at(t, q, true, i) : NULL;
    if (keep) {
        t->kept = (int)q->rows;
        memcpy(t->kept_mask, t->mask, q->rows);
        for (int i = 0; i < t->kept; i++)
            if (t->in[i]) memcpy(t->kept_x + (size_t)i * t->pixels, t->in[i], t->pixels * sizeof(float));
    }
    t->overwritten = !keep;
    return vt_engine_forward(t->s->engine, t->out, t->in, keep, e);
}

/* Computes the kept batch once more, where something else was computed since. */
static vt_status restore_kept_forward(talk *t, vt_err *e) {
    if (!t->overwritten) return VT_OK;
    for (int i = 0; i < t->rows; i++) {
        bool was = i < t->kept && t->kept_mask[i];
        t->in[i] = was ? t->kept_x + (size_t)i * t->pixels : NULL;
        t->out[i] = was ? t->spare : NULL; /* not read */
    }
    t->overwritten = false;
    return vt_engine_forward(t->s->engine, t->out, t->in, true, e);
}

/* Computes the cotangent products of a question, into its answer's rows; VT_E_FORMAT: of rows that were not kept. */
static vt_status vjp(talk *t, const vt_wire_head *q, vt_err *e) {
    bool good = (int)q->rows == t->kept;
    for (int i = 0; good && i < t->kept; i++) good = !t->mask[i] || t->kept_mask[i];
    if (!good) return vt_fail(e, VT_E_FORMAT, "a vjp of what was not kept");
    for (int i = 0; i < t->rows; i++)
        t->vjp[i] = t->in[i] ? (vt_vjp){.dx = row_at(t, q, true, i), .dz = t->in[i]} : (vt_vjp){0};
    VT_TRY(restore_kept_forward(t, e));
    return vt_engine_vjp(t->s->engine, t->vjp, e);
}

/* Computes the logits of the rows in t->in in double, into the answer's rows. */
static vt_status compute_logits64(talk *t, const vt_wire_head *q, vt_err *e) {
    for (int i = 0; i < t->rows; i++) t->out64[i] = t->in[i] ? row_at(t, q, true, i) : NULL;
    return vt_engine_forward64(t->s->engine, t->out64, t->in, e);
}

/* Reads, computes and answers one question; a failure is sent to the other side too. */
static vt_status one_question(talk *t, const vt_wire_head *q, vt_err *e) {
    int asked = 0;
    vt_err why = {0};
    VT_TRY(read_question_rows(t, q, &asked, e));
    vt_status s = q->op == VT_WIRE_LOGITS ? compute_logits(t, q, &why)
                  : q->op == VT_WIRE_VJP  ? vjp(t, q, &why)
                                          : compute_logits64(t, q, &why);
    return s == VT_OK ? send_answer(t, q, asked, e) : send_error(t, q, s, why.text, e);
}

/* Answers messages until the other side closes (VT_OK) or one fails. */
static vt_status serve_until_closed(talk *t, vt_err *e) {
    for (;;) {
        vt_wire_head q;
        int fd = -1;
        bool closed;
        vt_status s = read_bytes(t, &q, sizeof q, &fd, &closed, e);
        if (s == VT_OK && !closed) {
            if (q.magic != VT_WIRE_MAGIC)
                s = vt_fail(e, VT_E_FORMAT, "what was asked is no message of the protocol");
            else
                s = q.op == VT_WIRE_HANDSHAKE ? answer_greeting(t, &q, e)
                    : q.op == VT_WIRE_SHARE   ? map_shared_memory(t, &q, &fd, e)
                                              : one_question(t, &q, e);
        }
        if (fd >= 0) close(fd);
        if (s != VT_OK || closed) return s;
    }
}

/* Allocates the buffers of one conversation; false: no memory. */
static bool take_memory(talk *t) {
    const size_t rows = (size_t)t->rows, classes = (size_t)t->s->handshake->classes;
    const size_t block = rows * (classes * 2 > t->pixels ? classes * 2 : t->pixels); /* of doubles too */
    t->plain = vt_alloc((2 * block + rows * t->pixels + classes) * sizeof(float));
    t->in = calloc(rows, sizeof *t->in), t->out = calloc(rows, sizeof *t->out);
    t->out64 = calloc(rows, sizeof *t->out64), t->vjp = calloc(rows, sizeof *t->vjp);
    if (!t->plain || !t->in || !t->out || !t->out64 || !t->vjp) return false;
    t->x = t->plain + block, t->kept_x = t->x + block, t->spare = t->kept_x + rows * t->pixels;
    return true;
}

vt_status vt_serve_run(const vt_serve *s, vt_err *e) {
    talk t = {.s = s, .rows = s->engine->capacity, .pixels = s->engine->pixels};
    vt_status st = take_memory(&t) ? serve_until_closed(&t, e) : vt_fail(e, VT_E_MEMORY, "no memory to serve a model");
    vt_shared_close(t.shared, t.parts.bytes);
    free(t.plain), free(t.in), free(t.out), free(t.out64), free(t.vjp);
    return st;
}
