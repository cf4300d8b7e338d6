/* SPDX-License-Identifier: MIT */
/* The key of a cell: what determines it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "attacks/attack.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/opt.h"
#include "checkpoint/onnx_file.h"
#include "eval/certifier.h"
#include "graph/onnx.h"
#include "research/table/plan.h"
#include "tensors/tensors.h"

/* c->lacks: the sentence on the first missing file, with its source if the manifest names one. */
static void note_missing_file(const vt_plan *p, vt_plan_cell *c, const char *what, const char *name, const char *path) {
    const char *slash = strrchr(path, '/'), *source = NULL;
    for (int i = 0; i < p->m->sources.n && !source; i++)
        if (!strcmp(p->m->sources.pair[i].key, slash ? slash + 1 : path)) source = p->m->sources.pair[i].value;
    if (!*c->lacks)
        snprintf(c->lacks, sizeof c->lacks, "%s %.60s: %.160s does not exist%s%.200s%s", what, name, path,
                 source ? " (from " : "", source ? source : "", source ? ")" : "");
}

/* JSON array of the words. */
static json_t *words_json(const vt_words *w) {
    json_t *list = json_array();
    for (int i = 0; i < w->n; i++) json_array_append_new(list, json_string(w->word[i]));
    return list;
}

/* hex: SHA-256 of a file; a missing one is noted in c->lacks, and hex is left as it is. */
static vt_status hash_file(const vt_plan *p, vt_plan_cell *c, const char *what, const char *name, const char *path,
                           char hex[65], vt_err *e) {
    if (access(path, F_OK) == 0) return vt_sha_file(path, hex, e);
    note_missing_file(p, c, what, name, path);
    return VT_OK;
}

/* c->hash of the key, if JSON has had its memory since `before` (vt_json_refused); VT_E_MEMORY. */
static vt_status hash_key(const vt_plan *p, vt_plan_cell *c, size_t before, vt_err *e) {
    c->key = vt_json_whole(c->key, before);
    return c->key && vt_cell_hash(c->key, c->hash) ? VT_OK : vt_manifest_no_memory(p->m, e);
}

/* Sets hex to the hash of the row's initial checkpoint, from an earlier cell that starts from the same file; left as it
 * is without one, or if it is missing, which c->lacks then says. */
static vt_status hash_init(const vt_plan *p, vt_plan_cell *c, char hex[65], vt_err *e) {
    const vt_manifest_row *r = &p->m->rows[c->row];
    for (int i = 0; r->init && i < p->n; i++) {
        const char *init = p->m->rows[p->cells[i].row].init;
        const char *known = json_string_value(json_object_get(p->cells[i].key, "init"));
        if (!known || !init || strcmp(init, r->init)) continue;
        snprintf(hex, 65, "%s", known);
        return VT_OK;
    }
    return r->init ? hash_file(p, c, "initial checkpoint of", r->name, r->init, hex, e) : VT_OK;
}

/* files[name] = SHA-256 of a regular file; nothing if there is none. */
static vt_status add_file(json_t *files, const char *name, const char *path, vt_err *e) {
    char hex[65];
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode)) return VT_OK;
    VT_TRY(vt_sha_file(path, hex, e));
    json_object_set_new(files, name, json_string(hex));
    return VT_OK;
}

/* files["weights"] = SHA-256 of an ONNX file with its external data, or of the shards that an index names, as ledgers
 * have it; nothing for other files, whose own hash it is. */
static vt_status add_weights(json_t *files, const char *path, vt_err *e) {
    char hex[65];
    const char *end = strrchr(path, '.');
    vt_onnx *m;
    vt_tensors *st;
    vt_sha sha;
    if (vt_is_onnx(path)) {
        VT_TRY(vt_onnx_open(&m, path, e));
        vt_sha_begin(&sha), vt_onnx_hash(m, &sha), vt_sha_end(&sha, hex);
        vt_onnx_close(m);
    } else if (end && !strcmp(end, ".json")) {
        VT_TRY(vt_weights_open(&st, path, NULL, e));
        vt_weights_sha(st, hex);
        vt_tensors_close(st);
    } else {
        return VT_OK;
    }
    json_object_set_new(files, "weights", json_string(hex));
    return VT_OK;
}

