/* SPDX-License-Identifier: MIT */
/* The attacks and the trained checkpoints against the golden data of the shared folder (argv[1]); the gates
 * are those of golden/MANIFEST.json "tolerances" and README.md. Every measured number is printed. */
#include "ask.h"
#include "golden.h"

#include "attacks/apgd.h"
#include "attacks/fab.h"
#include "models/net/batch_gradients.h"

/* ---- one-shot attacks: FGSM, PGD-2, PGD-20, CW-20, L2 PGD (gen_attacks.py) ---- */

enum { SHOTS = 64 };

typedef struct shot {
    const char *name, *spec;
    vt_norm norm;
    double eps;
    int most_differing; /* elements of 196,608 */
    vt_loss_kind loss;
} shot;

/* Results of all images: points, final logits. */
typedef struct shot_result {
    float *x_adv; /* [SHOTS, PIXELS] */
    float *z;     /* [SHOTS, CLASSES] */
    int failures;
} shot_result;

static shot_result fire(const shot *s, const vt_model *m, const images *im) {
    shot_result r = {need((size_t)SHOTS * PIXELS, sizeof(float)), need((size_t)SHOTS * CLASSES, sizeof(float)), 0};
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, s->spec, s->norm, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(a.n_stages, 1);
    int failures = 0;
#pragma omp parallel reduction(+ : failures)
    {
        rig g;
        bool good = rig_open(&g, m);
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < SHOTS; i++) {
            if (!good) {
                failures++;
                continue;
            }
            rig_aim(&g, s->norm, s->eps, im->x + (size_t)i * PIXELS, im->label[i], i, a.name);
            failures += rig_run(&g, &a.stages[0]) != VT_OK || !vt_ball_contains(&g.ball, g.x_adv);
            memcpy(r.x_adv + (size_t)i * PIXELS, g.x_adv, PIXELS * sizeof(float));
            ask_logits(&g.c, g.x_adv, r.z + (size_t)i * CLASSES, false);
        }
        rig_close(&g);
    }
    vt_attack_free(&a);
    r.failures = failures;
    return r;
}

/* Points on the pixel grid are compared as levels; the others within 1e-4 (float32 and float64 torch differ
 * by 4e-7 after 20 L2 steps; a real deviation is of the order of alpha/sqrt(n) = 2e-3). */
static int differing(const vt_tensors *st, const shot *s, const float *x_adv) {
    char name[64];
    snprintf(name, sizeof name, "%s.x_adv", s->name);
    size_t n = (size_t)SHOTS * PIXELS;
    int bad = 0;
    if (tensor(st, name, n)->dtype == VT_U8) {
        int64_t *level = integers(st, name, n);
        for (size_t i = 0; i < n; i++) bad += !(fabs((double)x_adv[i] * 255 - (double)level[i]) <= 1e-3);
        free(level);
    } else {
        double *ref = doubles(st, name, n);
        for (size_t i = 0; i < n; i++) bad += !(fabs((double)x_adv[i] - ref[i]) <= 1e-4);
        free(ref);
    }
    return bad;
}

/* Success flags that differ although the reference's margin is not within 1e-3 of zero. */
static int flags_differing(const vt_tensors *st, const shot *s, const shot_result *r, const images *im) {
    char name[64];
    snprintf(name, sizeof name, "%s.success", s->name);
    int64_t *flag = integers(st, name, SHOTS);
    snprintf(name, sizeof name, "%s.margin_f64", s->name);
    double *margin = doubles(st, name, SHOTS);
    int bad = 0;
    for (int i = 0; i < SHOTS; i++)
        bad += fabs(margin[i]) >= 1e-3 &&
               (vt_argmax_f32(r->z + (size_t)i * CLASSES, CLASSES) != im->label[i]) != (flag[i] != 0);
    free(flag), free(margin);
    return bad;
}

