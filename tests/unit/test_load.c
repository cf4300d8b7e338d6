/* Opening a large checkpoint: memory of the weights, not of the file and the weights. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "models/model.h"
#include "scratch.h"
#include "t.h"

static long peak_kb(void) {
    struct rusage r;
    assert_int_equal(getrusage(RUSAGE_SELF, &r), 0);
    return r.ru_maxrss;
}

/* What opening adds to the peak of a process, in bytes; a child, so that nothing before it counts. */
static double added(const char *path) {
    int ends[2];
    long kb = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        vt_model *m;
        vt_err e = {0};
        long before = peak_kb(), grown = vt_model_open(&m, path, NULL, &e) == VT_OK ? peak_kb() - before : -1;
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
    double grown = added(at("big.safetensors"));
    t_le(grown, 1.2 * (double)file.st_size, "peak");
    t_le(0.9 * (double)file.st_size, grown, "the weights themselves");
    assert_int_equal(unlink(at("big.safetensors")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