/* Returns the key of an earlier cell of the same kind, row and data set, which reads the same files; NULL: none. */
static const json_t *key_of_same_files(const vt_plan *p, const vt_plan_cell *c) {
    for (int i = 0; i < p->n; i++) {
        const vt_plan_cell *o = &p->cells[i];
        if (o->key && o->row == c->row && o->data == c->data && o->train == c->train && o->spectrum == c->spectrum &&
            !o->timed == !c->timed)
            return o->key;
    }
    return NULL;
}

/* Adds to c's key, as "files", what else decides how the checkpoint (NULL: none) and the images are read: the files of
 * configuration beside it, and those that options name. A key without any stays as it was before there was this. */
static vt_status add_files(const vt_plan *p, const vt_plan_cell *c, const char *checkpoint, const vt_words *a,
                           const vt_words *b, vt_err *e) {
    const json_t *same = key_of_same_files(p, c);
    if (same) {
        json_t *known = json_object_get(same, "files");
        if (known) json_object_set(c->key, "files", known);
        return VT_OK;
    }
    static const char *const beside[] = {"config.json", "preprocessor_config.json"};
    const vt_words *const lists[] = {a, b};
    char path[VT_PATH_MAX];
    json_t *files = json_object();
    const char *slash = checkpoint ? strrchr(checkpoint, '/') : NULL;
    int folder = slash ? (int)(slash - checkpoint) + 1 : 0;
    vt_status s = VT_OK;
    for (size_t i = 0; checkpoint && s == VT_OK && i < sizeof beside / sizeof *beside; i++)
        if (snprintf(path, sizeof path, "%.*s%s", folder, checkpoint, beside[i]) < (int)sizeof path)
            s = add_file(files, beside[i], path, e);
    if (checkpoint && s == VT_OK) s = add_weights(files, checkpoint, e);
    for (int k = 0; k < 2; k++)
        for (int i = 0; lists[k] && s == VT_OK && i < lists[k]->n; i++) {
            const char *word = lists[k]->word[i], *value = strchr(word, '=');
            snprintf(path, sizeof path, "%.*s", (int)strcspn(word, "="), word);
            if (value) s = add_file(files, path, value + 1, e);
        }
    if (json_object_size(files)) json_object_set(c->key, "files", files);
    json_decref(files);
    return s;
}

/* Sets c->key and hash by what determines a training or timing, but for the machine; c->recipe, and tflop and disk if
 * they can be known. A missing file: no key, c->lacks names it, VT_OK. VT_E_USAGE for the recipe. */
static vt_status training_key(const vt_plan *p, vt_plan_cell *c, vt_err *e) {
    const vt_manifest_row *r = &p->m->rows[c->row];
    const vt_plan_data *d = &p->data[c->data];
    char init[65] = "";
    VT_TRY(vt_plan_recipe(p, c, e));
    VT_TRY(hash_init(p, c, init, e));
    if (!d->train) note_missing_file(p, c, "data", p->m->data[c->data].name, d->path);
    if (*c->lacks) return VT_OK;
    size_t before = vt_json_refused();
    c->key = json_pack("{s:s,s:s,s:s,s:s,s:s,s:o}", "kind", "train", "recipe", c->recipe, "train", d->train->hash,
                       "watched", d->images->hash, "init", init, "init options", words_json(&r->init_options));
    if (c->key && c->timed) {
        json_object_set_new(c->key, "kind", json_string("time"));
        json_object_set_new(c->key, "steps", json_integer(c->timed));
    }
    VT_TRY(add_files(p, c, r->init, &r->init_options, NULL, e));
    return hash_key(p, c, before, e);
}

/* Sets c->key and hash by what determines an evaluation, its model by a training's key or a file's hash; tflop and disk
 * if they can be known. A missing file: no key, c->lacks names it, VT_OK. VT_E_USAGE for norm or attack. */
