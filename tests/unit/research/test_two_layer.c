/* SPDX-License-Identifier: MIT */
/* lab/two_layer: parameter counts of the paper, gradients and Hessian products against central differences, the float
 * copy against the double one, and the paper's Proposition 1 and Theorems 4 and 5. */
#include "linalg/svd.h"
#include "research/lab/two_layer.h"
#include "t.h"

enum { BATCH = 7 };

static const vt_two_layer nets[] = {
    {VT_FRONT_PLAIN, .in = 9, .hidden = 6, .out = 3},
    {VT_FRONT_MASK, .in = 9, .hidden = 6, .out = 3},
    {VT_FRONT_SIMPLEX, .in = 9, .hidden = 6, .out = 3},
    {VT_FRONT_SELF, .in = 12, .hidden = 6, .out = 3, .tokens = 4, .d = 5},
    {VT_FRONT_SELF, .in = 12, .hidden = 6, .out = 11, .tokens = 3, .d = 2}, /* more outputs than hidden */
    {VT_FRONT_KNOWN, .in = 9, .hidden = 6, .out = 3},
};

typedef struct problem {
    vt_two_layer n;
    size_t count;
    double *theta, *x, *y, *grad, *work;
} problem;

/* Every combination of front, loss and phi; parameters in general position: a mask with signs, biases not zero. */
static problem open_problem(size_t net, bool classes, double tau) {
    problem p = {.n = nets[net]};
    p.n.fit = classes ? VT_FIT_CLASSES : VT_FIT_SQUARES, p.n.tau = tau;
    p.count = vt_two_layer_at(&p.n, VT_AT_END);
    p.theta = t_doubles(p.count, 1 + net, 0.7);
    p.x = t_doubles((size_t)(BATCH * p.n.in), 20 + net, 1);
    p.y = t_doubles((size_t)(BATCH * p.n.out), 40 + net, 1);
    p.grad = t_doubles(p.count, 0, 0);
    p.work = t_doubles(vt_two_layer_work_f64(&p.n, BATCH, 1), 0, 0);
    for (int b = 0; b < BATCH && classes; b++) { /* a distribution */
        double sum = 0;
        for (int j = 0; j < p.n.out; j++) sum += p.y[b * p.n.out + j] = exp(p.y[b * p.n.out + j]);
        for (int j = 0; j < p.n.out; j++) p.y[b * p.n.out + j] /= sum;
    }
    return p;
}

static double loss_of(void *ctx) {
    problem *p = ctx;
    return vt_two_layer_loss_f64(NULL, NULL, NULL, p->x, p->y, p->theta, BATCH, &p->n, p->work);
}

/* g against central differences of order 4, step 1e-4: truncation h^4 |f^(5)| / 30 ~ 3e-18, rounding 2^-53 |f| / h ~
 * 1e-12; 1e-8 leaves room for sharp softmaxes. Kinks of ReLU nearer than the step would show as 1e-4. */
static void check_gradient(problem *p, double *at, size_t n, const double *g, const char *what) {
    const double h = 1e-4;
    double *num = t_doubles(n, 0, 0);
    for (size_t i = 0; i < n; i++) {
        double keep = at[i], f[4];
        static const int steps[4] = {-2, -1, 1, 2};
        for (int k = 0; k < 4; k++) at[i] = keep + steps[k] * h, f[k] = loss_of(p);
        at[i] = keep;
        num[i] = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
    }
    assert_true(t_norm(num, n) > 1e-3);
    t_le(t_rel(g, num, n), 1e-8, "%s", what);
}

typedef void (*check_fn)(problem *p, const char *what);

static void for_all(check_fn check) {
    for (size_t net = 0; net < T_COUNT(nets); net++)
        for (int classes = 0; classes < 2; classes++)
            for (int smooth = 0; smooth < 2; smooth++) {
                char what[80];
                problem p = open_problem(net, classes, smooth ? 2.5 : 0);
                snprintf(what, sizeof what, "net %zu, %s, %s", net, classes ? "classes" : "squares",
                         smooth ? "softplus" : "ReLU");
                check(&p, what);
                t_release(what);
            }
}

