/* SPDX-License-Identifier: MIT */
#include "models/wrap/conversation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/progress.h"
#include "core/text.h"
#include "core/version.h"

/* ---- what went wrong, in words ---- */

const char *vt_remote_named(const vt_remote *r, char buf[120]) {
    if (strlen(r->where) < 100)
        snprintf(buf, 120, "%s", r->where);
    else
        snprintf(buf, 120, "%.96s...", r->where);
    vt_text_plain(buf, strlen(buf), "", NULL);
    return buf;
}

vt_status vt_conversation_over(vt_remote *r, vt_conversation *l, vt_err *e, const char *format, ...) {
    char name[120], text[1200];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    vt_fail(&l->broken, VT_E_MODEL, "the model %s %s", vt_remote_named(r, name), text);
    return vt_fail(e, VT_E_MODEL, "%s", l->broken.text);
}

static vt_status report_disconnect(vt_remote *r, vt_conversation *l, vt_err *e, const char *when) {
    vt_child_wait(&l->child, 2);
    if (!l->child.ended) return vt_conversation_over(r, l, e, "closed the connection %s", when);
    if (l->child.how > 128)
        return vt_conversation_over(r, l, e, "ended %s: killed by signal %d", when, l->child.how - 128);
    if (l->child.how == 127)
        return vt_conversation_over(r, l, e, "ended %s with exit status 127: there is no such command", when);
    return vt_conversation_over(r, l, e, "ended %s with exit status %d", when, l->child.how);
}

static vt_status not_done(vt_remote *r, vt_conversation *l, vt_io how, vt_err *e, const char *when) {
    if (how == VT_IO_CLOSED) return report_disconnect(r, l, e, when);
    if (how == VT_IO_INTERRUPTED) {
        vt_fail(&l->broken, VT_E_MODEL, "the model's answer was not waited for");
        return vt_fail(e, VT_INTERRUPTED, "interrupted");
    }
    if (how == VT_IO_LATE)
        return vt_conversation_over(r, l, e, "did not answer %s within %g s (%s)", when, r->timeout,
                                    vt_argument("oracle-timeout"));
    return vt_conversation_over(r, l, e, "cannot be reached %s: the connection failed", when);
}

/* What came in place of a head: the first bytes of it, where they are text. */
static vt_status no_protocol(vt_remote *r, vt_conversation *l, const void *bytes, size_t n, vt_err *e,
                             const char *when) {
    char text[60];
    const unsigned char *b = bytes;
    size_t k = 0;
    for (; k < n && k < 40 && b[k] >= ' ' && b[k] < 127; k++) text[k] = (char)b[k];
    text[k] = 0;
    if (k >= 4)
        return vt_conversation_over(r, l, e,
                                    "wrote '%s...' %s in place of an answer: does it print to its standard output, "
                                    "which is the "
                                    "connection?",
                                    text, when);
    return vt_conversation_over(r, l, e, "wrote %s what is no answer of the protocol", when);
}

/* ---- messages ---- */

static vt_status write_bytes(vt_remote *r, vt_conversation *l, const void *bytes, size_t n, int pass, double until,
                             vt_err *e, const char *when) {
    vt_io how = n ? vt_child_write(l->child.fd, bytes, n, until, r->interrupt, pass) : VT_IO_DONE;
    return how == VT_IO_DONE ? VT_OK : not_done(r, l, how, e, when);
}

static vt_status read_bytes(vt_remote *r, vt_conversation *l, void *bytes, size_t n, double until, vt_err *e,
                            const char *when) {
    vt_io how = n ? vt_child_read(l->child.fd, bytes, n, until, r->interrupt, NULL, NULL) : VT_IO_DONE;
    return how == VT_IO_DONE ? VT_OK : not_done(r, l, how, e, when);
}

/* The other side's own words. */
static vt_status report_model_error(vt_remote *r, vt_conversation *l, const vt_wire_head *a, double until, vt_err *e,
                                    const char *when) {
    char text[601];
    size_t n = a->bytes < sizeof text - 1 ? (size_t)a->bytes : sizeof text - 1;
    VT_TRY(read_bytes(r, l, text, n, until, e, when));
    text[n] = 0;
    vt_text_plain(text, n, "", NULL);
    return vt_conversation_over(r, l, e, "failed %s: %s", when, text);
}

