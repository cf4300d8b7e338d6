/* SPDX-License-Identifier: MIT */
/* S2: W and v descend together, each along its own normalised gradient, from 0 and without a random number: a golden
 * run. The released code divides by |G|_q + 2.2e-16; once |G_W|_q is less than that constant, W stands still, and the
 * norms that the experiment shows are those of the standstill. The same run without the constant shows what it does. */
#include <math.h>
#include <string.h>
#include "research/lab/attgd_lab.h"
#include "research/lab/attsvm.h"

enum { N = 2, T = 3, D = 2, FIRST = 100, PATHS = VT_ATTGD_PATHS, FORMS = 3 };

static const double tokens[N * T * D] = {-2.7, 1.2, 1.4, 2.1, 1.3, -0.1, 0.4, -2.2, -1.1, -0.4, 0.9, 0.1};
static const double labels[N] = {1, -1};

/* Without a floor softmax's derivative is taken in two ways: what rounding does to the plain one is the next thing that
 * stops W. */
static const struct {
    const char *name;
    double floor;
    vt_att_form form;
} forms[FORMS] = {{"+2.2e-16, as the code", VT_ATTGD_FLOOR, VT_ATT_PLAIN},
                  {"no constant", 0, VT_ATT_PLAIN},
                  {"no constant, exact G", 0, VT_ATT_EXACT}};

/* Updates one, tiny, zero, stall by step k's gradient gw [d d], before the step. *top: norm at the last growth. */
static void track_stalling(vt_joint *o, const vt_att *a, double p, int k, const double *gw, double *top) {
    double norm = vt_lp_norm(gw, D * D, p / (p - 1)), now = vt_lp_norm(o->w, D * D, p);
    for (int i = 0; i < N && !o->one; i++)
        if (a->s[i * T + vt_att_chosen(a, i)] == 1) o->one = k;
    if (!(norm < VT_ATTGD_FLOOR)) o->tiny = k + 1;
    if (norm != 0) o->zero = k + 1;
    if (!(now <= 1.001 * *top)) *top = now, o->stall = k;
}

/* Takes all steps of W and v from 0 (o->w, a->v) to their ends, o->w and o->v; sets one, tiny, zero and stall. ws
 * [FIRST, d d] and vs [FIRST, d] get W and v after each of the first steps. */
static void run_descent(vt_joint *o, vt_att *a, const vt_attgd_path *path, double floor, vt_att_form form, double *ws,
                        double *vs) {
    vt_mirror m = {.p = path->p, .eta = VT_ATTGD_ETA, .normalised = true, .floor = floor};
    double theta_w[D * D] = {0}, theta_v[D] = {0}, gw[D * D], gv[D], top = 0;
    for (int k = 1; k <= path->steps; k++) {
        vt_att_gradient(a, o->w, form, gw, gv);
        track_stalling(o, a, path->p, k, gw, &top);
        vt_mirror_step(&m, theta_w, o->w, gw, D * D);
        vt_mirror_step(&m, theta_v, a->v, gv, D);
        if (k <= FIRST) memcpy(ws + (k - 1) * D * D, o->w, sizeof o->w), memcpy(vs + (k - 1) * D, a->v, sizeof o->v);
    }
    /* a norm that grew within the last hundredth of the steps has not stalled */
    if (o->stall > path->steps - path->steps / 100) o->stall = 0;
    if (o->tiny > path->steps) o->tiny = 0;
    if (o->zero > path->steps) o->zero = 0;
    memcpy(o->v, a->v, sizeof o->v);
}

/* Solves both machines for o's tokens alpha and measures the ends against them: sets w_mm, v_mm, gap, d_w, d_v, norm_w,
 * norm_v. VT_E_NUMERIC if one cannot be solved. */
static vt_status solve_svms(vt_joint *o, const vt_att *a, double p, vt_err *e) {
    double rows[N * D];
    vt_svm w, v;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < D; c++) rows[i * D + c] = a->y[i] * a->x[(i * T + o->alpha[i]) * D + c];
    VT_TRY(vt_attsvm(o->w_mm, &w, a, o->alpha, p, e));
    VT_TRY(vt_svm_solve(o->v_mm, NULL, &v, rows, N, D, p, e));
    o->gap = fmax(w.gap, v.gap);
    o->d_w = vt_lp_direction(o->w_mm, o->w, D * D, p), o->d_v = vt_lp_direction(o->v_mm, o->v, D, p);
    o->norm_w = vt_lp_norm(o->w, D * D, p), o->norm_v = vt_lp_norm(o->v, D, p);
    return VT_OK;
}

/* Sets o's most and right (0 before): means over samples of the largest attention and of the probability of the tokens
 * alpha, at ws and vs of the first steps. Overwrites a->v and a->s. */