/* |mean of the final losses - the reference's| / the reference's */
static double loss_error(const vt_tensors *st, const shot *s, const shot_result *r, const images *im) {
    char name[64];
    snprintf(name, sizeof name, "%s.loss_steps", s->name);
    size_t rows = tensor(st, name, 0)->numel / SHOTS;
    double *steps = doubles(st, name, rows * SHOTS), ours = 0, theirs = 0;
    for (int i = 0; i < SHOTS; i++) {
        float target[CLASSES] = {0};
        target[im->label[i]] = 1;
        vt_loss loss = {.kind = s->loss, .target = target};
        ours += (double)vt_loss_eval_f32(NULL, &loss, r->z + (size_t)i * CLASSES, CLASSES);
        theirs += steps[(rows - 1) * SHOTS + (size_t)i];
    }
    free(steps);
    return fabs(ours - theirs) / theirs;
}

static void test_shots(void **state) {
    (void)state;
    /* eps, alpha and steps as in attacks_trained_vit.json; 1 % of 196,608 is 1,966 */
    static const shot shots[] = {
        {"fgsm_2", "fgsm", VT_LINF, 2.0 / 255, 10, VT_LOSS_CE},
        {"fgsm_8", "fgsm", VT_LINF, 8.0 / 255, 10, VT_LOSS_CE},
        {"pgd2_2", "pgd:steps=2,alpha=1/255,random_start=0", VT_LINF, 2.0 / 255, 10, VT_LOSS_CE},
        {"pgd20_8", "pgd:steps=20,alpha=2/255,random_start=0", VT_LINF, 8.0 / 255, 1966, VT_LOSS_CE},
        {"cw20_8", "cw20:alpha=2/255,random_start=0,kappa=50", VT_LINF, 8.0 / 255, 1966, VT_LOSS_MARGIN},
        {"l2pgd20_0.5", "pgd:steps=20,alpha=0.1,random_start=0", VT_L2, 0.5, 1966, VT_LOSS_CE},
    };
    vt_tensors *st = golden("attacks_trained_vit");
    vt_model *m = checkpoint("vit-cifar10");
    images im = cifar_test(0, SHOTS);
    int bad = 0;
    for (size_t k = 0; k < COUNT(shots); k++) {
        shot_result r = fire(&shots[k], m, &im);
        int elements = differing(st, &shots[k], r.x_adv), flags = flags_differing(st, &shots[k], &r, &im);
        double loss = loss_error(st, &shots[k], &r, &im);
        printf("  %-12s elements differing %4d (<= %d), flags %d, mean final loss off by %.1e relative, "
               "failures %d\n",
               shots[k].name, elements, shots[k].most_differing, flags, loss, r.failures);
        bad += r.failures || flags || elements > shots[k].most_differing || !(loss <= 1e-3);
        free(r.x_adv), free(r.z);
    }
    images_free(&im);
    vt_model_close(m);
    vt_tensors_close(st);
    assert_int_equal(bad, 0);
}

/* ---- trajectories: the correct ones of images 0 to 15 (gen_traj.py) ---- */

enum { CALLS = 101, MOST = 16 };

typedef struct trial { /* one of the two golden files */
    vt_tensors *st;
    vt_model *m;
    images im;
    int n; /* images in the file */
    int64_t *index, *label, *target;
} trial;

static trial trial_open(const char *file, const char *weights) {
    trial t = {.st = golden(file), .m = checkpoint(weights), .im = cifar_test(0, MOST)};
    t.n = (int)tensor(t.st, "index", 0)->numel;
    assert_in_range(t.n, 1, MOST);
    t.index = integers(t.st, "index", 0);
    t.label = integers(t.st, "labels", (size_t)t.n);
    t.target = integers(t.st, "targets", (size_t)t.n);
    for (int i = 0; i < t.n; i++) assert_int_equal(t.im.label[t.index[i]], t.label[i]);
    return t;
}

