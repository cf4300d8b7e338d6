/* SPDX-License-Identifier: MIT */
/* src/parallel/threads.c: how many threads OMP_NUM_THREADS, the affinity mask and a control group's quota leave. */
#include "scratch.h"
#include "t.h"

#include <sched.h>
#include <sys/stat.h>
#include "base/files.h"
#include "parallel/threads.h"

/* A fake machine of files "path" with "text", in the folder `name`. */
typedef struct file {
    const char *path, *text;
} file;

static const char *machine(const char *name, const file *files) {
    for (; files->path; files++) {
        char dir[600];
        snprintf(dir, sizeof dir, "%s/%s", at("%s", name), files->path);
        *strrchr(dir, '/') = 0;
        assert_int_equal(vt_make_dir(dir, NULL), VT_OK);
        FILE *f = fopen(at("%s/%s", name, files->path), "w");
        assert_non_null(f);
        fputs(files->text, f);
        fclose(f);
    }
    return at("%s", name);
}

#define SELF "proc/self/cgroup"
#define TWO "sys/fs/cgroup/"
#define ONE "sys/fs/cgroup/cpu,cpuacct/"

static void test_quota(void **state) {
    (void)state;
    static const struct {
        const char *what;
        file files[8];
        int want;
    } rows[] = {
        {"no control groups", {{"proc/self/status", "x"}}, 0},
        {"2, no limit", {{SELF, "0::/a\n"}, {TWO "a/cpu.max", "max 100000\n"}}, 0},
        {"2, two", {{SELF, "0::/a\n"}, {TWO "a/cpu.max", "200000 100000\n"}}, 2},
        {"2, one and a half", {{SELF, "0::/a\n"}, {TWO "a/cpu.max", "150000 100000\n"}}, 2},
        {"2, a tenth", {{SELF, "0::/a\n"}, {TWO "a/cpu.max", "10000 100000\n"}}, 1},
        {"2, another period", {{SELF, "0::/a\n"}, {TWO "a/cpu.max", "150000 50000\n"}}, 3},
        {"2, the group around it",
         {{SELF, "0::/a/b/c\n"},
          {TWO "a/cpu.max", "300000 100000\n"},
          {TWO "a/b/cpu.max", "max 100000\n"},
          {TWO "a/b/c/cpu.max", "700000 100000\n"}},
         3},
        {"2, a container that sees itself as the root", {{SELF, "0::/\n"}, {TWO "cpu.max", "400000 100000\n"}}, 4},
        {"2, a container that sees the host's path",
         {{SELF, "0::/docker/0123\n"}, {TWO "cpu.max", "400000 100000\n"}},
         4},
        {"1, no limit",
         {{SELF, "4:cpu,cpuacct:/a\n"}, {ONE "a/cpu.cfs_quota_us", "-1\n"}, {ONE "a/cpu.cfs_period_us", "100000\n"}},
         0},
        {"1, five",
         {{SELF, "5:memory:/m\n4:cpu,cpuacct:/a\n1:name=systemd:/\n"},
          {ONE "a/cpu.cfs_quota_us", "500000\n"},
          {ONE "a/cpu.cfs_period_us", "100000\n"}},
         5},
        {"1, the group around it, by the other name of the folder",
         {{SELF, "4:cpuacct,cpu:/a/b\n"},
          {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "250000\n"},
          {"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"}},
         3},
        {"1, a quota of another controller's group",
         {{SELF, "4:cpuset:/a\n"}, {ONE "a/cpu.cfs_quota_us", "500000\n"}, {ONE "a/cpu.cfs_period_us", "100000\n"}},
         0},
        {"both: the smaller",
         {{SELF, "4:cpu:/a\n0::/b\n"},
          {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "600000\n"},
          {"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"},
          {TWO "b/cpu.max", "200000 100000\n"}},
         2},
        {"more than anybody has", {{SELF, "0::/a\n"}, {TWO "a/cpu.max", "900000000000 100000\n"}}, 0},
        {"nonsense",
         {{SELF, "no colon\n1:\n0::\n\n0::/a\n"}, {TWO "a/cpu.max", "-3 x\n"}, {TWO "cpu.max", "nan 100000\n"}},
         0},
        {"a period of nothing", {{SELF, "0::/a\n"}, {TWO "a/cpu.max", "200000 0\n"}}, 0},
    };
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        char name[20];
        snprintf(name, sizeof name, "m%zu", i);
        int got = vt_cgroup_cpus(machine(name, rows[i].files));
        if (got != rows[i].want) fail_msg("%s: %d, must be %d", rows[i].what, got, rows[i].want);
    }
}

static void test_told(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int want; /* 0: refused */
    } rows[] = {{"1", 1},  {"7", 7},   {"4,2", 4},   {" 3 , 2 ", 3}, {"1024", 1024}, {"1025", 0}, {"0", 0},
                {"-2", 0}, {"two", 0}, {"4,two", 0}, {"2.5", 0},     {",", 0},       {"0x4", 0}};
    int n;
    vt_err e = {0};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        setenv("OMP_NUM_THREADS", rows[i].text, 1);
        vt_status s = vt_thread_count(&n, &e);
        if (!rows[i].want)
            t_says(s, VT_E_USAGE, &e, "OMP_NUM_THREADS", rows[i].text);
        else if (s != VT_OK || n != rows[i].want)
            fail_msg("'%s': %d, %s", rows[i].text, n, e.text);
    }
    unsetenv("OMP_NUM_THREADS");
}

/* Nobody asks: the processors of the mask, or fewer. An empty value asks for nothing. */
static void test_mask(void **state) {
    (void)state;
    cpu_set_t mask;
    int n, quota = vt_cgroup_cpus("");
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    for (int k = 0; k < 2; k++) {
        int want = CPU_COUNT(&mask);
        if (k) setenv("OMP_NUM_THREADS", " ", 1);
        assert_int_equal(vt_thread_count(&n, NULL), VT_OK);
        assert_int_equal(n, quota && quota < want ? quota : want);
    }
    unsetenv("OMP_NUM_THREADS");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quota), cmocka_unit_test(test_told),
                                       cmocka_unit_test(test_mask)};
    return cmocka_run_group_tests_name("cpus", tests, make_tmp, remove_tmp);
}
