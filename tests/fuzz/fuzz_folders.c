/* SPDX-License-Identifier: MIT */
/* Any bytes as what says which pictures are of which class: Tiny ImageNet's annotations, an order of class folders, a
 * list of images, the model's names. Refused with a sentence, or every image has a class and its place. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "data/image.h"
#include "data/dataset.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *annotated, *plain, *text, *annotations;

static void picture(const char *name) {
    uint8_t rgb[3] = {1, 2, 3};
    const vt_image im = {vt_shape_rgb(1), rgb, NULL};
    vt_err e = {0};
    if (vt_png_write(scratch(name), &im, &e) != VT_OK) abort();
}

static void start(void) {
    static const char *const folders[] = {"t/images", "p/10", "p/2", "p/a b"};
    if (text) return;
    annotated = scratch("t"), plain = scratch("p");
    if (mkdir(annotated, 0700) || mkdir(plain, 0700)) abort();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (mkdir(scratch(folders[i]), 0700)) abort();
    picture("t/images/0.png"), picture("t/images/1.png");
    picture("p/10/0.png"), picture("p/2/1.png"), picture("p/a b/0.png");
    annotations = scratch("t/val_annotations.txt"), text = scratch("list");
}

static void look(vt_dataset *d, const char *labels) {
    vt_err e = {0};
    d->labels = labels;
    if (vt_dataset_fit_head(d, 3, false, "m", &e) != VT_OK && !e.text[0]) abort();
    for (int64_t i = 0; i < d->count; i++) {
        vt_image im;
        int label;
        if (vt_dataset_read(d, i, &im, &label, &e) != VT_OK || label < 0 || label >= 3 + d->classes) abort();
        vt_image_free(&im);
    }
    vt_dataset_close(d);
}

static vt_dataset *open_as(const char *path, const char *order) {
    vt_dataset *d;
    vt_err e = {0};
    if (vt_dataset_open_asked(&d, path, VT_SPLIT_TEST, NULL, order, &e) == VT_OK) return d;
    if (d || !e.text[0]) abort();
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_err e = {0};
    int32_t *images;
    size_t many;
    start();
    scratch_write(annotations, bytes, n);
    scratch_write(text, bytes, n);
    vt_dataset *d = open_as(annotated, NULL);
    if (d) look(d, NULL);
    if ((d = open_as(plain, text))) look(d, NULL);
    if (!(d = open_as(plain, NULL))) abort();
    if (vt_image_list(&images, &many, text, d, &e) == VT_OK) {
        for (size_t i = 0; i < many; i++)
            if (images[i] < 0 || images[i] >= d->count || (i && images[i] <= images[i - 1])) abort();
        free(images);
    } else if (!e.text[0]) {
        abort();
    }
    char *labels = calloc(n + 1, 1);
    if (!labels) abort();
    memcpy(labels, bytes, n);
    look(d, labels);
    free(labels);
    return 0;
}
