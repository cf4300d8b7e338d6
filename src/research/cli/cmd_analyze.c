/* SPDX-License-Identifier: MIT */
/* vitrine analyze: opens the checkpoints, reads the options of the analysis and writes what it measured. */
#include <stdlib.h>
#include "attacks/attacker.h"
#include "cli/cli.h"
#include "research/cli/result_dir.h"
#include "research/cli/plugin_options.h"
#include "cli/run_args.h"
#include "models/arch.h"
#include "research/analysis/analyze.h"

typedef struct job {
    const vt_analysis_def *def;
    void *params;
    vt_analyze a;
    vt_attack attack;
    vt_progress progress;
    json_t *doc;
    vt_result_dir folder;
} job;

/* The options of an analysis, for vt_plugin_options. */
static vt_plugin_options options_of(const vt_analysis_def *d) {
    return (vt_plugin_options){"analysis", d->name, d->opts};
}

/* Sets *out to --name as an option of the kind that the operands name. VT_E_USAGE if they name none yet, VT_E_UNKNOWN
 * for a kind or key that is not there. */
static vt_status find(const vt_cli *c, const char *name, vt_arg *out, vt_err *e) {
    const vt_analysis_def *d;
    if (!c->n_positional)
        return vt_fail(e, VT_E_USAGE,
                       "vitrine analyze has no option '--%s' of its own: name the kind before its options", name);
    VT_TRY(vt_analysis_find(&d, c->positional[0], e));
    const vt_plugin_options own = options_of(d);
    return vt_plugin_options_find(&own, c, name, out, e);
}

/* VT_E_USAGE for an option of images or attacks that the analysis does not read: it would change nothing. */
static vt_status refuse_unread(const job *j, const vt_cli *c, vt_err *e) {
    static const char *const of_images[] = {"data", "images", "split", "class-order", "preprocess", "attack-at", NULL};
    static const char *const of_attack[] = {"attack", "eps", "norm", NULL};
    unsigned w = j->def->wants;
    for (int i = 0; !(w & VT_WANTS_IMAGES) && of_images[i]; i++)
        if (vt_cli_has(c, of_images[i]))
            return vt_fail(e, VT_E_USAGE, "analysis %s looks at weights alone: --%s has no meaning there", j->def->name,
                           of_images[i]);
    for (int i = 0; !(w & VT_TAKES_ATTACK) && of_attack[i]; i++)
        if (vt_cli_has(c, of_attack[i]))
            return vt_fail(e, VT_E_USAGE, "analysis %s attacks nothing: --%s has no meaning there", j->def->name,
                           of_attack[i]);
    return VT_OK;
}

/* Sets j->a.norm and, if --eps, --attack or the kind asks for one, the attack (pgd by default) and eps, which must then
 * be given. */
static vt_status parse_attack(job *j, const vt_cli *c, vt_err *e) {
    const char *spec = vt_cli_get(c, "attack"), *eps = vt_cli_get(c, "eps");
    bool needed = (j->def->wants & VT_WANTS_ATTACK) == VT_WANTS_ATTACK;
    VT_TRY(vt_cli_norm(c, &j->a.norm, e));
    if (!eps && !needed && !spec) return VT_OK;
    VT_TRY(vt_eps_parse(eps, j->a.norm, &j->a.eps, e));
    VT_TRY(vt_attack_parse(&j->attack, spec ? spec : "pgd", j->a.norm, e));
    j->a.eps_text = eps, j->a.attack = &j->attack;
    return VT_OK;
}

/* Opens s->path and, if images are read, s's view of the data (transform and labels depend on the model); the first
 * subject also sets j's images. Fails if the head does not fit the data's classes. */
static vt_status open_subject(job *j, const vt_cli *c, vt_analyzed *s, vt_err *e) {
    vt_overrides o;
    vt_input_provenance story;
    if (!(j->def->wants & VT_WANTS_IMAGES)) {
        VT_TRY(vt_cli_overrides(c, &o, e));
        VT_TRY(vt_model_open(&s->model, s->path, &o, e));
        return vt_cli_known(c, s->model, e);
    }
    VT_TRY(vt_cli_data(c, &s->data, e));
    if (!j->a.images) VT_TRY(vt_cli_images(c, s->data, &j->a.images, &j->a.n_images, e));
    VT_TRY(vt_prepare_model(&c->given, s->path, s->data, j->a.images[0], &s->model, e));
    VT_TRY(vt_cli_known(c, s->model, e));
    VT_TRY(vt_prepare_input(&c->given, s->model, s->data, j->a.images[0], &story, e));
    s->data->labels = s->model->labels;
    VT_TRY(vt_dataset_fit_head(s->data, s->model->config.classes, false, s->model->path, e));
    if (s == j->a.subjects) vt_cli_say_data(c, s->data, j->a.images, j->a.n_images);
    return VT_OK;
}

/* VT_E_USAGE unless each stage, if there is an attack, fits each checkpoint and stays in the model's ball, on the model
 * itself. */
