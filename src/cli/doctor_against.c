/* SPDX-License-Identifier: MIT */
#include "cli/doctor_against.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "base/rand.h"
#include "cli/run_args.h"
#include "eval/doctor/against.h"

enum { RANDOM = 2, MOST = 4 }; /* images */

typedef struct job {
    vt_model *model;
    vt_dataset *data;
    int32_t *images;
    size_t n_images;
    double *x;
    int n;
    vt_against r;
} job;

/* The first images of --data, or random pixels. */
static vt_status read_images(job *j, const vt_cli *c, vt_err *e) {
    const size_t pixels = vt_config_input_pixels(&j->model->config);
    if (vt_cli_has(c, "data")) {
        VT_TRY(vt_cli_data(c, &j->data, e));
        VT_TRY(vt_cli_images(c, j->data, &j->images, &j->n_images, e));
    }
    j->n = !j->data ? RANDOM : j->n_images < MOST ? (int)j->n_images : MOST;
    if (!(j->x = vt_alloc((size_t)j->n * pixels * sizeof *j->x)))
        return vt_fail(e, VT_E_MEMORY, "no memory for %d images", j->n);
    const vt_rng r = {.seed = 1, .purpose = vt_rng_purpose("against")};
    for (size_t k = 0; !j->data && k < (size_t)j->n * pixels; k++) j->x[k] = (double)vt_rng_uniform(&r, k);
    for (int i = 0; j->data && i < j->n; i++) {
        vt_image im;
        int label;
        VT_TRY(vt_dataset_read_as(j->data, j->images[i], vt_config_shape(&j->model->config), &im, &label, e));
        for (size_t k = 0; k < pixels; k++) j->x[(size_t)i * pixels + k] = (double)vt_image_at(&im, k);
        vt_image_free(&im);
    }
    return VT_OK;
}

/* Prints the weights of the checkpoint that the export does not hold, each with the constant nearest to it. */
static void print_weights(const vt_against *r) {
    for (int i = 0; i < r->n_weights; i++) {
        const vt_against_weight *w = &r->weights[i];
        printf("  weight %s is not in the export", w->name);
        if (*w->nearest)
            printf(": nearest %s, whose numbers differ by %.2g in all\n", w->nearest, w->difference);
        else
            printf(": no constant has as many numbers\n");
    }
    if (!r->n_weights)
        printf("  all its weights are in the export: their order, or what is computed of them, differs\n");
}

/* Layers up to the first that differs, all of them with --verbose. */
static vt_status print_result(const job *j, const vt_cli *c, const char *path, vt_err *e) {
    const vt_against *r = &j->r;
    const bool verbose = vt_cli_has(c, "verbose");
    printf("%d images%s, in double; the export takes %s\n", j->n, j->data ? "" : " of random pixels",
           r->normalised ? "(x - mean) / std of images in [0,1]" : "images in [0,1]");
    for (int k = 0; k < r->n_layers; k++) {
        const vt_against_layer *l = &r->layers[k];
        if (!verbose && k != r->first && k != r->first - 1 && k != r->n_layers - 1) continue;
        if (*l->nearest)
            printf("%-36s differs by %.2g from %s\n", l->name, l->difference, l->nearest);
        else
            printf("%-36s no value of the export has its size\n", l->name);
        if (k == r->first) print_weights(r);
    }
    printf("logits: largest difference %.3g, where they span %.3g\n", r->logits, r->span);
    if (r->first < r->n_layers)
        return vt_fail(e, VT_E_NUMERIC, "%s: the first of %d layers that differs is %s, by %.2g of its largest number",
                       path, r->n_layers, r->layers[r->first].name, r->layers[r->first].difference);
    printf("all %d layers are equal within %.0e of their largest number\n", r->n_layers, VT_AGAINST_TOL);
    return VT_OK;
}

/* Runs `doctor WEIGHTS --against EXPORT`: both networks on the same images, layer by layer, and prints the result. */
static vt_status compare_networks(job *j, const vt_cli *c, vt_err *e) {
    const char *path = vt_cli_get(c, "against"), *weights;
    vt_overrides o;
    if (vt_cli_has(c, "logits") || vt_cli_has(c, "oracle"))
        return vt_fail(e, VT_E_USAGE, "--against compares a checkpoint with its export: leave --%s out",
                       vt_cli_has(c, "logits") ? "logits" : "oracle");
    VT_TRY(vt_cli_weights(c, &weights, e));
    VT_TRY(vt_cli_overrides(c, &o, e));
    VT_TRY(vt_model_open(&j->model, weights, &o, e));
    VT_TRY(read_images(j, c, e));
    VT_TRY(vt_doctor_against(&j->r, j->model, path, j->x, j->n, e));
    return print_result(j, c, path, e);
}

vt_status vt_cli_doctor_against(const vt_cli *c, vt_err *e) {
    static job j;
    j = (job){0};
    vt_status s = compare_networks(&j, c, e);
    vt_against_free(&j.r);
    vt_dataset_close(j.data);
    vt_model_close(j.model);
    free(j.images), free(j.x);
    return s;
}