static void trial_close(trial *t) {
    free(t->index), free(t->label), free(t->target);
    images_free(&t->im);
    vt_model_close(t->m);
    vt_tensors_close(t->st);
}

/* A classifier that notes the value of every loss asked for. */
typedef struct recorder {
    const vt_classifier *inner;
    float value[CALLS];
    int calls;
} recorder;

static vt_status rec_logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    recorder *r = self;
    return vt_classifier_logits(r->inner, x, z, keep, e);
}

static vt_status rec_logits64(void *self, const float *x, double *z, vt_err *e) {
    recorder *r = self;
    return vt_classifier_logits64(r->inner, x, z, e);
}

static vt_status rec_backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    recorder *r = self;
    VT_TRY(vt_classifier_backward(r->inner, loss, value, dx, e));
    if (r->calls < CALLS) r->value[r->calls] = *value;
    r->calls++;
    return VT_OK;
}

typedef struct path {
    const char *loss;
    vt_loss_kind kind;
    vt_norm norm;
    bool whole; /* every call is compared, not the first two alone */
} path;

/* loss [CALLS, n] of a run without random start on every image, and whether it was broken. */
static int follow(const trial *t, const path *p, double eps, float *loss, bool *broken) {
    int failures = 0;
#pragma omp parallel reduction(+ : failures)
    {
        rig g;
        bool good = rig_open(&g, t->m);
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < t->n; i++) {
            if (!good) {
                failures++;
                continue;
            }
            recorder r = {.inner = &g.c};
            vt_classifier wrapped = {.classes = CLASSES, .pixels = PIXELS, .self = &r, .logits = rec_logits};
            wrapped.logits64 = rec_logits64, wrapped.backward = rec_backward;
            g.o.model = &wrapped;
            rig_aim(&g, p->norm, eps, t->im.x + (size_t)t->index[i] * PIXELS, (int)t->label[i], i, "apgd");
            vt_apgd_params params = {.steps = CALLS - 1, .restarts = 1, .eot = 1, .rho = 0.75};
            vt_loss l = vt_oracle_loss(&g.o, p->kind);
            l.other = (int)t->target[i];
            failures += vt_apgd_run(&g.o, &params, &g.t, &l, &g.t.rng, &broken[i]) != VT_OK || r.calls != CALLS;
            for (int c = 0; c < CALLS; c++) loss[c * t->n + i] = r.value[c];
            g.o.model = &g.c;
        }
        rig_close(&g);
    }
    return failures;
}

/* Largest |a - b| / (|b| + 1e-3) over the calls below `calls`, the measure of gen_traj.py. The reference was
 * run in float32 and in float64; a float32 program of another summing order follows now the one, now the
 * other where the two part, so each value is held against the nearer. */
static double apart(const float *loss, const double *f32, const double *f64, int n, int calls, int *at) {
    double worst = 0;
    for (int k = 0; k < calls * n; k++) {
        double a = fabs((double)loss[k] - f32[k]) / (fabs(f32[k]) + 1e-3);
        double b = fabs((double)loss[k] - f64[k]) / (fabs(f64[k]) + 1e-3), d = a < b ? a : b;
        if (!(d <= worst)) worst = d, *at = k / n;
    }
    return worst;
}

typedef struct parting {
    int ours, theirs;   /* images that part by more than 1e-3 at some call: ours from the nearer reference; the two */
    double all_but_one; /* the furthest of ours, but for one image */
} parting;

static parting part(const float *loss, const double *f32, const double *f64, int n) {
    parting p = {0};
    double worst = 0;
    for (int i = 0; i < n; i++) {
        double a = 0, b = 0;
        for (int c = 0; c < CALLS; c++) {
            int k = c * n + i, at;
            double d = apart(loss + k, f32 + k, f64 + k, 1, 1, &at);
            if (!(d <= a)) a = d;
            b = fmax(b, fabs(f32[k] - f64[k]) / (fabs(f64[k]) + 1e-3));
        }
        p.ours += !(a <= 1e-3), p.theirs += b > 1e-3;
        if (!(a <= worst))
            p.all_but_one = worst, worst = a;
        else if (!(a <= p.all_but_one))
            p.all_but_one = a;
    }
    return p;
}

