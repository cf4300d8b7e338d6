/* SPDX-License-Identifier: MIT */
#include "io/class_names.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "core/files.h"

enum { LIST_MOST = 1 << 16 }; /* bytes of a list of names */

/* Line `at` of a list that has as many lines as there are classes; another one is not of these data. */
static bool take_line(char *text, int at, int classes, char *out, size_t size) {
    int n = 0;
    const char *found = NULL;
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
        line[strcspn(line, "\r")] = 0;
        if (*line && n++ == at) found = line;
    }
    if (!found || n != classes) return false;
    snprintf(out, size, "%s", found);
    return true;
}

/* All of a file of less than LIST_MOST bytes; takes no memory, so that a name does not depend on how much there is. */
static bool read_list(const char *path, char text[LIST_MOST + 1]) {
    size_t n = vt_file_start(path, text, LIST_MOST);
    text[n] = 0;
    return n > 0 && n < LIST_MOST;
}

/* batches.meta.txt or fine_label_names.txt of the official sets: in the folder, or beside the file that was given. */
static bool from_list(const vt_dataset *d, int label, char *out, size_t size) {
    static const char *const lists[] = {"batches.meta.txt", "fine_label_names.txt"};
    char folder[VT_PATH_MAX], path[VT_PATH_MAX], text[LIST_MOST + 1];
    struct stat s;
    bool found = false;
    bool file = stat(d->path, &s) == 0 && !S_ISDIR(s.st_mode);
    const char *slash = file ? strrchr(d->path, '/') : NULL;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - d->path + 1), d->path);
    else
        snprintf(folder, sizeof folder, "%s", file ? "." : d->path);
    for (size_t i = 0; i < 2 && !found; i++) {
        if (vt_path(path, folder, lists[i]) && read_list(path, text))
            found = take_line(text, label, d->classes, out, size);
    }
    return found;
}

void vt_dataset_class_name(const vt_dataset *d, int label, char *out, size_t size) {
    int k = label;
    if (d->head && !d->restricted) { /* of the model's outputs, those that the data have */
        for (k = 0; k < d->classes && d->head[k] != label; k++) continue;
    }
    bool own = k >= 0 && k < d->classes;
    if (own && d->names)
        snprintf(out, size, "%s", d->names[k]);
    else if (!own || d->head || !from_list(d, k, out, size))
        snprintf(out, size, "class %d", label);
}
