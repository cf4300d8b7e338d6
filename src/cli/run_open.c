/* SPDX-License-Identifier: MIT */
#include "cli/run_open.h"

#include <string.h>

extern const vt_command vt_command_eval;

/* A run.json without "subject": its command line is read once more, whatever command made the run: its options of the
 * same name mean the same. */
static bool parse_command(vt_run_folder *r) {
    static vt_cli cli; /* large, and its texts are r->document's */
    char *argv[1024];
    const json_t *list = json_object_get(r->document, "command");
    const char *name = json_string_value(json_array_get(list, 1));
    size_t n = json_array_size(list), k = 0;
    cli = (vt_cli){.command = vt_command_find(name ? name : "")};
    if (!cli.command) cli.command = &vt_command_eval;
    for (size_t i = 2; i < n && k < sizeof argv / sizeof *argv; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        argv[k++] = (char *)(uintptr_t)(word ? word : "");
    }
    if (!k || cli.command->max_operands < 1 || vt_cli_parse(&cli, (int)k, argv, NULL) != VT_OK) return false;
    r->weights = cli.n_positional ? cli.positional[0] : NULL;
    for (int i = 0; i < cli.given.n; i++) vt_run_folder_choose(r, cli.given.list[i].name, cli.given.list[i].value);
    return true;
}

static vt_status read_run(vt_run_folder *r, const char *dir, bool known, vt_err *e) {
    VT_TRY(vt_run_folder_read(r, dir, known, e));
    if (json_object_get(r->document, "subject") || parse_command(r) || known) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s/run.json: does not hold the command of an evaluation: give --weights and --data",
                   dir);
}

vt_status vt_run_open(vt_run_folder *r, const char *dir, const vt_cli *c, vt_err *e) {
    VT_TRY(vt_run_has_tensors(dir, e));
    if (!r->ledger) VT_TRY(vt_ledger_open(&r->ledger, dir, e)); /* what is no run is said to be none */
    VT_TRY(read_run(r, dir, (vt_cli_has(c, "weights") || vt_cli_has(c, "oracle")) && vt_cli_has(c, "data"), e));
    return vt_run_folder_open(r, dir, &c->given, e);
}

vt_status vt_run_model_name(const char *dir, const vt_cli *c, char out[100], vt_err *e) {
    vt_run_folder r = {0};
    vt_err why = {0};
    const char *path = vt_cli_get(c, "weights");
    vt_status s = path ? VT_OK : read_run(&r, dir, false, &why);
    if (!path && s == VT_OK) path = r.weights;
    *out = 0;
    if (path) vt_model_nickname(path, out);
    vt_run_folder_close(&r);
    return s == VT_E_MEMORY ? vt_fail(e, s, "%s", why.text) : VT_OK;
}
