/* SPDX-License-Identifier: MIT */
#include "cli/run_args.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "base/files.h"
#include "base/json.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "eval/cost.h"
#include "eval/report/checksums.h"
#include "linalg/gemm.h"

extern const vt_command vt_command_eval;

vt_status vt_cli_norm(const vt_cli *c, vt_norm *out, vt_err *e) { return vt_norm_parse(vt_cli_get(c, "norm"), out, e); }

vt_status vt_cli_images(const vt_cli *c, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e) {
    return vt_image_list(out, n, vt_cli_get(c, "images"), d, e);
}

vt_status vt_cli_weights(const vt_cli *c, const char **weights, vt_err *e) {
    const char *oracle = vt_cli_get(c, "oracle");
    *weights = c->n_positional ? c->positional[0] : NULL;
    if (!*weights && !oracle)
        return vt_fail(e, VT_E_USAGE, "vitrine %s needs %s (see 'vitrine help %s')", c->command->name, "WEIGHTS",
                       c->command->name);
    if (*weights && oracle)
        return vt_fail(e, VT_E_USAGE, "give WEIGHTS (%.100s) or --oracle, not both: one model is judged", *weights);
    return VT_OK;
}

vt_status vt_cli_check_known(void *ctx, const vt_model *m, bool other, vt_err *e) {
    return vt_cli_known(other ? NULL : ctx, m, e);
}

void vt_cli_eval_options(vt_eval_options *v, const vt_cli *c) {
    bool waits = vt_cli_has(c, "oracle") || vt_cli_has(c, "surrogate-oracle");
    *v = (vt_eval_options){.choices = &c->given,
                           .known = vt_cli_check_known,
                           .known_ctx = (void *)(uintptr_t)c,
                           .interrupt = waits ? vt_cli_interruptible() : NULL,
                           .shared = c->team != NULL};
}

vt_status vt_cli_subject(const vt_cli *c, vt_subject *s, int32_t first, vt_err *e) {
    const char *weights;
    vt_eval_options v;
    VT_TRY(vt_cli_weights(c, &weights, e));
    vt_cli_eval_options(&v, c);
    return vt_eval_options_subject(&v, s, weights, first, e);
}

/* Refuses (VT_E_USAGE) a command line without --data. */
static vt_status check_has_data(const vt_cli *c, vt_err *e) {
    if (vt_cli_has(c, "data")) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "vitrine %s needs --data FOLDER (CIFAR's folder, x.npz or x.npy,y.npy, or folders of PNGs or JPEGs; "
                   "CIFAR-10 is at " VT_CIFAR_URL ")",
                   c->command->name);
}

vt_status vt_cli_data(const vt_cli *c, vt_dataset **out, vt_err *e) {
    VT_TRY(check_has_data(c, e));
    return vt_prepare_data(&c->given, out, e);
}

void vt_cli_say_data(const vt_cli *c, const vt_dataset *d, const int32_t *images, size_t n) {
    char text[160];
    if (vt_team_rank(c->team)) return;
    if (*d->said) fprintf(stderr, "vitrine: %s: %s\n", d->path, d->said);
    if (*d->how && !d->head) fprintf(stderr, "vitrine: %s: %s\n", d->path, d->how);
    if (vt_cli_has(c, "images") && vt_image_classes_text(d, images, n, text, sizeof text))
        fprintf(stderr, "vitrine: %s\n", text);
}

vt_status vt_cli_eval_open(const vt_cli *c, vt_eval_options *v, vt_err *e) {
    const char *weights;
    VT_TRY(check_has_data(c, e));
    VT_TRY(vt_cli_weights(c, &weights, e));
    VT_TRY(vt_eval_options_open(v, weights, e));
    vt_cli_say_data(c, v->subject->data, v->images, v->n_images);
    return VT_OK;
}

