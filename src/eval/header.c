/* SPDX-License-Identifier: MIT */
#include "eval/header.h"

#include <stdio.h>
#include <string.h>

const char *vt_header_text(const json_t *header, const char *key) {
    const char *v = json_string_value(json_object_get(header, key));
    return v ? v : "";
}

const json_t *vt_header_entry(const json_t *header, int entry) {
    return json_array_get(json_object_get(header, "attacks"), (size_t)entry - 1);
}

vt_scoring vt_header_scoring(const json_t *header, int entry) {
    return vt_scoring_find(vt_header_text(vt_header_entry(header, entry), "scoring"));
}

const char *vt_attack_label(const json_t *attack, char *buf, size_t size) {
    const char *scoring = vt_header_text(attack, "scoring");
    snprintf(buf, size, "%.32s%s%s", vt_header_text(attack, "name"), *scoring ? ", " : "", scoring);
    return buf;
}

static double share_of(const json_t *stage) {
    const json_t *share = json_object_get(stage, "share");
    return share ? json_number_value(share) : 1;
}

/* Does the id "pgd:steps=10,loss=ce" hold this option? */
static bool has_option(const char *id, const char *option, size_t n) {
    for (id += strcspn(id, ":"); *id; id += 1 + strcspn(id + 1, ","))
        if (strcspn(id + 1, ",") == n && !strncmp(id + 1, option, n)) return true;
    return false;
}

/* The options of `id` that `other` does not have. */
static void differences(const char *id, const char *other, char *buf, size_t size) {
    size_t at = 0;
    for (id += strcspn(id, ":"); *id && at < size; id += 1 + strcspn(id + 1, ",")) {
        size_t n = strcspn(id + 1, ",");
        if (!has_option(other, id + 1, n))
            at += (size_t)snprintf(buf + at, size - at, "%s%.*s", at ? ", " : " (", (int)n, id + 1);
    }
    if (at && at < size) snprintf(buf + at, size - at, ")");
}

const char *vt_stage_label(const json_t *attack, int k, char *buf, size_t size) {
    const json_t *stages = json_object_get(attack, "stages"), *me = json_array_get(stages, (size_t)k);
    double share = share_of(me);
    char more[48] = "";
    for (size_t i = 0; i < json_array_size(stages) && !*more; i++) {
        const json_t *other = json_array_get(stages, i);
        if ((int)i != k && !strcmp(vt_header_text(me, "name"), vt_header_text(other, "name")) &&
            share == share_of(other))
            differences(vt_header_text(me, "id"), vt_header_text(other, "id"), more, sizeof more);
    }
    if (share < 1) snprintf(more, sizeof more, " (%g %%)", 100 * share);
    snprintf(buf, size, "%.24s%s", vt_header_text(me, "name"), more);
    return buf;
}

const char *vt_header_weights(const json_t *header, char *buf, size_t size) {
    const char *name = vt_header_text(header, "weights_name");
    if (*name)
        snprintf(buf, size, "%s", name);
    else
        snprintf(buf, size, "%.12s", vt_header_text(header, "weights"));
    return buf;
}

bool vt_is_curve(const json_t *header) {
    const json_t *attack;
    size_t i;
    bool at = json_is_true(json_object_get(header, "curve"));
    json_array_foreach(json_object_get(header, "attacks"), i, attack) at = at || json_object_get(attack, "at");
    return at;
}

const char *vt_header_threat(const json_t *header, char *buf, size_t size) {
    const json_t *patch = json_object_get(json_object_get(header, "threat"), "patch");
    int side = (int)json_integer_value(json_object_get(patch, "size"));
    if (patch)
        snprintf(buf, size, "patch %d x %d, count %d, %s", side, side,
                 (int)json_integer_value(json_object_get(patch, "count")),
                 json_is_true(json_object_get(patch, "aligned")) ? "on tokens" : "anywhere");
    else if (vt_is_curve(header))
        snprintf(buf, size, "%s, curve over eps", vt_header_text(header, "norm"));
    else
        snprintf(buf, size, "%s eps %s", vt_header_text(header, "norm"), vt_header_text(header, "eps"));
    return buf;
}

const char *vt_header_note(const json_t *header, size_t i) {
    const json_t *of[] = {json_object_get(header, "data"), json_object_get(header, "model"),
                          json_object_get(header, "surrogate"), header};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        const json_t *notes = json_object_get(of[k], "notes");
        if (i < json_array_size(notes)) return json_string_value(json_array_get(notes, i));
        i -= json_array_size(notes);
    }
    return NULL;
}

int vt_header_side(const json_t *header) {
    const json_t *model = json_object_get(header, "model"), *native = json_object_get(model, "native");
    const long long side = (long long)json_integer_value(native ? native : json_object_get(model, "image"));
    return side >= 1 && side <= 4096 ? (int)side : 0; /* 0 of what is no integer */
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
            size_t used = strlen(names);
            snprintf(names + used, size - used, "%s%s", used ? ", " : "", key);
        }
    return names[0] != 0;
}
