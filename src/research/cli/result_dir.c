/* SPDX-License-Identifier: MIT */
#include "research/cli/result_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/run_args.h"
#include "base/json.h"
#include "tensors/npy.h"

/* Cookie write: the terminal gets the text as it is, tables.txt without control characters. */
static ssize_t write_stdout_and_file(void *cookie, const char *text, size_t n) {
    vt_result_dir *f = cookie;
    size_t done = fwrite(text, 1, n, stdout);
    fflush(stdout);
    for (size_t i = 0; f->tables.stream && i < n; i++) {
        char c = text[i];
        vt_text_plain(&c, 1, "\n\t", &f->at);
        if (putc(c, f->tables.stream) == EOF) return 0;
    }
    return (ssize_t)done;
}

/* VT_E_USAGE if the folder has files, VT_E_IO if it cannot be read. */
static vt_status check_empty(const char *dir, vt_err *e) {
    DIR *d = opendir(dir);
    int n = 0;
    if (!d) return vt_fail(e, VT_E_IO, "%s: cannot be read: %s", dir, strerror(errno));
    for (struct dirent *f; (f = readdir(d));) n += strcmp(f->d_name, ".") && strcmp(f->d_name, "..");
    closedir(d);
    if (!n) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s is not an empty folder: choose another one, nothing is overwritten", dir);
}

vt_status vt_result_dir_open(vt_result_dir *f, const char *dir, const char *document, vt_err *e) {
    *f = (vt_result_dir){.document = document};
    if (dir) {
        VT_TRY(vt_make_dir(dir, e));
        VT_TRY(check_empty(dir, e));
        f->dir = dir;
        VT_TRY(vt_file_begin(&f->tables, dir, "tables.txt", e));
    }
    f->out = fopencookie(f, "w", (cookie_io_functions_t){.write = write_stdout_and_file});
    if (!f->out) return vt_fail(e, VT_E_MEMORY, "no memory for tables");
    setvbuf(f->out, NULL, _IOLBF, BUFSIZ);
    return VT_OK;
}

/* Remembers a file for the list of what was written; beyond VT_FOLDER_FILES it is left out. */
static vt_status keep_name(vt_result_dir *f, const char *file, vt_err *e) {
    if (f->n_files == VT_FOLDER_FILES) return VT_OK;
    if (!(f->files[f->n_files] = strdup(file))) return vt_fail(e, VT_E_MEMORY, "no memory for a file's name");
    f->n_files++;
    return VT_OK;
}

vt_status vt_result_dir_picture(void *ctx, const char *name, const char *svg, vt_err *e) {
    vt_result_dir *f = ctx;
    char path[VT_PATH_MAX], file[100];
    snprintf(file, sizeof file, "%s.svg", name);
    VT_TRY(vt_path_in(path, f->dir, file, e));
    VT_TRY(vt_file_replace(path, &(vt_span){svg, strlen(svg)}, 1, e));
    return keep_name(f, file, e);
}

vt_status vt_result_dir_array(void *ctx, const char *name, const double *values, size_t rows, size_t cols, vt_err *e) {
    vt_result_dir *f = ctx;
    char path[VT_PATH_MAX], file[100];
    snprintf(file, sizeof file, "%s.npy", name);
    VT_TRY(vt_path_in(path, f->dir, file, e));
    const vt_tensor t = {.name = name,
                         .dtype = VT_F64,
                         .ndim = 2,
                         .shape = {(int64_t)rows, (int64_t)cols},
                         .numel = rows * cols,
                         .data = values};
    VT_TRY(vt_npy_write(path, &t, e));
    return keep_name(f, file, e);
}

vt_status vt_result_dir_keep(vt_result_dir *f, const vt_cli *c, const json_t *doc, int threads, double seconds,
                             vt_err *e) {
    if (vt_script_stream()) VT_TRY(vt_script_print(json_incref((json_t *)(uintptr_t)doc), e));
    if (!f->dir) return VT_OK;
    fflush(f->out);
    VT_TRY(vt_file_commit(&f->tables, e));
    VT_TRY(vt_cli_run_json(c, f->dir, threads, seconds, NULL, e));
    VT_TRY(vt_json_save(f->dir, f->document, doc, JSON_INDENT(1), e));
    printf("%s: %s, tables.txt, run.json", f->dir, f->document);
    for (int i = 0; i < f->n_files; i++) printf(", %s", f->files[i]);
    putchar('\n');
    return VT_OK;
}

void vt_result_dir_close(vt_result_dir *f, bool done) {
    if (f->out) fclose(f->out);
    if (f->tables.stream) vt_file_abandon(&f->tables);
    if (f->dir && !done) {
        for (int i = 0; i < f->n_files; i++) vt_remove_in(f->dir, f->files[i]);
        vt_remove_in(f->dir, "tables.txt"), vt_remove_in(f->dir, "run.json"), vt_remove_in(f->dir, f->document);
    }
    for (int i = 0; i < f->n_files; i++) free(f->files[i]);
    *f = (vt_result_dir){0};
}
