/* SPDX-License-Identifier: MIT */
/* Clean and robust accuracy on a data set: robust_accuracy WEIGHTS DATA [A:B]
 *   cc robust_accuracy.c $(pkg-config --cflags --libs vitrine) -o robust_accuracy
 *   ./robust_accuracy weights/shapes10-vit datasets/shapes10 0:20 */
#include <stdio.h>
#include <stdlib.h>
#include <vitrine.h>

static void told(void *ctx, int entry, const vitrine_verdict *v) {
    int *broken = ctx;
    if (entry && v->outcome == VITRINE_BROKEN && ++*broken <= 3)
        printf("image %d: %d is taken for %d, margin %.3f\n", v->image, v->label, v->pred, v->margin);
}

int main(int argc, char **argv) {
    char weights[4096], data[4096], images[80];
    int broken = 0;
    vitrine_err e = {VITRINE_OK, ""};
    vitrine_run *r = NULL;
    if (argc < 3) {
        fprintf(stderr, "usage: robust_accuracy WEIGHTS DATA [A:B]\n");
        return 2;
    }
    snprintf(weights, sizeof weights, "weights=%s", argv[1]);
    snprintf(data, sizeof data, "data=%s", argv[2]);
    snprintf(images, sizeof images, "images=%s", argc > 3 ? argv[3] : "0:20");
    const char *options[] = {weights,     data, images, "attack=apgd-ce:steps=20", "attack=square:queries=200",
                             "eps=4/255", NULL};
    vitrine_listener listener = {sizeof listener, told, NULL, &broken, NULL};
    if (vitrine_evaluate(&r, options, &listener, &e) != VITRINE_OK) {
        fprintf(stderr, "robust_accuracy: %s\n", e.text);
        return 1;
    }
    size_t n = vitrine_run_images(r);
    vitrine_verdict *v = calloc(n, sizeof *v);
    for (int k = 0; v && k <= vitrine_run_entries(r); k++) {
        size_t right = 0;
        if (vitrine_run_verdicts(r, k, v, &e) != VITRINE_OK) break;
        for (size_t i = 0; i < n; i++) right += v[i].outcome == VITRINE_CORRECT || v[i].outcome == VITRINE_ROBUST;
        printf("%-8s %zu of %zu\n", vitrine_run_entry(r, k), right, n);
    }
    free(v);
    vitrine_run_close(r);
    return e.code == VITRINE_OK ? 0 : 1;
}
