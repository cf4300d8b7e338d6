/* SPDX-License-Identifier: MIT */
/* How many processors this process may use: its mask, its control group's quota, OMP_NUM_THREADS. */
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/opt.h"
#include "parallel/threads.h"

/* ---- the control group's quota ---- */

/* Returns the processors that a folder of the cgroup file system grants: microseconds of computing over the period in
 * which they may be spent. Version 2: cpu.max, "max 100000" or "150000 100000"; version 1: two files, -1 for no limit.
 */
static double cpu_quota_of_dir(const char *dir, bool first) {
    char path[VT_PATH_MAX], quota[32] = "";
    double period = 0;
    FILE *f = vt_path(path, dir, first ? "cpu.cfs_quota_us" : "cpu.max") ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%31s %lf", quota, &period) < 1) quota[0] = 0;
    if (f) fclose(f);
    f = first && vt_path(path, dir, "cpu.cfs_period_us") ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%lf", &period) != 1) period = 0;
    if (f) fclose(f);
    double most = atof(quota);
    return most > 0 && period > 0 ? most / period : INFINITY;
}

/* Returns the least of a group and all groups around it; `group` is cut. In a container the path may be the host's,
 * which is not there: then the folder that is mounted is the container's own. */
static double smallest_group_quota(const char *mount, char *group, bool first) {
    char dir[VT_PATH_MAX];
    double most = INFINITY;
    for (;;) {
        if (snprintf(dir, sizeof dir, "%s%s", mount, group) < (int)sizeof dir)
            most = fmin(most, cpu_quota_of_dir(dir, first));
        char *slash = strrchr(group, '/');
        if (!slash) return most;
        *slash = 0;
    }
}

/* Returns the processors granted to the group that a line of /proc/self/cgroup names: "0::/group" of version 2,
 * "4:cpu,cpuacct:/group" of version 1. */
static double quota_of_line(const char *root, char *line) {
    static const char *const mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    char mount[VT_PATH_MAX], again[VT_PATH_MAX];
    double most = INFINITY;
    if (!group) return most;
    *group++ = 0, controllers++;
    group[strcspn(group, "\n")] = 0;
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%.4000s/sys/fs/cgroup", root);
        return smallest_group_quota(mount, group, false);
    }
    char all[VT_PATH_MAX];
    snprintf(all, sizeof all, ",%.4000s,", controllers);
    for (size_t i = 0; strstr(all, ",cpu,") && i < sizeof mounts / sizeof *mounts; i++) {
        snprintf(mount, sizeof mount, "%.4000s%s", root, mounts[i]);
        snprintf(again, sizeof again, "%s", group);
        most = fmin(most, smallest_group_quota(mount, again, true));
    }
    return most;
}

int vt_cgroup_cpus(const char *root) {
    char path[VT_PATH_MAX], line[VT_PATH_MAX];
    double most = INFINITY;
    FILE *f = vt_path(path, root, "proc/self/cgroup") ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof line, f)) most = fmin(most, quota_of_line(root, line));
    if (f) fclose(f);
    return most < VT_THREADS_MOST ? (int)ceil(most) : 0; /* one and a half processors keep two threads busy */
}

/* ---- how many threads ---- */

static int smaller_int(int a, int b) { return a < b ? a : b; }

/* Parses OMP_NUM_THREADS: a number for each level of nesting, of which the first is used. */
static vt_status parse_omp_num_threads(const char *text, int *out, vt_err *e) {
    char list[200], *rest = NULL;
    long long n = 0;
    *out = 0;
    bool good = snprintf(list, sizeof list, "%s", text) < (int)sizeof list;
    for (char *word = strtok_r(list, ", \t", &rest); word && good; word = strtok_r(NULL, ", \t", &rest)) {
        good = vt_parse_int(word, &n) && n >= 1 && n <= VT_THREADS_MOST;
        if (!*out) *out = (int)n;
    }
    if (good && *out) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "OMP_NUM_THREADS is '%.40s', must be a number of threads from 1 to %d, or several with commas "
                   "between "
                   "(or give @threads)",
                   text, VT_THREADS_MOST);
}

vt_status vt_thread_count(int *out, vt_err *e) {
    const char *text = getenv("OMP_NUM_THREADS");
    if (text && text[strspn(text, " \t")]) return parse_omp_num_threads(text, out, e);
    int quota = vt_cgroup_cpus("");
    *out = smaller_int(omp_get_num_procs(), VT_THREADS_MOST); /* those of the affinity mask */
    if (quota) *out = smaller_int(*out, quota);
    return VT_OK;
}
