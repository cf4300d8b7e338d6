/* SPDX-License-Identifier: MIT */
/* The trained checkpoints of the shared folder, each from every file it comes in and with no option given: how many of
 * the 10,000 test images of CIFAR-10 are right, and all logits against those that PyTorch computed in float64. What the
 * files do not tell is marked so. */
#include "ask.h"
#include "golden.h"

#include <unistd.h>
#include "tensors/tensors.h"
#include "checkpoint/provenance.h"

enum { TEST_SET = 10000 };

static const struct {
    const char *folder, *file, *names;
    int right;
} nets[] = {{"vit-cifar10", "model.safetensors", "timm", 7193},
            {"vit-cifar10", "original.pth", "map vit-scratch", 7193},
            {"vit-postnorm-cifar10", "model.safetensors", "map vit-encoderlayer", 7372},
            {"vit-postnorm-cifar10", "original.pth", "map vit-encoderlayer", 7372},
            {"vnncomp-vit-pgd", "model.safetensors", "map vit-vnncomp", 5978},
            {"vit-cifar10-at8", "model.safetensors", "timm", 4857}};

static float *reference_logits(const char *weights) {
    float *ref = need((size_t)TEST_SET * CLASSES, sizeof *ref);
    FILE *f = fopen(in_shared("weights/%s/logits_test.f32", weights), "rb");
    assert_non_null(f);
    assert_int_equal(fread(ref, sizeof *ref, (size_t)TEST_SET * CLASSES, f), TEST_SET * CLASSES);
    fclose(f);
    return ref;
}

/* *right of the images; the largest distance of a logit from the reference, infinite if a session does not open. */
static double judge(const vt_model *m, const images *im, const float *ref, int *right) {
    int hits = 0;
    double worst = 0;
#pragma omp parallel reduction(+ : hits) reduction(max : worst)
    {
        vt_classifier c;
        bool good = vt_classifier_open(&c, m, NULL) == VT_OK;
        if (!good) worst = INFINITY;
#pragma omp for
        for (int i = 0; i < TEST_SET; i++) {
            float z[CLASSES];
            if (!good) continue;
            ask_logits(&c, im->x + (size_t)i * PIXELS, z, false);
            hits += vt_argmax_f32(z, CLASSES) == im->label[i];
            for (int j = 0; j < CLASSES; j++) {
                double d = fabs((double)z[j] - (double)ref[i * CLASSES + j]);
                if (!(d <= worst)) worst = d;
            }
        }
        vt_classifier_close(&c);
    }
    *right = hits;
    return worst;
}

static void test_clean(void **state) {
    (void)state;
    images im = cifar_test(0, TEST_SET);
    int bad = 0;
    for (size_t k = 0; k < COUNT(nets); k++) {
        vt_model *m;
        vt_err e = {0};
        if (vt_model_open(&m, in_shared("weights/%s/%s", nets[k].folder, nets[k].file), NULL, &e) != VT_OK)
            fail_msg("%s", e.text);
        float *ref = reference_logits(nets[k].folder);
        int right;
        double worst = judge(m, &im, ref, &right);
        bool known = !strncmp(m->naming, nets[k].names, strlen(nets[k].names));
        printf("  %-20s %-17s %d of %d right (%d), logits off by at most %.1e; names: %s\n", nets[k].folder,
               nets[k].file, right, TEST_SET, nets[k].right, worst, m->naming);
        bad += !known || right != nets[k].right || !(worst <= 1e-3); /* the gate; float32 gives 1e-5 */
        free(ref);
        vt_model_close(m);
    }
    images_free(&im);
    assert_int_equal(bad, 0);
}

/* The .pth without the config.json that lies beside it in the shared folder: the map says it all, with the same result.
 */
