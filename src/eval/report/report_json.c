/* SPDX-License-Identifier: MIT */
/* results.json, as docs/results.schema.json describes it: deterministic fields only (see docs/ARCHITECTURE.md); what
 * depends on the machine is in run.json. */
#include <math.h>
#include <string.h>
#include "base/json.h"
#include "base/stats.h"
#include "eval/report/published.h"

static double percent_of(int64_t count, int64_t total) { return total ? 100 * (double)count / (double)total : 0; }

/* Returns the 95 % interval of count / total in percent, [low, high]. */
static json_t *interval_json(int64_t count, int64_t total) {
    double low, high;
    vt_wilson(count, total, &low, &high);
    return json_pack("[f,f]", low, high);
}

/* Returns {name: count, "total", "percent", "interval95"}. */
static json_t *accuracy_json(const char *name, int64_t count, int64_t total) {
    return json_pack("{s:I,s:I,s:f,s:o}", name, (json_int_t)count, "total", (json_int_t)total, "percent",
                     percent_of(count, total), "interval95", interval_json(count, total));
}

/* Sets o[key] to a count, unless it is 0. */
static void set_count(json_t *o, const char *key, int64_t count) {
    if (count) json_object_set_new(o, key, json_integer((json_int_t)count));
}

/* Is the word in a list that ends at NULL? */
static bool is_listed(const char *const *list, const char *word) {
    while (*list && strcmp(*list, word)) list++;
    return *list != NULL;
}

/* Returns what a profile's samples leave open: counts, bound and sentence. */
static json_t *open_json(const vt_entry_summary *en, const char *text) {
    const vt_sample_summary *p = &en->sample;
    return json_pack("{s:f,s:I,s:I,s:I,s:I,s:f,s:s}", "share", p->share, "survivors", (json_int_t)p->survivors,
                     "sampled", (json_int_t)p->sampled, "broken", (json_int_t)p->broken, "further95",
                     (json_int_t)p->further, "points95", p->points, "text", text);
}

/* Returns an entry with its stages, counts, intervals, medians and remarks. */
static json_t *entry_json(const vt_summary *s, const vt_entry_summary *en) {
    int64_t total = s->total;
    json_t *stages = json_array();
    for (int k = 0; k < en->of->n_stages; k++) {
        const vt_counts *st = &en->stages[k];
        const vt_header_stage *of = &en->of->stages[k];
        json_t *stage =
            json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "name", of->name, "id", of->id, "tried",
                      (json_int_t)st->tried, "robust", (json_int_t)st->robust, "broken", (json_int_t)st->broken,
                      "borderline", (json_int_t)st->borderline, "invalid", (json_int_t)st->invalid, "gradients",
                      (json_int_t)st->gradients, "forwards", (json_int_t)st->forwards);
        if (of->share < 1) json_object_set_new(stage, "share", json_real(of->share));
        set_count(stage, "not_finite", st->not_finite), set_count(stage, "vanished", st->vanished);
        json_array_append_new(stages, stage);
    }
    json_t *o =
        json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:f,s:o,s:I,s:I,s:o,s:o,s:o,s:o}", "name", en->of->name, "id",
                  en->of->id, "robust", (json_int_t)en->all.robust, "broken", (json_int_t)en->all.broken, "borderline",
                  (json_int_t)en->all.borderline, "invalid", (json_int_t)en->all.invalid, "total", (json_int_t)total,
                  "percent", percent_of(en->all.robust, total), "interval95", interval_json(en->all.robust, total),
                  "gradients", (json_int_t)en->all.gradients, "forwards", (json_int_t)en->all.forwards, "median_linf",
                  vt_json_real(en->median[VT_LINF]), "median_l2", vt_json_real(en->median[VT_L2]), "median_l1",
                  vt_json_real(en->median[VT_L1]), "stages", stages);
    char text[600];
    if (s->header->norm == VT_L0) json_object_set_new(o, "median_l0", vt_json_real(en->median[VT_L0]));
    set_count(o, "not_finite", en->all.not_finite);
    json_t *remarks = json_array();
    for (int k = 0; vt_entry_remark(en, k, text, sizeof text); k++) json_array_append_new(remarks, json_string(text));
    if (json_array_size(remarks)) json_object_set(o, "remarks", remarks);
    json_decref(remarks);
    if (s->gradient_cost > 0) json_object_set_new(o, "cost", json_real(en->cost));
    if (en->of->scoring != VT_SCORE_BALL)
        json_object_set_new(o, "scoring", json_string(vt_scoring_name(en->of->scoring)));
    if (vt_entry_open_text(s, en, text, sizeof text)) json_object_set_new(o, "open", open_json(en, text));
    if (en->of->profile) json_object_set_new(o, "claim", json_string(vt_entry_claim(en)));
    return o;
}

