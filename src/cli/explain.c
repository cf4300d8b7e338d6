/* SPDX-License-Identifier: MIT */
#include "cli/explain.h"

#include <stdio.h>
#include "models/checkpoint/unsupported.h"
#include "models/checkpoint/names.h"

/* Text of a file, on one line. */
static void print_padded(const char *text, int width) {
    int n = 0;
    for (; *text; text++, n++) putchar((unsigned char)*text < 32 || *text == 127 ? '?' : *text);
    for (; n < width; n++) putchar(' ');
}

static void put_row(const vt_names_row *r) {
    char shape[200], what[240];
    snprintf(what, sizeof what, "%s %s", vt_dtype_name(r->was.dtype),
             vt_shape_text(shape, sizeof shape, r->was.shape, r->was.ndim));
    printf("  ");
    print_padded(r->origin, 48);
    printf(" %-22s ", what);
    if (r->became) printf("-> "), print_padded(r->became, 0);
    if (r->why) printf("ignored: "), print_padded(r->why, 0);
    if (!r->became && !r->why) printf("not looked at"); /* an error before it */
    printf("\n");
}

static void put_notes(const vt_tensors *st) {
    static const char *const kinds[] = {[VT_NOTE_CHOSEN] = "chosen",
                                        [VT_NOTE_IGNORED] = "ignored",
                                        [VT_NOTE_RENAMED] = "prefix",
                                        [VT_NOTE_MEAN_STD] = "normalisation",
                                        [VT_NOTE_VALUE] = "value"};
    const vt_note *n;
    for (int i = 0; (n = vt_tensors_note(st, i)); i++) {
        printf("  %-14s ", kinds[n->kind]);
        print_padded(n->name, 0);
        printf(": ");
        print_padded(n->text, 0);
        printf("\n");
    }
}

static void put_unknown(const vt_tensors *st) {
    for (int i = 0; i < vt_tensors_count(st); i++)
        put_row(
            &(vt_names_row){.was = *vt_tensors_at(st, i), .origin = vt_tensors_origin(st, i), .why = "no scheme fits"});
}

vt_status vt_cli_explain(const char *path, const char *part, const char *names, vt_err *e) {
    vt_tensors *st;
    vt_names n;
    VT_TRY(vt_weights_open(&st, path, part, e));
    vt_status s = vt_names_apply(&n, st, names, e);
    printf("\n%s, %d tensors, names: %s\n", vt_tensors_format(st), n.n_rows ? n.n_rows : vt_tensors_count(st),
           *n.scheme ? n.scheme : "not known");
    put_notes(st);
    for (int i = 0; i < n.n_rows; i++) put_row(&n.rows[i]);
    if (!n.n_rows) put_unknown(st);
    vt_names_close(&n);
    vt_tensors_close(st);
    return s;
}

void vt_cli_show_unknown(const char *path, const char *part) {
    vt_tensors *st;
    vt_names n;
    vt_err e = {0};
    if (vt_weights_open(&st, path, part, &e) != VT_OK) return;
    bool unknown = vt_names_apply(&n, st, NULL, &e) != VT_OK && !*n.scheme && !vt_unsupported_network(st);
    if (unknown) {
        printf("%s, %d tensors, names: not known\n", vt_tensors_format(st), vt_tensors_count(st));
        put_unknown(st);
    }
    vt_names_close(&n);
    vt_tensors_close(st);
}
