/* SPDX-License-Identifier: MIT */
/* vitrine map: a map file for a checkpoint whose tensors have names that nothing knows. */
#include <stdio.h>
#include "cli/cli.h"
#include "checkpoint/names.h"

/* A file whose names are known needs no map. They are looked for through a handle of their own: what is found is
 * applied to it. */
static vt_status write_map(const char *path, const char *part, vt_err *e) {
    vt_tensors *st, *fresh;
    vt_names names;
    vt_err why = {0};
    VT_TRY(vt_weights_open(&st, path, part, e));
    vt_status s = vt_names_apply(&names, st, NULL, NULL, &why); /* a map that fits but misses a value is known too */
    fresh = NULL;
    s = s == VT_E_MEMORY ? vt_fail(e, s, "%s", why.text) : vt_weights_open(&fresh, path, part, e);
    bool known = names.map && names.n_rows;
    const char *known_as = s == VT_OK && !known ? vt_unsupported_network(fresh, NULL, 0) : NULL;
    if (s == VT_OK && known)
        s = vt_fail(e, VT_E_FORMAT,
                    "%s: its names are known (%s), so no map is needed: options tell what its tensors do not (vitrine "
                    "info FILE shows it)",
                    path, names.naming);
    if (known_as) s = vt_fail(e, VT_E_FORMAT, "%s: is %s; " VT_READS, path, known_as);
    if (s == VT_OK) s = vt_map_template(stdout, fresh, e);
    vt_tensors_close(fresh);
    vt_names_close(&names);
    vt_tensors_close(st);
    return s;
}

static vt_status run(const vt_cli *c, vt_err *e) { return write_map(c->positional[0], vt_cli_get(c, "part"), e); }

static const vt_arg args[] = {
    {"part", "NAME", "which state dict of a .pth file that holds several", VT_OF_MODEL},
    {0},
};

const vt_command vt_command_map = {
    .name = "map",
    .summary = "a name map of unknown tensors, to fill in and give as --names",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "A line for every tensor with its shape, what repeats from block to block as one, and ? for timm's "
               "name; then the values that no tensor tells. The names and their shapes stand above. --names refuses a "
               "map while a ? is left.",
    .examples = {"vitrine map tests/fixtures/golden/train_model.safetensors > my.map", "vitrine list formats"},
    .run = run,
};