/* Says on stderr what --search auto chose. */
static void say_search(const vt_cli *c, const vt_subject *s) {
    const char *text = vt_cli_get(c, "search"), *by = vt_bf16_hardware();
    if (!text || strcmp(text, "auto") != 0) return;
    fprintf(stderr, "vitrine: --search auto: %s, as %s%s\n", vt_precision_name(s->search),
            s->search                           ? "this processor multiplies bfloat16 by "
            : s->own || vt_subject_is_remote(s) ? "the model is computed in another process"
                                                : "this processor does not multiply bfloat16",
            s->search ? by : "");
}

/* Opens the ledger of an evaluation: in --out, by the ranks together if there are several, else in memory. */
static vt_status open_ledger(const vt_cli *c, vt_cli_run *r, vt_eval_options *v, vt_err *e) {
    size_t pixels = vt_subject_pixels(v->subject);
    r->place = (vt_run_place){.out = vt_cli_get(c, "out"),
                              .resume = vt_cli_has(c, "resume"),
                              .allow_mixed = vt_cli_has(c, "allow-mixed"),
                              .team = c->team,
                              .images = v->images,
                              .n_images = v->n_images};
    if (c->team && r->place.out) v->place = &r->place;
    return vt_parts_open(&r->ledger, &r->place, r->header, pixels, e);
}

/* Prints what the run, and the self-test that follows it, take at most. */
static vt_status print_cost(const vt_cli_run *r, vt_eval_options *v, vt_err *e) {
    vt_selftest t = {.v = v, .attack = r->tested, .points_only = r->points_only};
    if (!r->tested) return vt_cost_print(stdout, v, NULL, e);
    vt_selftest_plan(&t, vt_cost_passes(v));
    return vt_cost_print(stdout, v, &(vt_cost_selftest){t.forecast, t.escalation_forecast}, e);
}

vt_status vt_cli_evaluate(const vt_cli *c, vt_cli_run *r, vt_eval_options *v, vt_err *e) {
    r->complete = false;
    say_search(c, v->subject);
    if (vt_cli_has(c, "dry-run")) return print_cost(r, v, e);
    VT_TRY(open_ledger(c, r, v, e));
    v->progress = vt_cli_progress();
    if (!r->ledger->count) vt_cli_hint_run(c, v);
    v->interrupt = vt_cli_interruptible();
    double began = vt_now();
    vt_status s = vt_eval_run(v, r->ledger, e);
    r->seconds = vt_now() - began;
    r->complete = s == VT_OK && !vt_team_rank(c->team); /* the rest is rank 0's */
    return s;
}

void vt_cli_run_close(vt_cli_run *r) {
    vt_ledger_close(r->ledger);
    vt_header_free(r->header);
}

/* ---- run.json ---- */

/* Writes the processor's model name from /proc/cpuinfo, or "unknown". */
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
    json_t *o =
        json_pack("{s:o,s:s,s:f,s:f,s:i,s:s,s:s,s:s,s:s,s:s,s:I}", "command", argv, "finished", stamp, "seconds",
                  seconds, "cpu_seconds",
                  (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                      1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec),
                  "threads", threads, "host", host, "cpu", cpu, "cpu_isa", vt_cpu_isa(), "blas", vt_blas_config(),
                  "kernels", kernels, "peak_resident_kb", (json_int_t)(vt_resident_mb() * 1024));
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

vt_status vt_cli_eval_json(const vt_cli *c, const char *dir, const vt_eval_options *v, const vt_cli_run *r,
                           double gradient_cost, vt_err *e) {
    const char *search = vt_cli_get(c, "search"), *by = vt_bf16_hardware();
    json_t *more = json_pack("{s:o}", "subject", vt_subject_json(c->n_positional ? c->positional[0] : NULL, &c->given));
    if (isfinite(gradient_cost)) json_object_set_new(more, "gradient_cost_measured", json_real(gradient_cost));
    if (search)
        json_object_set_new(more, "search",
                            json_pack("{s:s,s:s,s:s}", "asked", search, "used", vt_precision_name(v->subject->search),
                                      "processor", by ? by : "no bfloat16"));
    if (r->ledger->repeated) json_object_set_new(more, "gradients_repeated", json_integer(r->ledger->repeated));
    vt_status s = vt_cli_run_json(c, dir, v->threads, r->seconds, more, e);
    json_decref(more);
    return s;
}
