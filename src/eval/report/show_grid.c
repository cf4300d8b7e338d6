/* SPDX-License-Identifier: MIT */
/* The figures of vitrine show: clean image, perturbed image and their difference, a grid of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "eval/header.h"
#include "base/markup.h"
#include "eval/report/page.h"
#include "eval/report/show.h"
#include "data/dataset.h"
#include "data/image.h"

/* Buffers of one figure. */
typedef struct canvas {
    float *clean, *adv;
    vt_image im;
    vt_shape shape;
    size_t pixels; /* values of one image */
} canvas;

/* x, or where there is a gain its difference from the clean image around grey. */
static vt_status put_png(FILE *f, canvas *c, const char *alt, const float *x, double gain, vt_err *e) {
    for (size_t i = 0; i < c->pixels; i++) {
        double v = gain > 0 ? 0.5 + gain * ((double)x[i] - (double)c->clean[i]) : (double)x[i];
        c->im.rgb[i] = (uint8_t)lrint(fmin(fmax(v, 0), 1) * 255);
    }
    vt_picture_spread(&c->im, c->shape);
    fprintf(f, "<img alt=\"%s\" src=\"", alt);
    VT_TRY(vt_page_picture(f, &c->im, e));
    fputs("\"/>", f);
    return VT_OK;
}

/* The run's eps fills the range of grey levels; for norms without a bound a pixel, and on curves, whose eps is the
 * whole box, the largest difference does. */
static double gain_of(const canvas *c, const vt_header *h) {
    double most = 0;
    for (size_t i = 0; i < c->pixels; i++) most = fmax(most, fabs((double)c->adv[i] - (double)c->clean[i]));
    if (!strcmp(h->norm_name, "linf") && !h->curve && h->eps >= most) most = h->eps;
    return most > 0 ? 0.5 / most : 1;
}

static vt_status write_figure(FILE *f, const vt_show *s, canvas *c, const vt_record *clean, const vt_record *adv,
                              vt_err *e) {
    vt_image im;
    int label;
    char right[48], wrong[48];
    const vt_header_attack *attack = vt_header_entry(s->summary->header, adv->entry);
    VT_TRY(vt_dataset_read_as(s->data, adv->image, c->shape, &im, &label, e));
    for (size_t i = 0; i < c->pixels; i++) c->clean[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    VT_TRY(vt_ledger_read_adv(s->ledger, adv, c->adv, e));
    double gain = gain_of(c, s->summary->header);
    vt_dataset_class_name(s->data, clean->pred, right, sizeof right);
    vt_dataset_class_name(s->data, adv->pred, wrong, sizeof wrong);
    fputs("<figure><div class=\"three\">", f);
    VT_TRY(put_png(f, c, "clean", c->clean, 0, e));
    VT_TRY(put_png(f, c, "adversarial", c->adv, 0, e));
    VT_TRY(put_png(f, c, "difference", c->adv, gain, e));
    fprintf(f, "</div><figcaption><b>%d</b>", adv->image);
    vt_html_parts(f, " ", right, " <span class=\"faint\">→</span> <em>", wrong, "</em><br/><span class=\"faint\">",
                  NULL);
    fprintf(f, "lead %.2f → %.2f, difference × %.3g", -clean->margin, -adv->margin, gain);
    char by[56];
    vt_html_parts(f, ", ", vt_attack_label(attack, by, sizeof by), "</span></figcaption></figure>\n", NULL);
    return VT_OK;
}

static int by_image(const void *a, const void *b) {
    const vt_record *x = *(const vt_record *const *)a, *y = *(const vt_record *const *)b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->margin < y->margin) - (x->margin > y->margin); /* the strongest first */
}

/* The strongest stored point of each broken image, and the clean line of every image. */
static size_t choose_broken_records(const vt_ledger *l, const vt_record **broken) {
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].entry && l->records[i].adv >= 0 && vt_record_fails(l, &l->records[i]))
            broken[n++] = &l->records[i];
    qsort(broken, n, sizeof *broken, by_image);
    for (size_t i = 0; i < n; i++)
        if (!kept || broken[kept - 1]->image != broken[i]->image) broken[kept++] = broken[i];
    return kept;
}

static const vt_record *clean_line(const vt_ledger *l, int32_t image) {
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].entry == VT_ENTRY_CLEAN && l->records[i].image == image) return &l->records[i];
    return NULL;
}

vt_status vt_show_grid(FILE *f, const vt_show *s, vt_err *e) {
    const vt_ledger *l = s->ledger;
    canvas c = {.shape = l->header->shape, .pixels = l->pixels};
    if (!vt_picture_is(c.shape)) {
        fprintf(f, "<p class=\"faint\">Images of %d channels are not drawn: a picture has 3, or 1 in grey.</p>\n",
                c.shape.channels);
        return VT_OK;
    }
    VT_TRY(vt_picture_open(&c.im, c.shape, "the page", e));
    const vt_record **broken = calloc(l->count + 1, sizeof *broken);
    c.clean = calloc(c.pixels, sizeof(float)), c.adv = calloc(c.pixels, sizeof(float));
    vt_status st = broken && c.clean && c.adv ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for pictures");
    size_t n = st == VT_OK ? choose_broken_records(l, broken) : 0, most = (size_t)s->pictures;
    if (n)
        fputs("<section><h2>Broken images</h2>\n<p class=\"faint\">Without perturbation, with it, and the difference "
              "around grey. The lead is the logit of the true class over the best other one: below 0 the image is "
              "misclassified.</p>\n<div class=\"pictures\">\n",
              f);
    for (size_t i = 0; i < n && i < most && st == VT_OK; i++) {
        const vt_record *r = broken[n > most ? i * n / most : i], *clean = clean_line(l, r->image);
        if (clean) st = write_figure(f, s, &c, clean, r, e);
    }
    if (n)
        fprintf(f, "</div>\n%s</section>\n",
                n > most ? "<p class=\"faint\">An even selection; see " VT_OPTION "pictures.</p>\n" : "");
    vt_image_free(&c.im);
    free(c.clean), free(c.adv), free(broken);
    return st;
}
