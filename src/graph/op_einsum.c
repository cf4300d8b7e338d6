/* SPDX-License-Identifier: MIT */
/* Einstein's sums: operands are multiplied one after another, each pair by a stack of matrix products. */
#include <ctype.h>
#include <string.h>
#include "graph/reduce.h"

enum { MOST_OPERANDS = 16, FIRST_OF_ELLIPSIS = 256 }; /* labels: letters, then the sides that "..." stands for */

typedef struct operand {
    int v, n, label[2 * VT_RANK];
} operand;

/* Returns the first side of o that has a label; -1: none. */
static int place_of(const operand *o, int label) {
    for (int k = 0; k < o->n; k++)
        if (o->label[k] == label) return k;
    return -1;
}

static int64_t side_of(const vt_import *im, const operand *o, int k) { return vt_import_value(im, o->v)->dims.d[k]; }

/* Reads the labels of one term into o, and moves *text to its end; "..." stands for *dots sides, the last of which has
 * the last such label. rank >= 0: o must have so many, and *dots is set to what letters leave. VT_E_FORMAT. */
static vt_status read_term(vt_import *im, const char **text, int rank, operand *o, int *dots, vt_err *e) {
    int letters = 0;
    const char *t = *text;
    for (const char *p = t; *p && *p != ',' && *p != '-'; p++) letters += isalpha((unsigned char)*p) != 0;
    if (rank >= 0) *dots = rank - letters;
    o->n = 0;
    for (; *t && *t != ',' && *t != '-'; t++) {
        if (*t == ' ') continue;
        const bool ellipsis = !strncmp(t, "...", 3);
        const int more = ellipsis ? *dots : 1;
        if ((!ellipsis && !isalpha((unsigned char)*t)) || more < 0 || o->n + more > VT_RANK)
            return vt_import_fail(im, e, "has an equation that is not read");
        for (int k = 0; k < more; k++)
            o->label[o->n++] = ellipsis ? FIRST_OF_ELLIPSIS + VT_RANK - more + k : (unsigned char)*t;
        if (ellipsis) t += 2;
    }
    *text = t;
    return rank >= 0 && o->n != rank ? vt_import_fail(im, e, "has %d labels for %d sides", o->n, rank) : VT_OK;
}

/* Sets *y to o's value with its sides in the order of these labels [n]; one that is twice in o is a diagonal, one of o
 * that is not among them is taken at its first place. VT_E_FORMAT: a label of two lengths. */
static vt_status take_labels(vt_import *im, const operand *o, const int *label, int n, int *y, vt_err *e) {
    const vt_dims d = vt_import_value(im, o->v)->dims;
    vt_dims to = {.rank = n};
    int64_t step[VT_RANK], at = 1, *table[VT_RANK] = {0};
    for (int k = d.rank - 1; k >= 0; k--) step[k] = at, at *= d.d[k];
    for (int k = 0; k < n; k++) {
        int64_t stride = 0;
        to.d[k] = side_of(im, o, place_of(o, label[k]));
        for (int i = 0; i < o->n; i++) {
            if (o->label[i] != label[k]) continue;
            if (d.d[i] != to.d[k]) return vt_import_fail(im, e, "has a label of two lengths");
            stride += step[i];
        }
        if (!(table[k] = vt_import_take(im, (size_t)to.d[k] + 1, sizeof **table))) return vt_import_memory(im, e);
        for (int64_t i = 0; i < to.d[k]; i++) table[k][i] = i * stride;
    }
    return vt_emit_move(im, o->v, &to, table, 0, y, e);
}

/* Replaces o by its sum over labels that none of rest [n_rest] has; of a label that is there twice it takes the
 * diagonal. */