static void one_gradient(problem *p, const char *what) {
    double *dx = t_doubles((size_t)(BATCH * p->n.in), 0, 0), *f = t_doubles((size_t)(BATCH * p->n.out), 0, 0);
    double loss = vt_two_layer_loss_f64(p->grad, dx, f, p->x, p->y, p->theta, BATCH, &p->n, p->work);
    t_le(fabs(loss - loss_of(p)), 0, "%s: loss with and without gradient", what);
    for (int t = VT_AT_FRONT; t < VT_AT_END; t++) {
        size_t at = vt_two_layer_at(&p->n, (vt_tensor)t), n = vt_two_layer_size(&p->n, (vt_tensor)t);
        if (t == VT_AT_FRONT && p->n.front == VT_FRONT_KNOWN)
            t_le(t_norm(p->grad, n), 0, "%s: a known mask is not learned", what);
        else if (n)
            check_gradient(p, p->theta + at, n, p->grad + at, what);
    }
    check_gradient(p, p->x, (size_t)(BATCH * p->n.in), dx, what);
    if (p->n.fit == VT_FIT_SQUARES) { /* the outputs are those that the loss judges */
        double sum = 0;
        for (int i = 0; i < BATCH * p->n.out; i++) sum += (f[i] - p->y[i]) * (f[i] - p->y[i]) / 2 / BATCH;
        t_le(fabs(sum / loss - 1), 1e-14, "%s: eq. 4", what);
    }
}

static void test_gradients(void **state) {
    (void)state;
    for_all(one_gradient);
}

/* H v against central differences of the gradient along v (|v| = 1, step 1e-5 twice: order 4), to 1e-8 of |H v|;
 * u^T H v = v^T H u to 1e-12. */
static void one_hessian(problem *p, const char *what) {
    double *u = t_doubles(p->count, 71, 1), *v = t_doubles(p->count, 72, 1), *hu = t_doubles(p->count, 0, 0),
           *hv = t_doubles(p->count, 0, 0), *at = t_doubles(p->count, 0, 0), *num = t_doubles(p->count, 0, 0);
    double size = t_norm(v, p->count);
    for (size_t i = 0; i < p->count; i++) v[i] /= size, num[i] = 0;
    size_t held = p->n.front == VT_FRONT_KNOWN ? (size_t)p->n.in : 0; /* what v says of it must not count */
    vt_two_layer_hessian_f64(hv, v, p->x, p->y, p->theta, BATCH, &p->n, p->work);
    vt_two_layer_hessian_f64(hu, u, p->x, p->y, p->theta, BATCH, &p->n, p->work);
    static const double steps[4] = {-2, -1, 1, 2}, weights[4] = {1, -8, 8, -1};
    const double h = 1e-4;
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < p->count; i++) at[i] = p->theta[i] + (i < held ? 0 : steps[k] * h * v[i]);
        vt_two_layer_loss_f64(p->grad, NULL, NULL, p->x, p->y, at, BATCH, &p->n, p->work);
        for (size_t i = 0; i < p->count; i++) num[i] += weights[k] * p->grad[i] / (12 * h);
    }
    t_le(t_rel(hv, num, p->count), 1e-8, "%s: product with the Hessian", what);
    t_le(fabs(t_dot(u, hv, p->count) - t_dot(v, hu, p->count)), 1e-12 * t_norm(u, p->count) * t_norm(hv, p->count),
         "%s: symmetry", what);
}

static void test_hessians(void **state) {
    (void)state;
    for_all(one_hessian);
}

/* UAM: 256-128-10 has 34,186 parameters, with a mask 34,442; Fig. 3's 576-16-10 has 9,402 and 9,978; Table 2's
 * self-attention adds 3 * 100 * 100. */
static void test_counts(void **state) {
    (void)state;
    static const struct {
        vt_two_layer n;
        size_t want;
    } rows[] = {
        {{VT_FRONT_PLAIN, .in = 256, .hidden = 128, .out = 10}, 34186},
        {{VT_FRONT_MASK, .in = 256, .hidden = 128, .out = 10}, 34442},
        {{VT_FRONT_SIMPLEX, .in = 256, .hidden = 128, .out = 10}, 34442},
        {{VT_FRONT_KNOWN, .in = 256, .hidden = 128, .out = 10}, 34442}, /* 34,186 of them are learned */
        {{VT_FRONT_PLAIN, .in = 576, .hidden = 16, .out = 10}, 9402},
        {{VT_FRONT_MASK, .in = 576, .hidden = 16, .out = 10}, 9978},
        {{VT_FRONT_PLAIN, .in = 64, .hidden = 128, .out = 10}, 9610},
        {{VT_FRONT_SELF, .in = 64, .hidden = 128, .out = 10, .tokens = 8, .d = 8}, 9610 + 3 * 64},
    };
    for (size_t i = 0; i < T_COUNT(rows); i++) assert_int_equal(vt_two_layer_at(&rows[i].n, VT_AT_END), rows[i].want);
}

