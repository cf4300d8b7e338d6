/* SPDX-License-Identifier: MIT */
#include "eval/parts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"

enum { AT_ONCE = 64 }; /* lines of a message, and their images */

/* ---- which lines are there ---- */

/* Sorted by place. */
typedef struct known {
    vt_record *lines;
    size_t n;
} known;

/* Adds n lines to the known ones and sorts them. VT_E_MEMORY: they stay as they were. */
static vt_status add_known_lines(known *k, const vt_record *lines, size_t n, vt_err *e) {
    vt_record *more = realloc(k->lines, (k->n + n + 1) * sizeof *more);
    if (!more) return vt_fail(e, VT_E_MEMORY, "no memory for %zu ledger lines", k->n + n);
    if (n) memcpy(more + k->n, lines, n * sizeof *lines);
    k->lines = more, k->n += n;
    qsort(k->lines, k->n, sizeof *k->lines, vt_record_by_place);
    return VT_OK;
}

/* Is there a line of this entry, stage and image already? */
static bool is_known_line(const known *k, const vt_record *r) {
    return bsearch(r, k->lines, k->n, sizeof *r, vt_record_by_place) != NULL;
}

/* ---- the folders of parts ---- */

/* Writes the path OUT/ranks/NAME (NULL: OUT/ranks); false: too long. */
static bool part_path(char path[VT_PATH_MAX], const char *out, const char *name) {
    char ranks[VT_PATH_MAX];
    return vt_path(ranks, out, "ranks") && (name ? vt_path(path, ranks, name) : vt_path(path, out, "ranks"));
}

/* Is it a folder, and no link to one? What lies elsewhere is neither read nor removed. */
static bool is_folder(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Fails with VT_E_IO for a path that is a link or no folder. */
static vt_status no_folder(const char *path, vt_err *e) {
    return vt_fail(e, VT_E_IO, "%s is no folder, or a link, which is not followed: remove it", path);
}

/* Writes the path of the next part, a number in a folder of parts, in the folder's order; false: no more, or d is
 * NULL. */
static bool next_part(DIR *d, const char *out, char path[VT_PATH_MAX]) {
    for (const struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] && !f->d_name[strspn(f->d_name, "0123456789")] && part_path(path, out, f->d_name)) return true;
    return false;
}

/* Opens OUT/ranks for reading; NULL: no such folder, or a link. */
static DIR *open_parts(const char *out) {
    char path[VT_PATH_MAX];
    return part_path(path, out, NULL) && is_folder(path) ? opendir(path) : NULL;
}

/* Removes all parts, then OUT/ranks if nothing else is in it. If another rank sees them too, either may remove one; the
 * ledger goes first, as points alone are no part. */
static void remove_parts(const char *out) {
    char path[VT_PATH_MAX];
    DIR *d = open_parts(out);
    while (next_part(d, out, path)) {
        if (!is_folder(path)) continue;
        vt_remove_in(path, "ledger.jsonl");
        vt_remove_in(path, "adv.bin");
        rmdir(path);
    }
    if (d) closedir(d);
    if (part_path(path, out, NULL)) rmdir(path);
}

/* Does the part's ledger have a whole first line? A kill may have come before it was written; then there are no lines
 * either. */
static bool has_header_line(const char *path) {
    char name[VT_PATH_MAX];
    FILE *f = NULL;
    int c = EOF;
    if (vt_path(name, path, "ledger.jsonl") && vt_file_stream(&f, name, NULL) == VT_OK)
        while ((c = getc(f)) != EOF && c != '\n') continue;
    if (f) fclose(f);
    return c == '\n';
}

/* ---- handing over ---- */

/* A part whose lines are handed over, and room for a message. */
typedef struct handed {
    vt_ledger *part;         /* NULL: there is none left */
    const vt_record **lines; /* [n] of the part, those that the run's ledger does not have */
    size_t n;
    vt_record *sent; /* [AT_ONCE] */
    float *points;   /* [AT_ONCE, pixels]; of lines without a point: nothing */
} handed;

/* Closes the part and forgets its lines; the room for a message stays. */
static void close_part(handed *h) {
    vt_ledger_close(h->part);
    free(h->lines);
    h->part = NULL, h->lines = NULL, h->n = 0;
}

/* Opens the next part in d that has a header, lists its lines that are not known and have their point, and makes all
 * known; h->part stays NULL if there is none. VT_E_USAGE: part of another run; VT_E_IO: a link. */
