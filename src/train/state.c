/* SPDX-License-Identifier: MIT */
/* The files of a run. state.safetensors holds everything that a resumed run needs; it is replaced whole or not at all,
 * and holds no times, so that two runs that did the same have the same bytes. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "linalg/gemm.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/version.h"
#include "tensors/tensors.h"
#include "models/forms.h"
#include "train/run.h"

#define STATE "state.safetensors"
enum { NUMBERS_MOST = 64 }; /* VT_RUN_NUMBERS and the sums of penalties */

/* Every tensor of the state: its name in the file, and where it lives in memory. */
typedef struct entries {
    vt_tensor *t; /* [n], owns the names too */
    char (*names)[128];
    int n;
} entries;

/* Appends tensor "group.name.slot" (slot "": "group.name") of numel floats, or doubles if wide, at `data`. */
static void add_entry(entries *l, void *data, size_t numel, bool wide, const char *group, const char *name,
                      const char *slot) {
    char *full = l->names[l->n];
    snprintf(full, sizeof *l->names, "%s.%s%s%s", group, name, *slot ? "." : "", slot);
    l->t[l->n++] = (vt_tensor){.name = full,
                               .dtype = wide ? VT_F64 : VT_F32,
                               .ndim = 1,
                               .shape = {(int64_t)numel},
                               .numel = numel,
                               .data = data};
}

/* Lists every tensor of the run's state: weights, averages, optimiser slots, penalties. l->t is to be freed. */
static vt_status list_entries(entries *l, vt_run *run, vt_err *e) {
    const vt_param_list *params = &run->m->params;
    size_t most = (size_t)params->count * (2 + VT_OPTIM_SLOTS) + VT_MAX_PENALTIES;
    *l = (entries){.t = calloc(most, sizeof *l->t + sizeof *l->names)};
    if (!l->t) return vt_fail(e, VT_E_MEMORY, "no memory for a checkpoint");
    l->names = (void *)(l->t + most);
    for (int i = 0; i < params->count; i++) {
        const vt_param *p = &params->items[i];
        const vt_optim_def_f32 *def = run->update.rules[i].def;
        add_entry(l, run->m->w + p->offset, p->numel, false, "weight", p->name, "");
        if (run->update.ema) add_entry(l, run->update.ema + p->offset, p->numel, false, "ema", p->name, "");
        for (int k = 0; k < def->slots && !p->buffer; k++)
            add_entry(l, vt_update_slot(&run->update, i, k), p->numel, def->wide, "optim", p->name, def->slot_name[k]);
    }
    for (int i = 0; i < run->n_penalties; i++)
        if (run->penalties[i].state_len)
            add_entry(l, run->penalties[i].state, run->penalties[i].state_len, false, "penalty",
                      run->penalties[i].def->name, "");
    return VT_OK;
}

/* Every number of the state: its key in the file, and where it lives in memory. */
typedef struct number {
    const char *key;
    double *at;
} number;

/* Lists every number of the run's state; returns how many. */
static int list_numbers(number out[NUMBERS_MOST], vt_run *run) {
    int n = 0;
#define NUMBER(field) out[n++] = (number){#field, &run->n.field};
    VT_RUN_NUMBERS(NUMBER)
#undef NUMBER
    for (int i = 0; i < run->n_penalties; i++) out[n++] = (number){run->penalties[i].key, &run->penalties[i].sum};
    return n;
}

void vt_train_model_text(char *out, size_t size, const vt_config *c) {
    char forms[1000];
    int n = vt_forms_text(c, forms, sizeof forms);
    snprintf(out, size, "attn-scale: %.17g\nln-eps: %.17g\n%s%s%s", c->attn_scale, c->ln_eps, n ? "forms: " : "", forms,
             n ? "\n" : "");
}

/* Returns the hash of the images that best.safetensors is chosen on, or "none". */
static const char *watch_data_hash(const vt_run *run) { return run->t->watch_data ? run->t->watch_data->hash : "none"; }