/* A head, and no more waiting than for its first four bytes where these are not its. */
static vt_status read_message_head(vt_remote *r, vt_conversation *l, vt_wire_head *a, double until, vt_err *e,
                                   const char *when) {
    size_t first = sizeof a->magic, got;
    unsigned char *bytes = (unsigned char *)a;
    VT_TRY(read_bytes(r, l, a, first, until, e, when));
    if (a->magic == VT_WIRE_MAGIC) return read_bytes(r, l, bytes + first, sizeof *a - first, until, e, when);
    vt_child_read(l->child.fd, bytes + first, sizeof *a - first, vt_now() + 0.2, r->interrupt, NULL, &got);
    return no_protocol(r, l, a, first + got, e, when);
}

/* The head of the answer to q, with exactly so many bytes behind it (most > 0: up to so many). */
static vt_status read_answer_head(vt_remote *r, vt_conversation *l, const vt_wire_head *q, vt_wire_head *a,
                                  size_t bytes, size_t most, double until, vt_err *e, const char *when) {
    VT_TRY(read_message_head(r, l, a, until, e, when));
    if (a->op == VT_WIRE_ERROR) return report_model_error(r, l, a, until, e, when);
    if (a->op != q->op || a->id != q->id)
        return vt_conversation_over(r, l, e,
                                    "answered another question %s than was asked (%u of kind %u, asked was %u of kind "
                                    "%u)",
                                    when, a->id, a->op, q->id, q->op);
    if (most ? a->bytes > most : a->bytes != bytes)
        return vt_conversation_over(r, l, e,
                                    "answered %s with %llu bytes, must be %s%zu: another shape than it greeted with",
                                    when, (unsigned long long)a->bytes, most ? "at most " : "", most ? most : bytes);
    return VT_OK;
}

static vt_wire_head make_question_head(vt_conversation *l, vt_wire_op op, int rows, unsigned flags, size_t bytes) {
    return (vt_wire_head){.magic = VT_WIRE_MAGIC,
                          .op = op,
                          .id = ++l->id,
                          .rows = (uint32_t)rows,
                          .flags = flags,
                          .bytes = bytes};
}

/* ---- a conversation begins ---- */

vt_status vt_conversation_greet(vt_remote *r, vt_conversation *l, bool measure, vt_hello *hello, vt_err *e) {
    const char *when = "when it was greeted";
    char text[200];
    double until = vt_now() + r->timeout;
    vt_wire_head a;
    vt_err why = {0};
    int n = snprintf(text, sizeof text, "{\"protocol\": %d, \"vitrine\": \"%s\"%s}", VT_WIRE_PROTOCOL, VT_VERSION,
                     measure ? ", \"measure\": true" : "");
    vt_wire_head q = make_question_head(l, VT_WIRE_HELLO, 0, 0, (size_t)n);
    VT_TRY(write_bytes(r, l, &q, sizeof q, -1, until, e, when));
    VT_TRY(write_bytes(r, l, text, (size_t)n, -1, until, e, when));
    VT_TRY(read_answer_head(r, l, &q, &a, 0, VT_WIRE_TEXT, until, e, when));
    char *reply = malloc((size_t)a.bytes + 1);
    if (!reply) return vt_fail(e, VT_E_MEMORY, "no memory for the model's greeting");
    vt_status s = read_bytes(r, l, reply, (size_t)a.bytes, until, e, when);
    if (s == VT_OK) {
        s = vt_hello_read(hello, reply, (size_t)a.bytes, &why);
        if (s == VT_E_MEMORY) vt_fail(e, s, "%s", why.text);
        if (s == VT_E_FORMAT) s = vt_conversation_over(r, l, e, "cannot be asked: %s", why.text);
    }
    free(reply);
    return s;
}

void vt_conversation_close(vt_conversation *l, double patience) {
    vt_child_end(&l->child, patience);
    vt_shared_close(l->shared, l->bytes);
    free(l);
}