/* The float copy agrees with the double one to float's rounding, and starts at the same weights. */
static void one_float(problem *p, const char *what) {
    float *theta = t_take(p->count * sizeof *theta), *grad = t_take(p->count * sizeof *grad);
    float *x = t_take((size_t)(BATCH * p->n.in) * sizeof *x), *y = t_take((size_t)(BATCH * p->n.out) * sizeof *y);
    float *work = t_take(vt_two_layer_work_f32(&p->n, BATCH, 0) * sizeof *work);
    vt_two_layer_init_f64(p->theta, &p->n, 1.5, 7, 3);
    vt_two_layer_init_f32(theta, &p->n, 1.5, 7, 3);
    for (size_t i = 0; i < p->count; i++) t_le(fabs(p->theta[i] - (double)theta[i]), 1e-7, "%s: start", what);
    for (int i = 0; i < BATCH * p->n.in; i++) x[i] = (float)p->x[i];
    for (int i = 0; i < BATCH * p->n.out; i++) y[i] = (float)p->y[i];
    double loss = vt_two_layer_loss_f64(p->grad, NULL, NULL, p->x, p->y, p->theta, BATCH, &p->n, p->work);
    double single = vt_two_layer_loss_f32(grad, NULL, NULL, x, y, theta, BATCH, &p->n, work);
    t_le(fabs(single / loss - 1), 1e-5, "%s: loss in float", what); /* sums of ten terms: some 2^-24 */
    double off = 0;
    for (size_t i = 0; i < p->count; i++) off += pow((double)grad[i] - p->grad[i], 2);
    t_le(sqrt(off) / t_norm(p->grad, p->count), 1e-5, "%s: gradient in float", what);
}

static void test_float(void **state) {
    (void)state;
    for_all(one_float);
}

/* A mask starts as one, so that all networks of one run start at the same function; simplex masks sum to `in`. */
static void test_masks(void **state) {
    (void)state;
    vt_two_layer n = {VT_FRONT_PLAIN, .in = 9, .hidden = 6, .out = 3};
    double *theta = t_doubles(200, 0, 0), *x = t_doubles(9, 5, 1), *m = t_doubles(9, 0, 0), f[3][3];
    double *work =
        t_doubles(vt_two_layer_work_f64(&(vt_two_layer){VT_FRONT_MASK, .in = 9, .hidden = 6, .out = 3}, 1, 0), 0, 0);
    for (int front = VT_FRONT_PLAIN; front <= VT_FRONT_SIMPLEX; front++) {
        n.front = (vt_front)front;
        vt_two_layer_init_f64(theta, &n, 1, 2, 4);
        vt_two_layer_mask_f64(m, theta, &n);
        for (int i = 0; i < 9; i++) t_le(fabs(m[i] - 1), 1e-15, "front %d: mask", front);
        assert_true(vt_two_layer_loss_f64(NULL, NULL, f[front], x, NULL, theta, 1, &n, work) == 0);
    }
    t_le(t_max_diff(f[0], f[1], 3), 1e-14, "mask starts as the baseline");
    t_le(t_max_diff(f[0], f[2], 3), 1e-14, "simplex starts as the baseline");
    t_normals(theta, 9, 8, 2);
    vt_two_layer_mask_f64(m, theta, &n);
    double sum = 0;
    for (int i = 0; i < 9; i++) sum += m[i], assert_true(m[i] > 0);
    t_le(fabs(sum - 9), 1e-14, "sum of a simplex mask");
    t_release("masks");
}

/* Proposition 1's student: a mask that is known is the plain network behind x o a, number by number, with nothing to
 * learn in front; and what the mask hides has no gradient. */
