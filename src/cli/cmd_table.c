#include <stdio.h>
#include "cli/cli.h"
#include "table/published_show.h"

/* --published FILE: what a paper printed, and what cannot all be right about it. */
static vt_status show_published(const vt_cli *c, vt_err *e) {
    vt_published *p, *claims = NULL;
    vt_oddities f = {0};
    VT_TRY(vt_published_open(&p, vt_cli_get(c, "published"), e));
    vt_status s = vt_cli_get(c, "claims") ? vt_published_open(&claims, vt_cli_get(c, "claims"), e) : VT_OK;
    if (s == VT_OK) s = vt_published_check(&f, p, claims, e);
    if (s == VT_OK) s = vt_published_show(stdout, p, &f, vt_cli_get(c, "number"), e);
    vt_oddities_free(&f);
    vt_published_close(claims), vt_published_close(p);
    return s;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    if (vt_cli_get(c, "published")) return show_published(c, e);
    return vt_fail(e, VT_E_USAGE, "vitrine table needs --published FILE");
}

static const vt_arg args[] = {
    {"published", "FILE.csv", "show published numbers, with what is inconsistent about them"},
    {"claims", "FILE.csv", "with --published: averages that the paper's text states"},
    {"number", "N", "with --published: only this table"},
    {NULL, NULL, NULL},
};

const vt_command vt_command_table = {
    .name = "table",
    .summary = "a paper's table: trained and evaluated here, beside the published numbers",
    .operands = "[MANIFEST.yaml]",
    .max_operands = 1,
    .args = args,
    .run = run,
};
