/* SPDX-License-Identifier: MIT */
#include "eval/header.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

const vt_header_attack *vt_header_entry(const vt_header *h, int entry) {
    static const vt_header_attack none = {.name = "", .id = "", .radius = INFINITY};
    return entry >= 1 && entry <= h->n_attacks ? &h->attacks[entry - 1] : &none;
}

vt_scoring vt_header_scoring(const vt_header *h, int entry) { return vt_header_entry(h, entry)->scoring; }

const char *vt_attack_label(const vt_header_attack *a, char *buf, size_t size) {
    bool ball = a->scoring == VT_SCORE_BALL;
    snprintf(buf, size, "%.32s%s%s", a->name, ball ? "" : ", ", ball ? "" : vt_scoring_name(a->scoring));
    return buf;
}

/* Does the id "pgd:steps=10,loss=ce" hold this option? */
static bool has_option(const char *id, const char *option, size_t n) {
    for (id += strcspn(id, ":"); *id; id += 1 + strcspn(id + 1, ","))
        if (strcspn(id + 1, ",") == n && !strncmp(id + 1, option, n)) return true;
    return false;
}

/* Writes the options of `id` that `other` does not have, " (steps=10, loss=ce)". */
static void list_differing_options(const char *id, const char *other, char *buf, size_t size) {
    buf[0] = 0;
    for (id += strcspn(id, ":"); *id; id += 1 + strcspn(id + 1, ",")) {
        size_t n = strcspn(id + 1, ",");
        if (!has_option(other, id + 1, n)) vt_text_item(buf, size, ", ", "%s%.*s", *buf ? "" : " (", (int)n, id + 1);
    }
    if (*buf) vt_text_item(buf, size, "", ")");
}

const char *vt_stage_label(const vt_header_attack *a, int k, char *buf, size_t size) {
    const vt_header_stage *me = &a->stages[k];
    char more[48] = "";
    for (int i = 0; i < a->n_stages && !*more; i++) {
        const vt_header_stage *other = &a->stages[i];
        if (i != k && !strcmp(me->name, other->name) && me->share == other->share)
            list_differing_options(me->id, other->id, more, sizeof more);
    }
    if (me->share < 1) snprintf(more, sizeof more, " (%g %%)", 100 * me->share);
    snprintf(buf, size, "%.24s%s", me->name, more);
    return buf;
}

const char *vt_header_weights(const vt_header *h, char *buf, size_t size) {
    if (*h->weights_name)
        snprintf(buf, size, "%s", h->weights_name);
    else
        snprintf(buf, size, "%.12s", h->weights);
    return buf;
}

bool vt_header_is_threat(const vt_header *h) { return h->patch.size || h->box || h->rotation.angles; }

const char *vt_header_threat(const vt_header *h, char *buf, size_t size) {
    char targeted[40] = "";
    if (h->targets) snprintf(targeted, sizeof targeted, ", targets: %s", h->targets);
    if (h->patch.size)
        snprintf(buf, size, "patch %d x %d, count %d, %s%s", h->patch.size, h->patch.size, h->patch.count,
                 h->patch.aligned ? "on tokens" : "anywhere", targeted);
    else if (h->box)
        snprintf(buf, size, "box of SHA-256 %.12s...%s", h->box, targeted);
    else if (h->rotation.angles)
        snprintf(buf, size, "rotation to %g degrees, shift to %g pixels, grid of %d x %d x %d%s", h->rotation.angle,
                 h->rotation.shift, h->rotation.angles, h->rotation.shifts, h->rotation.shifts, targeted);
    else if (h->curve)
        snprintf(buf, size, "%s, curve over eps%s", h->norm_name, targeted);
    else
        snprintf(buf, size, "%s eps %s%s", h->norm_name, h->eps_text, targeted);
    return buf;
}

bool vt_header_difference(const json_t *a, const json_t *b, bool allow_mixed, char *names, size_t size) {
    const char *key;
    json_t *value;
    names[0] = 0;
    for (int side = 0; side < 2; side++) json_object_foreach((json_t *)(side ? b : a), key, value) {
            bool story = !strcmp(key, "format") || !strcmp(key, "weights_name") || !strcmp(key, "sources");
            if (story || (allow_mixed && !strcmp(key, "blas"))) continue;
            const json_t *other = json_object_get(side ? a : b, key);
            if (side ? other != NULL : json_equal(value, other)) continue;
            vt_text_item(names, size, ", ", "%s", key);
        }
    return names[0] != 0;
}

bool vt_header_agree(const vt_header *a, const vt_header *b, const char *key) {
    const json_t *x = json_object_get(a->document, key), *y = json_object_get(b->document, key);
    return x == y || (x && y && json_equal(x, y));
}

bool vt_header_gap_find(vt_header_gap *out, const vt_header *a, const vt_header *b, bool (*skip)(const char *key)) {
    const char *key;
    json_t *value;
    json_object_foreach(a->document, key, value) {
        const json_t *other = json_object_get(b->document, key);
        if (skip(key) || json_equal(value, other)) continue;
        *out = (vt_header_gap){key, value, other};
        return true;
    }
    return false;
}