static void test_known_mask(void **state) {
    (void)state;
    problem p = open_problem(5, false, 0);
    vt_two_layer plain = p.n;
    plain.front = VT_FRONT_PLAIN;
    size_t in = (size_t)p.n.in, rest = p.count - in;
    double *z = t_doubles(BATCH * in, 0, 0), *dx = t_doubles(BATCH * in, 0, 0), *grad = t_doubles(rest, 0, 0);
    for (size_t i = 0; i < in; i++) p.theta[i] = i % 3 == 0;
    for (size_t i = 0; i < BATCH * in; i++) z[i] = p.x[i] * p.theta[i % in];
    double loss = vt_two_layer_loss_f64(p.grad, dx, NULL, p.x, p.y, p.theta, BATCH, &p.n, p.work);
    double same = vt_two_layer_loss_f64(grad, NULL, NULL, z, p.y, p.theta + in, BATCH, &plain, p.work);
    t_le(fabs(loss - same), 0, "the loss");
    t_le(t_max_diff(p.grad + in, grad, rest), 0, "gradients of all but the mask");
    t_le(t_norm(p.grad, in), 0, "the mask's gradient");
    for (size_t i = 0; i < BATCH * in; i++) t_le(i % in % 3 == 0 ? 0 : fabs(dx[i]), 0, "input %zu, hidden", i % in);
    assert_true(t_norm(dx, BATCH * in) > 1e-3);
    t_release("known mask");
}

/* theta -> (s a, t W1, s t b1, W2 / (s t)), of self-attention with s = 1: the same function. */
static void rescale(double *theta, const vt_two_layer *n, double s, double t) {
    size_t w1 = vt_two_layer_at(n, VT_AT_W1), b1 = vt_two_layer_at(n, VT_AT_B1), w2 = vt_two_layer_at(n, VT_AT_W2),
           b2 = vt_two_layer_at(n, VT_AT_B2);
    for (size_t i = 0; i < w1 && n->front == VT_FRONT_MASK; i++) theta[i] *= s;
    for (size_t i = w1; i < b1; i++) theta[i] *= t;
    for (size_t i = b1; i < w2; i++) theta[i] *= s * t;
    for (size_t i = w2; i < b2; i++) theta[i] /= s * t;
}

/* Theorem 4: ReLU is homogeneous, so (a, W1, b1, W2) -> (s a, t W1, s t b1, W2 / (s t)) keeps the function, while the
 * Hessian's block of W2 grows by (s t)^2; for self-attention (t W1, t b1, W2 / t). In relative coordinates
 * (D H D)(D^-1 theta) nothing moves: checked through theta^T H theta, which uses every block. */
static void test_theorem_4(void **state) {
    (void)state;
    for (size_t net = 1; net < 4; net += 2) {
        problem p = open_problem(net, true, 0);
        double *f = t_doubles(BATCH * 3, 0, 0), *g = t_doubles(BATCH * 3, 0, 0), *hv = t_doubles(p.count, 0, 0),
               *v = t_doubles(p.count, 9, 1);
        double s = p.n.front == VT_FRONT_MASK ? 0.1 : 1, t = 30, form[2];
        for (int moved = 0; moved < 2; moved++) {
            vt_two_layer_loss_f64(NULL, NULL, moved ? g : f, p.x, NULL, p.theta, BATCH, &p.n, p.work);
            for (size_t i = 0; i < p.count; i++) hv[i] = fabs(p.theta[i]) * v[i]; /* D v */
            vt_two_layer_hessian_f64(p.grad, hv, p.x, p.y, p.theta, BATCH, &p.n, p.work);
            form[moved] = t_dot(hv, p.grad, p.count); /* v^T D H D v */
            rescale(p.theta, &p.n, s, t);
        }
        t_le(t_max_diff(f, g, BATCH * 3), 1e-13, "net %zu: outputs after rescaling", net);
        t_le(fabs(form[1] / form[0] - 1), 1e-10, "net %zu: v^T D H D v after rescaling", net);
        t_release("theorem 4");
    }
}

/* v^T H v / |v|^2 for v = W2 (zero elsewhere): never above the largest eigenvalue. */
static double curvature(problem *p) {
    double *v = t_doubles(p->count, 0, 0), *hv = t_doubles(p->count, 0, 0);
    size_t w2 = vt_two_layer_at(&p->n, VT_AT_W2), b2 = vt_two_layer_at(&p->n, VT_AT_B2);
    for (size_t i = w2; i < b2; i++) v[i] = p->theta[i];
    vt_two_layer_hessian_f64(hv, v, p->x, p->y, p->theta, BATCH, &p->n, p->work);
    return t_dot(v, hv, p->count) / t_dot(v, v, p->count);
}

