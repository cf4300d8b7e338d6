/* SPDX-License-Identifier: MIT */
/* A run's run.json. */
#include "cli/run_args.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "base/files.h"
#include "linalg/gemm.h"
#include "base/json.h"
#include "eval/report/checksums.h"

static void cpu_name(char *out, size_t size) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    snprintf(out, size, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            line[strcspn(line, "\n")] = 0;
            snprintf(out, size, "%s", strchr(line, ':') + 2);
            break;
        }
    if (f) fclose(f);
}

vt_status vt_cli_run_json(const vt_cli *c, const char *dir, int threads, double seconds, const json_t *more,
                          vt_err *e) {
    char cpu[200], host[128] = "", stamp[32], kernels[128];
    vt_gemm_kernels(kernels, sizeof kernels);
    cpu_name(cpu, sizeof cpu);
    gethostname(host, sizeof host - 1);
    time_t now = time(NULL);
    struct tm utc;
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    char cwd[VT_PATH_MAX];
    size_t before = vt_json_refused();
    json_t *argv = json_array();
    for (int i = 0; i < c->argc; i++) json_array_append_new(argv, json_string(c->argv[i]));
    json_t *o = json_pack("{s:o,s:s,s:f,s:f,s:i,s:s,s:s,s:s,s:s,s:s,s:I}", "command", argv, "finished", stamp,
                          "seconds", seconds, "cpu_seconds",
                          (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                              1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec),
                          "threads", threads, "host", host, "cpu", cpu, "cpu_isa", vt_cpu_isa(), "blas",
                          vt_blas_config(), "kernels", kernels, "peak_resident_kb", (json_int_t)u.ru_maxrss);
    vt_file f;
    if (o && more) json_object_update(o, (json_t *)more);
    if (o && getcwd(cwd, sizeof cwd)) json_object_set_new(o, "directory", json_string(cwd));
    if (!(o = vt_json_whole(o, before))) return vt_fail(e, VT_E_MEMORY, "no memory for run.json");
    vt_status s = vt_file_begin(&f, dir, "run.json", e);
    if (s == VT_OK) {
        s = vt_checksums_json(o, f.stream, e);
        if (s == VT_OK)
            s = vt_file_commit(&f, e);
        else
            vt_file_abandon(&f);
    }
    json_decref(o);
    return s;
}