static void test_alone(void **state) {
    (void)state;
    char folder[] = "/tmp/vitrine-weights-XXXXXX", file[80];
    char *there = realpath(in_shared("weights/vit-cifar10/original.pth"), NULL);
    vt_model *m, *alone;
    vt_err e = {0};
    assert_non_null(there);
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/w.pth", folder);
    assert_int_equal(symlink(there, file), 0);
    if (vt_model_open(&alone, file, NULL, &e) != VT_OK || vt_model_open(&m, there, NULL, &e) != VT_OK)
        fail_msg("%s", e.text);
    assert_string_equal(alone->source[VT_FIELD_HEADS], "map vit-scratch");
    assert_string_equal(m->source[VT_FIELD_HEADS], "config.json");
    assert_int_equal(alone->config.heads, m->config.heads);
    assert_memory_equal(alone->config.std, m->config.std, sizeof m->config.std);
    assert_true(alone->config.ln_eps == m->config.ln_eps && alone->config.attn_scale == m->config.attn_scale);
    assert_memory_equal(alone->w, m->w, m->params.total * sizeof(float));
    vt_model_close(alone), vt_model_close(m);
    unlink(file), rmdir(folder), free(there);
}

/* The file alone, and a safetensors file without its metadata. */
static void strip(const char *from, const char *to) {
    vt_err e = {0};
    vt_tensors *st;
    if (strstr(from, ".pth")) {
        assert_int_equal(symlink(from, to), 0);
        return;
    }
    if (vt_tensors_open(&st, from, &e) != VT_OK) fail_msg("%s", e.text);
    vt_tensor *t = need((size_t)vt_tensors_count(st), sizeof *t);
    for (int i = 0; i < vt_tensors_count(st); i++) t[i] = *vt_tensors_at(st, i);
    if (vt_tensors_write(to, t, vt_tensors_count(st), NULL, 0, &e) != VT_OK) fail_msg("%s", e.text);
    free(t);
    vt_tensors_close(st);
}

/* How sure heads, norm order and activation are where this is told: the others must not be. */
static void unsure(const char *file, vt_overrides o, bool heads, bool order, bool act) {
    vt_model *m;
    vt_err e = {0};
    if (vt_model_inspect(&m, file, &o, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(m->certainty[VT_FIELD_HEADS], heads ? VT_OPEN : VT_KNOWN);
    assert_int_equal(m->certainty[VT_FIELD_POST_NORM] != VT_KNOWN, order);
    assert_int_equal(m->certainty[VT_FIELD_ACT] != VT_KNOWN, act);
    if (*m->own_map) assert_true(!order || m->certainty[VT_FIELD_POST_NORM] == VT_OPEN);
    if (*m->own_map) assert_true(!act || m->certainty[VT_FIELD_ACT] == VT_OPEN);
    vt_model_close(m);
}

/* Every file of these without metadata and config.json, with every number of heads, norm order and activation: nothing
 * that was not told passes for known. */
static void test_stripped(void **state) {
    (void)state;
    static const char *const forms[] = {"post_norm=0", "post_norm=1", "act=gelu", "act=gelu_tanh", "act=relu"};
    char folder[] = "/tmp/vitrine-weights-XXXXXX", file[80];
    assert_non_null(mkdtemp(folder));
    for (size_t k = 0; k < COUNT(nets); k++) {
        char *there = realpath(in_shared("weights/%s/%s", nets[k].folder, nets[k].file), NULL);
        int likely[VT_HEADS_MOST], n = vt_heads_likely(!strncmp(nets[k].folder, "vnn", 3) ? 48 : 128, likely);
        assert_non_null(there);
        snprintf(file, sizeof file, "%s/w.%s", folder, strstr(there, ".pth") ? "pth" : "safetensors");
        strip(there, file);
        unsure(file, (vt_overrides){0}, true, true, true);
        for (int i = 0; i < n; i++) unsure(file, (vt_overrides){.heads = likely[i]}, false, true, true);
        for (size_t i = 0; i < COUNT(forms); i++)
            unsure(file, (vt_overrides){.form = {forms[i]}, .n_form = 1}, true, i >= 2, i < 2);
        unlink(file), free(there);
    }
    rmdir(folder);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clean), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_stripped)};
    return golden_main(argc, argv, "golden weights", tests, COUNT(tests));
}
