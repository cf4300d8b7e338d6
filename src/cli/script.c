/* SPDX-License-Identifier: MIT */
#include "cli/script.h"

#include <math.h>
#include <string.h>
#include "cli/streams.h"
#include "base/json.h"
#include "base/opt.h"

static FILE *document;
static bool quiet;
static size_t at_begin; /* what jansson was refused before the command began */

bool vt_script_quiet(void) { return quiet; }
FILE *vt_script_stream(void) { return document; }

vt_status vt_script_begin(const vt_cli *c, vt_err *e) {
    const char *json = NULL; /* of verify a file's name, where - is standard output */
    for (int i = 0; i < c->given.n; i++)
        if (!strcmp(c->given.list[i].name, "json")) json = c->row[i]->value ? c->given.list[i].value : "-";
    quiet = vt_cli_has(c, "quiet");
    at_begin = vt_json_refused();
    bool wanted = json && !strcmp(json, "-");
    FILE *before = wanted || quiet ? vt_streams_mute() : stdout;
    if (!before) return vt_fail(e, VT_E_MEMORY, "no memory to be silent");
    if (wanted) document = before;
    return VT_OK;
}

vt_status vt_script_print(json_t *o, vt_err *e) {
    bool good = vt_json_refused() == at_begin && (!document || vt_json_write(document, o, JSON_INDENT(1)));
    json_decref(o);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the document");
}

/* ---- --fail-under ---- */

static const char *const keys[] = {"clean", "robust"};
enum { KEYS = sizeof keys / sizeof *keys };

static double *floor_value(vt_floor *f, int k) { return k ? &f->robust : &f->clean; }

static vt_status parse_pair(vt_floor *f, const char *pair, size_t n, vt_err *e) {
    char key[40], value[40];
    size_t eq = strcspn(pair, "=");
    if (eq >= n || eq >= sizeof key || n - eq > sizeof value)
        return vt_fail(e, VT_E_USAGE, "--fail-under is '%.80s', must be like robust=30 or clean=90, in percent", pair);
    snprintf(key, sizeof key, "%.*s", (int)eq, pair);
    snprintf(value, sizeof value, "%.*s", (int)(n - eq - 1), pair + eq + 1);
    int k = 0;
    while (k < KEYS && strcmp(keys[k], key)) k++;
    if (k == KEYS) {
        vt_err why;
        (void)vt_fail_unknown("share", key, keys, KEYS, NULL, &why);
        return vt_fail(e, VT_E_USAGE, "--fail-under: %s", why.text);
    }
    if (!vt_parse_real(value, floor_value(f, k)) || !(*floor_value(f, k) >= 0 && *floor_value(f, k) <= 100))
        return vt_fail(e, VT_E_USAGE, "--fail-under: %s is '%s', must be a number from 0 to 100, in percent", key,
                       value);
    return VT_OK;
}

vt_status vt_floor_parse(vt_floor *f, const vt_cli *c, bool attacked, vt_err *e) {
    const char *list;
    *f = (vt_floor){NAN, NAN};
    for (int i = 0; (list = vt_cli_nth(c, "fail-under", i)); i++)
        for (size_t n;; list += n + 1) {
            n = strcspn(list, ",");
            VT_TRY(parse_pair(f, list, n, e));
            if (!list[n]) break;
        }
    if (!isnan(f->robust) && !attacked)
        return vt_fail(e, VT_E_USAGE, "--fail-under robust=%g needs an attack: without one, clean=%g is what is meant",
                       f->robust, f->robust);
    return VT_OK;
}

vt_status vt_floor_check(const vt_floor *f, const vt_summary *s, vt_err *e) {
    const int64_t right[KEYS] = {s->correct, s->worst_robust};
    const double floors[KEYS] = {f->clean, f->robust};
    for (int k = 0; k < KEYS; k++) {
        double percent = 100 * (double)right[k], floor = floors[k] * (double)s->total; /* both times the images */
        if (!(percent < floor)) continue;
        return vt_fail(e, VT_E_RANGE, "%s accuracy is %.2f %% (%lld of %lld images), below --fail-under %s=%g", keys[k],
                       percent / (double)s->total, (long long)right[k], (long long)s->total, keys[k], floors[k]);
    }
    return VT_OK;
}
