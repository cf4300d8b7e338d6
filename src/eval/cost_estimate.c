/* SPDX-License-Identifier: MIT */
#include "eval/cost_estimate.h"

#include <string.h>

/* One call of all images of a row: clean, an entry, or (level 1) a stage of an entry that has several. */
typedef struct row {
    char label[64];
    int level;
    double images; /* a stage on a share of the survivors: the mean of those drawn */
    double forwards, gradients, verdicts, tflop;
} row;

/* The passes of part of an attack: all its stages, or stage k alone. */
static row row_of(const vt_eval_options *v, const vt_attack *a, int k) {
    double forward, gradient;
    const vt_config *c = &v->subject->model->config;
    vt_cost_dims dims = {.classes = vt_subject_classes(v->subject),
                         .layers = c->depth,
                         .norm = v->norm,
                         .aimed = v->targets != NULL};
    vt_attack part = *a;
    row r = {.level = k >= 0, .images = (double)v->n_images};
    if (k >= 0) part.stages = &a->stages[k], part.n_stages = 1, r.images *= a->stages[k].share;
    vt_passes p = vt_attack_cost(&part, &dims);
    vt_subject_flops(v->subject, &forward, &gradient);
    r.forwards = p.forwards * (double)v->n_images, r.gradients = p.gradients * (double)v->n_images;
    for (int i = 0; i < part.n_stages; i++) r.verdicts += part.stages[i].share * (double)v->n_images;
    r.tflop = 1e-12 * (r.forwards * forward + r.gradients * gradient);
    return r;
}

static void clean_row(const vt_eval_options *v, row *r) {
    double forward, gradient;
    vt_subject_flops(v->subject, &forward, &gradient);
    *r = (row){.label = "clean", .images = (double)v->n_images, .forwards = (double)v->n_images};
    r->tflop = 1e-12 * forward * r->forwards;
}

static void sum_row(const vt_eval_options *v, row *sum) {
    clean_row(v, sum);
    snprintf(sum->label, sizeof sum->label, "all, at most");
    for (int i = 0; i < v->n_attacks; i++) {
        row r = row_of(v, &v->attacks[i], -1);
        sum->forwards += r.forwards, sum->gradients += r.gradients, sum->verdicts += r.verdicts, sum->tflop += r.tflop;
    }
}

/* Row i; the last one is the sum. false past the end. */
static bool row_at(const vt_eval_options *v, int i, row *r) {
    if (i == 0) {
        clean_row(v, r);
        return true;
    }
    for (int k = 0, at = 1; k < v->n_attacks; k++) {
        const vt_attack *a = &v->attacks[k];
        int stages = a->n_stages > 1 ? a->n_stages : 0;
        if (i <= at + stages) {
            const char *how = a->scoring == VT_SCORE_BALL ? "" : vt_scoring_name(a->scoring);
            *r = row_of(v, a, i - at - 1);
            snprintf(r->label, sizeof r->label, "%s%s%s", i > at ? a->stages[i - at - 1].def->name : a->name,
                     *how ? ", " : "", how);
            return true;
        }
        at += 1 + stages;
        if (k + 1 == v->n_attacks && i == at) {
            sum_row(v, r);
            return true;
        }
    }
    return false;
}

/* Hours of a row on all threads. */
static double hours_of(const row *r, const vt_seconds *s, int threads) {
    return (r->forwards * s->forward + r->gradients * s->gradient + r->verdicts * s->verdict) / threads / 3600;
}

const char *vt_hours_text(char buf[32], double hours) {
    if (hours * 3600 < 100)
        snprintf(buf, 32, "%.2g s", hours * 3600);
    else if (hours * 60 < 100)
        snprintf(buf, 32, "%.2g min", hours * 60);
    else
        snprintf(buf, 32, "%.3g h", hours);
    return buf;
}

void vt_cost_estimate_print(FILE *f, const vt_eval_options *v, const vt_seconds *s) {
    row r;
    char time[32], label[64], work[16];
    fprintf(f, "%-22s %8s %12s %12s %9s  %s\n", "at most", "images", "forwards", "gradients", "TFLOP", "time here");
    for (int i = 0; row_at(v, i, &r); i++) {
        snprintf(label, sizeof label, "%s%.40s", r.level ? "  " : "", r.label);
        snprintf(work, sizeof work, "%.3g", r.tflop);
        fprintf(f, "%-22s %8.0f %12.0f %12.0f %9s  %s\n", label, r.images, r.forwards, r.gradients,
                v->subject->remote ? "?" : work, vt_hours_text(time, hours_of(&r, s, v->threads)));
    }
    fprintf(f,
            "\nAn image that is wrong as it is, or that an attack breaks, costs less than this.\n"
            "time: with %d thread%s and no other work, by what was measured here:\n"
            "forward %.3g ms, gradient %.3g ms, verdict %.3g ms\n",
            v->threads, v->threads == 1 ? "" : "s", 1e3 * s->forward, 1e3 * s->gradient, 1e3 * s->verdict);
}
