/* SPDX-License-Identifier: MIT */
/* What an evaluation did not test, from what it did. */
#include <stdarg.h>
#include <string.h>
#include "attacks/attack.h"
#include "base/markup.h"
#include "base/text.h"
#include "eval/header.h"
#include "eval/report/dossier.h"

/* Writes an item of the list. */
__attribute__((format(printf, 2, 3))) static void put_item(FILE *f, const char *format, ...) {
    char text[2400];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    vt_html_parts(f, "<li>", text, "</li>\n", NULL);
}

const char *vt_dossier_knowledge(const char *attack) {
    const vt_attack_def *a = vt_attack_find(attack);
    return !a                           ? "unknown"
           : a->inside                  ? "gradients inside the model"
           : a->white_box               ? "gradients"
           : a->surrogate               ? "logits, and gradients of another model"
           : a->traits & VT_FROM_LABELS ? "predicted classes"
                                        : "logits";
}

/* ---- threats ---- */

/* Returns the header of run k: 0, the page's own, then those beside it. */
static const vt_header *header_of(const vt_dossier *d, int k) {
    return k ? d->other[k - 1].ledger->header : d->summary->header;
}

/* Was the run attacked in a norm's ball? */
static bool is_norm(const vt_header *h) { return !vt_header_is_threat(h) && h->n_attacks > 0; }

/* Names the norms and threats under which no run attacked. */
static void list_threats(FILE *f, const vt_dossier *d) {
    bool norm[VT_NORM_COUNT] = {0}, patch = false, box = false, rotation = false;
    char names[100] = "";
    for (int k = 0; k <= d->n_others; k++) {
        const vt_header *h = header_of(d, k);
        if (is_norm(h)) norm[h->norm] = true;
        patch = patch || h->patch.size, box = box || h->box, rotation = rotation || h->rotation.angles;
    }
    for (vt_norm n = VT_LINF; n < VT_NORM_COUNT; n++)
        if (!norm[n]) vt_text_item(names, sizeof names, ", ", "%s", vt_norm_name(n));
    if (!patch) vt_text_item(names, sizeof names, ", ", "patches");
    if (!box) vt_text_item(names, sizeof names, ", ", "boxes of bounds");
    if (!rotation) vt_text_item(names, sizeof names, ", ", "rotations");
    if (*names) put_item(f, "Other threats: %s.", names);
}

/* Names what lies outside of the threat that was tested. */
static void list_radii(FILE *f, const vt_dossier *d) {
    const vt_header *h = d->summary->header, *largest = h;
    char threat[120];
    for (int k = 1; k <= d->n_others; k++) {
        const vt_header *o = header_of(d, k);
        if (is_norm(o) && o->norm == h->norm && o->eps > largest->eps) largest = o;
    }
    if (!h->n_attacks)
        put_item(f, "Attacks: none was run.");
    else if (is_norm(h))
        put_item(f, "Larger perturbations: above %s.", vt_header_threat(largest, threat, sizeof threat));
    else
        put_item(f, "Larger perturbations: outside of %s.", vt_header_threat(h, threat, sizeof threat));
    if (h->targets) put_item(f, "Any class: each image was turned into one given class only.");
}

/* ---- images ---- */

/* Writes the items about images: those left out, other data, corrupted ones. */
static void list_images(FILE *f, const vt_dossier *d) {
    const vt_summary *s = d->summary;
    const long long left = (long long)s->header->data.count - (long long)s->total;
    bool corrupted = false;
    for (int k = 0; k <= d->n_others; k++) corrupted = corrupted || header_of(d, k)->data.severity;
    if (left > 0)
        put_item(f, "Images: %lld of the %llu images of the %s split are left out.", left,
                 (unsigned long long)s->header->data.count, s->header->data.split);
    put_item(f, "Other data: images that are not of this data set.");
    if (!corrupted) put_item(f, "Corrupted images, such as CIFAR-10-C and ImageNet-C.");
    if (s->not_finite)
        put_item(f, "%lld images without finite logits: no attack was run on them.", (long long)s->not_finite);
    if (s->pending) put_item(f, "%lld stages of images are still to be done.", (long long)s->pending);
    if (*s->left.text) put_item(f, "The time was up: %s.", s->left.text);
}

/* ---- attacks ---- */

