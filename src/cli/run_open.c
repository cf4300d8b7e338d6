/* SPDX-License-Identifier: MIT */
#include "cli/run_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/run_args.h"
#include "core/files.h"
#include "core/json.h"
#include "eval/header.h"
#include "eval/evaluate.h"

extern const vt_command vt_command_eval;

/* ---- the command line of run.json ---- */

enum { COMMAND_MOST = 1 << 24 }; /* bytes of it */

/* Whatever command made the run: its options of the same name mean the same. */
static const vt_command *command_named(const char *name) {
    int n;
    const vt_command *const *all = vt_commands(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(all[i]->name, name)) return all[i];
    return &vt_command_eval;
}

static vt_status read_command(vt_run_again *r, const char *dir, const vt_cli *c, vt_err *e) {
    char path[VT_PATH_MAX], *argv[1024];
    bool told = vt_cli_has(c, "weights") && vt_cli_has(c, "data");
    if (!vt_path(path, dir, "run.json")) return vt_fail(e, VT_E_IO, "%s: path is too long", dir);
    r->cli.command = &vt_command_eval;
    if (access(path, F_OK) != 0) { /* a merged run */
        if (told) return VT_OK;
        return vt_fail(e, VT_E_USAGE,
                       "%s does not exist, so nothing says where the weights and the data are: give "
                       "--weights and --data",
                       path);
    }
    char *text;
    size_t bytes;
    VT_TRY(vt_file_read(path, COMMAND_MOST, &text, &bytes, e));
    r->command = vt_json(text, bytes, NULL);
    free(text);
    const json_t *list = json_object_get(r->command, "command");
    const char *name = json_string_value(json_array_get(list, 1));
    size_t n = json_array_size(list), k = 0;
    r->cli.command = command_named(name ? name : "");
    for (size_t i = 2; i < n && k < sizeof argv / sizeof *argv; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        argv[k++] = (char *)(uintptr_t)(word ? word : "");
    }
    if (k && r->cli.command->max_operands > 0 && vt_cli_parse(&r->cli, (int)k, argv, NULL) == VT_OK) return VT_OK;
    if (!told)
        return vt_fail(e, VT_E_FORMAT, "%s: does not hold the command of an evaluation: give --weights and --data",
                       path);
    r->cli = (vt_cli){.command = &vt_command_eval};
    return VT_OK;
}

/* A relative path that is not there from here may be from where the evaluation ran. */
static const char *placed(const vt_run_again *r, const char *path, char buf[4096]) {
    const char *from = json_string_value(json_object_get(r->command, "directory")), *pair = strstr(path, ".npy,");
    if (pair && from && *path != '/' && pair[5] != '/') { /* x.npy,y.npy: both are there, or both are elsewhere */
        bool here = snprintf(buf, 4096, "%.*s", (int)(pair + 4 - path), path) < 4096 && access(buf, F_OK) == 0;
        int n = snprintf(buf, 4096, "%s/%.*s,%s/%s", from, (int)(pair + 4 - path), path, from, pair + 5);
        return here || n >= 4096 ? path : buf;
    }
    if (*path == '/' || !from || access(path, F_OK) == 0) return path;
    if (snprintf(buf, 4096, "%s/%s", from, path) >= 4096 || access(buf, F_OK) != 0) return path;
    return buf;
}

/* The command may have named many corruptions; the ledger is of one. */
static void name_corruption(vt_run_again *r) {
    const vt_header *h = r->ledger->header;
    if (!h->data.severity) return;
    snprintf(r->severity, sizeof r->severity, "%d", h->data.severity);
    vt_cli_set(&r->cli, "corruption", h->data.corruption);
    vt_cli_set(&r->cli, "severity", r->severity);
}

static vt_status complete(vt_run_again *r, const char *dir, const vt_cli *c, vt_err *e) {
    const char *weights = vt_cli_get(c, "weights"), *data = vt_cli_get(&r->cli, "data");
    if (!weights && r->cli.n_positional) weights = placed(r, r->cli.positional[0], r->weights);
    if (!vt_cli_has(c, "data") && data) vt_cli_set(&r->cli, "data", placed(r, data, r->folder));
    name_corruption(r);
    for (int i = 0; i < c->given.n; i++) vt_cli_set(&r->cli, c->given.list[i].name, c->given.list[i].value);
    if (!weights || !vt_cli_has(&r->cli, "data"))
        return vt_fail(e, VT_E_USAGE, "%s: give --weights and --data, run.json does not name them", dir);
    r->cli.positional[0] = weights, r->cli.n_positional = 1;
    return VT_OK;
}