/* Numbers are written as hexadecimal floats: exact. */
vt_status vt_state_save(vt_run *run, vt_err *e) {
    entries l;
    number numbers[NUMBERS_MOST];
    const char *meta[2 * NUMBERS_MOST + 16];
    char text[NUMBERS_MOST][40], step[32], model[VT_MODEL_TEXT], kernels[128], path[VT_PATH_MAX];
    int n = list_numbers(numbers, run);
    for (int i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "%a", *numbers[i].at);
        meta[2 * i] = numbers[i].key, meta[2 * i + 1] = text[i];
    }
    snprintf(step, sizeof step, "%lld", (long long)run->step);
    vt_train_model_text(model, sizeof model, &run->m->config);
    vt_gemm_kernels(kernels, sizeof kernels);
    const char *more[] = {"step",         step,
                          "recipe",       run->text,
                          "data_sha256",  run->data_hash,
                          "kernels",      kernels,
                          "watch_sha256", watch_data_hash(run),
                          "model",        model,
                          "vitrine",      VT_VERSION,
                          VT_ST_FILE,     NULL};
    memcpy(meta + 2 * n, more, sizeof more);
    VT_TRY(vt_path_in(path, run->t->out, STATE, e));
    VT_TRY(list_entries(&l, run, e));
    vt_status s = vt_tensors_write(path, l.t, l.n, meta, n + (int)(sizeof more / sizeof *more) / 2, e);
    free(l.t);
    return s;
}

/* Returns whether the run's folder has an entry of that name. */
static bool has_file(const vt_run *run, const char *name) {
    char path[VT_PATH_MAX];
    return vt_path(path, run->t->out, name) && access(path, F_OK) == 0;
}

vt_status vt_state_exists(const vt_run *run, bool *there, vt_err *e) {
    const char *out = run->t->out;
    char path[VT_PATH_MAX];
    *there = has_file(run, STATE);
    bool begun = *there || has_file(run, "log.jsonl"); /* a run killed before its first checkpoint has a log */
    if (begun && !run->t->resume)
        return vt_fail(e, VT_E_USAGE, "%s holds a training run already: go on with @resume, or choose another @out",
                       out);
    if (!begun && has_file(run, "ledger.jsonl"))
        return vt_fail(e, VT_E_USAGE, "%s holds an evaluation: choose another @out", out);
    struct stat log;
    if (begun && !*there && vt_path(path, out, "log.jsonl") && lstat(path, &log) == 0 && S_ISREG(log.st_mode) &&
        log.st_size > 0)
        return vt_fail(e, VT_E_USAGE, "%s holds a training run without its " STATE ": choose another @out", out);
    static const char *const names[] = {"model.safetensors", "best.safetensors", STATE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!begun && has_file(run, names[i]))
            return vt_fail(e, VT_E_USAGE, "%s holds %s and no training run: choose another @out", out, names[i]);
        VT_TRY(vt_path_in(path, run->t->out, names[i], e));
        VT_TRY(vt_file_place(path, e));
    }
    return VT_OK;
}

/* Fails with VT_E_USAGE for a state made with another recipe, other options, images or version, and says what differs.
 * VT_E_FORMAT: it is none. */
