/* SPDX-License-Identifier: MIT */
/* Opening a large checkpoint: memory of the weights, not of the file and the weights. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tensors/tensors.h"
#include "models/model.h"
#include "models/net/session.h"
#include "scratch.h"
#include "t.h"

static long peak_kb(void) {
    struct rusage r;
    assert_int_equal(getrusage(RUSAGE_SELF, &r), 0);
    return r.ru_maxrss;
}

/* What opening adds to the peak of a process, in bytes; a child, so that nothing before it counts. The sentence is
 * expected to hold `text` (NULL: it opens). */
static double added(const char *path, const char *text) {
    int ends[2];
    long kb = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        vt_model *m;
        vt_err e = {0};
        long before = peak_kb(), grown = -1;
        vt_status s = vt_model_open(&m, path, NULL, &e);
        if (text && !strstr(e.text, text)) print_error("%s\n", e.text);
        if (text ? strstr(e.text, text) != NULL : s == VT_OK) grown = peak_kb() - before;
        _exit(write(ends[1], &grown, sizeof grown) != sizeof grown);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(ends[0], &kb, sizeof kb), sizeof kb);
    close(ends[0]), close(ends[1]);
    assert_true(kb >= 0);
    return (double)kb * 1024;
}

/* 1.2 times the file: the weights once, and a page of the file at a time. The copies of vt_model_prepare, or a
 * file that stays mapped, would make it 2; a file that is not read at all 0. */
static void test_memory(void **state) {
    (void)state;
    vt_model *m;
    vt_err e = {0};
    vt_config c;
    struct stat file;
    vt_preset_config(vt_preset_find("vit_small_patch16_224"), &c);
    assert_int_equal(vt_model_new(&m, &c, &e), VT_OK);
    assert_int_equal(vt_model_save(m, at("big.safetensors"), &e), VT_OK);
    vt_model_close(m);
    assert_int_equal(stat(at("big.safetensors"), &file), 0);
    assert_true(file.st_size > 80000000);
    double grown = added(at("big.safetensors"), NULL);
    t_le(grown, 1.2 * (double)file.st_size, "peak");
    t_le(0.9 * (double)file.st_size, grown, "the weights themselves");
    assert_int_equal(unlink(at("big.safetensors")), 0);
}

/* Finding 5: 50 KB whose sides claim a width of 4096, an MLP of 16384 and 2 blocks, 1.6 GB of weights, in tensors that
 * are not of such a shape. They are compared before memory is taken. */
static void test_finding_5_claim(void **state) {
    (void)state;
    enum { WIDE = 4096, HIDDEN = 16384, MOST = 64 };
    const vt_config c = {.arch = "vit",
                         .attn = "dot",
                         .image = 2,
                         .patch = 1,
                         .dim = 2,
                         .depth = 2,
                         .heads = 1,
                         .hidden = 2,
                         .classes = 2,
                         .qkv_bias = true,
                         .ln_eps = 1e-6,
                         .attn_scale = 1,
                         .std = {1, 1, 1}};
    static const char *const meta[] = {"num_heads", "1", "mean", "0,0,0", "std", "1,1,1"};
    static const float zeros[HIDDEN];
    static const struct {
        const char *name;
        int ndim;
        int64_t shape[4];
    } claims[] = {{"patch_embed.proj.weight", 4, {WIDE, 3, 1, 1}}, {"blocks.0.mlp.fc1.weight", 2, {HIDDEN, 1}}};
    vt_tensor t[MOST];
    vt_model *m;
    vt_err e = {0};
    assert_int_equal(vt_model_new(&m, &c, &e), VT_OK);
    assert_true(m->params.count <= MOST);
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        t[i] = (vt_tensor){.name = p->name, .ndim = p->ndim, .dtype = VT_F32, .data = zeros, .numel = p->numel};
        memcpy(t[i].shape, p->shape, sizeof p->shape);
        for (size_t k = 0; k < T_COUNT(claims); k++) {
            if (strcmp(p->name, claims[k].name)) continue;
            memcpy(t[i].shape, claims[k].shape, sizeof claims[k].shape);
            t[i].numel = (size_t)(t[i].shape[0] * t[i].shape[1]);
        }
    }
    assert_int_equal(vt_tensors_write(at("claim.safetensors"), t, m->params.count, meta, 3, &e), VT_OK);
    vt_model_close(m);
    t_le(added(at("claim.safetensors"), "cls_token has shape [1,1,2], must be [1,1,4096]"), 64 << 20, "peak");
}

/* A buffer of 2^31 numbers, in which products of int would overflow, is refused before memory
 * is taken for it. Of any architecture; here 2^20 images of 2^18 numbers. */
static void test_large_session(void **state) {
    (void)state;
    const vt_config c = {.arch = "vit",
                         .attn = "dot",
                         .image = 32,
                         .patch = 1,
                         .dim = 256,
                         .depth = 1,
                         .heads = 1,
                         .hidden = 256,
                         .classes = 2,
                         .ln_eps = 1e-6,
                         .attn_scale = 1,
                         .std = {1, 1, 1}};
    vt_model *m;
    vt_session_f32 *s;
    vt_err e = {0};
    assert_int_equal(vt_model_new(&m, &c, &e), VT_OK);
    t_says(vt_session_open_f32(&s, m, 1 << 20, VT_GRAD_INPUT, &e), VT_E_RANGE, &e, "a session of 1048576 images",
           "the limit is 2147483647");
    assert_null(s);
    vt_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory), cmocka_unit_test(test_finding_5_claim),
                                       cmocka_unit_test(test_large_session)};
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