/* Of a path its last part, and its length without a suffix. */
static const char *last_part(const char *path, size_t *n) {
    static const char *const suffixes[] = {".safetensors", ".pth",  ".pt", ".bin",
                                           ".index.json",  ".ckpt", ".t7", ".json"};
    while (*n && path[*n - 1] == '/') --*n;
    size_t at = *n;
    while (at && path[at - 1] != '/') at--;
    *n -= at;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t k = strlen(suffixes[i]);
        if (*n > k && !strncmp(path + at + *n - k, suffixes[i], k)) return *n -= k, path + at;
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

void vt_run_model_name(const char *dir, const vt_cli *c, char out[100]) {
    vt_run_again r = {0};
    const char *path = vt_cli_get(c, "weights");
    if (!path && read_command(&r, dir, c, NULL) == VT_OK && r.cli.n_positional) path = r.cli.positional[0];
    *out = 0;
    if (path) vt_model_nickname(path, out);
    json_decref(r.command);
}

/* ---- weights and data ---- */

static vt_status same(const vt_run_again *r, const vt_header *now, vt_err *e) {
    const vt_header *then = r->ledger->header;
    const char *dir = r->ledger->dir, *w = then->weights, *d = then->data.sha256;
    char names[200];
    if (strcmp(w, r->model->sha256))
        return vt_fail(e, VT_E_FORMAT,
                       "%s is not the checkpoint of %s: its SHA-256 is %.16s..., the ledger says %.16s...",
                       r->model->path, dir, r->model->sha256, w);
    if (strcmp(d, r->data->hash))
        return vt_fail(e, VT_E_FORMAT, "%s are not the data of %s: their SHA-256 is %.16s..., the ledger says %.16s...",
                       r->data->path, dir, r->data->hash, d);
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

static int32_t first_image(const vt_ledger *l) {
    int32_t first = INT32_MAX;
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].image < first) first = l->records[i].image;
    return l->count ? first : 0;
}

/* The cheat that the ledger's header names is put around the checkpoint again, before anything is opened on it. */
static vt_status wrap(vt_run_again *r, vt_err *e) {
    const char *id = r->ledger->header->wrap;
    vt_err why = {0};
    if (!id) return VT_OK;
    if (vt_wrap_parse(&r->wrap, id, &why) != VT_OK)
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: its wrap '%.80s' is none of this program: %s", r->ledger->dir,
                       id, why.text);
    return vt_wrap_model(&r->wrap, r->model, e);
}

static vt_status open_all(vt_run_again *r, vt_err *e) {
    int32_t first = first_image(r->ledger);
    VT_TRY(vt_cli_data(&r->cli, &r->data, e));
    bool known = strcmp(r->data->hash, r->ledger->header->data.sha256) == 0;
    VT_TRY(known ? vt_prepare_model(&r->cli.given, r->cli.positional[0], r->data, first, &r->model, e)
                 : vt_cli_model(&r->cli, &r->model, e));
    VT_TRY(wrap(r, e));
    if (known) VT_TRY(vt_prepare_fit(&r->cli.given, r->model, r->data, first, &r->input, e));
    vt_eval v = {.model = r->model, .data = r->data, .input = r->input, .eps_text = "", .wrap = &r->wrap};
    vt_header *now;
    VT_TRY(vt_header_read(&now, vt_eval_header(&v), r->ledger->dir, e));
    vt_status s = same(r, now, e);
    vt_header_free(now);
    return s;
}

vt_status vt_run_has_tensors(const char *dir, vt_err *e) {
    char path[VT_PATH_MAX];
    if (!vt_ledger_exists(dir) || (vt_path(path, dir, "adv.bin") && access(path, F_OK) == 0)) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s has no adv.bin: the tensors of its broken images are missing", dir);
}

vt_status vt_run_open(vt_run_again *r, const char *dir, const vt_cli *c, vt_err *e) {
    *r = (vt_run_again){0};
    VT_TRY(vt_run_has_tensors(dir, e));
    VT_TRY(vt_ledger_open(&r->ledger, dir, e));
    VT_TRY(read_command(r, dir, c, e));
    VT_TRY(complete(r, dir, c, e));
    return open_all(r, e);
}

void vt_run_close(vt_run_again *r) {
    vt_ledger_close(r->ledger);
    vt_dataset_close(r->data);
    vt_model_close(r->model);
    vt_wrap_free(&r->wrap);
    json_decref(r->command);
    *r = (vt_run_again){0};
}
