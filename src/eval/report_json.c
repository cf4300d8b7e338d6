/* results.json: deterministic fields only (see docs/ARCHITECTURE.md); what depends on the machine is in run.json. */
#include <math.h>
#include <string.h>
#include "eval/metrics.h"
#include "eval/summary.h"

static json_t *interval(int64_t count, int64_t total) {
    double low, high;
    vt_wilson(count, total, &low, &high);
    return json_pack("[f,f]", low, high);
}

static json_t *share(int64_t count, int64_t total) {
    return json_real(total ? 100 * (double)count / (double)total : 0);
}

static json_t *real_or_null(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *entry_json(const vt_entry_summary *en, int64_t total) {
    json_t *stages = json_array();
    for (int k = 0; k < en->n_stages; k++) {
        const vt_stage_summary *st = &en->stages[k];
        json_array_append_new(stages,
                              json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "name", st->name, "id", st->id, "robust",
                                        (json_int_t)st->robust, "broken", (json_int_t)st->broken, "borderline",
                                        (json_int_t)st->borderline, "invalid", (json_int_t)st->invalid, "gradients",
                                        (json_int_t)st->gradients, "forwards", (json_int_t)st->forwards));
    }
    return json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:I,s:I,s:o,s:o,s:o,s:o}", "name", en->name, "id", en->id,
                     "robust", (json_int_t)en->robust, "broken", (json_int_t)en->broken, "borderline",
                     (json_int_t)en->borderline, "invalid", (json_int_t)en->invalid, "total", (json_int_t)total,
                     "percent", share(en->robust, total), "interval95", interval(en->robust, total), "gradients",
                     (json_int_t)en->gradients, "forwards", (json_int_t)en->forwards, "median_linf",
                     real_or_null(en->median_linf), "median_l2", real_or_null(en->median_l2), "median_l1",
                     real_or_null(en->median_l1), "stages", stages);
}

/* Header keys that belong to run.json, or that follow with their results. */
static bool elsewhere(const char *key) {
    static const char *const keys[] = {"format", "blas", "compiler", "attacks"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return true;
    return false;
}

static void write(FILE *f, const vt_summary *s) {
    json_t *o = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s->header, key, value) {
        if (!elsewhere(key)) json_object_set(o, key, value);
    }
    json_object_set_new(o, "images", json_string(s->images));
    json_object_set_new(o, "clean",
                        json_pack("{s:I,s:I,s:o,s:o}", "correct", (json_int_t)s->correct, "total", (json_int_t)s->total,
                                  "percent", share(s->correct, s->total), "interval95",
                                  interval(s->correct, s->total)));
    json_t *attacks = json_array();
    for (int i = 0; i < s->n_entries; i++) json_array_append_new(attacks, entry_json(&s->entries[i], s->total));
    json_object_set_new(o, "attacks", attacks);
    json_object_set_new(o, "worst_case",
                        json_pack("{s:I,s:I,s:o,s:o}", "robust", (json_int_t)s->worst_robust, "total",
                                  (json_int_t)s->total, "percent", share(s->worst_robust, s->total), "interval95",
                                  interval(s->worst_robust, s->total)));
    json_dumpf(o, f, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    fputc('\n', f);
    json_decref(o);
}

const vt_report_def vt_report_def_json = {.name = "json",
                                          .file = "results.json",
                                          .summary = "machine-readable results",
                                          .write = write};
