/* SPDX-License-Identifier: MIT */
#include "parallel/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rank's failure, for the others. */
typedef struct word {
    char host[64], text[sizeof((vt_err *)0)->text];
} word;

enum { LEAVES = 1 << 8 }; /* beside a status: this rank has ended */

/* Returns 0 for VT_OK, 1 for an interruption, 2 for a failure. */
static int severity_of_status(int32_t s) { return s == VT_OK ? 0 : s == VT_INTERRUPTED ? 1 : 2; }

/* Collective: returns the rank whose status counts; *worst: that status; *odd: a rank that has ended while another has
 * not, or -1. own: this rank's status, with LEAVES if it ends. Overwrites t->room. */
static int find_worst_rank(const vt_team *t, int32_t own, vt_status *worst, int *odd) {
    int32_t *all = t->room;
    int which = 0, leaves = 0;
    *odd = -1;
    t->ops->gather(t->ctx, &own, sizeof own, all);
    for (int r = 0; r < t->size; r++) {
        if (all[r] & LEAVES) leaves++, *odd = r;
        all[r] &= ~LEAVES;
        if (severity_of_status(all[r]) > severity_of_status(all[which])) which = r;
    }
    if (leaves == t->size) *odd = -1;
    *worst = (vt_status)all[which];
    return which;
}

/* Collective: sets *e on all other ranks to status s and rank `from`'s sentence, after "rank N on HOST: " unless it is
 * rank 0. */
static void broadcast_failure(const vt_team *t, int from, vt_status s, vt_err *e) {
    word w = {.host = "?"};
    vt_err none = {0};
    if (!e) e = &none;
    if (t->rank == from) {
        if (gethostname(w.host, sizeof w.host - 1)) snprintf(w.host, sizeof w.host, "?");
        memcpy(w.text, e->text, sizeof w.text);
    }
    t->ops->broadcast(t->ctx, from, &w, sizeof w);
    if (t->rank == from) return;
    w.host[sizeof w.host - 1] = w.text[sizeof w.text - 1] = 0;
    if (from)
        vt_fail(e, s, "rank %d on %s: %.1900s", from, w.host, *w.text ? w.text : vt_status_name(s));
    else
        vt_fail(e, s, "%.1990s", *w.text ? w.text : vt_status_name(s));
}

/* Collective: returns the worst status of all ranks, with its sentence in *e, and sets t->over on a failure; leaves:
 * this rank makes its last agreement. Without t, or if over, returns mine. */
static vt_status agree_on_status(vt_team *t, vt_status mine, bool leaves, vt_err *e) {
    if (!t || t->over) return mine;
    vt_status worst;
    int odd, which = find_worst_rank(t, (int32_t)mine | (leaves ? LEAVES : 0), &worst, &odd);
    t->over = odd >= 0 || severity_of_status((int32_t)worst) == 2;
    if (odd >= 0 && severity_of_status((int32_t)worst) < 2)
        return vt_fail(e, VT_E_USAGE, "rank %d has ended while others work on: all ranks need the same words", odd);
    if (worst != VT_OK) broadcast_failure(t, which, worst, e);
    return worst;
}

vt_status vt_team_agree(vt_team *t, vt_status mine, vt_err *e) { return agree_on_status(t, mine, false, e); }
vt_status vt_team_leave(vt_team *t, vt_status mine, vt_err *e) { return agree_on_status(t, mine, true, e); }

/* Collective; agrees: allocates `bytes` into *out on every rank; if one of them has no memory, all fail with *out NULL.
 */
static vt_status allocate_on_all(vt_team *t, size_t bytes, char **out, vt_err *e) {
    *out = malloc(bytes);
    vt_status s = *out ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu bytes of other ranks", bytes);
    s = vt_team_agree(t, s, e);
    if (s != VT_OK) free(*out), *out = NULL;
    return s;
}

vt_status vt_team_collect(vt_team *t, const void *mine, size_t bytes, void **all, size_t *sizes, vt_err *e) {
    size_t total = 0, at = 0;
    char *room;
    *all = NULL;
    VT_TRY(vt_team_agree(t, VT_OK, e));
    if (t) t->ops->gather(t->ctx, &bytes, sizeof bytes, sizes);
    if (!t) sizes[0] = bytes;
    for (int r = 0; r < vt_team_size(t); r++) total += sizes[r];
    VT_TRY(allocate_on_all(t, total + 1, &room, e));
    for (int r = 0; r < vt_team_size(t); at += sizes[r++]) {
        if (r == vt_team_rank(t) && bytes) memcpy(room + at, mine, bytes);
        if (t) t->ops->broadcast(t->ctx, r, room + at, sizes[r]);
    }
    *all = room;
    return VT_OK;
}

vt_status vt_team_text(vt_team *t, const char *text, char **out, vt_err *e) {
    size_t n = text ? strlen(text) : 0;
    *out = NULL;
    VT_TRY(vt_team_agree(t, VT_OK, e));
    if (t) t->ops->broadcast(t->ctx, 0, &n, sizeof n);
    VT_TRY(allocate_on_all(t, n + 1, out, e));
    if (!vt_team_rank(t) && n) memcpy(*out, text, n);
    if (t) t->ops->broadcast(t->ctx, 0, *out, n);
    (*out)[n] = 0;
    return VT_OK;
}

vt_status vt_team_same(vt_team *t, const char *mine, vt_differs_fn differs, const void *ctx, vt_err *e) {
    char *first = NULL;
    vt_status s = mine ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory to compare ranks");
    s = vt_team_agree(t, s, e);
    if (s == VT_OK) s = vt_team_text(t, mine, &first, e);
    if (s == VT_OK && strcmp(first, mine)) s = differs(ctx, first, mine, e);
    free(first);
    return vt_team_agree(t, s, e);
}

vt_status vt_team_counters(vt_team *t, size_t n, vt_err *e) {
    if (!t) return VT_OK;
    VT_TRY(vt_team_agree(t, VT_OK, e));
    bool made = t->ops->counters(t->ctx, n);
    return vt_team_agree(t, made ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu shared counters", n), e);
}

int64_t vt_team_add(vt_team *t, size_t i, int64_t by) { return t->ops->add(t->ctx, i, by); }
