#include "eval/cost.h"

#include <math.h>
#include <stdlib.h>
#include "core/mem.h"
#include "core/progress.h"
#include "core/sort.h"
#include "models/classifier.h"

enum { PAIRS_MOST = 201, PAIRS_LEAST = 3 };
#define SECONDS 0.3

/* A forward alone, then a gradient, which is a forward and a backward. */
static double pair(const vt_classifier *c, const float *x, float *z, float *dx, const float *target) {
    vt_loss loss = {.kind = VT_LOSS_CE, .target = target};
    float value;
    double t0 = vt_now();
    c->logits(c->self, x, z, false);
    double t1 = vt_now();
    c->logits(c->self, x, z, true);
    c->backward(c->self, &loss, &value, dx);
    return (vt_now() - t1) / (t1 - t0);
}

double vt_measure_gradient_cost(const vt_model *m) {
    vt_classifier c;
    double ratios[PAIRS_MOST], began;
    int n = 0;
    if (vt_classifier_open(&c, m, NULL) != VT_OK) return NAN;
    float *x = vt_alloc(c.pixels * sizeof *x), *dx = vt_alloc(c.pixels * sizeof *dx);
    float *z = vt_alloc((size_t)c.classes * sizeof *z), *target = vt_alloc((size_t)c.classes * sizeof *target);
    bool ready = x && dx && z && target;
    for (size_t i = 0; ready && i < c.pixels; i++) x[i] = 0.5f;
    for (int k = 0; ready && k < c.classes; k++) target[k] = k == 0;
    if (ready) pair(&c, x, z, dx, target); /* the first call prepares products */
    began = vt_now();
    while (ready && n < PAIRS_MOST && (n < PAIRS_LEAST || vt_now() - began < SECONDS))
        ratios[n++] = pair(&c, x, z, dx, target);
    free(x), free(dx), free(z), free(target);
    vt_classifier_close(&c);
    return vt_median(ratios, (size_t)n);
}
