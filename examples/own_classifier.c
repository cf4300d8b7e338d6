/* SPDX-License-Identifier: MIT */
/* A classifier of one's own under vitrine's attacks: here a linear one, with weights from a fixed rule.
 *   cc own_classifier.c $(pkg-config --cflags --libs vitrine) -o own_classifier && ./own_classifier */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <vitrine.h>

enum { CLASSES = 3, SIDE = 8, PIXELS = 3 * SIDE * SIDE };

static float weight(int c, int k) { return sinf((float)(c + 1) * (float)(k + 1)); }

static int logits(void *self, int n, const float *x, float *z) {
    for (int i = 0; i < n * CLASSES; i++) {
        z[i] = 0;
        for (int k = 0; k < PIXELS; k++) z[i] += weight(i % CLASSES, k) * x[i / CLASSES * PIXELS + k];
    }
    (void)self;
    return 0;
}

static int vjp(void *self, int n, const float *x, const float *dz, float *dx) {
    for (int i = 0; i < n * PIXELS; i++) {
        dx[i] = 0;
        for (int c = 0; c < CLASSES; c++) dx[i] += dz[i / PIXELS * CLASSES + c] * weight(c, i % PIXELS);
    }
    (void)self, (void)x;
    return 0;
}

int main(void) {
    static const char *const attacks[] = {"fgsm", "pgd:steps=20", "cw20", "autoattack"};
    enum { N = 4 };
    float x[N * PIXELS], z[N * CLASSES];
    int32_t labels[N];
    vitrine_err e = {VITRINE_OK, ""};
    vitrine_model *m = NULL;
    vitrine_verdict v[N];
    vitrine_classifier mine = {.size = sizeof mine, .name = "linear", .classes = CLASSES, .batch = N};
    mine.channels = 3, mine.height = mine.width = SIDE, mine.parallel = 1, mine.logits = logits, mine.vjp = vjp;
    for (int i = 0; i < N * PIXELS; i++) x[i] = 0.5F + 0.4F * cosf((float)i * 0.7F);
    logits(NULL, N, x, z);
    for (int i = 0; i < N; i++)
        for (int c = labels[i] = 0; c < CLASSES; c++)
            if (z[i * CLASSES + c] > z[i * CLASSES + labels[i]]) labels[i] = c;
    vitrine_own(&m, &mine, &e);
    for (int k = 0; k < 4 && e.code == VITRINE_OK; k++) {
        vitrine_attack_plan plan = VITRINE_ATTACK(attacks[k], "linf", 8.0 / 255);
        int stand = 0;
        if (vitrine_attack(m, &plan, N, x, labels, NULL, v, &e) != VITRINE_OK) break;
        for (int i = 0; i < N; i++) stand += v[i].outcome == VITRINE_ROBUST;
        printf("%-12s %d of %d stand\n", attacks[k], stand, N);
    }
    if (e.code) fprintf(stderr, "own_classifier: %s\n", e.text);
    vitrine_close(m);
    return e.code == VITRINE_OK ? 0 : 1;
}
