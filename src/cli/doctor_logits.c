/* SPDX-License-Identifier: MIT */
#include "cli/doctor_logits.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/run_args.h"
#include "eval/doctor/doctor_logits.h"

/* What is compared, and with what. */
typedef struct job {
    const vt_cli *c;
    const char *path; /* of the logits */
    vt_saved_logits saved;
    int threads;
    vt_model *model; /* that part of the file whose match is r */
    vt_logits_match r;
    char part[120]; /* where it is not the one that is usually read; else "" */
} job;

/* The checkpoint as it is read for images of this shape, which tell the side where nothing else does. */
static vt_status open_for(job *j, const char *part, vt_err *e) {
    vt_overrides o;
    const vt_saved_logits *s = &j->saved;
    VT_TRY(vt_cli_overrides(j->c, &o, e));
    if (part) o.part = part;
    if (s->shape.height == s->shape.width) o.shown = s->shape.width;
    VT_TRY(vt_model_open(&j->model, j->c->positional[0], &o, e));
    vt_shape want = vt_config_shape(&j->model->config);
    if (!vt_shape_same(s->shape, want))
        return vt_fail(e, VT_E_USAGE, "%s: x has images of " VT_CHW ", the model takes " VT_CHW, j->path,
                       VT_CHW_OF(s->shape), VT_CHW_OF(want));
    if (s->classes == j->model->config.classes) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: logits of %d classes, the model has %d", j->path, s->classes,
                   j->model->config.classes);
}

static vt_status match_logits(job *j, const char *part, vt_err *e) {
    static bool tty;
    static vt_doctor d;
    VT_TRY(open_for(j, part, e));
    const vt_setting present = {.config = j->model->config};
    tty = isatty(STDERR_FILENO);
    d = (vt_doctor){.model = j->model,
                    .threads = j->threads,
                    .aspects = VT_ASPECT_ALL,
                    .progress = {.show = vt_cli_show, .ctx = &tty, .live = tty},
                    .interrupt = vt_cli_interruptible()};
    return vt_doctor_logits(&j->r, &d, &j->saved, &present, e);
}

/* Of a file with several state dicts another may be meant: timm's scripts evaluate the average. */
static vt_status match_others(job *j, vt_err *e) {
    char list[400], *save = NULL;
    snprintf(list, sizeof list, "%s", j->model->parts);
    for (char *part = strtok_r(list, ", ", &save); part && !j->r.equal; part = strtok_r(NULL, ", ", &save)) {
        job other = *j;
        vt_err why = {0};
        if (!strcmp(part, j->model->part)) continue;
        other.model = NULL;
        snprintf(other.part, sizeof other.part, "%s", part);
        vt_status s = match_logits(&other, part, &why);
        bool better = s == VT_OK && other.r.equal;
        vt_model_close(better ? j->model : other.model);
        if (better) *j = other;
        if (s == VT_E_MEMORY || s == VT_INTERRUPTED) return vt_fail(e, s, "%s", why.text); /* else it is no model */
    }
    return VT_OK;
}

static vt_status no_reading(const job *j, vt_err *e) {
    const vt_logits_match *r = &j->r;
    bool rounded = !j->saved.precise && r->difference < 0.02 * j->saved.span;
    return vt_fail(e, VT_E_NUMERIC,
                   "%s: no reading fits: of %d tried%s the nearest differs by %.3g, where logits span %.3g%s: the "
                   "network computes what no option says, or these are logits of other weights or of a model in "
                   "training mode; vitrine eval --oracle evaluates it in its own program (docs/oracle.md)",
                   j->path, r->tried, r->all ? "" : ", as many as time allows,", r->difference, j->saved.span,
                   rounded ? " (half precision or TF32 may explain it: save from model.eval().double())" : "");
}

static vt_status print_match(const job *j, vt_err *e) {
    const vt_saved_logits *s = &j->saved;
    const vt_logits_match *r = &j->r;
    const vt_setting first = {.config = j->model->config};
    char options[1000], changed[400], part[140] = "";
    if (*j->part) snprintf(part, sizeof part, "--part %s ", j->part);
    vt_setting_options(changed, sizeof changed, &r->setting, &first, NULL, VT_OPEN);
    vt_setting_options(options, sizeof options, &r->setting, &first, j->model, VT_OPEN);
    printf("%d images and logits of %d classes, %s; the logits span %.3g\n", s->n, s->classes,
           s->precise ? "computed in double" : "in float32", s->span);
    if (*changed || !r->equal) printf("%sas it is: differs by %.3g\n", part, r->present);
    if (!r->equal) {
        if (*changed) printf("nearest: %s: differs by %.3g\n", changed, r->difference);
        return no_reading(j, e);
    }
    printf("%s%s%s: equal within %.2g: this reading is proven on %d image%s\n",
           *changed || *part ? "with " : "as it is", part, changed, r->difference, s->n, s->n > 1 ? "s" : "");
    if (*r->also)
        printf("these logits do not tell it from: %s%s\n", r->also,
               s->precise ? "" : " (logits of model.double() may)");
    if (*options || *part) printf("use: %s%s\n", part, options);
    vt_setting_options(options, sizeof options, &r->setting, &first, j->model, VT_ASSUMED);
    if (*options || *part)
        printf("a copy that assumes nothing: vitrine convert %s COPY.safetensors %s%s\n", j->model->path, part,
               options);
    return VT_OK;
}

vt_status vt_cli_doctor_logits(const vt_cli *c, vt_err *e) {
    static const char *const others[] = {"data", "images", "split", "seed", "preprocess", "attack-at", "oracle"};
    static job j;
    long long threads;
    const char *weights;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vt_cli_has(c, others[i]))
            return vt_fail(e, VT_E_USAGE, "--logits brings images of its own for a checkpoint: leave --%s out",
                           others[i]);
    VT_TRY(vt_cli_weights(c, &weights, e));
    VT_TRY(vt_cli_threads(c, &threads, e));
    j = (job){.c = c, .path = vt_cli_get(c, "logits"), .threads = (int)threads};
    vt_status s = vt_saved_logits_read(&j.saved, j.path, e);
    if (s == VT_OK) s = match_logits(&j, NULL, e);
    if (s == VT_OK && !j.r.equal && *j.model->parts && !vt_cli_has(c, "part")) s = match_others(&j, e);
    if (s == VT_OK) s = print_match(&j, e);
    vt_saved_logits_free(&j.saved);
    vt_model_close(j.model);
    return s;
}
