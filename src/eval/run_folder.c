/* SPDX-License-Identifier: MIT */
#include "eval/run_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/json.h"
#include "eval/args.h"
#include "eval/evaluate.h"
#include "eval/header.h"
#include "eval/prepare.h"

/* ---- what run.json says ---- */

enum { RUN_JSON_MOST = 1 << 24 }; /* bytes of it */

/* Returns the name of a choice that describes a subject or its box, else NULL. The wrap is the ledger's, whose header
 * names and hashes it. */
static const char *kept_name(const char *name) {
    static const vt_arg args[] = {VT_EVAL_ARGS, {0}};
    const vt_arg *a = vt_arg_find(args, name);
    bool kept = a && (a->about == VT_OF_MODEL || a->about == VT_OF_DATA || !strcmp(a->name, "box"));
    return kept && strcmp(name, "wrap") && strcmp(name, "images") ? a->name : NULL;
}

json_t *vt_subject_json(const char *weights, const vt_choices *c) {
    json_t *list = json_array();
    for (int i = 0; i < c->n; i++)
        if (kept_name(c->list[i].name))
            json_array_append_new(list, json_pack("[s,s]", c->list[i].name, c->list[i].value));
    return json_pack("{s:s?,s:o}", "weights", weights, "choices", list);
}

/* Adds a choice to those of the run; what describes no subject is ignored. */
static void add_choice(vt_run_folder *r, const char *name, const char *value) {
    const char *own = kept_name(name);
    if (own && !strcmp(own, "oracle"))
        r->where = value;
    else if (own)
        vt_choose(&r->choices, own, value);
}

/* Reads weights and choices from run.json's "subject". */
static void read_subject(vt_run_folder *r) {
    const json_t *s = json_object_get(r->document, "subject"), *list = json_object_get(s, "choices");
    r->weights = json_string_value(json_object_get(s, "weights"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const char *name = json_string_value(json_array_get(pair, 0)),
                   *value = json_string_value(json_array_get(pair, 1));
        if (name && value) add_choice(r, name, value);
    }
}

/* Reads run.json. known: weights and data are known, so that a run without one (merged) will do. */
static vt_status read_run_json(vt_run_folder *r, const char *dir, bool known, vt_err *e) {
    char path[VT_PATH_MAX], *text;
    size_t bytes;
    json_error_t why;
    VT_TRY(vt_path_in(path, dir, "run.json", e));
    if (access(path, F_OK) != 0 && known) return VT_OK;
    if (access(path, F_OK) != 0)
        return vt_fail(e, VT_E_USAGE,
                       "%s does not exist: the run is not finished (go on with vitrine eval @resume), or was merged "
                       "(give @weights and @data)",
                       path);
    VT_TRY(vt_file_read(path, RUN_JSON_MOST, &text, &bytes, e));
    r->told = true;
    r->document = vt_json(text, bytes, &why);
    free(text);
    if (!r->document && vt_json_why(&why) == VT_E_MEMORY) return vt_fail(e, VT_E_MEMORY, "%s: no memory for it", path);
    read_subject(r);
    return VT_OK;
}

/* Returns the path, or, if it is relative and not there, that from the folder in which the evaluation ran, in buf. */
static const char *resolve_path(const vt_run_folder *r, const char *path, char buf[4096]) {
    const char *from = json_string_value(json_object_get(r->document, "directory")), *pair = strstr(path, ".npy,");
    if (pair && from && *path != '/' && pair[5] != '/') { /* x.npy,y.npy: both are there, or both are elsewhere */
        bool here = snprintf(buf, 4096, "%.*s", (int)(pair + 4 - path), path) < 4096 && access(buf, F_OK) == 0;
        int n = snprintf(buf, 4096, "%s/%.*s,%s/%s", from, (int)(pair + 4 - path), path, from, pair + 5);
        return here || n >= 4096 ? path : buf;
    }
    if (*path == '/' || !from || access(path, F_OK) == 0) return path;
    if (snprintf(buf, 4096, "%s/%s", from, path) >= 4096 || access(buf, F_OK) != 0) return path;
    return buf;
}

/* Sets the choices corruption and severity to the ledger's, as the command may have named several. */
static void name_corruption(vt_run_folder *r) {
    const vt_header *h = r->ledger->header;
    if (!h->data.severity) return;
    snprintf(r->severity, sizeof r->severity, "%d", h->data.severity);
    vt_choose(&r->choices, "corruption", h->data.corruption);
    vt_choose(&r->choices, "severity", r->severity);
}

/* Merges the run's choices with the caller's; VT_E_USAGE or VT_E_FORMAT: weights or data are unknown. */
static vt_status complete_choices(vt_run_folder *r, const char *dir, const vt_choices *more, vt_err *e) {
    const char *weights = vt_chosen(more, "weights"), *data = vt_chosen(&r->choices, "data");
    if (weights)
        r->weights = weights;
    else if (r->weights)
        r->weights = resolve_path(r, r->weights, r->weights_path);
    const char *order = vt_chosen(&r->choices, "class-order");
    if (order) vt_choose(&r->choices, "class-order", resolve_path(r, order, r->order_path));
    const char *box = vt_chosen(&r->choices, "box");
    if (box) vt_choose(&r->choices, "box", resolve_path(r, box, r->box_path));
    if (!vt_is_chosen(more, "data") && data) vt_choose(&r->choices, "data", resolve_path(r, data, r->data_path));
    name_corruption(r);
    for (int i = 0; i < more->n; i++) add_choice(r, more->list[i].name, more->list[i].value);
    const char *oracle = vt_chosen(more, "oracle");
    if (oracle) vt_choose(&r->choices, "oracle", oracle);
    bool known = r->weights || oracle || r->ledger->header->oracle;
    if (known && vt_is_chosen(&r->choices, "data")) return VT_OK;
    /* a run writes both names: the file was changed */
    return vt_fail(e, r->told ? VT_E_FORMAT : VT_E_USAGE, "%s: give @weights and @data, run.json does not name them",
                   dir);
}

/* ---- names ---- */

/* Returns the last part of a path of *n bytes; *n becomes its length without a checkpoint's suffix. */
static const char *last_part(const char *path, size_t *n) {
    static const char *const suffixes[] = {".safetensors", ".pth",  ".pt", ".bin",
                                           ".index.json",  ".ckpt", ".t7", ".json"};
    while (*n && path[*n - 1] == '/') --*n;
    size_t at = *n;
    while (at && path[at - 1] != '/') at--;
    *n -= at;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t k = strlen(suffixes[i]);
        if (*n > k && !strncmp(path + at + *n - k, suffixes[i], k)) {
            *n -= k;
            return path + at;
        }
    }
    return path + at;
}