static int follow_and_compare(const trial *t, const char *file, const path *p, double eps) {
    char name[80], stem[48];
    size_t all = (size_t)CALLS * (size_t)t->n;
    snprintf(stem, sizeof stem, "apgd_%s_%s", p->loss, p->norm == VT_LINF ? "Linf" : "L2");
    snprintf(name, sizeof name, "%s.loss_calls", stem);
    double *f32 = doubles(t->st, name, all);
    snprintf(name, sizeof name, "%s.loss_calls_f64", stem);
    double *f64 = doubles(t->st, name, all);
    snprintf(name, sizeof name, "%s.success", stem);
    int64_t *success = integers(t->st, name, (size_t)t->n);
    float *loss = need(all, sizeof *loss);
    bool broken[MOST] = {false};
    int failures = follow(t, p, eps, loss, broken), flags = 0, at = 0, at2 = 0;
    const parting off = part(loss, f32, f64, t->n);
    for (int i = 0; i < t->n; i++) flags += broken[i] != (success[i] != 0);
    double whole = apart(loss, f32, f64, t->n, CALLS, &at), first = apart(loss, f32, f64, t->n, 2, &at2);
    /* Whole: 3e-4, where torch's own float32 and float64 runs stay within 1e-3 of each other at every call, but for one
     * image at most: with products summed in another order (AVX2 instead of AVX-512) one gradient entry next to zero
     * changes its sign at call 38 of one image, whose loss is then off by 1.5e-3, and its verdict the same.
     * First two calls: 1e-3; later an argmax or a rank that flips inside DLR, or an L2 direction, lets even
     * torch's two runs part on single images: ours may on two more. */
    bool near = !p->whole || (off.all_but_one <= 3e-4 && whole <= 1e-2);
    bool pass = !failures && !flags && near && first <= 1e-3 && off.ours <= off.theirs + (p->whole ? 1 : 2);
    printf("  %-16s %-22s calls 0-1 within %.1e, all calls within %.1e (call %d)%s; images parting %d "
           "(torch's two "
           "runs: %d), flags differing %d%s\n",
           file, stem, first, whole, at, p->whole ? " gated" : "", off.ours, off.theirs, flags, pass ? "" : "  FAIL");
    free(f32), free(f64), free(success), free(loss);
    return !pass;
}

static const struct {
    const char *file, *weights;
    double eps[2]; /* linf, l2: as in traj_*.json */
} trials[] = {{"traj_trained_vit", "vit-cifar10", {1.0 / 255, 0.25}},
              {"traj_at8", "vit-cifar10-at8", {8.0 / 255, 0.5}}};

static void test_trajectories(void **state) {
    (void)state;
    static const path paths[] = {
        {"ce", VT_LOSS_CE, VT_LINF, true},  {"dlr", VT_LOSS_DLR, VT_LINF, false},
        {"ce", VT_LOSS_CE, VT_L2, false},   {"dlr_targeted", VT_LOSS_DLR_T, VT_LINF, true},
        {"dlr", VT_LOSS_DLR, VT_L2, false}, {"dlr_targeted", VT_LOSS_DLR_T, VT_L2, false},
    };
    int bad = 0;
    for (size_t k = 0; k < COUNT(trials); k++) {
        trial t = trial_open(trials[k].file, trials[k].weights);
        for (size_t p = 0; p < COUNT(paths); p++)
            bad += follow_and_compare(&t, trials[k].file, &paths[p], trials[k].eps[paths[p].norm]);
        trial_close(&t);
    }
    assert_int_equal(bad, 0);
}

