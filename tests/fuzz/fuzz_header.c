/* SPDX-License-Identifier: MIT */
/* A header is any JSON: it is refused in a sentence, or its fields keep what eval/header.h promises of them, and their
 * words can be made. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "base/json.h"
#include "eval/header.h"
#include "data/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void hold(bool promised) {
    if (!promised) abort();
}

static void text(const char *t) { hold(t && !strchr(t, '\n') && !strchr(t, 27)); }

static void attack(const vt_header_attack *a, bool first) {
    text(a->name), text(a->id);
    text(a->radius_text);
    hold(a->radius >= 0 && isfinite(a->radius) == (*a->radius_text != 0));
    hold((unsigned)a->scoring < VT_SCORING_COUNT && !(first && a->scoring == VT_SCORE_EIGHT_BIT));
    hold(a->n_stages >= 0 && a->n_stages <= VT_ATTACK_STAGES);
    for (int k = 0; k < a->n_stages; k++) {
        text(a->stages[k].name), text(a->stages[k].id);
        hold(a->stages[k].share >= 0 && a->stages[k].share <= 1);
    }
}

static void fields(const vt_header *h) {
    const char *const texts[] = {h->format,
                                 h->version,
                                 h->weights,
                                 h->weights_name,
                                 h->kernels,
                                 h->compiler,
                                 h->norm_name,
                                 h->eps_text,
                                 h->data.format,
                                 h->data.split,
                                 h->data.sha256,
                                 h->data.corruption,
                                 h->model.architecture,
                                 h->published.paper,
                                 h->published.citation};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) text(texts[i]);
    hold(isnan(h->eps) || (h->eps >= 0 && h->eps <= 1e8));
    hold(h->gradient_cost >= 0 && h->gradient_cost <= 1e6);
    hold(vt_shape_values(h->shape) <= VT_SHAPE_VALUES && h->norm < VT_NORM_COUNT);
    hold(h->patch.size >= 0 && h->patch.count >= 0 && h->patch.count <= VT_PATCH_MOST);
    hold(h->data.severity >= 0 && h->data.severity <= VT_SEVERITIES);
    hold(h->n_attacks >= 0 && h->n_attacks <= VT_HEADER_ATTACKS);
    for (int i = 0; i < h->n_attacks; i++) attack(&h->attacks[i], i == 0);
    for (int i = 0; i < h->published.n_rows; i++) {
        const vt_header_row *r = &h->published.rows[i];
        text(r->label), text(r->why);
        hold(r->published >= 1 && r->published <= h->n_attacks && r->corrected >= 1 && r->corrected <= h->n_attacks);
    }
    for (size_t i = 0; i < h->n_notes; i++) text(h->notes[i]);
}

static void words(const vt_header *h) {
    char buf[80];
    text(vt_header_threat(h, buf, sizeof buf)), text(vt_header_weights(h, buf, sizeof buf));
    for (int i = 0; i <= h->n_attacks + 1; i++) {
        const vt_header_attack *a = vt_header_entry(h, i);
        text(vt_attack_label(a, buf, sizeof buf));
        for (int k = 0; k < a->n_stages; k++) text(vt_stage_label(a, k, buf, sizeof buf));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_header *h;
    vt_err e = {0};
    json_t *o = vt_json((const char *)bytes, n, NULL);
    if (!o) return 0;
    vt_status s = vt_header_read(&h, json_is_object(o) ? json_incref(o) : json_object(), "ledger", &e);
    hold((s == VT_OK) == (h != NULL) && (s == VT_OK || (s == VT_E_FORMAT && e.text[0])));
    if (h) fields(h), words(h);
    vt_header_free(h);
    json_decref(o);
    return 0;
}