void vt_model_nickname(const char *path, char out[100]) {
    static const char *const usual[] = {"model", "best", "last", "pytorch_model", "checkpoint", "weights"};
    size_t n = strlen(path), up;
    const char *name = last_part(path, &n);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (n != strlen(usual[i]) || strncmp(name, usual[i], n) || name == path) continue;
        up = (size_t)(name - path);
        const char *folder = last_part(path, &up);
        if (up && *folder != '.') name = folder, n = up;
        break;
    }
    snprintf(out, 100, "%.*s", (int)n, name);
}

vt_status vt_run_model_name(const char *dir, const char *weights, char out[100], vt_err *e) {
    vt_run_folder r = {.weights = weights};
    vt_err why = {0};
    vt_status s = weights ? VT_OK : read_run_json(&r, dir, true, &why);
    *out = 0;
    if (s == VT_OK && r.weights) vt_model_nickname(r.weights, out);
    vt_run_folder_close(&r);
    return s == VT_E_MEMORY ? vt_fail(e, s, "%s", why.text) : VT_OK;
}

/* ---- weights and data ---- */

/* Checks that the model is external or draws at random exactly if the ledger says so: that decides the judging. */
static vt_status same_kind(const vt_run_folder *r, vt_err *e) {
    const vt_header *h = r->ledger->header;
    const vt_subject *s = &r->subject;
    bool elsewhere = vt_subject_is_remote(s), draws = s->remote && vt_remote_handshake(s->remote)->random;
    if (elsewhere != (h->oracle != NULL))
        return vt_fail(e, VT_E_FORMAT, "%s: its ledger says that %s was evaluated, %.200s is %s: give %s",
                       r->ledger->dir, h->oracle ? "a model in another process" : "a checkpoint", s->model->path,
                       h->oracle ? "a checkpoint" : "a model in another process",
                       h->oracle ? VT_OPTION "oracle COMMAND and no " VT_OPTION "weights"
                                 : VT_OPTION "weights FILE and no " VT_OPTION "oracle");
    if (!s->remote || draws == h->random) return VT_OK;
    return vt_fail(e, VT_E_FORMAT,
                   "%s: its ledger says that the model %s at random when it is asked, %.200s says that it %s",
                   r->ledger->dir, h->random ? "draws" : "does not draw", s->model->path, draws ? "does" : "does not");
}

