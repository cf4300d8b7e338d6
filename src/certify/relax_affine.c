/* SPDX-License-Identifier: MIT */
/* Affine operators, and products of two values that both follow the image: the operator's own forward gives the
 * interval, its own backward the adjoint. */
#define VT_DOUBLE /* operators of their double copy */
#include <math.h>
#include <string.h>
#include "certify/relax.h"
#include "graph/conv.h"
#include "graph/move.h"
#include "graph/op.h"
#include "graph/reduce.h"
#include "graph/windows.h"

double vt_relax_terms(const vt_graph *g, const vt_node *n) {
    const vt_op_f64 *op = vt_op_at_f64(n->op);
    if (op->flops) return op->flops(g, n) / (2 * (double)g->values[n->out].n) + 1;
    if (!strcmp(op->name, "(move)") || !strcmp(op->name, "Concat") || !strcmp(op->name, "Neg")) return 0;
    if (!strcmp(op->name, "AveragePool")) return (double)((const vt_windows *)n->with)->taps;
    if (!strncmp(op->name, "Reduce", 6)) return (double)((const vt_row_size *)n->with)->cols;
    return 2;
}

double vt_relax_tile_terms(const vt_node *n) {
    const vt_conv *p = n->with;
    if (strcmp(vt_op_at_f64(n->op)->name, "Conv") != 0 || p->w.taps != 9) return 0;
    for (int s = 0; s < 3; s++)
        if (p->w.stride[s] != 1 || p->w.dilation[s] != 1) return 0;
    /* 2 additions of pixels, 5 roundings of weights, 4 additions of products, bias */
    return (double)(p->w.channels / p->groups) + 12;
}

/* The operator without signs, of sizes: |op|(x). */
static void size_of(const vt_relax *r, const vt_node *n, const double *const *x, double *y) {
    const char *name = vt_op_at_f64(n->op)->name;
    vt_node plain = *n;
    vt_move move;
    int op = n->op;
    if (!strcmp(name, "Sub")) op = vt_op_find_f64("Add");
    if (!strcmp(name, "(move)")) move = *(const vt_move *)n->with, move.fill = 0, plain.with = &move;
    vt_relax_forward(r, &r->rows[0], op, &plain, x, y);
    for (size_t i = 0; i < r->g->values[n->out].n; i++) y[i] = fabs(y[i]);
}

enum part { MID, RAD, TOP };

/* An array of each input: that part of its range; constants that are factors: their sizes for RAD. */
static void inputs_of(const vt_relax *r, const vt_node *n, enum part part, const double **x) {
    const char *name = vt_op_at_f64(n->op)->name;
    const bool factor =
        !strcmp(name, "MatMul") || !strcmp(name, "Conv") || !strcmp(name, "Mul") || !strcmp(name, "Div");
    for (int k = 0; k < n->n_in; k++) {
        const vt_ranges *s = n->in[k] < 0 ? NULL : &r->of[n->in[k]];
        const bool constant = s && vt_value_is_constant(&r->g->values[n->in[k]]);
        x[k] = !s ? NULL : part == MID ? s->mid : part == TOP || (factor && constant && k < 2) ? s->top : s->rad;
    }
}

/* Sets err of the node's result to what float32 and double may lose in sums of products of these sizes. */
static void lose(vt_relax *r, const vt_node *n, const double *size) {
    const double terms = vt_relax_terms(r->g, n), one = vt_relax_loss(r->g, n, terms, 1, 0),
                 none = vt_relax_loss(r->g, n, terms, 0, r->largest);
    for (size_t i = 0; i < r->g->values[n->out].n; i++)
        r->of[n->out].err[i] = size[i] <= VT_LARGEST32 ? one * size[i] + none : INFINITY;
}

/* Raises err of the node's result to what Winograd's tiles may lose; x: sizes of its inputs. */
static void lose_in_tiles(vt_relax *r, const vt_node *n, const double **x) {
    const double terms = vt_relax_tile_terms(n);
    const size_t in = r->g->values[n->in[0]].n, out = r->g->values[n->out].n;
    double most = 0;
    if (terms == 0) return;
    for (size_t i = 0; i < in; i++) most = fmax(most, x[0][i]);
    for (size_t i = 0; i < in; i++) r->spare[1][i] = most;
    x[0] = r->spare[1], size_of(r, n, x, r->spare[0]), most = 0;
    for (size_t i = 0; i < out; i++) most = fmax(most, r->spare[0][i]);
    const double size = VT_TILE_SIZE * most,
                 lost = size <= VT_LARGEST32 ? vt_relax_loss(r->g, n, terms, size, r->largest) : INFINITY;
    for (size_t i = 0; i < out; i++) r->of[n->out].err[i] = fmax(r->of[n->out].err[i], lost);
}

