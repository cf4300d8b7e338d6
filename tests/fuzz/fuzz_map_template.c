/* SPDX-License-Identifier: MIT */
/* Any lines as tensors ("name 64 192"): a map is written for them whose only faults are its blanks. With those dropped
 * it is a map, and it covers the tensors. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensors/tensors.h"
#include "checkpoint/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void add_line(vt_tensors *st, char *line, const float *zero) {
    char *words[VT_ST_MAX_DIMS + 2], *save = NULL;
    int count = 0;
    for (char *w = strtok_r(line, " ", &save); w && count <= VT_ST_MAX_DIMS; w = strtok_r(NULL, " ", &save))
        words[count++] = w;
    if (!count || vt_tensors_find(st, words[0])) return;
    vt_tensor t = {.name = vt_tensors_text(st, NULL, "%s", words[0]), .dtype = VT_F32, .ndim = count - 1, .data = zero};
    if (!t.name) return;
    t.numel = 1;
    for (int i = 0; i < t.ndim; i++) t.shape[i] = 1 + atoi(words[i + 1]) % 1024, t.numel *= (size_t)t.shape[i] % 4096;
    if (vt_tensors_add(st, &t, NULL) != VT_OK || vt_tensors_index(st, NULL) != VT_OK) abort();
}

static vt_tensors *state_dict(const uint8_t *bytes, size_t n) {
    static const float zero;
    vt_tensors *st;
    vt_err e = {0};
    if (vt_tensors_begin(&st, "fuzz", bytes, n, &e) != VT_OK) abort();
    char *text = malloc(n + 1), *rest = text;
    if (!text) abort();
    memcpy(text, bytes, n);
    text[n] = 0;
    for (char *line; (line = strsep(&rest, "\n"));) add_line(st, line, &zero);
    free(text);
    return st;
}

/* "X -> ?" becomes "drop X", a set line without its value goes; true: there were any. */
static bool fill(char *map, char *out) {
    bool blank = false;
    for (char *line; (line = strsep(&map, "\n"));) {
        char *end = strstr(line, " -> ? ");
        bool unset = !strncmp(line, "set ", 4) && strstr(line, " ?   # ");
        if (end && *line != '#')
            blank = true, *end = 0, out += sprintf(out, "drop %s\n", line);
        else if (unset)
            blank = true;
        else
            out += sprintf(out, "%s\n", line);
    }
    return blank;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_tensors *st = state_dict(bytes, n);
    vt_rename *m;
    vt_err e = {0};
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) abort();
    vt_status s = vt_map_template(f, st, &e);
    fclose(f);
    if (s != VT_OK && (s != VT_E_RANGE || vt_tensors_count(st) <= VT_MAP_TEMPLATE_MOST)) abort();
    bool strange = strstr(text, "# a name that no map can hold") != NULL;
    s = s == VT_OK ? vt_rename_parse(&m, text, size, "fuzz", &e) : VT_E_RANGE;
    if (s == VT_OK) abort(); /* the activation is always left blank */
    if (s == VT_E_USAGE) {
        char *filled = malloc(size + 100 + 6 * (size_t)vt_tensors_count(st));
        if (!filled || !strstr(e.text, "is left blank (?)") || !fill(text, filled)) abort();
        if (vt_rename_parse(&m, filled, strlen(filled), "fuzz", &e) != VT_OK) abort();
        if (!strange && !vt_rename_covers(m, st)) abort();
        free(m);
        free(filled);
    } else if (s != VT_E_RANGE) {
        abort();
    }
    free(text);
    vt_tensors_close(st);
    return 0;
}
