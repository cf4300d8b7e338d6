/* SPDX-License-Identifier: MIT */
/* Are the labels numbered as the model numbers its outputs? */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "eval/doctor/doctor.h"
#include "base/stats.h"

#define ALPHA 0.01

bool vt_doctor_blind(const vt_doctor *d, size_t least, char *text, size_t size) {
    const size_t n = d->n_images;
    int classes = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        bool met = false;
        for (size_t k = 0; k < i && !met; k++) met = d->labels[k] == d->labels[i];
        classes += !met, most = d->labels[i] > most ? d->labels[i] : most;
    }
    double all = d->data->classes_open ? most + 1 : d->data->classes,
           expected = all * (1 - pow(1 - 1 / all, (double)n));
    bool few = n < least, narrow = classes == 1 || 4 * classes <= expected;
    if (text && few)
        snprintf(text, size, "%zu images are too few to tell one reading from another: %zu are needed", n, least);
    else if (text && narrow)
        snprintf(text, size,
                 "these %zu images hold %d of %g classes, which tells no reading from another: take them from all "
                 "classes",
                 n, classes, all);
    return few || narrow;
}

/* Returns McNemar's one-sided p of "right under the labels wanted" against "right as they are"; *right: images right
 * under wanted. */
static double mcnemar_p_value(const vt_doctor *d, const vt_trial *t, const int32_t *wanted, int64_t *right) {
    int64_t here = 0, there = 0;
    *right = 0;
    for (size_t i = 0; i < d->n_images; i++) {
        bool a = t->pred[i] == wanted[i], b = t->pred[i] == d->labels[i];
        here += a && !b, there += b && !a, *right += a;
    }
    return vt_mcnemar_exact(here, there).a_better;
}

/* Fits a renumbering. wanted [n]: for each image the output that most images of its label have in the sample's other
 * half, so that nothing is counted that was fitted. table [K]: the same of all images, -1: no such label. false: no
 * memory. */
static bool fit_renumbering(const vt_doctor *d, const vt_trial *t, int32_t *wanted, int32_t *table) {
    size_t k = (size_t)d->outputs;
    int32_t *count = calloc(2 * k * k, sizeof *count);
    if (!count) return false;
    for (size_t i = 0; i < d->n_images; i++)
        if (t->pred[i] >= 0) count[(i & 1) * k * k + (size_t)d->labels[i] * k + (size_t)t->pred[i]]++;
    for (size_t i = 0; i < d->n_images; i++) {
        const int32_t *row = count + (size_t) !(i & 1) * k * k + (size_t)d->labels[i] * k;
        int32_t best = 0;
        for (int32_t j = 1; j < d->outputs; j++)
            if (row[j] > row[best]) best = j;
        wanted[i] = best;
    }
    for (size_t y = 0; y < k; y++) {
        int32_t most = 0;
        table[y] = -1;
        for (size_t j = 0; j < k; j++) {
            int32_t n = count[y * k + j] + count[k * k + y * k + j];
            if (n > most) most = n, table[y] = (int32_t)j;
        }
    }
    free(count);
    return true;
}

/* Returns whether the table gives no two labels the same output: a renumbering does, a class that is mistaken for
 * another does not. */
static bool one_to_one(const int32_t *table, int k) {
    for (int a = 0; a < k; a++)
        for (int b = 0; b < a; b++)
            if (table[a] >= 0 && table[a] == table[b]) return false;
    return true;
}

/* Returns the offset of the labels (of K: all for up to 100 classes, else 1 or K - 1) that fits best beyond chance, or
 * 0; *most: images right with it. wanted [n]: scratch. */
static int find_label_shift(const vt_doctor *d, const vt_trial *t, int32_t *wanted, int64_t *most) {
    int k = d->outputs, tries = k <= 100 ? k - 1 : 2, best = 0;
    int64_t right;
    *most = 0;
    for (int i = 1; i <= tries; i++) {
        int offset = k <= 100 ? i : i == 1 ? 1 : k - 1;
        for (size_t j = 0; j < d->n_images; j++) wanted[j] = (d->labels[j] + offset) % k;
        double p = mcnemar_p_value(d, t, wanted, &right);
        if (p <= ALPHA / tries && right > *most) *most = right, best = offset;
    }
    return best;
}

/* Writes the sentence on renumbered labels, with the first 12 that change. */
static void say_table(const int32_t *table, int k, double percent, char *text, size_t size) {
    int n = snprintf(text, size, "labels look renumbered: %.1f %% of the images would be right with", percent);
    for (int y = 0, shown = 0; y < k && n < (int)size; y++)
        if (table[y] >= 0 && table[y] != y && shown++ < 12)
            n += snprintf(text + n, size - (size_t)n, "%s %d as %d", shown > 1 ? "," : "", y, table[y]);
}

bool vt_doctor_labels(const vt_doctor *d, const vt_trial *t, char *text, size_t size) {
    int k = d->outputs;
    int64_t shifted, right = 0, n = (int64_t)d->n_images;
    int32_t *wanted = calloc((size_t)n + (size_t)k, sizeof *wanted), *table = wanted + n;
    if (!wanted) return false;
    int offset = find_label_shift(d, t, wanted, &shifted);
    if (vt_doctor_chance(shifted, n, k)) offset = 0;
    bool enough = k <= 1000 && n >= 10 * (int64_t)k; /* of each class, to say what it is called */
    bool renumbered = enough && fit_renumbering(d, t, wanted, table) && one_to_one(table, k) &&
                      mcnemar_p_value(d, t, wanted, &right) <= ALPHA && right > shifted &&
                      !vt_doctor_chance(right, n, k);
    if (renumbered)
        say_table(table, k, 100 * (double)right / (double)n, text, size);
    else if (offset)
        snprintf(text, size, "labels look shifted: with %d %s every label (modulo %d) %.1f %% of the images are right",
                 offset <= k / 2 ? offset : k - offset, offset <= k / 2 ? "added to" : "taken from", k,
                 100 * (double)shifted / (double)n);
    free(wanted);
    return renumbered || offset;
}