/* Header keys that belong to run.json, or that follow with their results. */
static const char *const excluded[] = {"format", "blas", "compiler", "attacks", "model", "sources", "certify", NULL};

/* The model's values with their sources; sentences stay what they are. Of a ledger that was written without sources,
 * the values alone. */
static json_t *model_json(const vt_header *h) {
    static const char *const sentences[] = {"input", "notes", "part", NULL};
    json_t *o = h->sources ? json_deep_copy(h->sources) : json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)h->model.document, key, value) {
        if (is_listed(sentences, key))
            json_object_set(o, key, value);
        else if (!json_object_get(o, key) && (!h->sources || strcmp(key, "forms")))
            json_object_set_new(o, key, json_pack("{s:O,s:s,s:b}", "value", value, "source", "", "assumed", false));
    }
    return o;
}

/* Returns as_published with the results of both evaluators in each row. */
static json_t *published_json(const vt_summary *s) {
    json_t *o = json_copy((json_t *)(uintptr_t)s->header->published.document), *rows = json_array();
    vt_published_pair p;
    for (int i = 0; vt_published_pair_at(s, i, &p); i++) {
        json_t *row = json_copy(json_array_get(json_object_get(o, "rows"), (size_t)i));
        json_object_update_new(row,
                               json_pack("{s:I,s:I,s:I,s:f,s:f,s:f}", "published_right", (json_int_t)p.published,
                                         "corrected_right", (json_int_t)p.corrected, "total", (json_int_t)p.total,
                                         "published_percent", percent_of(p.published, p.total), "corrected_percent",
                                         percent_of(p.corrected, p.total), "points", p.points));
        json_array_append_new(rows, row);
    }
    json_object_set_new(o, "rows", rows);
    return o;
}

/* Returns what was certified: method, counts of the images that are right, and the sentence on what it means. */
static json_t *certified_json(const vt_summary *s) {
    const vt_header *h = s->header;
    json_t *o = accuracy_json("certified", s->certify.certified, s->total);
    json_object_update_new(o, json_pack("{s:s,s:s,s:b,s:I,s:I}", "method", h->certify.method, "sentence",
                                        h->certify.sentence, "first", h->certify.first, "undecided",
                                        (json_int_t)s->certify.undecided, "broken", (json_int_t)s->certify.broken));
    if (h->certify.first) json_object_set_new(o, "attacks_saved", json_integer((json_int_t)s->certify.saved));
    set_count(o, "contradictions", s->certify.contradictions);
    return o;
}

/* Returns results.json (docs/formats.md); NULL: no memory. */
static json_t *document(const vt_summary *s) {
    size_t before = vt_json_refused();
    json_t *o = json_pack("{s:i}", "version", VT_RESULTS_VERSION);
    const char *key;
    json_t *value;
    json_object_foreach(s->header->document, key, value) {
        if (!is_listed(excluded, key)) json_object_set(o, key, value);
    }
    json_object_set_new(o, "model", model_json(s->header));
    json_object_set_new(o, "images", json_string(s->images));
    json_object_set_new(o, "clean", accuracy_json("correct", s->correct, s->total));
    set_count(json_object_get(o, "clean"), "not_finite", s->not_finite);
    if (s->unsure)
        json_object_set_new(o, "clean_unsure",
                            json_pack("{s:I,s:s}", "images", (json_int_t)s->unsure, "text", s->unsure_text));
    if (s->header->certify.method) json_object_set_new(o, "certified", certified_json(s));
    if (s->left.survivors)
        json_object_set_new(o, "left_out",
                            json_pack("{s:I,s:I,s:I,s:I,s:f,s:s}", "survivors", (json_int_t)s->left.survivors,
                                      "sampled", (json_int_t)s->left.sampled, "broken", (json_int_t)s->left.broken,
                                      "further95", (json_int_t)s->left.further, "points95",
                                      percent_of(s->left.further, s->total), "text", s->left.text));
    json_t *attacks = json_array();
    for (int i = 0; i < s->n_entries; i++) json_array_append_new(attacks, entry_json(s, &s->entries[i]));
    json_object_set_new(o, "attacks", attacks);
    json_object_set_new(o, "worst_case", accuracy_json("robust", s->worst_robust, s->total));
    if (s->worst_eight_bit >= 0)
        json_object_set_new(o, "worst_case_8bit",
                            json_pack("{s:I,s:I,s:f}", "robust", (json_int_t)s->worst_eight_bit, "total",
                                      (json_int_t)s->total, "percent", percent_of(s->worst_eight_bit, s->total)));
    if (s->header->published.document) json_object_set_new(o, "as_published", published_json(s));
    return vt_json_whole(o, before);
}

const vt_report_def vt_report_def_json = {.name = "json",
                                          .file = "results.json",
                                          .summary = "machine-readable results",
                                          .document = document};