static vt_status sum_alone(vt_import *im, operand *o, const operand *rest, int n_rest, vt_err *e) {
    int kept[VT_RANK] = {0}, all[VT_RANK] = {0}, n = 0, n_kept = 0;
    bool reduced[VT_RANK] = {false};
    for (int i = 0; i < o->n; i++) {
        bool wanted = false, seen = false;
        for (int k = 0; k < i; k++) seen = seen || o->label[k] == o->label[i];
        for (int k = 0; k < n_rest; k++) wanted = wanted || place_of(&rest[k], o->label[i]) >= 0;
        if (seen) continue;
        if (wanted) kept[n_kept++] = o->label[i];
        reduced[n] = !wanted, all[n++] = o->label[i];
    }
    VT_TRY(take_labels(im, o, all, n, &o->v, e));
    if (n_kept < n) VT_TRY(vt_emit_reduce(im, "ReduceSum", o->v, reduced, false, &o->v, e));
    memcpy(o->label, kept, sizeof kept), o->n = n_kept;
    return VT_OK;
}

/* Leaves out of o its sides of length 1 that the other has longer (the other's may then be summed alone). */
static vt_status drop_ones(vt_import *im, operand *o, const operand *other, vt_err *e) {
    vt_dims d = {0};
    int n = 0;
    for (int i = 0; i < o->n; i++) {
        const int at = place_of(other, o->label[i]);
        const int64_t side = side_of(im, o, i);
        if (side == 1 && at >= 0 && side_of(im, other, at) != 1) continue;
        o->label[n++] = o->label[i], d.d[d.rank++] = side;
    }
    o->n = n;
    return vt_emit_reshape(im, o->v, &d, &o->v, e);
}

/* Replaces a by a times b, as matrices [both and wanted by rest, a's own, both and summed] [.., summed, b's own].
 * VT_E_FORMAT: lengths differ, or over VT_RANK sides. */
static vt_status multiply_terms(vt_import *im, operand *a, operand *b, const operand *rest, int n_rest, vt_err *e) {
    enum { STACK, A, B, SUMMED, GROUPS };
    int group[GROUPS][VT_RANK], n[GROUPS] = {0}, x, y, left[2 * VT_RANK], right[2 * VT_RANK];
    int64_t size[GROUPS] = {1, 1, 1, 1};
    const int labels = a->n + b->n;
    VT_TRY(drop_ones(im, a, b, e));
    VT_TRY(drop_ones(im, b, a, e));
    for (int k = 0; k < 2 && a->n + b->n < labels; k++) {
        operand others[MOST_OPERANDS + 1] = {k ? *a : *b};
        memcpy(others + 1, rest, (size_t)n_rest * sizeof *rest);
        VT_TRY(sum_alone(im, k ? b : a, others, n_rest + 1, e));
    }
    for (int i = 0; i < a->n; i++) {
        bool wanted = false;
        for (int k = 0; k < n_rest; k++) wanted = wanted || place_of(&rest[k], a->label[i]) >= 0;
        const int at = place_of(b, a->label[i]), g = at < 0 ? A : wanted ? STACK : SUMMED;
        if (at >= 0 && side_of(im, b, at) != side_of(im, a, i))
            return vt_import_fail(im, e, "has a label of two lengths");
        group[g][n[g]++] = a->label[i], size[g] *= side_of(im, a, i);
    }
    for (int i = 0; i < b->n; i++)
        if (place_of(a, b->label[i]) < 0) group[B][n[B]++] = b->label[i], size[B] *= side_of(im, b, i);
    if (n[STACK] + n[A] + n[B] > VT_RANK) return vt_import_fail(im, e, "has products of more than %d sides", VT_RANK);
    int n_left = 0, n_right = 0;
    static const int order[2][3] = {{STACK, A, SUMMED}, {STACK, SUMMED, B}};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < n[order[0][k]]; i++) left[n_left++] = group[order[0][k]][i];
        for (int i = 0; i < n[order[1][k]]; i++) right[n_right++] = group[order[1][k]][i];
    }
    VT_TRY(take_labels(im, a, left, n_left, &x, e));
    VT_TRY(take_labels(im, b, right, n_right, &y, e));
    vt_dims d = {0};
    operand product = {0};
    for (int g = STACK; g <= B; g++)
        for (int i = 0; i < n[g]; i++) {
            const operand *from = g == B ? b : a;
            d.d[d.rank++] = side_of(im, from, place_of(from, group[g][i]));
            product.label[product.n++] = group[g][i];
        }
    VT_TRY(vt_emit_reshape(im, x, &(vt_dims){3, {size[STACK], size[A], size[SUMMED]}}, &x, e));
    VT_TRY(vt_emit_reshape(im, y, &(vt_dims){3, {size[STACK], size[SUMMED], size[B]}}, &y, e));
    VT_TRY(vt_emit_matmul(im, x, y, false, false, 1, &product.v, e));
    VT_TRY(vt_emit_reshape(im, product.v, &d, &product.v, e));
    *a = product;
    return VT_OK;
}