/* Theorem 4, its first half as it stands: for any M there is a rescaling, of the same function, whose largest
 * eigenvalue is above M. W2's block grows as (s t)^2, so s t = sqrt(2 M / what it was) must do. */
static void test_theorem_4_any_eigenvalue(void **state) {
    (void)state;
    for (size_t net = 1; net < 4; net += 2)
        for (double most = 1e2; most < 1e13; most *= 100) {
            problem p = open_problem(net, false, 0);
            double *f = t_doubles(BATCH * 3, 0, 0), *g = t_doubles(BATCH * 3, 0, 0), first = curvature(&p);
            vt_two_layer_loss_f64(NULL, NULL, f, p.x, NULL, p.theta, BATCH, &p.n, p.work);
            assert_true(first > 0 && first < most / 2); /* a bound that held before would be no test */
            double by = sqrt(2 * most / first), s = p.n.front == VT_FRONT_MASK ? sqrt(by) : 1;
            rescale(p.theta, &p.n, s, by / s);
            vt_two_layer_loss_f64(NULL, NULL, g, p.x, NULL, p.theta, BATCH, &p.n, p.work);
            t_le(most / curvature(&p), 1, "net %zu: an eigenvalue above %g", net, most);
            t_le(t_max_diff(f, g, BATCH * 3), 1e-13, "net %zu: outputs after rescaling", net);
            t_release("any eigenvalue");
        }
}

/* Definition 1 and Theorem 4's other half: C(L, theta, eps), the connected set about theta on which L < L(theta) + eps,
 * has no finite volume. A ball about theta lies in it (drawn points of its rim say so for this radius); T_t = rescaling
 * by t = 2^k keeps L, is joined to theta through all t between, is linear with |det| >= 1 (W1 and b1 have more
 * numbers than W2), and the balls' images are disjoint, |W1| alone telling them apart: volumes of at least the first
 * add up without end. */
static void test_theorem_4_volume(void **state) {
    (void)state;
    enum { DRAWS = 50, IMAGES = 20 };
    const double radius = 0.02, eps = 0.2;
    for (size_t net = 1; net < 4; net += 2) {
        problem p = open_problem(net, false, 0);
        double base = loss_of(&p), *at = t_doubles(p.count, 0, 0), *keep = p.theta, beyond = 0;
        size_t w1 = vt_two_layer_at(&p.n, VT_AT_W1), b1 = vt_two_layer_at(&p.n, VT_AT_B1);
        for (int k = 0; k < IMAGES; k++) {
            double least = INFINITY, most = 0, grown = 0, t = ldexp(1, k);
            for (int draw = 0; draw < DRAWS; draw++) {
                t_normals(at, p.count, (uint64_t)(1000 + draw), 1);
                double size = t_norm(at, p.count) / radius;
                for (size_t i = 0; i < p.count; i++) at[i] = keep[i] + at[i] / size;
                double before = at[w1];
                rescale(at, &p.n, 1, t);
                p.theta = at;
                t_le(loss_of(&p) - base, eps, "net %zu: in C(L, theta, eps), factor %g", net, t);
                least = fmin(least, t_norm(at + w1, b1 - w1)), most = fmax(most, t_norm(at + w1, b1 - w1));
                grown = at[w1] / before;
            }
            t_le(beyond - least, 0, "net %zu: images are disjoint", net);
            t_le(fabs(grown / t - 1), 1e-15, "the map is linear, by t in W1");
            beyond = (t_norm(keep + w1, b1 - w1) + radius) * t;
            t_le(most - beyond, 0, "net %zu: the ball's image", net);
        }
        size_t up = vt_two_layer_size(&p.n, VT_AT_W1) + vt_two_layer_size(&p.n, VT_AT_B1);
        assert_true(up >= vt_two_layer_size(&p.n, VT_AT_W2)); /* |det| = t^(up - down) >= 1 */
        p.theta = keep;
        t_release("volume");
    }
}

/* ---- Theorem 5: n <= d and rank(phi) = n: every stationary point in w2 is a global minimum ---- */

enum { D5 = 12 };