/* ---- FAB distances ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* torch's median: the lower of the two middle values */
static double median(const double *v, int n) {
    double s[MOST];
    memcpy(s, v, (size_t)n * sizeof *s);
    qsort(s, (size_t)n, sizeof *s, by_value);
    return s[(n - 1) / 2];
}

static int measure_fab(const trial *t, vt_norm norm, double eps, bool targeted, double *distance) {
    int failures = 0;
#pragma omp parallel reduction(+ : failures)
    {
        rig g;
        bool good = rig_open(&g, t->m);
        float best[PIXELS];
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < t->n; i++) {
            if (!good) {
                failures++;
                continue;
            }
            rig_aim(&g, norm, eps, t->im.x + (size_t)t->index[i] * PIXELS, (int)t->label[i], i, "fab");
            vt_fab_params p = {.steps = 100, .restarts = 1, .alpha_max = 0.1, .eta = 1.05, .beta = 0.9};
            int target = targeted ? (int)t->target[i] : -1;
            failures += vt_fab_run(&g.o, &p, &g.t, target, false, &g.t.rng, best, &distance[i]) != VT_OK;
            failures += isfinite(distance[i]) && !(vt_distance(norm, best, g.t.x, PIXELS) == distance[i]);
        }
        rig_close(&g);
    }
    return failures;
}

static int compare_fab(const trial *t, const char *file, vt_norm norm, double eps, bool targeted) {
    char name[64], stem[32];
    snprintf(stem, sizeof stem, "fab%s%s", targeted ? "_t" : "", norm == VT_LINF ? "_Linf" : "_L2");
    snprintf(name, sizeof name, "%s.distance", stem);
    double *theirs = doubles(t->st, name, (size_t)t->n), ours[MOST];
    snprintf(name, sizeof name, "%s.found", stem);
    int64_t *found = integers(t->st, name, (size_t)t->n);
    int failures = measure_fab(t, norm, eps, targeted, ours), near = 0, flags = 0, inside = 0, inside_ref = 0;
    for (int i = 0; i < t->n; i++) {
        bool close = fabs(ours[i] - theirs[i]) <= 0.01 * theirs[i];
        near += close, flags += isfinite(ours[i]) != (found[i] != 0);
        inside += ours[i] <= eps, inside_ref += found[i] && theirs[i] <= eps;
        if (!close)
            printf("    %s %s: image %d: %.6g, reference %.6g\n", file, stem, (int)t->index[i], ours[i], theirs[i]);
    }
    double middle = fabs(median(ours, t->n) / median(theirs, t->n) - 1);
    /* FAB's iterates are chaotic where two boundaries are equally near, so single images may part; the median
     * may not: 0.1 %; and nine images of ten stay within 1 %. Known: fab_t_Linf of image 15 ends at 0.0133
     * (torch) or at 0.0189, and changing its pixels by 6e-8 moves it from the one to the other and to 0.0144.
     */
    bool pass = !failures && !flags && middle <= 1e-3 && near * 10 >= t->n * 9;
    printf("  %-16s %-9s median off by %.1e, %d of %d within 1 %%, within eps %d (reference %d)%s\n", file, stem,
           middle, near, t->n, inside, inside_ref, pass ? "" : "  FAIL");
    free(theirs), free(found);
    return !pass;
}

static void test_fab(void **state) {
    (void)state;
    int bad = 0;
    for (size_t k = 0; k < COUNT(trials); k++) {
        trial t = trial_open(trials[k].file, trials[k].weights);
        for (int c = 0; c < 4; c++) {
            vt_norm norm = c / 2 ? VT_L2 : VT_LINF;
            bad += compare_fab(&t, trials[k].file, norm, trials[k].eps[norm], c % 2);
        }
        trial_close(&t);
    }
    assert_int_equal(bad, 0);
}

/* ---- the trained checkpoint: logits and gradients, and every prediction on the test set ---- */

static double largest(const double *v, size_t n) {
    double m = 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs(v[i]) <= m)) m = fabs(v[i]);
    return m;
}