static vt_status check_attack(const job *j, vt_err *e) {
    for (int i = 0; i < j->a.n; i++) {
        const vt_config *c = &j->a.subjects[i].model->config;
        vt_task dims = vt_attacker_dims(vt_config_shape(c), c->classes, NULL);
        for (int k = 0; j->a.attack && k < j->a.attack->n_stages; k++) {
            const vt_attack_stage *s = &j->a.attack->stages[k];
            VT_TRY(vt_attack_fits(s, &dims, e));
            if (s->def->looks && !vt_arch_find(c->arch)->shows_attention)
                return vt_fail(e, VT_E_USAGE, "attack %s looks at attention, which %s does not show", s->def->name,
                               j->a.subjects[i].path);
            if (s->def->surrogate || s->def->inside || s->def->published)
                return vt_fail(e, VT_E_USAGE, "attack %s is %s: an analysis runs attacks of the model in their ball",
                               s->def->name,
                               s->def->surrogate ? "run on a surrogate"
                               : s->def->inside  ? "run on networks cut off inside the model"
                                                 : "a paper's, scored as published");
        }
    }
    return VT_OK;
}

/* Reads the analysis, options, attack and checkpoints; those opened before a failure are counted in a.n. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    long long seed, threads;
    VT_TRY(vt_analysis_find(&j->def, c->positional[0], e));
    const vt_plugin_options own = options_of(j->def);
    VT_TRY(vt_plugin_options_parse(&own, c, j->def->params_size, &j->params, e));
    VT_TRY(refuse_unread(j, c, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_cli_threads(c, &threads, e));
    j->a.seed = (uint64_t)seed, j->a.threads = (int)threads;
    VT_TRY(parse_attack(j, c, e));
    for (; j->a.n < c->n_positional - 1; j->a.n++) {
        j->a.subjects[j->a.n].path = c->positional[1 + j->a.n];
        vt_status s = open_subject(j, c, &j->a.subjects[j->a.n], e);
        if (s != VT_OK) { /* counted, so that it is closed */
            j->a.n++;
            return s;
        }
    }
    return check_attack(j, e);
}

/* Parses, opens --out, runs, and keeps the document. */
static vt_status run_analysis(job *j, const vt_cli *c, vt_err *e) {
    VT_TRY(parse(j, c, e));
    VT_TRY(vt_result_dir_open(&j->folder, vt_cli_get(c, "out"), "analysis.json", e));
    if (j->folder.dir) j->a.array = vt_result_dir_array, j->a.array_ctx = &j->folder;
    if (j->folder.dir) j->a.picture = vt_result_dir_picture, j->a.picture_ctx = &j->folder;
    j->progress = vt_cli_progress();
    j->a.progress = &j->progress;
    j->a.interrupt = vt_cli_interruptible();
    double began = vt_now();
    VT_TRY(vt_analyze_run(j->def, j->params, &j->a, j->folder.out, &j->doc, e));
    return vt_result_dir_keep(&j->folder, c, j->doc, j->a.threads, vt_now() - began, e);
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    vt_status s = run_analysis(&j, c, e);
    vt_result_dir_close(&j.folder, s == VT_OK);
    json_decref(j.doc);
    for (int i = 0; i < j.a.n; i++) vt_model_close(j.a.subjects[i].model), vt_dataset_close(j.a.subjects[i].data);
    vt_attack_free(&j.attack);
    free(j.a.images), free(j.params);
    return s;
}

static const vt_arg args[] = {
    VT_DATA_ARG,
    VT_IMAGES_ARG,
    VT_SPLIT_ARG,
    VT_CLASS_ORDER_ARG,
    VT_PREPROCESS_ARG,
    VT_ATTACK_AT_ARG,
    {"attack", "ATTACK", "the attack, for kinds that attack (default pgd); it is never left early", VT_OF_ATTACK},
    {"eps", "A/B", "its radius in pixel units: 8/255, 0.5 (l2), 12 (l1)", VT_OF_THREAT},
    {"norm", "linf|l2|l1", "threat model (default linf)", VT_OF_THREAT},
    {"out", "DIR", "folder for analysis.json, tables.txt, run.json, arrays and figures", VT_OF_OUTPUT},
    VT_SEED_ARG,
    VT_JSON_ARG,
    VT_QUIET_ARG,
    VT_THREADS_ARG,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_analyze = {
    .name = "analyze",
    .summary = "figures and diagnostics of checkpoints: Lipschitz constants, attention, features, spectra",
    .operands = "KIND WEIGHTS...",
    .min_operands = 2,
    .max_operands = 1 + VT_ANALYZE_MOST,
    .args = args,
    .details = "vitrine list analyses shows the kinds and their options, which are flags too: vitrine analyze KIND "
               "WEIGHTS --key value, after the kind. Several checkpoints are compared on the same images. What is "
               "written depends on weights, images, options and seed alone (docs/analysis.md).",
    .examples = {"vitrine analyze lipschitz weights/shapes10-vit --data datasets/shapes10 --images 0:4 --eps 4/255",
                 "vitrine analyze spectrum weights/shapes10-vit weights/shapes10-plain --out spectra"},
    .run = run,
    .find = find,
};