/* Sets the result's labels for an equation without "->": those that are there once, in the alphabet's order, after
 * "...". */
static void imply_result(const operand *o, int n, operand *result) {
    result->n = 0;
    for (int label = FIRST_OF_ELLIPSIS + VT_RANK - 1, turn = 0; turn < 2; turn++, label = 'z')
        for (int l = turn ? 'A' : FIRST_OF_ELLIPSIS; l <= label; l++) {
            int count = 0;
            for (int k = 0; k < n; k++)
                for (int i = 0; i < o[k].n; i++) count += o[k].label[i] == l;
            if ((turn ? count == 1 : count > 0) && result->n < VT_RANK) result->label[result->n++] = l;
        }
}

/* Reads the equation's terms and values into o [n], and its result's labels into o[n]; VT_E_FORMAT: it is not read. */
static vt_status read_equation(vt_import *im, operand *o, int n, vt_err *e) {
    char text[256];
    int most = 0, dots = 0;
    if (!vt_onnx_text(vt_import_node(im), "equation", text, sizeof text) || strlen(text) + 1 == sizeof text)
        return vt_import_fail(im, e, "has no equation that is read");
    const char *t = text;
    for (int k = 0; k < n; k++) {
        VT_TRY(vt_real_input(im, k, &o[k].v, e));
        VT_TRY(read_term(im, &t, vt_import_value(im, o[k].v)->dims.rank, &o[k], &dots, e));
        if (*t == ',' && k < n - 1) t++;
        if (dots > most) most = dots;
    }
    if (!*t) {
        imply_result(o, n, &o[n]);
        return VT_OK;
    }
    if (strncmp(t, "->", 2)) return vt_import_fail(im, e, "has not one term for each input");
    t += 2;
    VT_TRY(read_term(im, &t, -1, &o[n], &most, e));
    for (int i = 0; i < o[n].n; i++)
        if (place_of(&o[n], o[n].label[i]) < i) return vt_import_fail(im, e, "has a label twice in its result");
    return *t ? vt_import_fail(im, e, "has an equation that is not read") : VT_OK;
}

static vt_status import(vt_import *im, vt_err *e) {
    const int n = vt_import_node(im)->n_in;
    operand o[MOST_OPERANDS + 1] = {0}; /* the result is last */
    int y;
    VT_TRY(vt_input_count(im, 1, MOST_OPERANDS, e));
    VT_TRY(read_equation(im, o, n, e));
    for (int k = 0; k < n; k++) {
        operand others[MOST_OPERANDS + 1];
        int count = 0;
        for (int i = 0; i <= n; i++)
            if (i != k) others[count++] = o[i];
        VT_TRY(sum_alone(im, &o[k], others, count, e));
    }
    for (int k = 1; k < n; k++) VT_TRY(multiply_terms(im, &o[0], &o[k], &o[k + 1], n - k, e));
    for (int k = 0; k < o[n].n; k++)
        if (place_of(&o[0], o[n].label[k]) < 0) return vt_import_fail(im, e, "has a result's label that no input has");
    VT_TRY(take_labels(im, &o[0], o[n].label, o[n].n, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(einsum, "Einsum", import, .summary = NULL, .since = 12)
