/* SPDX-License-Identifier: MIT */
/* Attacks one image of a CIFAR-10 file within linf 4/255: attack_one WEIGHTS BATCH.bin INDEX [ATTACK]
 *   cc attack_one.c $(pkg-config --cflags --libs vitrine) -o attack_one
 *   ./attack_one weights/shapes10-vit datasets/shapes10/test_batch.bin 2 pgd:steps=20 */
#include <stdio.h>
#include <stdlib.h>
#include <vitrine.h>

int main(int argc, char **argv) {
    unsigned char record[1 + 3072]; /* label, then 3 planes of 32 x 32 */
    float x[3072], x_adv[3072];
    vitrine_err e = {VITRINE_OK, ""};
    vitrine_model *m = NULL;
    vitrine_verdict v;
    if (argc < 4) {
        fprintf(stderr, "usage: attack_one WEIGHTS BATCH.bin INDEX [ATTACK]\n");
        return 2;
    }
    FILE *f = fopen(argv[2], "rb");
    if (!f || fseek(f, atol(argv[3]) * (long)sizeof record, SEEK_SET) || fread(record, sizeof record, 1, f) != 1) {
        fprintf(stderr, "%s: has no image %s\n", argv[2], argv[3]);
        return 1;
    }
    fclose(f);
    for (int i = 0; i < 3072; i++) x[i] = (float)record[1 + i] / 255;
    int32_t label = record[0];
    int32_t number = atoi(argv[3]);
    vitrine_attack_plan plan = VITRINE_ATTACK(argc > 4 ? argv[4] : "pgd:steps=20", "linf", 4.0 / 255);
    plan.images = &number; /* its random draws are those that vitrine eval makes for this image */
    if (vitrine_open(&m, argv[1], NULL, &e) == VITRINE_OK && vitrine_pixels(m) != 3072)
        fprintf(stderr, "%s takes images of %d pixels a side, not 32\n", argv[1], vitrine_side(m));
    else if (m && vitrine_attack(m, &plan, 1, x, &label, x_adv, &v, &e) == VITRINE_OK)
        printf("label %d, clean %d, %s: predicted %d, margin %.4f, linf %.9f, %lld gradients\n", label, v.clean,
               v.outcome == VITRINE_BROKEN   ? "broken"
               : v.outcome == VITRINE_ROBUST ? "stands"
                                             : "wrong as it is",
               v.pred, v.margin, v.linf, (long long)v.gradients);
    if (e.code) fprintf(stderr, "attack_one: %s\n", e.text);
    vitrine_close(m);
    return e.code == VITRINE_OK ? 0 : 1;
}
