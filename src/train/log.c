/* SPDX-License-Identifier: MIT */
/* log.jsonl: one JSON object a line. Times stand here and nowhere else. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/files.h"
#include "train/run.h"

/* Does the line tell of something after step `done`? A line that is no JSON was cut by a kill; *short_of: there was no
 * memory to tell. */
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

/* -1: no memory, so that nothing may be cut. */
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

static vt_status write_log_line(vt_run *run, json_t *o, vt_err *e) {
    char *text = o ? vt_json_text(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(o);
    if (!text) return vt_fail(e, VT_E_MEMORY, "no memory for a log line");
    bool good = !run->log || fprintf(run->log, "%s\n", text) > 0;
    free(text);
    return good ? VT_OK : vt_fail(e, VT_E_IO, "%s/log.jsonl: cannot be written: %s", run->t->out, strerror(errno));
}

/* JSON has no NaN and no infinity. */
static json_t *real_or_null(double v) { return isfinite(v) ? json_real(v) : json_null(); }
static json_t *ratio_or_null(double right, double of) { return real_or_null(right / of); }
static json_t *nonnegative_or_null(double v) { return v >= 0 ? real_or_null(v) : json_null(); }

/* Of the last step, or the mean over the epoch's steps. */
static void put_penalties(json_t *o, const vt_run *run, bool mean) {
    for (int i = 0; i < run->n_penalties; i++)
        json_object_set_new(o, run->penalties[i].key,
                            real_or_null(mean ? run->penalties[i].sum / run->n.steps : run->penalties[i].last));
}

vt_status vt_log_step(vt_run *run, double lr, double norm, double seconds, vt_err *e) {
    const vt_step_sums *s = &run->batch.sums;
    size_t before = vt_json_refused();
    json_t *o = json_pack("{s:I,s:o,s:o,s:o,s:o,s:o}", "step", (json_int_t)run->step, "epoch",
                          real_or_null((double)run->step / (double)run->per_epoch), "loss",
                          real_or_null(s->loss / (double)s->images), "lr", real_or_null(lr), "grad_norm",
                          real_or_null(norm), "seconds", real_or_null(seconds));
    put_penalties(o, run, false);
    return write_log_line(run, vt_json_whole(o, before), e);
}

vt_status vt_log_epoch(vt_run *run, int epoch, double lr, double clean, double robust, double seconds, vt_err *e) {
    const vt_run_numbers *n = &run->n;
    bool attacked = run->batch.objective->inner != VT_INNER_NONE;
    size_t before = vt_json_refused();
    json_t *o =
        json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "epoch_end", epoch, "loss", real_or_null(n->loss / n->images),
                  "lr", real_or_null(lr), "clean_train", ratio_or_null(n->right_clean, n->clean_images), "robust_train",
                  attacked ? ratio_or_null(n->right_adv, n->images) : json_null(), "clean_probe",
                  nonnegative_or_null(clean), "robust_probe", nonnegative_or_null(robust), "seconds",
                  real_or_null(seconds));
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