static void measure_first_steps(vt_joint *o, vt_att *a, const double *ws, const double *vs) {
    for (int k = 0; k < FIRST; k++) {
        memcpy(a->v, vs + k * D, sizeof o->v);
        vt_att_loss(a, ws + k * D * D);
        for (int i = 0; i < N; i++) {
            o->most[k] += a->s[i * T + vt_att_chosen(a, i)] / N;
            o->right[k] += 1 / (1 + exp(-vt_att_score(a, i, o->alpha[i]))) / N;
        }
    }
}

vt_status vt_attgd_joint_run(vt_joint *o, const vt_attgd_path *path, double floor, vt_att_form form, vt_err *e) {
    double ws[FIRST * D * D] = {0}, vs[FIRST * D] = {0};
    vt_att a;
    *o = (vt_joint){0};
    VT_TRY(vt_att_open(&a, N, T, D, e));
    memcpy(a.x, tokens, sizeof tokens), memcpy(a.y, labels, sizeof labels);
    for (int i = 0; i < N; i++) memcpy(a.z + i * D, tokens + i * T * D, D * sizeof *tokens); /* the query is token 0 */
    run_descent(o, &a, path, floor, form, ws, vs);
    vt_att_loss(&a, o->w);
    for (int i = 0; i < N; i++) o->alpha[i] = vt_att_chosen(&a, i);
    vt_status s = solve_svms(o, &a, path->p, e);
    measure_first_steps(o, &a, ws, vs);
    vt_att_close(&a);
    return s;
}

typedef struct results {
    vt_joint run[FORMS][PATHS];
} results;

/* "never" for 0, else the number. */
static void step_text(int k, char out[16]) {
    if (k)
        snprintf(out, 16, "%d", k);
    else
        snprintf(out, 16, "never");
}

/* Prints the machines, the ends of all runs with when they stall, and the first steps. */
static void print_all(FILE *f, const results *r) {
    fprintf(f, "\n== joint: 2 samples of 3 tokens in the plane, W and v from 0, nothing random ==\n");
    vt_columns t;
    vt_columns_titles(&t, "p\ttokens\tW_mm of l_p-AttSVM\tv_mm of l_p-SVM\tgap");
    for (int p = 0; p < PATHS; p++) {
        const vt_joint *o = &r->run[0][p];
        vt_columns_cells(&t, "%.3g\t(%d, %d)\t%.5f %8.5f %8.5f %8.5f\t%.5f %8.5f\t%.1e", vt_attgd_paths[p].p,
                         o->alpha[0], o->alpha[1], o->w_mm[0], o->w_mm[1], o->w_mm[2], o->w_mm[3], o->v_mm[0],
                         o->v_mm[1], o->gap);
    }
    vt_columns_end(&t, f, VT_LOOK_PAGE);
    fputc('\n', f);
    vt_columns_titles(&t, "-denominator |G|_q ...\tp\tsteps\tD(W)\tD(v)\t|W|_p\t|v|_p\tW stalls\t|G|<2.2e-16\tG = "
                          "0\tsoftmax is 1");
    for (int k = 0; k < FORMS; k++)
        for (int p = 0; p < PATHS; p++) {
            const vt_joint *o = &r->run[k][p];
            char text[4][16];
            step_text(o->stall, text[0]), step_text(o->tiny, text[1]);
            step_text(o->zero, text[2]), step_text(o->one, text[3]);
            vt_columns_cells(&t, "%s\t%.3g\t%d\t%.5f\t%.5f\t%.3f\t%.3f\t%s\t%s\t%s\t%s", forms[k].name,
                             vt_attgd_paths[p].p, vt_attgd_paths[p].steps, o->d_w, o->d_v, o->norm_w, o->norm_v,
                             text[0], text[1], text[2], text[3]);
        }
    vt_columns_end(&t, f, VT_LOOK_PAGE);
    fprintf(f, "steps from which on, to the end, |W|_p grows by less than 0.1 %%, |G_W|_q < 2.2e-16, G_W = 0; first at "
               "which a\n"
               "sample's attention has rounded to 1. With the constant W stalls because |G| / (|G| + 2.2e-16) goes to "
               "0; without\n"
               "it because s (g - s.g), as automatic differentiation forms it, loses the chosen token's share when s "
               "is nearly\n"
               "1; exact G keeps that share until it underflows to 0.\n");
    fprintf(f, "\nfirst steps, with the constant; mean of the largest attention, mean probability of the selected "
               "tokens\n");
    char titles[100] = "step";
    for (int p = 0; p < PATHS; p++) vt_text_item(titles, sizeof titles, "\t", "p = %.3g", vt_attgd_paths[p].p);
    vt_columns_titles(&t, "%s", titles);
    static const int at[] = {1, 2, 5, 10, 20, 50, 100};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        vt_columns_cell(&t, "%d", at[i]);
        for (int p = 0; p < PATHS; p++)
            vt_columns_cell(&t, "%.4f  %.4f", r->run[0][p].most[at[i] - 1], r->run[0][p].right[at[i] - 1]);
    }
    vt_columns_end(&t, f, VT_LOOK_PAGE);
}