static vt_status open_next_part(handed *h, DIR *d, const char *out, const vt_ledger *l, known *k, vt_err *e) {
    char path[VT_PATH_MAX], names[200];
    do {
        if (!next_part(d, out, path)) return VT_OK;
        if (!is_folder(path)) return no_folder(path, e);
    } while (!has_header_line(path));
    VT_TRY(vt_ledger_open(&h->part, path, e));
    const vt_ledger *part = h->part;
    if (vt_header_difference(l->header->document, part->header->document, false, names, sizeof names))
        return vt_fail(e, VT_E_USAGE, "%s is a part of another run, made with another %s: remove it to go on without",
                       path, names);
    if (!(h->lines = calloc(part->count + 1, sizeof *h->lines)))
        return vt_fail(e, VT_E_MEMORY, "%s: no memory for its lines", path);
    for (const vt_record *r = part->records; r < part->records + part->count; r++)
        if (!is_known_line(k, r) && vt_ledger_has_point(part, r)) h->lines[h->n++] = r;
    return add_known_lines(k, part->records, part->count, e);
}

/* Fills the message with `some` lines of the part from `at` on, and their points. A line whose point cannot be read
 * fails it; it and those after it get the image -1, which is not taken. */
static vt_status fill_message(const handed *h, size_t at, size_t some, vt_err *e) {
    vt_status s = VT_OK;
    for (size_t i = 0; i < some; i++) {
        vt_record *r = &h->sent[i];
        *r = *h->lines[at + i];
        if (s == VT_OK && r->adv >= 0) s = vt_ledger_read_adv(h->part, r, h->points + i * h->part->pixels, e);
        if (s != VT_OK) r->image = -1;
    }
    return s;
}

/* Hands n lines of rank `from` over to rank 0, some at a time, which appends those of other ranks that it does not know
 * (two may have seen one part). A failure is remembered while the rest still arrive. */
static vt_status hand_over(vt_ledger *l, vt_team *t, int from, const handed *h, size_t n, known *k, vt_err *e) {
    vt_status s = VT_OK;
    const int rank = vt_team_rank(t);
    size_t first = l->count, pixels = l->pixels;
    for (size_t at = 0; at < n; at += AT_ONCE) {
        size_t some = n - at < AT_ONCE ? n - at : AT_ONCE;
        vt_message m[] = {{rank ? 0 : from, h->sent, some * sizeof *h->sent},
                          {rank ? 0 : from, h->points, some * pixels * sizeof *h->points}};
        if (rank == from) {
            vt_status filled = fill_message(h, at, some, s == VT_OK ? e : NULL);
            if (s == VT_OK) s = filled;
        }
        if (from && rank == from) t->ops->exchange(t->ctx, m, 2, NULL, 0);
        if (from && !rank) t->ops->exchange(t->ctx, NULL, 0, m, 2);
        for (size_t i = 0; i < some && !rank && s == VT_OK; i++) {
            vt_record *r = &h->sent[i];
            if (r->image >= 0 && !(from && is_known_line(k, r)))
                s = vt_ledger_append(l, r, r->adv >= 0 ? h->points + i * pixels : NULL, e);
        }
    }
    return s == VT_OK && from && !rank && l->count > first ? add_known_lines(k, l->records + first, l->count - first, e)
                                                           : s;
}

/* Takes the parts that the ranks of t but 0 see into rank 0's ledger, of each rank one at a time; without a team, those
 * that this process sees. They stay on the disk. Agrees. */
static vt_status take_parts(vt_ledger *l, vt_team *t, const char *out, known *k, vt_err *e) {
    char path[VT_PATH_MAX];
    const bool reads = !t || t->rank;
    if (!t && !(part_path(path, out, NULL) && access(path, F_OK) == 0)) return VT_OK;
    size_t mine, *counts = calloc((size_t)vt_team_size(t), sizeof *counts);
    handed h = {.sent = calloc(AT_ONCE, sizeof *h.sent), .points = malloc(AT_ONCE * l->pixels * sizeof *h.points)};
    vt_status s = counts && h.sent && h.points ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for parts of it", out);
    if (s == VT_OK && reads && part_path(path, out, NULL) && access(path, F_OK) == 0 && !is_folder(path))
        s = no_folder(path, e);
    DIR *d = s == VT_OK && reads ? open_parts(out) : NULL;
    s = vt_team_agree(t, s, e);
    for (bool more = true; s == VT_OK && more;) {
        s = vt_team_agree(t, open_next_part(&h, d, out, l, k, e), e);
        if (s != VT_OK) break;
        *counts = mine = h.part ? h.n + 1 : 0;
        if (t) t->ops->gather(t->ctx, &mine, sizeof mine, counts);
        more = false;
        for (int r = t ? 1 : 0; r < vt_team_size(t); r++) {
            more = more || counts[r];
            vt_status one = counts[r] > 1 ? hand_over(l, t, r, &h, counts[r] - 1, k, s == VT_OK ? e : NULL) : VT_OK;
            if (s == VT_OK) s = one;
        }
        s = vt_team_agree(t, s, e);
        close_part(&h);
    }
    close_part(&h);
    if (d) closedir(d);
    free(counts), free(h.sent), free(h.points);
    return s;
}