/* Returns the doubles kept of an affine node: its value at 0. */
static size_t planes_affine(const vt_graph *g, const vt_node *n) { return g->values[n->out].n; }

/* Its value at 0. */
static void open_affine(vt_relax *r, int node) {
    const vt_node *n = &r->g->nodes[node];
    const double **x = r->rows[0].x;
    for (int k = 0; k < n->n_in; k++)
        x[k] = n->in[k] < 0 ? NULL : vt_value_is_constant(&r->g->values[n->in[k]]) ? r->of[n->in[k]].mid : r->zero;
    vt_relax_forward(r, &r->rows[0], n->op, n, x, r->planes[node]);
}

/* Bounds the result by the operator of the middles, plus or minus that of the radii, without signs. */
static vt_status bound_affine(vt_relax *r, int node, vt_err *e) {
    (void)e;
    const vt_node *n = &r->g->nodes[node];
    const double **x = r->rows[0].x;
    inputs_of(r, n, TOP, x), size_of(r, n, x, r->spare[0]);
    lose(r, n, r->spare[0]), lose_in_tiles(r, n, x);
    inputs_of(r, n, MID, x), vt_relax_forward(r, &r->rows[0], n->op, n, x, r->spare[0]);
    inputs_of(r, n, RAD, x), size_of(r, n, x, r->spare[1]);
    vt_relax_around(r, n->out, r->spare[0], r->spare[1]);
    return VT_OK;
}

/* Replaces the result by the inputs through the operator's adjoint, and by its value at 0. */
static void back_affine(const vt_relax *r, int node, vt_row *row) {
    const vt_node *n = &r->g->nodes[node];
    const double *dy = row->a[n->out], *at0 = r->planes[node];
    for (size_t i = 0; i < r->g->values[n->out].n; i++)
        if (at0[i] != 0) vt_row_add(row, dy[i] * at0[i]);
    for (int k = 0; k < n->n_in; k++) {
        row->x[k] = n->in[k] < 0 ? NULL : r->of[n->in[k]].mid;
        row->dx[k] = vt_row_at(r, row, n->in[k]);
    }
    vt_relax_backward(r, n->op, n, row->x, dy, row->dx, row);
}

const vt_relaxation vt_relax_affine = {.planes = planes_affine,
                                       .open = open_affine,
                                       .bound = bound_affine,
                                       .back = back_affine};

/* ---- a b: combinations of McCormick's planes. With middles m and radii r, for any t in [-1, 1]:
 *   a b >= (m_b + t r_b) a + (m_a + t r_a) b - m_a m_b - r_a r_b - t (m_a r_b + r_a m_b)
 *   a b <= (m_b + t r_b) a + (m_a - t r_a) b - m_a m_b + r_a r_b - t (m_a r_b - r_a m_b)
 * and their sums in a product of matrices, with one t for each number of the result: the node's knobs, 0 at first. ----
 */

enum { MM, RR, MR, RM, P_PARTS };

static size_t planes_product(const vt_graph *g, const vt_node *n) { return P_PARTS * g->values[n->out].n; }
static size_t knobs_product(const vt_graph *g, const vt_node *n) { return g->values[n->out].n; }

static void limits_product(const vt_graph *g, const vt_node *n, double *least, double *most) {
    (void)g, (void)n;
    *least = -1, *most = 1;
}

/* Keeps the parts of McCormick's planes that are constants. */
static void narrow_product(vt_relax *r, int node, size_t i) {
    (void)i;
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *a = &r->of[n->in[0]], *b = &r->of[n->in[1]];
    const size_t ny = r->g->values[n->out].n;
    double *p = r->planes[node];
    const vt_row *row = &r->rows[0];
    vt_relax_forward(r, row, n->op, n, (const double *[]){a->mid, b->mid}, p + MM * ny);
    size_of(r, n, (const double *[]){a->rad, b->rad}, p + RR * ny);
    vt_relax_forward(r, row, n->op, n, (const double *[]){a->mid, b->rad}, p + MR * ny);
    vt_relax_forward(r, row, n->op, n, (const double *[]){a->rad, b->mid}, p + RM * ny);
}