static vt_status check_same_run(const vt_run *run, const vt_tensors *st, vt_err *e) {
    const char *path = vt_tensors_path(st), *recipe = vt_tensors_meta(st, "recipe");
    const char *data = vt_tensors_meta(st, "data_sha256"), *version = vt_tensors_meta(st, "vitrine");
    const char *model = vt_tensors_meta(st, "model"), *watched = vt_tensors_meta(st, "watch_sha256"); /* NULL: older */
    char changed[300], text[VT_MODEL_TEXT];
    if (!recipe || !data || !version || !vt_tensors_meta(st, "step"))
        return vt_fail(e, VT_E_FORMAT, "%s: is not the state of a training run", path);
    vt_recipe_diff(recipe, run->text, changed, sizeof changed);
    if (strcmp(recipe, run->text))
        return vt_fail(e, VT_E_USAGE, "%s was made with another recipe: %s", path,
                       *changed ? changed : "the order of groups");
    vt_train_model_text(text, sizeof text, &run->m->config);
    vt_recipe_diff(model ? model : text, text, changed, sizeof changed);
    if (*changed) return vt_fail(e, VT_E_USAGE, "%s was made with other options: %s", path, changed);
    if (strcmp(data, run->data_hash))
        return vt_fail(e, VT_E_USAGE, "%s was made with other images (sha256 %.12s...) than those in %s (%.12s...)",
                       path, data, run->t->data->path, run->data_hash);
    if (watched && strcmp(watched, watch_data_hash(run)))
        return vt_fail(e, VT_E_USAGE, "%s was made with other watched images (sha256 %.12s...) than these (%.12s...)",
                       path, watched, watch_data_hash(run));
    if (!strcmp(version, VT_VERSION)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s was made by vitrine %s, this is %s", path, version, VT_VERSION);
}

/* Reads a number from the state's metadata; VT_E_FORMAT if it is missing or no number. */
static vt_status load_number(double *out, const vt_tensors *st, const char *key, vt_err *e) {
    const char *text = vt_tensors_meta(st, key);
    char *end;
    if (!text) return vt_fail(e, VT_E_FORMAT, "%s: metadata %s is missing", vt_tensors_path(st), key);
    *out = strtod(text, &end);
    if (end == text || *end)
        return vt_fail(e, VT_E_FORMAT, "%s: metadata %s is '%.40s', no number", vt_tensors_path(st), key, text);
    return VT_OK;
}

/* Reads all numbers, the step and the kernels' names of a state into the run. VT_E_RANGE: a step beyond the run's
 * last. */
static vt_status load_numbers(vt_run *run, const vt_tensors *st, vt_err *e) {
    number numbers[NUMBERS_MOST];
    int n = list_numbers(numbers, run);
    for (int i = 0; i < n; i++) VT_TRY(load_number(numbers[i].at, st, numbers[i].key, e));
    const char *text = vt_tensors_meta(st, "step"), *kernels = vt_tensors_meta(st, "kernels");
    long long step;
    if (!vt_parse_int(text, &step) || step < 0 || step > run->steps)
        return vt_fail(e, VT_E_RANGE, "%s: is at step %.40s, the run has %lld", vt_tensors_path(st), text,
                       (long long)run->steps);
    run->step = step;
    if (kernels) snprintf(run->kernels_before, sizeof run->kernels_before, "%s", kernels);
    return VT_OK;
}

/* Reads numbers and tensors of a state into the run and its model; fails for one that does not belong to it. */
static vt_status load_state(vt_run *run, const vt_tensors *st, vt_err *e) {
    entries l;
    VT_TRY(check_same_run(run, st, e));
    VT_TRY(load_numbers(run, st, e));
    VT_TRY(list_entries(&l, run, e));
    vt_status s = VT_OK;
    for (int i = 0; i < l.n && s == VT_OK; i++) {
        const vt_tensor *to = &l.t[i], *t = vt_tensors_find(st, to->name);
        if (!t)
            s = vt_fail(e, VT_E_FORMAT, "%s: tensor %s is missing", vt_tensors_path(st), to->name);
        else
            s = to->dtype == VT_F64 ? vt_tensor_f64(st, t, (double *)to->data, to->numel, e)
                                    : vt_tensor_f32(st, t, (float *)to->data, to->numel, e);
    }
    free(l.t);
    if (s == VT_OK) vt_model_refresh(run->m);
    return s;
}

vt_status vt_state_load(vt_run *run, vt_err *e) {
    char path[VT_PATH_MAX];
    vt_tensors *st;
    VT_TRY(vt_path_in(path, run->t->out, STATE, e));
    VT_TRY(vt_tensors_open(&st, path, e));
    vt_status s = load_state(run, st, e);
    if (s == VT_OK) s = vt_tensors_check(st, e); /* of before: without it, or of tensors alone */
    vt_tensors_close(st);
    return s;
}

/* ---- ranks ---- */

/* Returns what must be the same on every rank in lines "key: value", to be freed; NULL: no memory. */
static char *identity_text(const vt_run *run) {
    char model[VT_MODEL_TEXT], kernels[128], *text;
    vt_train_model_text(model, sizeof model, &run->m->config);
    vt_gemm_kernels(kernels, sizeof kernels);
    int n = asprintf(&text, "%simages: %s\nwatched images: %s\n%sversion: %s\nproduct kernels: %s\n", run->text,
                     run->data_hash, watch_data_hash(run), model, VT_VERSION, kernels);
    return n < 0 ? NULL : text;
}

/* For vt_team_same: fails with VT_E_USAGE, naming the keys that differ from rank 0's. */
static vt_status report_other_training(const void *ctx, const char *first, const char *mine, vt_err *e) {
    char changed[300];
    (void)ctx;
    vt_recipe_diff(first, mine, changed, sizeof changed);
    return vt_fail(e, VT_E_USAGE, "it would train with something else than rank 0: %s",
                   *changed ? changed : "the order of groups");
}

/* Fails with VT_E_USAGE on a rank whose recipe, data, model options, version or kernels are not rank 0's.
 * Collective. */
static vt_status check_same_training(vt_run *run, vt_err *e) {
    char *mine = identity_text(run);
    vt_status s = vt_team_same(run->t->team, mine, report_other_training, NULL, e);
    free(mine);
    return s;
}

vt_status vt_state_share(vt_run *run, vt_err *e) {
    vt_team *t = run->t->team;
    entries l = {0};
    number numbers[NUMBERS_MOST];
    if (!t) return VT_OK;
    VT_TRY(check_same_training(run, e));
    vt_status s = vt_team_agree(t, list_entries(&l, run, e), e);
    if (s != VT_OK) {
        free(l.t);
        return s;
    }
    int n = list_numbers(numbers, run);
    for (int i = 0; i < n; i++) t->ops->broadcast(t->ctx, 0, numbers[i].at, sizeof *numbers[i].at);
    t->ops->broadcast(t->ctx, 0, &run->step, sizeof run->step);
    t->ops->broadcast(t->ctx, 0, &run->resumed, sizeof run->resumed);
    t->ops->broadcast(t->ctx, 0, run->kernels_before, sizeof run->kernels_before);
    for (int i = 0; i < l.n; i++)
        t->ops->broadcast(t->ctx, 0, (void *)l.t[i].data, l.t[i].numel * vt_dtype_size(l.t[i].dtype));
    free(l.t);
    vt_model_refresh(run->m);
    return VT_OK;
}

/* For vt_team_same: fails with VT_E_NUMERIC, since the weights' bits are not rank 0's; ctx: the run. */
static vt_status report_other_weights(const void *ctx, const char *first, const char *mine, vt_err *e) {
    const vt_run *run = ctx;
    (void)first, (void)mine;
    return vt_fail(e, VT_E_NUMERIC,
                   "after step %lld its weights are no longer those of rank 0: this machine computes other bits than "
                   "rank 0's (train on machines of one kind); %s/state.safetensors is the last good checkpoint",
                   (long long)run->step, run->t->out);
}

vt_status vt_state_compare(vt_run *run, vt_err *e) {
    char mine[65];
    if (!run->t->team) return VT_OK;
    vt_sha_hex(run->m->w, run->m->params.total * sizeof(float), mine);
    return vt_team_same(run->t->team, mine, report_other_weights, run, e);
}

vt_status vt_state_export(vt_run *run, const char *name, vt_err *e) {
    char path[VT_PATH_MAX], steps[64];
    VT_TRY(vt_path_in(path, run->t->out, name, e));
    snprintf(steps, sizeof steps, "%lld of %lld", (long long)run->step, (long long)run->steps);
    const char *extra[] = {"recipe",       run->text, "steps",    steps,      "data_sha256",
                           run->data_hash, "vitrine", VT_VERSION, VT_ST_FILE, NULL};
    const float *w = run->update.ema ? run->update.ema : run->m->w;
    return vt_model_save_as(run->m, w, extra, (int)(sizeof extra / sizeof *extra) / 2, path, e);
}

/* ---- log.jsonl: one JSON object a line. Times stand here and nowhere else. ---- */

/* Does the line describe something after step `done`, or was it cut short (no JSON)? *short_of: there was no memory. */
static bool is_after_step(const char *line, int64_t done, int64_t per_epoch, bool *short_of) {
    json_error_t why;
    json_t *o = vt_json(line, strlen(line), &why);
    *short_of = !o && vt_json_why(&why) == VT_E_MEMORY;
    json_int_t step = json_integer_value(json_object_get(o, "step"));
    json_int_t epoch = json_integer_value(json_object_get(o, "epoch_end"));
    bool is = !o || step > done || epoch * per_epoch > done;
    json_decref(o);
    return is;
}

/* Returns the bytes of the log's lines up to step `done`; -1: no memory, so that nothing may be cut. */
static int64_t lines_until(FILE *f, int64_t done, int64_t per_epoch) {
    char *line = NULL;
    size_t room = 0;
    int64_t bytes = 0;
    bool short_of = false;
    ssize_t n;
    while ((n = getline(&line, &room, f)) > 0 && !is_after_step(line, done, per_epoch, &short_of)) bytes += n;
    free(line);
    return short_of || (n < 0 && !feof(f)) ? -1 : bytes;
}

vt_status vt_log_open(vt_run *run, vt_err *e) {
    char path[VT_PATH_MAX];
    int fd;
    VT_TRY(vt_path_in(path, run->t->out, "log.jsonl", e));
    VT_TRY(vt_file_open(&fd, NULL, path, O_RDWR | O_CREAT, e)); /* nothing is cut before it is locked */
    run->log = fdopen(fd, "r+");
    if (!run->log) {
        close(fd);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    }
    if (!vt_file_lock(fd)) return vt_fail(e, VT_E_IO, "%s: another vitrine is writing this run", path);
    int64_t bytes = lines_until(run->log, run->step, run->per_epoch);
    if (bytes < 0) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its lines", path);
    if (ftruncate(fileno(run->log), bytes) != 0 || fseek(run->log, (long)bytes, SEEK_SET) != 0)
        return vt_fail(e, VT_E_IO, "%s: cannot be cut to %lld bytes: %s", path, (long long)bytes, strerror(errno));
    return VT_OK;
}

/* Writes o (taken over; NULL: no memory) as one line of log.jsonl. */
static vt_status write_log_line(vt_run *run, json_t *o, vt_err *e) {
    char *text = o ? vt_json_text(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(o);
    if (!text) return vt_fail(e, VT_E_MEMORY, "no memory for a log line");
    bool good = !run->log || fprintf(run->log, "%s\n", text) > 0;
    free(text);
    return good ? VT_OK : vt_fail(e, VT_E_IO, "%s/log.jsonl: cannot be written: %s", run->t->out, strerror(errno));
}

/* Returns right / of, or null if it is not finite. */
static json_t *ratio_or_null(double right, double of) { return vt_json_real(right / of); }
/* Returns a number, or null if it is negative or not finite. */
static json_t *nonnegative_or_null(double v) { return v >= 0 ? vt_json_real(v) : json_null(); }

/* Adds each penalty's value at the last step, or its mean over the epoch's steps. */
static void put_penalties(json_t *o, const vt_run *run, bool mean) {
    for (int i = 0; i < run->n_penalties; i++)
        json_object_set_new(o, run->penalties[i].key,
                            vt_json_real(mean ? run->penalties[i].sum / run->n.steps : run->penalties[i].last));
}

vt_status vt_log_step(vt_run *run, double lr, double norm, double seconds, vt_err *e) {
    const vt_step_sums *s = &run->batch.sums;
    size_t before = vt_json_refused();
    json_t *o = json_pack("{s:I,s:o,s:o,s:o,s:o,s:o}", "step", (json_int_t)run->step, "epoch",
                          vt_json_real((double)run->step / (double)run->per_epoch), "loss",
                          vt_json_real(s->loss / (double)s->images), "lr", vt_json_real(lr), "grad_norm",
                          vt_json_real(norm), "seconds", vt_json_real(seconds));
    put_penalties(o, run, false);
    return write_log_line(run, vt_json_whole(o, before), e);
}

vt_status vt_log_epoch(vt_run *run, int epoch, double lr, double clean, double robust, double seconds, vt_err *e) {
    const vt_run_numbers *n = &run->n;
    bool attacked = vt_reads_worst_f32(run->batch.objective);
    size_t before = vt_json_refused();
    json_t *o =
        json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "epoch_end", epoch, "loss", vt_json_real(n->loss / n->images),
                  "lr", vt_json_real(lr), "clean_train", ratio_or_null(n->right_clean, n->clean_images), "robust_train",
                  attacked ? ratio_or_null(n->right_adv, n->images) : json_null(), "clean_probe",
                  nonnegative_or_null(clean), "robust_probe", nonnegative_or_null(robust), "seconds",
                  vt_json_real(seconds));
    put_penalties(o, run, true);
    return write_log_line(run, vt_json_whole(o, before), e);
}

vt_status vt_log_event(vt_run *run, const char *kind, int64_t step, const char *text, vt_err *e) {
    return write_log_line(run, json_pack("{s:s,s:I,s:s}", "event", kind, "step", (json_int_t)step, "text", text), e);
}

vt_status vt_log_sync(vt_run *run, vt_err *e) {
    if (!run->log) return VT_OK;
    int why = fflush(run->log) ? errno : vt_sync(fileno(run->log));
    return why ? vt_fail(e, VT_E_IO, "%s/log.jsonl: cannot be written: %s", run->t->out, strerror(why)) : VT_OK;
}
