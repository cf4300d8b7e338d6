/* SPDX-License-Identifier: MIT */
#include "cli/selftest.h"

#include <string.h>
#include <unistd.h>
#include "cli/help.h"
#include "cli/script.h"
#include "core/files.h"
#include "core/json.h"

extern const vt_command vt_command_eval;

static vt_status write_json(const vt_selftest *t, const char *dir, vt_err *e) {
    json_t *o = vt_selftest_json(t);
    vt_status s = vt_make_dir(dir, e);
    if (s == VT_OK) s = vt_json_save(dir, "selftest.json", o, JSON_INDENT(1), e);
    json_decref(o);
    return s;
}

vt_status vt_cli_selftest(const vt_cli *c, const vt_eval_options *v_, const vt_attack *attack, const vt_ledger *ledger,
                          bool points_only, vt_err *e) {
    static bool tty;
    char text[2000];
    vt_eval_options v = *v_;
    tty = isatty(STDERR_FILENO);
    v.progress = (vt_progress){.show = vt_cli_show, .ctx = &tty, .live = tty};
    v.interrupt = vt_cli_interruptible();
    vt_selftest t = {.v = &v, .attack = attack, .ledger = ledger, .points_only = points_only, .command = text};
    vt_cli_again(text, sizeof text, c, &vt_command_eval); /* what would settle a doubt is an evaluation */
    VT_TRY(vt_selftest_run(&t, e));
    VT_TRY(vt_selftest_print(stdout, &t, e));
    if (!strcmp(c->command->name, "selftest")) VT_TRY(vt_script_print(vt_selftest_json(&t), e));
    return vt_cli_has(c, "out") ? write_json(&t, vt_cli_get(c, "out"), e) : VT_OK;
}