/* Replaces what each rank knows by the lines of rank 0's ledger. Agrees. */
static vt_status share_known(known *k, const vt_ledger *l, vt_team *t, vt_err *e) {
    void *all = NULL;
    size_t *sizes = calloc((size_t)t->size, sizeof *sizes);
    vt_status s = vt_team_agree(t, sizes ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %d ranks", t->size), e);
    if (s == VT_OK) s = vt_team_collect(t, l->records, t->rank ? 0 : l->count * sizeof *l->records, &all, sizes, e);
    free(k->lines);
    *k = (known){0};
    if (s == VT_OK) s = vt_team_agree(t, add_known_lines(k, all, sizes[0] / sizeof *l->records, e), e);
    free(sizes), free(all);
    return s;
}

vt_status vt_parts_take(vt_ledger *l, const vt_run_place *place, vt_err *e) {
    vt_team *t = place->team;
    known k = {0};
    vt_status s = VT_OK;
    if (vt_team_rank(t) && l->fd >= 0) s = vt_ledger_sync(l, e); /* their lines are there to be seen */
    s = vt_team_agree(t, s, e);
    if (s == VT_OK && !vt_team_rank(t)) {
        s = add_known_lines(&k, l->records, l->count, e);
        if (s == VT_OK) s = take_parts(l, NULL, place->out, &k, e);
    }
    s = vt_team_agree(t, s, e);
    if (s == VT_OK && t) s = share_known(&k, l, t, e);
    if (s == VT_OK && t) s = take_parts(l, t, place->out, &k, e);
    free(k.lines);
    if (s == VT_OK && !vt_team_rank(t)) s = vt_ledger_sync(l, e);
    s = vt_team_agree(t, s, e);
    if (s == VT_OK) remove_parts(place->out);
    return vt_team_agree(t, s, e);
}

/* ---- opening ---- */

/* Creates the run's own ledger (rank 0), or resumes the one that is there. VT_E_IO: without resume, parts of a run are
 * there. */
static vt_status open_whole(vt_ledger **out, const vt_run_place *p, vt_header *header, size_t pixels, vt_err *e) {
    char ranks[VT_PATH_MAX];
    if (p->resume && vt_ledger_exists(p->out)) return vt_ledger_resume(out, p->out, header, pixels, p->allow_mixed, e);
    if (!p->resume && part_path(ranks, p->out, NULL) && access(ranks, F_OK) == 0)
        return vt_fail(e, VT_E_IO, "%s holds parts of a run (ranks): continue it with @resume or choose another @out",
                       p->out);
    return vt_ledger_create(out, p->out, header, pixels, e);
}

/* Sets *out to rank 0's header, on every rank; `mine`: read on rank 0 alone. Agrees. */
static vt_status broadcast_header(vt_header **out, const json_t *mine, vt_team *t, vt_err *e) {
    char *text = t->rank ? NULL : vt_json_text(mine, JSON_COMPACT), *first = NULL;
    json_error_t why;
    *out = NULL;
    vt_status s = t->rank || text ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
    s = vt_team_agree(t, s, e);
    if (s == VT_OK) s = vt_team_text(t, text, &first, e);
    if (s == VT_OK) s = vt_header_read(out, vt_json(first, strlen(first), &why), "rank 0's run", e);
    free(text), free(first);
    return vt_team_agree(t, s, e);
}

/* Fails with VT_E_USAGE for a rank with other images than rank 0's (for vt_team_same); first: the text of rank 0, its
 * number in front. */
static vt_status other_images(const void *ctx, const char *first, const char *mine, vt_err *e) {
    const vt_run_place *p = ctx;
    (void)mine;
    return vt_fail(e, VT_E_USAGE, "its @images are others than rank 0's (%zu of them there, %zu here)",
                   (size_t)strtoull(first, NULL, 10), p->n_images);
}

/* Fails with VT_E_USAGE for a rank with another header than rank 0's, naming the keys (for vt_team_same); texts that
 * differ where allow_mixed lets them pass. */
static vt_status other_run(const void *ctx, const char *first, const char *mine, vt_err *e) {
    const vt_run_place *p = ctx;
    json_error_t why;
    char names[200];
    json_t *theirs = vt_json(first, strlen(first), &why), *ours = vt_json(mine, strlen(mine), &why);
    vt_status s = theirs && ours ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the run's header");
    if (s == VT_OK && vt_header_difference(theirs, ours, p->allow_mixed, names, sizeof names))
        s = vt_fail(e, VT_E_USAGE, "its run would have another %s than rank 0's%s", names,
                    strstr(names, "blas") ? " (" VT_OPTION "allow-mixed accepts another BLAS kernel)" : "");
    json_decref(theirs), json_decref(ours);
    return s;
}

/* Checks, before anything is written, that all ranks would make one run: same header, same images in one order.
 * VT_E_USAGE otherwise. Agrees. */
static vt_status same_run(const vt_header *header, const vt_run_place *p, vt_err *e) {
    char sha[65], images[100], *text = vt_json_text(header->document, JSON_COMPACT);
    vt_status s = vt_team_same(p->team, text, other_run, p, e);
    free(text);
    vt_sha_hex(p->images, p->n_images * sizeof *p->images, sha);
    snprintf(images, sizeof images, "%zu %s", p->n_images, sha);
    return s == VT_OK ? vt_team_same(p->team, images, other_images, p, e) : s;
}

/* Creates this rank's part, OUT/ranks/RANK, and the folders above it within OUT. */
static vt_status open_part(vt_ledger **out, const vt_run_place *p, vt_header *header, size_t pixels, vt_err *e) {
    char name[24], path[VT_PATH_MAX];
    snprintf(name, sizeof name, "%d", p->team->rank);
    if (!part_path(path, p->out, name)) return vt_fail(e, VT_E_IO, "%s: path is too long", p->out);
    VT_TRY(vt_make_dir_in(p->out, path + strlen(p->out) + 1, e));
    return vt_ledger_create(out, path, header, pixels, e);
}

vt_status vt_parts_open(vt_ledger **out, const vt_run_place *p, vt_header *header, size_t pixels, vt_err *e) {
    vt_team *t = p->team;
    vt_header *shared = NULL; /* of the run's ledger: with --allow-mixed not each rank's own */
    vt_ledger *none = NULL;
    *out = NULL;
    if (!p->out) return vt_ledger_memory(out, header, pixels, e);
    vt_status s = t ? same_run(header, p, e) : VT_OK;
    if (s == VT_OK && !vt_team_rank(t)) s = open_whole(out, p, header, pixels, e);
    s = vt_team_agree(t, s, e);
    if (s == VT_OK && t) s = broadcast_header(&shared, *out ? (*out)->header->document : NULL, t, e);
    if (s == VT_OK && vt_team_rank(t)) s = vt_ledger_memory(&none, shared, pixels, e);
    s = vt_team_agree(t, s, e);
    if (s == VT_OK) s = vt_parts_take(none ? none : *out, p, e);
    if (s == VT_OK && none) s = open_part(out, p, shared, pixels, e);
    s = vt_team_agree(t, s, e);
    vt_header_free(shared);
    vt_ledger_close(none);
    if (s == VT_OK) return VT_OK;
    vt_ledger_close(*out);
    *out = NULL;
    return s;
}

/* ---- while it runs ---- */

vt_status vt_parts_news(const vt_ledger *l, size_t from, vt_team *t, vt_record **out, size_t *n, vt_err *e) {
    size_t *sizes = calloc((size_t)vt_team_size(t), sizeof *sizes), at = 0, kept = 0;
    void *all = NULL;
    *out = NULL, *n = 0;
    vt_status s = vt_team_agree(t, sizes ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %d ranks", t->size), e);
    if (s == VT_OK)
        s = vt_team_collect(t, l->records ? l->records + from : NULL, (l->count - from) * sizeof *l->records, &all,
                            sizes, e);
    for (int r = 0; s == VT_OK && r < t->size; at += sizes[r++]) {
        if (r == t->rank) continue;
        memmove((char *)all + kept, (char *)all + at, sizes[r]);
        kept += sizes[r];
    }
    free(sizes);
    *out = all, *n = kept / sizeof **out;
    return s;
}