/* Worst of |ours - ref| relative to max|ref| of the image; images whose reference gradient vanishes (DLR is
 * constant where the label ranks third) are held against the CE gradient's size times 0.1 instead: the floor
 * 1e-5 max|dx_ce| of the manifest under the float32 gate of 1e-4. */
static double gradient_error(const double *ours, const double *ref, const double *ce, int n) {
    double worst = 0;
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * PIXELS;
        double scale = largest(ref + at, PIXELS), floor_ = 0.1 * largest(ce + at, PIXELS), diff[PIXELS];
        if (scale < 1e-6 * floor_) scale = floor_;
        for (int k = 0; k < PIXELS; k++) diff[k] = ours[at + (size_t)k] - ref[at + (size_t)k];
        double d = largest(diff, PIXELS) / scale;
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

static int probe_one(const vt_tensors *st, const vt_model *m, vt_loss_kind kind, bool f64) {
    enum { N = 8 };
    char name[32];
    double *x = doubles(st, "x", N * PIXELS), *logits = doubles(st, "logits", N * CLASSES);
    double *ce = doubles(st, "dx_ce", N * PIXELS);
    int64_t *labels = integers(st, "labels", N), *targets = integers(st, "targets", N);
    snprintf(name, sizeof name, "loss_%s", vt_loss_names_f32[kind]);
    double *loss = doubles(st, name, N);
    snprintf(name, sizeof name, "dx_%s", vt_loss_names_f32[kind]);
    double *dx = doubles(st, name, N * PIXELS), dz = 0, dl = 0;
    vt_batch_gradients p;
    vt_err e = {0};
    if ((f64 ? vt_batch_gradients_run_f64 : vt_batch_gradients_run_f32)(&p, m, x, N, labels, targets, NULL, kind, false,
                                                                        &e) != VT_OK)
        fail_msg("%s", e.text);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < CLASSES; k++) {
            double d = fabs(p.logits[i * CLASSES + k] - logits[i * CLASSES + k]);
            d /= 1 + largest(logits + i * CLASSES, CLASSES);
            if (!(d <= dz)) dz = d;
        }
    for (int i = 0; i < N; i++) {
        double d = fabs(p.loss[i] - loss[i]);
        if (!(d <= dl)) dl = d;
    }
    double g = gradient_error(p.dx, dx, ce, N);
    /* the manifest's gates: logits 2e-5 (1 + max|z|) and gradients 1e-4 of the image's largest in float;
     * 1e-11 and 1e-9 in double. Losses follow the logits, DLR divided by a difference of logits: 1e-4 and
     * 1e-10. */
    bool pass = f64 ? dz <= 1e-11 && dl <= 1e-10 && g <= 1e-9 : dz <= 2e-5 && dl <= 1e-4 && g <= 1e-4;
    printf("  vit_trained %-7s %s: logits %.1e, loss %.1e, dx %.1e%s\n", vt_loss_names_f32[kind], f64 ? "f64" : "f32",
           dz, dl, g, pass ? "" : "  FAIL");
    vt_batch_gradients_free(&p);
    free(x), free(logits), free(ce), free(labels), free(targets), free(loss), free(dx);
    return !pass;
}

static void test_probe(void **state) {
    (void)state;
    vt_tensors *st = golden("vit_trained.golden");
    vt_model *m = checkpoint("vit-cifar10");
    int bad = 0;
    for (int k = VT_LOSS_CE; k <= VT_LOSS_DLR_T; k++)
        for (int f64 = 0; f64 < 2; f64++) bad += probe_one(st, m, (vt_loss_kind)k, f64);
    vt_model_close(m);
    vt_tensors_close(st);
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_shots),
        cmocka_unit_test(test_trajectories),
        cmocka_unit_test(test_fab),
    };
    return golden_main(argc, argv, "golden attacks", tests, COUNT(tests));
}
