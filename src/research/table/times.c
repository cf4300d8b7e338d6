/* SPDX-License-Identifier: MIT */
/* The times of training steps, from a finished cell's log. */
#include "research/table/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/files.h"
#include "base/stats.h"

vt_status vt_times_read(const vt_plan *p, const vt_plan_cell *c, double quartiles[3], vt_err *e) {
    char log[VT_PATH_MAX], line[2000];
    int64_t n = 0;
    VT_TRY(vt_cell_path(log, p->out, c->hash, "run/log.jsonl", e));
    double *s = calloc((size_t)c->timed + 1, sizeof *s);
    if (!s) return vt_fail(e, VT_E_MEMORY, "%s: no memory", log);
    FILE *f;
    size_t before = vt_json_refused();
    vt_file_stream(&f, log, NULL);
    while (f && n < c->timed && fgets(line, sizeof line, f)) {
        json_t *o = vt_json(line, strlen(line), NULL);
        double seconds = json_number_value(json_object_get(o, "seconds"));
        if (json_integer_value(json_object_get(o, "step")) > VT_TIME_FIRST && seconds > 0) s[n++] = seconds;
        json_decref(o);
    }
    if (f) fclose(f);
    vt_sort(s, (size_t)n);
    for (int q = 0; q < 3 && n == c->timed; q++) quartiles[q] = s[(n - 1) * (q + 1) / 4];
    free(s);
    if (n == c->timed) return VT_OK;
    if (vt_json_refused() != before) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its lines", log);
    return vt_fail(e, VT_E_FORMAT, "%s: holds the times of %lld steps, must be %lld", log, (long long)n,
                   (long long)c->timed);
}
