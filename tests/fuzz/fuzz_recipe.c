/* SPDX-License-Identifier: MIT */
/* Recipes: any bytes are refused with one sentence or accepted, and what resolves prints a canonical text that reads
 * back to the same text. The bytes are also tried as one --set and as the texts of a comparison. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "train/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static bool refused(vt_status s, const vt_err *e) {
    if (s == VT_OK) return false;
    if (e->code != s || !e->text[0] || strchr(e->text, '\n')) abort();
    return true;
}

static char *text_of(const vt_recipe *r) {
    char *t = vt_recipe_text(r);
    if (!t) abort();
    return t;
}

/* What can be read at all can be written and read again, resolved or not. */
static void same_again(const vt_recipe *r, bool resolved) {
    vt_recipe *again;
    vt_err e = {0};
    char *text = text_of(r), diff[64];
    if (vt_recipe_new(&again, &e) != VT_OK || vt_recipe_parse(again, text, strlen(text), "again", &e) != VT_OK) abort();
    if (resolved && vt_recipe_resolve(again, &e) != VT_OK) abort();
    char *second = text_of(again);
    if (strcmp(text, second) != 0) abort();
    vt_recipe_diff(text, second, diff, sizeof diff);
    if (*diff) abort();
    free(text);
    free(second);
    vt_recipe_free(again);
}

static void as_file(const char *bytes, size_t n) {
    vt_recipe *r;
    vt_err e = {0};
    if (vt_recipe_new(&r, &e) != VT_OK) abort();
    if (!refused(vt_recipe_parse(r, bytes, n, "fuzz", &e), &e)) {
        same_again(r, false);
        if (!refused(vt_recipe_resolve(r, &e), &e)) {
            same_again(r, true);
            for (int i = 0; i <= 8; i++)
                if (!(vt_recipe_lr(r, i / 8.0) > 0 || r->schedule.kind == 2)) abort(); /* a cosine may end at 0 */
            if (!(vt_recipe_weight_decay(r, "blocks.0.attn.qkv.weight") >= 0)) abort();
        }
    }
    vt_recipe_free(r);
}

static void as_text(const char *text) {
    vt_recipe *r;
    vt_err e = {0};
    if (vt_recipe_new(&r, &e) != VT_OK) abort();
    char *preset = text_of(r);
    for (size_t size = 1; size <= 64; size += 63) {
        char *diff = malloc(size); /* of its exact size, for the sanitizer */
        if (!diff) abort();
        vt_recipe_diff(text, preset, diff, size);
        if (strlen(diff) >= size) abort();
        vt_recipe_diff(preset, text, diff, size);
        if (strlen(diff) >= size) abort();
        free(diff);
    }
    free(preset);
    if (!refused(vt_recipe_set(r, text, &e), &e)) same_again(r, false);
    vt_recipe_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n > 1 << 14) return 0; /* larger ones only make fuzzing slow */
    char *text = malloc(n + 1);
    if (!text) return 0;
    memcpy(text, bytes, n);
    text[n] = 0;
    as_file((const char *)bytes, n);
    as_text(text);
    free(text);
    return 0;
}
