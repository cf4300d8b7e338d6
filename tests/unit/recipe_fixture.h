/* SPDX-License-Identifier: MIT */
/* What the tests of recipes share: recipes from text, and lists of refusals. */
#ifndef RECIPE_BENCH_H
#define RECIPE_BENCH_H

#include "t.h"

#include "train/recipe.h"

static inline vt_recipe *fresh(void) {
    vt_recipe *r;
    vt_err e = {0};
    assert_int_equal(vt_recipe_new(&r, &e), VT_OK);
    return r;
}

static inline vt_status parse(vt_recipe *r, const char *text, vt_err *e) {
    return vt_recipe_parse(r, text, strlen(text), "r.yaml", e);
}

/* A recipe of this YAML; resolved, it must be without fault. */
static inline vt_recipe *of(const char *text, bool resolved) {
    vt_recipe *r = fresh();
    vt_err e = {0};
    if (parse(r, text, &e) != VT_OK || (resolved && vt_recipe_resolve(r, &e) != VT_OK))
        fail_msg("'%s' was refused: %s", text, e.text);
    return r;
}

static inline void set(vt_recipe *r, const char *assignment) {
    vt_err e = {0};
    if (vt_recipe_set(r, assignment, &e) != VT_OK) fail_msg("--set %s was refused: %s", assignment, e.text);
}

/* The same, resolved, with one --set (or NULL). */
static inline vt_recipe *of_set(const char *text, const char *assignment) {
    vt_recipe *r = of(text, false);
    vt_err e = {0};
    if (assignment) set(r, assignment);
    if (vt_recipe_resolve(r, &e) != VT_OK) fail_msg("'%s' was refused: %s", text, e.text);
    return r;
}

typedef struct refusal {
    const char *text; /* YAML */
    vt_status status;
    const char *a, *b; /* words of the sentence */
} refusal;

static inline void refuses(const refusal *all, size_t n, bool resolve) {
    for (size_t i = 0; i < n; i++) {
        vt_recipe *r = fresh();
        vt_err e = {0};
        vt_status s = parse(r, all[i].text, &e);
        if (resolve) {
            if (s != VT_OK) fail_msg("'%s' should parse: %s", all[i].text, e.text);
            s = vt_recipe_resolve(r, &e);
        }
        if (s == VT_OK) fail_msg("'%s' was accepted", all[i].text);
        t_says(s, all[i].status, &e, all[i].a, all[i].b);
        vt_recipe_free(r);
    }
}

#endif