/* Did a stage of the run use this attack? */
static bool was_run(const vt_header *h, const char *name) {
    for (int i = 0; i < h->n_attacks; i++) {
        if (!strcmp(h->attacks[i].name, name)) return true;
        for (int k = 0; k < h->attacks[i].n_stages; k++)
            if (!strcmp(h->attacks[i].stages[k].name, name)) return true;
    }
    return false;
}

/* Names the attacks of this program for the run's threat that it did not run: white-box ones, or the others.
 * Ensembles are their parts; papers' evaluators are scored otherwise. */
static void list_attacks(FILE *f, const vt_header *h, bool white_box) {
    const unsigned need = h->patch.size        ? (unsigned)VT_CAN_PATCH
                          : h->rotation.angles ? (unsigned)VT_CAN_ROTATION
                                               : 1u << h->norm;
    char names[1500] = "";
    int n;
    const vt_attack_def *const *defs = vt_attack_defs(&n);
    for (int i = 0; i < n; i++) {
        const vt_attack_def *a = defs[i];
        const bool ensemble = a->profile || (a->stages && a->stages[1]);
        if (a->published || ensemble || !(a->norms & need) || was_run(h, a->name)) continue;
        if ((a->white_box || a->inside) == white_box) vt_text_item(names, sizeof names, ", ", "%s", a->name);
    }
    if (*names) put_item(f, "%s that were not run: %s.", white_box ? "White-box attacks" : "Black-box attacks", names);
}

/* Names what the run's attacks left open: samples, stages, pictures, seeds, transfer, and attacks made for the model.
 */
static void list_limits(FILE *f, const vt_summary *s) {
    const vt_header *h = s->header;
    char text[600];
    bool several = false;
    for (int i = 0; i < s->n_entries; i++) {
        several = several || s->entries[i].of->n_stages > 1;
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) put_item(f, "%s", text);
    }
    if (several) put_item(f, "Each stage alone: it took what the stages before it left (" VT_OPTION "individual).");
    if (h->n_attacks && s->worst_eight_bit < 0 && !h->rotation.angles)
        put_item(f,
                 "8-bit pictures: points are float32, as pictures they may be right again (" VT_OPTION "eight-bit).");
    put_item(f, "Seeds other than %llu (" VT_OPTION "seeds).", (unsigned long long)h->seed);
    if ((!*h->surrogate.name || !strcmp(h->surrogate.name, "twin")) && !h->rotation.angles)
        put_item(f, "Transfer from another model (" VT_OPTION "surrogate).");
    if (h->wrap)
        put_item(f,
                 "Adaptive attacks on %s: attacks followed the gradient that it gives, and used nothing else of how it "
                 "works (Tramer et al. 2020).",
                 h->wrap);
    else
        put_item(f, "Adaptive attacks, made by hand for this model (Tramer et al. 2020).");
}

/* Names what certificates leave open. */
static void list_proofs(FILE *f, const vt_summary *s) {
    if (!s->header->certify.method) {
        put_item(f, "Proofs: no image is certified. Accuracy under attack is an upper bound of robust accuracy, which "
                    "a stronger attack may lower (" VT_OPTION "certify).");
        return;
    }
    put_item(f, "Proofs: %lld images are neither certified nor broken.", (long long)s->certify.undecided);
    if (s->header->certify.first)
        put_item(f, "%lld certified images were not attacked (vitrine verify RUN " VT_OPTION "attack-skipped does).",
                 (long long)s->certify.certified);
}

/* Names the parts of the self-test that were not made. */
static void list_selftest(FILE *f, const vt_dossier *d) {
    const json_t *name;
    char names[1000] = "";
    size_t i;
    if (!*d->verdict) put_item(f, "The gradients: no self-test was made.");
    json_array_foreach(json_object_get(d->selftest, "not_tested"), i, name) {
        const char *text = json_string_value(name);
        vt_text_item(names, sizeof names, ", ", "%s", text ? text : "?");
    }
    if (*names) put_item(f, "Parts of the self-test: %s.", names);
}

void vt_dossier_untested(FILE *f, const vt_dossier *d) {
    const vt_header *h = d->summary->header;
    list_threats(f, d);
    list_radii(f, d);
    list_images(f, d);
    list_attacks(f, h, true);
    list_attacks(f, h, false);
    list_limits(f, d->summary);
    list_proofs(f, d->summary);
    list_selftest(f, d);
}
