/* SPDX-License-Identifier: MIT */
#include "eval/report/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "eval/header.h"
#include "eval/options.h"
#include "base/opt.h"

#define WHY_FGSM                                                                                                       \
    "published: on the normalised image with the eps and box of pixels, so that a pixel moves by std * eps and every " \
    "one darker than the mean or brighter than mean + std is replaced"
#define WHY_PGD                                                                                                        \
    "published: an image is left alone from its first misclassified iterate on, and every image counts, also one "     \
    "that "                                                                                                            \
    "is wrong when clean; corrected: images that are right when clean, every query in the ball counts"
#define WHY_CW                                                                                                         \
    "published: no gradient where an image is right by more than 10, and an image that is right at the end is scored " \
    "on the clean image"
#define WHY_TRADES                                                                                                     \
    "published: eps 0.031, which is 8/255 rounded down (1.2 % smaller), a start that may leave the box, and the last " \
    "iterate alone is scored"

/* alpha is the released parsers' default: 2/255 for CIFAR and Imagenette, 1/255 for ImageNet. */
#define ROW_FGSM                                                                                                       \
    { "FGSM", "fgsm-specformer", "fgsm", WHY_FGSM }
#define ROW_PGD(k, alpha)                                                                                              \
    { "PGD-" k, "pgd-specformer:steps=" k ",alpha=" alpha, "pgd:steps=" k ",alpha=" alpha, WHY_PGD }
#define ROW_CW(alpha)                                                                                                  \
    { "CW-20", "pgd-specformer:loss=cw,alpha=" alpha, "cw20:alpha=" alpha, WHY_CW }

#define HU "Hu et al. 2024 (ECCV), SpecFormer"
#define MO "Mo et al. 2022 (NeurIPS), When adversarial training meets vision transformers"

static const vt_paper papers[] = {
    {"specformer", HU, 0, {ROW_FGSM, ROW_PGD("2", "2/255"), ROW_CW("2/255"), ROW_PGD("20", "2/255")}},
    {"specformer-imagenet",
     HU ", its ImageNet scripts",
     0,
     {ROW_FGSM, ROW_PGD("2", "1/255"), ROW_CW("1/255"), ROW_PGD("20", "1/255"), ROW_PGD("100", "1/255")}},
    {"mo2022", MO, 0, {ROW_CW("2/255"), ROW_PGD("20", "2/255"), ROW_PGD("100", "2/255")}},
    {"mo2022-imagenet",
     MO ", its ImageNet script",
     0,
     {ROW_CW("1/255"), ROW_PGD("20", "1/255"), ROW_PGD("100", "1/255")}},
    {"trades",
     "Zhang et al. 2019 (ICML), TRADES",
     0.031,
     {{"PGD-20", "pgd-trades", "pgd:steps=20,alpha=0.003", WHY_TRADES}}},
};
enum { PAPERS = sizeof papers / sizeof *papers };

vt_status vt_paper_find(const vt_paper **out, const char *name, vt_err *e) {
    const char *names[PAPERS];
    char list[200] = "";
    for (int i = 0; i < PAPERS; i++) {
        names[i] = papers[i].name;
        if (!strcasecmp(name, names[i])) {
            *out = &papers[i];
            return VT_OK;
        }
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", !i ? "" : i == PAPERS - 1 ? " and " : ", ", names[i]);
    }
    const char *near = vt_nearest(name, names, PAPERS);
    if (near) return vt_fail(e, VT_E_USAGE, "unknown paper '%.60s'; did you mean '%s'?", name, near);
    return vt_fail(e, VT_E_USAGE, "unknown paper '%.60s': @as-published knows %s", name, list);
}

vt_status vt_paper_fits(const vt_paper *p, vt_norm norm, const char *patch, double eps, const char *eps_text,
                        vt_err *e) {
    if (patch)
        return vt_fail(e, VT_E_USAGE, "@as-published %s is about linf: it cannot be combined with @threat %.60s",
                       p->name, patch);
    if (norm != VT_LINF)
        return vt_fail(e, VT_E_USAGE, "@as-published %s is about linf: it cannot be combined with @norm %s", p->name,
                       vt_norm_name(norm));
    if (p->eps > 0 && !(fabs(eps - p->eps) <= 0.05 * p->eps))
        return vt_fail(e, VT_E_USAGE,
                       "@as-published %s attacks at %g, which stands for 8/255, but @eps is %.40s: give @eps 8/255",
                       p->name, p->eps, eps_text);
    return VT_OK;
}

vt_status vt_published_describe(vt_header *header, const vt_paper *p, const vt_named_attack *entries, vt_err *e) {
    vt_header_row *rows = calloc(VT_PUBLISHED_ROWS, sizeof *rows);
    int n = 0;
    if (!rows) return vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
    for (; n < VT_PUBLISHED_ROWS && p->rows[n].label; n++)
        rows[n] = (vt_header_row){.label = p->rows[n].label,
                                  .why = p->rows[n].why,
                                  .published = entries[2 * n].entry,
                                  .corrected = entries[2 * n + 1].entry};
    return vt_header_publish(header, p->name, p->citation, rows, n, e);
}

bool vt_published_pair_at(const vt_summary *s, int i, vt_published_pair *out) {
    if (i < 0 || i >= s->header->published.n_rows) return false;
    const vt_header_row *row = &s->header->published.rows[i];
    *out = (vt_published_pair){.label = row->label,
                               .why = row->why,
                               .published = s->entries[row->published - 1].all.robust,
                               .corrected = s->entries[row->corrected - 1].all.robust,
                               .total = s->total};
    if (s->total) out->points = 100 * (double)(out->published - out->corrected) / (double)s->total;
    return true;
}

const char *vt_published_title(const vt_summary *s, char *text, size_t size) {
    const vt_header *h = s->header;
    if (!h->published.document) return NULL;
    snprintf(text, size, "%s: %s", h->published.paper, h->published.citation);
    return text;
}