/* Bounds a b by middles and radii. */
static vt_status bound_product(vt_relax *r, int node, vt_err *e) {
    (void)e;
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *a = &r->of[n->in[0]], *b = &r->of[n->in[1]];
    const size_t na = r->g->values[n->in[0]].n, nb = r->g->values[n->in[1]].n, ny = r->g->values[n->out].n;
    double *p = r->planes[node], *sum = r->spare[0];
    size_of(r, n, (const double *[]){a->top, b->top}, r->spare[0]);
    lose(r, n, r->spare[0]);
    narrow_product(r, node, 0);
    for (size_t i = 0; i < na; i++) r->spare[1][i] = fabs(a->mid[i]);
    size_of(r, n, (const double *[]){r->spare[1], b->rad}, r->spare[2]);
    memcpy(sum, r->spare[2], ny * sizeof *sum);
    for (size_t i = 0; i < nb; i++) r->spare[1][i] = fabs(b->mid[i]);
    size_of(r, n, (const double *[]){a->rad, r->spare[1]}, r->spare[2]);
    for (size_t i = 0; i < ny; i++) sum[i] += r->spare[2][i] + p[RR * ny + i];
    vt_relax_around(r, n->out, p + MM * ny, sum);
    return VT_OK;
}

/* Replaces a b by the plane that each knob t chooses: below where its coefficient is positive, above where negative. */
static void back_product(const vt_relax *r, int node, vt_row *row) {
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *a = &r->of[n->in[0]], *b = &r->of[n->in[1]];
    const size_t ny = r->g->values[n->out].n;
    const double *dy = row->a[n->out], *p = r->planes[node], *t = row->knob[node];
    double *da = vt_row_at(r, row, n->in[0]), *db = vt_row_at(r, row, n->in[1]), *turned = row->spare;
    bool any = false;
    for (size_t i = 0; i < ny; i++) {
        const double d = dy[i], size = fabs(d);
        vt_row_add(row, -d * p[MM * ny + i]), vt_row_add(row, -size * p[RR * ny + i]);
        if (d == 0 || t[i] == 0) continue;
        vt_row_add(row, -d * t[i] * p[MR * ny + i]), vt_row_add(row, -size * t[i] * p[RM * ny + i]);
        any = true;
    }
    vt_relax_backward(r, n->op, n, (const double *[]){a->mid, b->mid}, dy, (double *[]){da, db}, row);
    if (!any) return;
    for (size_t i = 0; i < ny; i++) turned[i] = dy[i] * t[i];
    vt_relax_backward(r, n->op, n, (const double *[]){a->mid, b->rad}, turned, (double *[]){da, NULL}, row);
    for (size_t i = 0; i < ny; i++) turned[i] = fabs(dy[i]) * t[i];
    vt_relax_backward(r, n->op, n, (const double *[]){a->rad, b->mid}, turned, (double *[]){NULL, db}, row);
}

/* Sets y along those planes, and rise to how the bound changes with each t. */
static void fore_product(const vt_relax *r, int node, vt_row *row, double *rise) {
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *a = &r->of[n->in[0]], *b = &r->of[n->in[1]];
    const size_t ny = r->g->values[n->out].n;
    const double *dy = row->a[n->out], *p = r->planes[node], *t = row->knob[node], *ya = row->y[n->in[0]],
                 *yb = row->y[n->in[1]];
    double *y = row->y[n->out], *part = row->spare;
    vt_relax_forward(r, row, n->op, n, (const double *[]){ya, b->mid}, y);
    vt_relax_forward(r, row, n->op, n, (const double *[]){a->mid, yb}, part);
    for (size_t i = 0; i < ny; i++) y[i] += part[i] - p[MM * ny + i] - (dy[i] < 0 ? -1 : 1) * p[RR * ny + i];
    vt_relax_forward(r, row, n->op, n, (const double *[]){ya, b->rad}, part);
    for (size_t i = 0; i < ny; i++) {
        const double d = part[i] - p[MR * ny + i];
        rise[i] = dy[i] * d, y[i] += t[i] * d;
    }
    vt_relax_forward(r, row, n->op, n, (const double *[]){a->rad, yb}, part);
    for (size_t i = 0; i < ny; i++) {
        const double d = part[i] - p[RM * ny + i];
        rise[i] += fabs(dy[i]) * d, y[i] += (dy[i] < 0 ? -t[i] : t[i]) * d;
    }
}

const vt_relaxation vt_relax_product = {.planes = planes_product,
                                        .bound = bound_product,
                                        .back = back_product,
                                        .curved = true,
                                        .fore = fore_product,
                                        .knobs = knobs_product,
                                        .limits = limits_product,
                                        .narrow = narrow_product};

/* ---- a / b: a times lines of 1 / b ---- */

enum { KL, BL, KU, BU, Q_MID, Q_RAD, Q_TOP, Q_ERR, Q_PARTS };

static size_t planes_quotient(const vt_graph *g, const vt_node *n) {
    return Q_PARTS * g->values[n->in[1]].n + 2 * g->values[n->out].n;
}