static vt_status evaluation_key(const vt_plan *p, vt_plan_cell *c, vt_err *e) {
    const vt_manifest_row *r = &p->m->rows[c->row];
    const vt_manifest_attack *a = &p->m->attacks[c->attack];
    const vt_plan_data *d = &p->data[c->data];
    char weights[65] = "", id[sizeof((vt_attack *)0)->id] = "";
    VT_TRY(vt_plan_evaluation(p, c, e));
    if (c->model < 0) VT_TRY(hash_file(p, c, "checkpoint of", r->name, r->checkpoint, weights, e));
    if (c->model >= 0 && *p->cells[c->model].lacks) snprintf(c->lacks, sizeof c->lacks, "%s", p->cells[c->model].lacks);
    if (!d->images) note_missing_file(p, c, "data", p->m->data[c->data].name, d->path);
    vt_norm norm = VT_LINF;
    if (a->norm && !vt_norm_find(a->norm, &norm))
        return vt_fail(e, VT_E_USAGE, "%s: attack %s has the norm '%.40s', must be linf, l2, l1 or l0", p->m->path,
                       a->name, a->norm);
    if (a->spec) {
        vt_attack parsed;
        vt_err why = {0};
        if (vt_attack_parse(&parsed, a->spec, norm, &why) != VT_OK)
            return vt_fail(e, VT_E_USAGE, "%s: attack %s: %s", p->m->path, a->name, why.text);
        snprintf(id, sizeof id, "%s", parsed.id);
        vt_attack_free(&parsed);
    }
    vt_certifier proof = {0};
    vt_err why = {0};
    if (a->certify && vt_certifier_parse(&proof, a->certify, &why) != VT_OK)
        return vt_fail(e, VT_E_USAGE, "%s: attack %s: %s", p->m->path, a->name, why.text);
    char method[sizeof proof.id];
    snprintf(method, sizeof method, "%s", proof.id), vt_certifier_free(&proof);
    if (*c->lacks) return VT_OK;
    size_t before = vt_json_refused();
    c->key = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:o,s:o}", "kind", "evaluate", "weights", weights,
                       "trained", c->model >= 0 ? p->cells[c->model].hash : "", "which",
                       c->model >= 0 && r->weights ? r->weights : "last", "data", d->images->hash, "images",
                       d->of[c->attack].key, "attack", id, "norm", vt_norm_name(norm), "eps", a->eps ? a->eps : "",
                       "seed", (json_int_t)c->seed, "options", words_json(&r->options), "data options",
                       words_json(&p->m->data[c->data].options));
    if (*method) json_object_set_new(c->key, "certify", json_string(method));
    VT_TRY(add_files(p, c, r->checkpoint, &r->options, &p->m->data[c->data].options, e));
    return hash_key(p, c, before, e);
}

/* Sets c->key and hash by what determines the singular values of weights, and c->tflop and disk: about nothing. A
 * missing file: no key, c->lacks names it, VT_OK. */
static vt_status spectrum_key(const vt_plan *p, vt_plan_cell *c, vt_err *e) {
    const vt_manifest_row *r = &p->m->rows[c->row];
    char weights[65] = "";
    c->tflop = 0, c->disk = 1e5;
    if (c->model < 0) VT_TRY(hash_file(p, c, "checkpoint of", r->name, r->checkpoint, weights, e));
    if (c->model >= 0 && *p->cells[c->model].lacks) snprintf(c->lacks, sizeof c->lacks, "%s", p->cells[c->model].lacks);
    if (*c->lacks) return VT_OK;
    size_t before = vt_json_refused();
    c->key = json_pack("{s:s,s:s,s:s,s:s,s:o}", "kind", "spectrum", "weights", weights, "trained",
                       c->model >= 0 ? p->cells[c->model].hash : "", "which",
                       c->model >= 0 && r->weights ? r->weights : "last", "options", words_json(&r->options));
    VT_TRY(add_files(p, c, r->checkpoint, &r->options, NULL, e));
    return hash_key(p, c, before, e);
}

vt_status vt_plan_key(const vt_plan *p, vt_plan_cell *c, vt_err *e) {
    return (c->train || c->timed ? training_key : c->spectrum ? spectrum_key : evaluation_key)(p, c, e);
}
