#include "cli/surrogate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The same however the path was typed: a run is resumed only under the same name. */
static void name_of(char *out, size_t size, const char *path) {
    char *whole = realpath(path, NULL);
    const char *name = last_part(whole ? whole : path);
    if (whole && !strcmp(name, "model.safetensors") && name > whole + 1) {
        whole[name - whole - 1] = 0;
        if (*last_part(whole)) name = last_part(whole);
    }
    snprintf(out, size, "%s", name);
    for (char *p = out; *p; p++)
        if (*p < ' ' || *p > '~') *p = '?'; /* it goes into JSON, Markdown and TeX */
    free(whole);
}

vt_status vt_cli_surrogate_open(vt_cli_surrogate *s, const vt_cli *c, int side, vt_err *e) {
    const char *path = vt_cli_get(c, "surrogate");
    vt_overrides o = {.shown = side};
    vt_err why = {0};
    if (!path) return VT_OK;
    if (vt_cli_open(&s->model, path, &o, &why) != VT_OK) return vt_fail(e, why.code, "--surrogate: %s", why.text);
    name_of(s->name, sizeof s->name, s->model->path);
    return VT_OK;
}

void vt_cli_surrogate_close(vt_cli_surrogate *s) {
    vt_model_close(s->model);
    *s = (vt_cli_surrogate){0};
}