/* Keeps the products of middles and of radii of a and 1 / b. */
static void narrow_quotient(vt_relax *r, int node, size_t i) {
    (void)i;
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *a = &r->of[n->in[0]];
    const size_t nb = r->g->values[n->in[1]].n;
    double *p = r->planes[node], *mid = p + Q_PARTS * nb, *rad = mid + r->g->values[n->out].n;
    const int mul = vt_op_find_f64("Mul");
    vt_relax_forward(r, &r->rows[0], mul, n, (const double *[]){a->mid, p + Q_MID * nb}, mid);
    vt_relax_forward(r, &r->rows[0], mul, n, (const double *[]){a->rad, p + Q_RAD * nb}, rad);
}

/* Bounds a / b as a times 1 / b, whose lines it keeps; VT_E_NUMERIC: b may be 0. */
static vt_status bound_quotient(vt_relax *r, int node, vt_err *e) {
    const vt_node *n = &r->g->nodes[node];
    const vt_ranges *a = &r->of[n->in[0]], *b = &r->of[n->in[1]];
    const size_t na = r->g->values[n->in[0]].n, nb = r->g->values[n->in[1]].n, ny = r->g->values[n->out].n;
    double *p = r->planes[node], *sum = r->spare[0];
    const int mul = vt_op_find_f64("Mul");
    for (size_t i = 0; i < nb; i++) {
        if (b->lo[i] <= 0 && b->hi[i] >= 0) return vt_fail(e, VT_E_NUMERIC, "%s: divides by 0", r->g->path);
        const vt_lines s = vt_scalar_lines(&vt_scalar_reciprocal, NULL, b->lo[i], b->hi[i], 0);
        p[KL * nb + i] = s.kl, p[BL * nb + i] = s.bl, p[KU * nb + i] = s.ku, p[BU * nb + i] = s.bu;
        p[Q_MID * nb + i] = s.lo / 2 + s.hi / 2,
                       p[Q_RAD * nb + i] = (s.hi - s.lo) / 2 * (1 + 1e-15) + 1e-15 * fabs(s.hi);
        p[Q_TOP * nb + i] = fmax(fabs(s.lo), fabs(s.hi));
        p[Q_ERR * nb + i] = 1e-14 * p[Q_TOP * nb + i]; /* of the lines' products */
    }
    vt_relax_forward(r, &r->rows[0], mul, n, (const double *[]){a->top, p + Q_TOP * nb}, r->spare[0]);
    lose(r, n, r->spare[0]);
    narrow_quotient(r, node, 0);
    for (size_t i = 0; i < na; i++) r->spare[1][i] = fabs(a->mid[i]) + a->rad[i];
    vt_relax_forward(r, &r->rows[0], mul, n, (const double *[]){r->spare[1], p + Q_RAD * nb}, sum);
    for (size_t i = 0; i < nb; i++) r->spare[1][i] = fabs(p[Q_MID * nb + i]);
    vt_relax_forward(r, &r->rows[0], mul, n, (const double *[]){a->rad, r->spare[1]}, r->spare[2]);
    for (size_t i = 0; i < ny; i++) sum[i] += r->spare[2][i];
    vt_relax_around(r, n->out, p + Q_PARTS * nb, sum);
    return VT_OK;
}

/* Replaces a / b by planes of a and 1 / b, and 1 / b by a line of b. */
static void back_quotient(const vt_relax *r, int node, vt_row *row) {
    const vt_node *n = &r->g->nodes[node];
    const size_t ny = r->g->values[n->out].n, nb = r->g->values[n->in[1]].n;
    const double *dy = row->a[n->out], *p = r->planes[node], *mid = p + Q_PARTS * nb, *rad = mid + ny;
    const bool fixed = vt_value_is_constant(&r->g->values[n->in[0]]); /* then a / b is a times 1 / b, and no plane */
    double *dq = row->spare;
    for (size_t i = 0; !fixed && i < ny; i++) vt_row_add(row, -dy[i] * mid[i]), vt_row_add(row, -fabs(dy[i]) * rad[i]);
    memset(dq, 0, nb * sizeof *dq);
    row->x[0] = r->of[n->in[0]].mid, row->x[1] = p + Q_MID * nb;
    row->dx[0] = vt_row_at(r, row, n->in[0]), row->dx[1] = dq;
    vt_relax_backward(r, vt_op_find_f64("Mul"), n, row->x, dy, row->dx, row);
    double *db = vt_row_at(r, row, n->in[1]);
    for (size_t i = 0; i < nb; i++) {
        const int k = dq[i] < 0 ? KU : KL;
        db[i] += dq[i] * p[(size_t)k * nb + i];
        vt_row_add(row, dq[i] * p[(size_t)(k + 1) * nb + i] - fabs(dq[i]) * p[Q_ERR * nb + i]);
    }
}

const vt_relaxation vt_relax_quotient = {.planes = planes_quotient,
                                         .bound = bound_quotient,
                                         .back = back_quotient,
                                         .curved = true,
                                         .narrow = narrow_quotient};