/* w2 with the gradient by w2 zero, of least norm: the pseudo-inverse of phi^T phi by its eigenvectors. */
static void solve(double *w2, const double *phi, const double *y, int n) {
    double gram[D5 * D5], values[D5], vectors[D5 * D5], right[D5];
    vt_err e = {0};
    for (int i = 0; i < D5; i++) {
        w2[i] = right[i] = 0;
        for (int k = 0; k < n; k++) right[i] += phi[k * D5 + i] * y[k];
        for (int j = 0; j < D5; j++) {
            gram[i * D5 + j] = 0;
            for (int k = 0; k < n; k++) gram[i * D5 + j] += phi[k * D5 + i] * phi[k * D5 + j];
        }
    }
    assert_int_equal(vt_eigen_symmetric(values, vectors, gram, D5, &e), VT_OK);
    for (int k = 0; k < D5 && values[k] > 1e-10 * values[0]; k++) {
        double c = t_dot(vectors + k * D5, right, D5) / values[k];
        for (int i = 0; i < D5; i++) w2[i] += c * vectors[k * D5 + i];
    }
}

/* With the theory's softplus: (a) a mask, (b) self-attention. */
static const vt_two_layer theorem_5[] = {
    {VT_FRONT_MASK, .in = 6, .hidden = D5, .out = 1, .tau = 3},
    {VT_FRONT_SELF, .in = 6, .hidden = D5, .out = 1, .tau = 3, .tokens = 2, .d = 3},
};

/* Builds a network with frozen first layers on n points (the last a copy of the first, when asked), solves
 * grad w2 = 0, and hands back the loss and the gradient's size by all parameters. */
static double stationary(vt_two_layer net, int n, bool copy, double *gradient) {
    size_t count = vt_two_layer_at(&net, VT_AT_END), w2 = vt_two_layer_at(&net, VT_AT_W2);
    double *theta = t_doubles(count, 91, 1), *x = t_doubles(6 * 64, 92, 1), *y = t_doubles(64, 93, 1),
           *phi = t_doubles(D5 * 64, 0, 0), *grad = t_doubles(count, 0, 0), f[64];
    double *work = t_doubles(vt_two_layer_work_f64(&net, n, 0), 0, 0);
    if (copy) memcpy(x + 6 * (n - 1), x, 6 * sizeof *x);
    theta[count - 1] = 0;
    for (int j = 0; j < D5; j++) { /* column j of phi: the network whose w2 is the unit vector j */
        for (int i = 0; i < D5; i++) theta[w2 + (size_t)i] = i == j;
        vt_two_layer_loss_f64(NULL, NULL, f, x, NULL, theta, n, &net, work);
        for (int k = 0; k < n; k++) phi[k * D5 + j] = f[k];
    }
    solve(theta + w2, phi, y, n);
    double loss = vt_two_layer_loss_f64(grad, NULL, NULL, x, y, theta, n, &net, work);
    t_le(t_norm(grad + w2, D5), 1e-9, "gradient by w2 at the solution"); /* condition 1e10 at most, of 2^-53 */
    *gradient = t_norm(grad, count);
    t_release("theorem 5");
    return loss;
}

static void test_theorem_5(void **state) {
    (void)state;
    double gradient;
    static const int sizes[] = {1, 5, 9, D5};
    for (size_t k = 0; k < T_COUNT(theorem_5); k++) {
        for (size_t i = 0; i < T_COUNT(sizes); i++) {
            double loss = stationary(theorem_5[k], sizes[i], false, &gradient);
            t_le(loss, 1e-18, "(%c) loss of %d points", "ab"[k], sizes[i]); /* residuals ~1e-9 */
            t_le(gradient, 1e-8, "(%c) all of the gradient at %d points", "ab"[k],
                 sizes[i]); /* u = 0 makes each zero */
        }
        /* without the rank it fails: two equal points with different targets, and more points than features */
        assert_true(stationary(theorem_5[k], 9, true, &gradient) > 1e-3);
        assert_true(stationary(theorem_5[k], 40, false, &gradient) > 1e-3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test_teardown(test_gradients, t_drop),
        cmocka_unit_test_teardown(test_hessians, t_drop),
        cmocka_unit_test_teardown(test_float, t_drop),
        cmocka_unit_test_teardown(test_masks, t_drop),
        cmocka_unit_test_teardown(test_known_mask, t_drop),
        cmocka_unit_test_teardown(test_theorem_4, t_drop),
        cmocka_unit_test_teardown(test_theorem_4_any_eigenvalue, t_drop),
        cmocka_unit_test_teardown(test_theorem_4_volume, t_drop),
        cmocka_unit_test_teardown(test_theorem_5, t_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
