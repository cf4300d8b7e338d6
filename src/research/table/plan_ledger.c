/* SPDX-License-Identifier: MIT */
/* Checks that a finished ledger answers its cell: a cache may hold runs made by hand, or another person's. */
#include <stdio.h>
#include <string.h>
#include "eval/header.h"
#include "research/table/plan.h"

/* VT_E_FORMAT: the ledger is no answer to its cell, because `what` must be `must` but is `is`. */
static vt_status fail_mismatch(const vt_ledger *l, const char *what, const char *must, const char *is, vt_err *e) {
    return vt_fail(e, VT_E_FORMAT,
                   "%s: is no answer to its cell: %s must be %.100s, the ledger says %.100s: remove the cell's folder",
                   l->dir, what, must, is);
}

/* fail_mismatch unless two texts are equal. */
static vt_status check_equal_text(const vt_ledger *l, const char *what, const char *must, const char *is, vt_err *e) {
    return strcmp(must, is) ? fail_mismatch(l, what, must, *is ? is : "nothing", e) : VT_OK;
}

/* The string under a key's field, "" if there is none. */
static const char *text_field(const json_t *key, const char *of) {
    const char *v = json_string_value(json_object_get(key, of));
    return v ? v : "";
}

/* Checks the header's data, norm, eps and seed against the cell's key; VT_E_FORMAT: one is another. */
static vt_status check_texts(const vt_plan_cell *c, const vt_ledger *l, vt_err *e) {
    const vt_header *h = l->header;
    const char *eps = text_field(c->key, "eps");
    char seed[24], said[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->seed);
    snprintf(said, sizeof said, "%lld", (long long)h->seed);
    VT_TRY(check_equal_text(l, "the data's SHA-256", text_field(c->key, "data"), h->data.sha256, e));
    VT_TRY(check_equal_text(l, "norm", text_field(c->key, "norm"), h->norm_name, e));
    VT_TRY(check_equal_text(l, "eps", *eps ? eps : "0", h->eps_text, e));
    return check_equal_text(l, "seed", seed, said, e);
}

/* VT_E_FORMAT unless the ledger has the column's one attack, or none, and nothing that makes it easier or harder. */
static vt_status check_attack(const vt_plan_cell *c, const vt_ledger *l, vt_err *e) {
    const vt_header *h = l->header;
    const struct {
        const char *key;
        bool is;
    } never[] = {{"wrap", h->wrap}, {"threat", vt_header_is_threat(h)}, {"curve", h->curve}};
    const char *id = text_field(c->key, "attack"), *method = h->certify.method ? h->certify.method : "";
    char many[40];
    snprintf(many, sizeof many, "%d", h->n_attacks);
    VT_TRY(check_equal_text(l, "the number of attacks", *id ? "1" : "0", many, e));
    if (*id) VT_TRY(check_equal_text(l, "attack", id, h->attacks[0].id, e));
    VT_TRY(check_equal_text(l, "certify", text_field(c->key, "certify"), method, e));
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (never[i].is) return fail_mismatch(l, never[i].key, "absent", "there is one", e);
    if (*h->search) return fail_mismatch(l, "search", "float32", h->search, e);
    return h->exhaustive ? fail_mismatch(l, "exhaustive", "false", "true", e) : VT_OK;
}

/* VT_E_FORMAT unless the weights' hash is the training's or the checkpoint's; VT_OK, unchecked, if the training was
 * removed. */
static vt_status check_weights(const vt_plan *p, const vt_plan_cell *c, const vt_ledger *l, vt_err *e) {
    const char *is = l->header->weights;
    const vt_plan_cell *trained = c->model >= 0 ? &p->cells[c->model] : NULL;
    char must[65] = "";
    const char *all = text_field(json_object_get(c->key, "files"), "weights"); /* with shards or external data */
    snprintf(must, sizeof must, "%s", *all ? all : text_field(c->key, "weights"));
    if (trained && trained->state != VT_CELL_DONE) return VT_OK; /* it was removed: there is nothing to compare with */
    if (trained) VT_TRY(vt_cell_sha(p->out, trained->hash, vt_plan_weights(p, c), must, e));
    return check_equal_text(l, "the weights' SHA-256", must, is, e);
}

vt_status vt_plan_answers(const vt_plan *p, const vt_plan_cell *c, const vt_ledger *l, const int32_t *images, size_t n,
                          vt_err *e) {
    const vt_plan_images *d = &p->data[c->data].of[c->attack];
    char is[60] = "none";
    VT_TRY(check_texts(c, l, e));
    VT_TRY(check_attack(c, l, e));
    VT_TRY(check_weights(p, c, l, e));
    if (d->first < 0) return VT_OK; /* a list: its hash is in the key */
    if ((int64_t)n == d->n && images[0] == d->first && images[n - 1] == d->first + d->n - 1) return VT_OK;
    if (n) snprintf(is, sizeof is, "%zu of %d:%lld", n, images[0], (long long)images[n - 1] + 1);
    char must[60];
    snprintf(must, sizeof must, "%lld:%lld", (long long)d->first, (long long)(d->first + d->n));
    return fail_mismatch(l, "images", must, is, e);
}