/* Checks that weights, data, model and wrap are the ledger's, by hashes and header. */
static vt_status check_same_subject(const vt_run_folder *r, const vt_header *now, vt_err *e) {
    const vt_header *then = r->ledger->header;
    const char *dir = r->ledger->dir, *w = then->weights, *d = then->data.sha256;
    char names[200] = "";
    VT_TRY(same_kind(r, e));
    if (strcmp(w, r->subject.model->sha256) && r->subject.remote) {
        const json_t *was = json_object_get(then->document, "oracle"), *is = json_object_get(now->document, "oracle");
        if (was && is) vt_header_difference(was, is, false, names, sizeof names);
        return vt_fail(e, VT_E_FORMAT,
                       "the model %.300s is not that of %s: it is known by %.16s..., the ledger says %.16s...%s%s",
                       r->subject.model->path, dir, r->subject.model->sha256, w,
                       *names ? "; it greets with another " : "", names);
    }
    if (strcmp(w, r->subject.model->sha256))
        return vt_fail(e, VT_E_FORMAT,
                       "%s is not the checkpoint of %s: its SHA-256 is %.16s..., the ledger says %.16s...",
                       r->subject.model->path, dir, r->subject.model->sha256, w);
    if (strcmp(d, r->subject.data->hash))
        return vt_fail(e, VT_E_FORMAT, "%s are not the data of %s: their SHA-256 is %.16s..., the ledger says %.16s...",
                       r->subject.data->path, dir, r->subject.data->hash, d);
    const char *what = "data";
    bool differ = vt_header_difference(then->data.document, now->data.document, false, names, sizeof names);
    if (!differ) {
        what = "model";
        differ = vt_header_difference(then->model.document, now->model.document, false, names, sizeof names);
    }
    if (!differ) {
        what = "wrap";
        differ = !vt_header_agree(then, now, what);
        snprintf(names, sizeof names, "its hash");
    }
    if (!differ) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: its ledger describes the %s otherwise (%s): give the options of that evaluation",
                   dir, what, names);
}

/* Returns the smallest image number of the ledger; 0: it is empty. */
static int32_t first_image(const vt_ledger *l) {
    int32_t first = INT32_MAX;
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].image < first) first = l->records[i].image;
    return l->count ? first : 0;
}

/* Puts the known cheat that the ledger's header names around the checkpoint again. */
static vt_status read_wrap(vt_run_folder *r, vt_err *e) {
    const char *id = r->ledger->header->wrap;
    vt_err why = {0};
    if (!id || vt_wrap_parse(&r->subject.wrap, id, &why) == VT_OK) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: its wrap '%.80s' is none of this program: %s", r->ledger->dir, id,
                   why.text);
}

/* Opens data and model and compares them with the ledger; other files are refused by their hashes before the input is
 * made to fit. */
static vt_status open_subject(vt_run_folder *r, vt_err *e) {
    int32_t first = first_image(r->ledger);
    vt_subject *s = &r->subject;
    VT_TRY(vt_prepare_data(&r->choices, &s->data, e));
    bool known = strcmp(s->data->hash, r->ledger->header->data.sha256) == 0;
    vt_overrides o;
    VT_TRY(vt_prepare_overrides(&r->choices, &o, e));
    const vt_header *h = r->ledger->header;
    bool whole = known || vt_is_chosen(&r->choices, "oracle"),
         described = h->oracle && !vt_is_chosen(&r->choices, "oracle");
    if (described && !r->weights)
        VT_TRY(vt_subject_described(s, h->shape, h->model.classes, h->weights, r->where ? r->where : h->oracle, e));
    else
        VT_TRY(whole ? vt_subject_open(s, &r->choices, r->weights, first, e)
                     : vt_prepare_open(&s->model, r->weights, &o, e));
    VT_TRY(read_wrap(r, e));
    VT_TRY(known ? vt_subject_fit(s, &r->choices, first, e) : vt_wrap_model(&s->wrap, s->model, e));
    vt_eval_options v = {.subject = s, .eps_text = "0"};
    vt_header *now;
    VT_TRY(vt_eval_header(&now, &v, e));
    vt_status st = check_same_subject(r, now, e);
    vt_header_free(now);
    return st;
}

vt_status vt_run_has_tensors(const char *dir, vt_err *e) {
    char path[VT_PATH_MAX];
    if (!vt_ledger_exists(dir) || (vt_path(path, dir, "adv.bin") && access(path, F_OK) == 0)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s has no adv.bin: the tensors of its broken images are missing", dir);
}

vt_status vt_run_folder_open(vt_run_folder *r, const char *dir, const vt_choices *more, vt_err *e) {
    VT_TRY(vt_run_has_tensors(dir, e));
    if (!r->ledger) VT_TRY(vt_ledger_open(&r->ledger, dir, e)); /* what is no run is said to be none */
    bool known = (vt_is_chosen(more, "weights") || vt_is_chosen(more, "oracle")) && vt_is_chosen(more, "data");
    VT_TRY(read_run_json(r, dir, known, e));
    VT_TRY(complete_choices(r, dir, more, e));
    return open_subject(r, e);
}

void vt_run_folder_close(vt_run_folder *r) {
    vt_ledger_close(r->ledger);
    vt_subject_close(&r->subject);
    json_decref(r->document);
    *r = (vt_run_folder){0};
}