vt_status vt_conversation_open(vt_remote *r, vt_conversation **out, vt_hello *hello, vt_err *e) {
    vt_conversation *l = calloc(1, sizeof *l);
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
    if (s == VT_OK) s = vt_conversation_greet(r, l, false, hello, e);
    if (s == VT_OK)
        *out = l;
    else
        vt_conversation_close(l, 0);
    return s;
}

vt_status vt_conversation_share(vt_remote *r, vt_conversation *l, int rows, vt_err *e) {
    const char *when = "when memory was shared";
    int fd;
    vt_err why = {0};
    vt_wire_head a;
    if (!l->may_share || l->rows >= rows) return VT_OK;
    vt_shared_close(l->shared, l->bytes);
    l->shared = NULL, l->rows = 0, l->bytes = vt_wire_layout(&r->hello, rows).bytes;
    VT_TRY(vt_shared_make(&fd, &l->shared, l->bytes, e));
    double until = vt_now() + r->timeout;
    vt_wire_head q = make_question_head(l, VT_WIRE_SHARE, rows, 0, 0);
    vt_status s = write_bytes(r, l, &q, sizeof q, fd, until, &why, when);
    close(fd);
    if (s == VT_OK) s = read_answer_head(r, l, &q, &a, 0, 0, until, &why, when);
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

static char *shared_buffer(const vt_conversation *l, const vt_remote *r, const vt_asked *b, bool in) {
    vt_wire_parts p = vt_wire_layout(&r->hello, l->rows);
    size_t at = in ? (b->op == VT_WIRE_VJP ? p.dz : p.x)
                   : (b->op == VT_WIRE_VJP        ? p.dx
                      : b->op == VT_WIRE_LOGITS64 ? p.z64
                                                  : p.z);
    return (char *)l->shared + at;
}

vt_status vt_conversation_ask(vt_remote *r, vt_conversation *l, const vt_asked *b, vt_err *e) {
    const char *when = b->op == VT_WIRE_VJP ? "a vjp" : b->op == VT_WIRE_LOGITS64 ? "logits in double" : "logits";
    char asked_for[40];
    unsigned char mask[VT_WIRE_BATCH];
    int asked = 0;
    vt_wire_head a;
    if (l->broken.code) return vt_fail(e, l->broken.code, "%s", l->broken.text);
    snprintf(asked_for, sizeof asked_for, "when it was asked for %s", when);
    for (int i = 0; i < b->rows; i++) asked += mask[i] = b->in[i] != NULL;
    vt_wire_head q = make_question_head(l, b->op, b->rows, b->keep ? VT_WIRE_KEEP : 0, 0);
    q.bytes = vt_wire_question_bytes(&r->hello, &q, asked, l->shared != NULL);
    double began = vt_now(), until = began + r->timeout;
    for (int i = 0; l->shared && i < b->rows; i++) { /* nobody asks for zeros: what a neighbour left cannot matter */
        char *to = shared_buffer(l, r, b, true) + (size_t)i * b->in_bytes;
        if (b->in[i])
            memcpy(to, b->in[i], b->in_bytes);
        else
            memset(to, 0, b->in_bytes);
    }
    VT_TRY(write_bytes(r, l, &q, sizeof q, -1, until, e, asked_for));
    VT_TRY(write_bytes(r, l, mask, (size_t)b->rows, -1, until, e, asked_for));
    for (int i = 0; !l->shared && i < b->rows; i++)
        if (b->in[i]) VT_TRY(write_bytes(r, l, b->in[i], b->in_bytes, -1, until, e, asked_for));
    VT_TRY(read_answer_head(r, l, &q, &a, vt_wire_answer_bytes(&r->hello, &q, asked, l->shared != NULL), 0, until, e,
                            asked_for));
    for (int i = 0; i < b->rows; i++) {
        if (!b->in[i]) continue;
        if (l->shared)
            memcpy(b->out[i], shared_buffer(l, r, b, false) + (size_t)i * b->out_bytes, b->out_bytes);
        else
            VT_TRY(read_bytes(r, l, b->out[i], b->out_bytes, until, e, asked_for));
    }
    pthread_mutex_lock(&r->lock);
    r->waited += vt_now() - began;
    pthread_mutex_unlock(&r->lock);
    return VT_OK;
}