/* Figure: both curves of the first steps, with the constant, for each p. */
static void draw_attention(vt_figure *f, const void *data) {
    const results *r = data;
    vt_figure_panel(f, &(vt_panel){"largest attention; dashed: probability of the selected token", .x = "step",
                                   .y_to = 1.02});
    for (int p = 0; p < PATHS; p++)
        for (int dashed = 0; dashed < 2; dashed++) {
            vt_figure_series(f, (dashed ? VT_DASHED : VT_LINE) | VT_MARKS, "p = %.3g", vt_attgd_paths[p].p);
            for (int k = 0; k < FIRST; k++)
                vt_figure_point(f, k + 1, dashed ? r->run[0][p].right[k] : r->run[0][p].most[k]);
        }
}

/* JSON of a run with denominator k; the curves of the first steps only for k = 0. */
static json_t *run_json(const vt_joint *o, int k, int p) {
    json_t *x = json_pack("{s:s,s:f,s:[ii],s:o,s:o,s:o,s:o,s:f,s:f,s:f,s:f,s:f,s:i,s:i,s:i,s:i}", "denominator",
                          forms[k].name, "p", vt_attgd_paths[p].p, "tokens", o->alpha[0], o->alpha[1], "w",
                          vt_lab_numbers(o->w, 4), "v", vt_lab_numbers(o->v, 2), "w_mm", vt_lab_numbers(o->w_mm, 4),
                          "v_mm", vt_lab_numbers(o->v_mm, 2), "divergence_w", o->d_w, "divergence_v", o->d_v, "norm_w",
                          o->norm_w, "norm_v", o->norm_v, "duality_gap", o->gap, "gradient_below_constant_from",
                          o->tiny, "softmax_one_at", o->one, "gradient_zero_from", o->zero, "stall", o->stall);
    if (x && k == 0) {
        json_object_set_new(x, "max_softmax", vt_lab_numbers(o->most, FIRST));
        json_object_set_new(x, "probability", vt_lab_numbers(o->right, FIRST));
    }
    return x;
}

/* Judges that both reach their machines, and that the experiment shows the limit. */
static vt_status record_claims(const results *r, vt_lab *lab, vt_err *e) {
    const vt_joint *c = r->run[0], *n = r->run[2];
    double worst = 0;
    for (int p = 0; p < PATHS; p++) worst = fmax(worst, fmax(c[p].d_w, c[p].d_v));
    VT_TRY(vt_lab_claim(lab, worst < 0.01 ? VT_SUPPORTED : VT_CONTRADICTED,
                        "W and v descending together reach the directions of their machines", e,
                        "D(W) = %.5f, %.5f, %.5f and D(v) = %.5f, %.5f, %.5f at p = 1.75, 2, 3", c[0].d_w, c[1].d_w,
                        c[2].d_w, c[0].d_v, c[1].d_v, c[2].d_v));
    bool stalled = c[0].stall && c[1].stall && c[2].stall;
    return vt_lab_claim(lab, stalled ? VT_WEAKENED : VT_SUPPORTED, "the joint experiment shows the limit of many steps",
                        e,
                        "with the code's constant W stalls at step %d, %d, %d of %d, %d, %d, at |W|_p %.2f, %.2f, "
                        "%.2f; without it, with exact G, D(W) is %.5f, %.5f, %.5f",
                        c[0].stall, c[1].stall, c[2].stall, vt_attgd_paths[0].steps, vt_attgd_paths[1].steps,
                        vt_attgd_paths[2].steps, c[0].norm_w, c[1].norm_w, c[2].norm_w, n[0].d_w, n[1].d_w, n[2].d_w);
}

vt_status vt_attgd_joint(const vt_attgd_options *o, vt_lab *lab, vt_err *e) {
    (void)o;
    results r;
    json_t *list = json_array();
    vt_status s = VT_OK;
    for (int k = 0; k < FORMS && s == VT_OK; k++)
        for (int p = 0; p < PATHS && s == VT_OK; p++) {
            s = vt_attgd_joint_run(&r.run[k][p], &vt_attgd_paths[p], forms[k].floor, forms[k].form, e);
            if (s == VT_OK && json_array_append_new(list, run_json(&r.run[k][p], k, p)) != 0)
                s = vt_fail(e, VT_E_MEMORY, "lab attgd: no memory for the joint part's results");
        }
    if (s != VT_OK) {
        json_decref(list);
        return s;
    }
    print_all(lab->out, &r);
    VT_TRY(vt_lab_put(lab->json, "joint", list, e));
    VT_TRY(vt_lab_figure(lab, "joint", "W and v trained together: attention on the selected token", draw_attention, &r,
                         e));
    return record_claims(&r, lab, e);
}
