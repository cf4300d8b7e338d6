/* SPDX-License-Identifier: MIT */
/* A row's largest singular value, from a finished cell's spectrum. */
#include "research/table/plan.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"

enum { LAYERS = 4096 };

/* The last four fields of "weights,layer,matrix,part,sigma" (a path may hold commas); false: not of that form. */
static bool split_last_fields(char *line, char *field[4]) {
    line[strcspn(line, "\r\n")] = 0;
    for (int i = 3; i >= 0; i--) {
        char *comma = strrchr(line, ',');
        if (!comma) return false;
        *comma = 0;
        field[i] = comma + 1;
    }
    return true;
}

/* Raises most [LAYERS] by a line's head if it is of the matrix (lines of others: true, no effect); false: the line is
 * damaged. */
static bool update_layer_maximum(double *most, const char *const field[4], const char *matrix) {
    char *end;
    if (strcmp(field[1], matrix) || strncmp(field[2], "rows:", 5)) return true;
    long layer = strtol(field[0], &end, 10);
    if (*end || end == field[0] || layer < 0 || layer >= LAYERS) return false;
    double v = strtod(field[3], &end);
    if (*end || end == field[3] || !isfinite(v) || v < 0) return false;
    most[layer] = fmax(most[layer], v);
    return true;
}

/* Sets *sigma to the mean of the layers' maxima, most [LAYERS], -1 being none; VT_E_FORMAT if there are none. */
static vt_status mean_over_layers(const double *most, const char *path, const char *matrix, double *sigma, vt_err *e) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < LAYERS; i++)
        if (most[i] >= 0) sum += most[i], n++;
    if (!n) return vt_fail(e, VT_E_FORMAT, "%s: holds no heads of %s: this row has no such attention", path, matrix);
    *sigma = sum / n;
    return VT_OK;
}

vt_status vt_spectra_read(const vt_plan *p, const vt_plan_cell *c, const char *which, double *sigma, vt_err *e) {
    char path[VT_PATH_MAX], line[VT_PATH_MAX + 200], matrix[] = {'W', '_', (char)toupper((unsigned char)*which), 0};
    char *field[4];
    double most[LAYERS];
    bool fine = true;
    for (int i = 0; i < LAYERS; i++) most[i] = -1;
    VT_TRY(vt_cell_path(path, p->out, c->hash, VT_SPECTRUM_CSV, e));
    FILE *f;
    VT_TRY(vt_file_stream(&f, path, e));
    bool head = fgets(line, sizeof line, f) && !strcmp(line, "weights,layer,matrix,part,sigma\n");
    while (head && fine && fgets(line, sizeof line, f))
        fine = split_last_fields(line, field) && update_layer_maximum(most, (const char *const *)field, matrix);
    fclose(f);
    if (!head || !fine) return vt_fail(e, VT_E_FORMAT, "%s: is damaged: remove the cell's folder", path);
    return mean_over_layers(most, path, matrix, sigma, e);
}
