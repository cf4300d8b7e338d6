/* SPDX-License-Identifier: MIT */
#include "research/table/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/files.h"
#include "base/progress.h"

enum { JOBS_MOST = 256 };

typedef struct slot {
    long id;
    int cell, lock;
    double began;
} slot;

typedef struct work {
    vt_plan *p;
    const vt_runner *r;
    int threads, total, done, running;
    bool *started; /* here, or by another rank */
    slot slots[JOBS_MOST];
} work;

/* Whether the caller's interrupt is set. */
static bool asked_to_stop(const work *w) { return w->r->interrupt && *w->r->interrupt; }

/* Does a cell of that hash run here? Places of a table with one key are run once. */
static bool is_running(const work *w, const char *hash) {
    for (int i = 0; i < w->running; i++)
        if (!strcmp(w->p->cells[w->slots[i].cell].hash, hash)) return true;
    return false;
}

/* ---- ranks ---- */

/* Whether a rank has failed: the last of the shared counters. */
static bool given_up(const work *w) { return w->r->team && vt_team_add(w->r->team, (size_t)w->p->n, 0) > 0; }

/* Is the cell this rank's? The first rank that counts up its hash's shared counter has it; a call counts. Without a
 * team: true. */
static bool claim_cell(const work *w, int cell) {
    int first = 0;
    if (!w->r->team) return true;
    while (strcmp(w->p->cells[first].hash, w->p->cells[cell].hash)) first++;
    return vt_team_add(w->r->team, (size_t)first, 1) == 0;
}

/* Sets *yes to whether all needed cells are done, those of other ranks as far as the cache shows; updates their states.
 * */
static vt_status all_done(const work *w, bool *yes, vt_err *e) {
    *yes = true;
    for (int i = 0; i < w->p->n; i++) {
        vt_plan_cell *c = &w->p->cells[i];
        if (!vt_plan_needs(w->p, i) || c->state == VT_CELL_DONE) continue;
        VT_TRY(vt_cell_look(w->p->out, c->hash, c->key, &c->state, e));
        *yes = *yes && c->state == VT_CELL_DONE;
    }
    return VT_OK;
}

/* Team callback: VT_E_USAGE if a rank's cells are not those of rank 0. */
static vt_status fail_other_cells(const void *ctx, const char *first, const char *mine, vt_err *e) {
    (void)first, (void)mine;
    return vt_fail(e, VT_E_USAGE, "%s: its cells are not those of rank 0: recipes, checkpoints or images differ",
                   ((const work *)ctx)->p->m->path);
}

/* VT_E_USAGE unless all ranks have the same hashes. */
static vt_status check_same_cells(const work *w, vt_err *e) {
    size_t n = 0, room = 66 * (size_t)w->p->n + 1;
    char *mine = calloc(room, 1);
    for (int i = 0; mine && i < w->p->n; i++) n += (size_t)snprintf(mine + n, room - n, "%s\n", w->p->cells[i].hash);
    vt_status s = vt_team_same(w->r->team, mine, fail_other_cells, w, e);
    free(mine);
    return s;
}

/* VT_E_USAGE unless a file that rank 0 writes into the cache, of a unique name, is there for all ranks. */
static vt_status check_one_cache(const work *w, vt_err *e) {
    vt_team *t = w->r->team;
    char *name = NULL, made[64], path[VT_PATH_MAX];
    vt_file f;
    snprintf(made, sizeof made, ".ranks-%ld-%.0f", (long)getpid(), 1e6 * vt_now());
    vt_status s = vt_team_text(t, made, &name, e);
    if (s == VT_OK && !t->rank) s = vt_file_begin(&f, w->p->out, name, e);
    if (s == VT_OK && !t->rank) s = vt_file_commit(&f, e);
    s = vt_team_agree(t, s, e);
    if (s == VT_OK && (!vt_path(path, w->p->out, name) || access(path, F_OK)))
        s = vt_fail(e, VT_E_USAGE, "--out %s is not the folder that rank 0 writes to: a table's ranks share one",
                    w->p->out);
    s = vt_team_agree(t, s, e);
    if (!t->rank && name) vt_remove_in(w->p->out, name);
    free(name);
    return s;
}

/* Returns the next cell that is needed, whose model is there, and that this rank has claimed; -1: none now. Marks other
 * ranks' cells as started. */
static int next_cell(const work *w) {
    for (int i = 0; i < w->p->n; i++) {
        const vt_plan_cell *c = &w->p->cells[i];
        if (w->started[i] || !vt_plan_needs(w->p, i) || is_running(w, c->hash)) continue;
        if (c->model >= 0 && w->p->cells[c->model].state != VT_CELL_DONE) continue;
        if (claim_cell(w, i)) return i;
        w->started[i] = true;
    }
    return -1;
}

/* Writes recipe.yaml into a training's folder: the text that its key holds. */
static vt_status write_recipe(const vt_plan *p, const vt_plan_cell *c, vt_err *e) {
    char dir[VT_PATH_MAX];
    vt_file f;
    VT_TRY(vt_cell_path(dir, p->out, c->hash, NULL, e));
    VT_TRY(vt_file_begin(&f, dir, "recipe.yaml", e));
    fputs(c->recipe, f.stream);
    return vt_file_commit(&f, e);
}

/* Reports "3 of 24: train ..." to the caller. */
static void announce_cell(const work *w, int cell) {
    char text[400];
    int n = snprintf(text, sizeof text, "%d of %d: ", w->done + w->running + 1, w->total);
    vt_plan_name(w->p, cell, text + n, sizeof text - (size_t)n);
    if (w->r->say) w->r->say(w->r->ctx, text);
}

/* Writes the recipe and starts the cell's command; VT_E_MEMORY or the runner's failure. */
static vt_status launch_command(work *w, slot *s, vt_err *e) {
    const vt_plan_cell *c = &w->p->cells[s->cell];
    char log[VT_PATH_MAX];
    if (c->recipe) VT_TRY(write_recipe(w->p, c, e));
    VT_TRY(vt_cell_path(log, w->p->out, c->hash, "log.txt", e));
    char **words = vt_plan_command(w->p, s->cell, w->threads);
    if (!words) return vt_fail(e, VT_E_MEMORY, "no memory for a command");
    announce_cell(w, s->cell);
    vt_status st = w->r->start(w->r->ctx, words, log, &s->id, e);
    vt_plan_command_free(words);
    return st;
}

/* Locks and starts a cell in the next slot and marks it started; only counts it as done if it is by now. VT_E_IO if
 * another process holds it, or the runner's failure. */
static vt_status start_cell(work *w, int cell, vt_err *e) {
    vt_plan_cell *c = &w->p->cells[cell];
    slot *s = &w->slots[w->running];
    *s = (slot){.cell = cell, .began = vt_now()};
    w->started[cell] = true;
    VT_TRY(vt_cell_look(w->p->out, c->hash, c->key, &c->state, e)); /* another place may have the same key */
    if (c->state == VT_CELL_DONE) {
        w->done++;
        return VT_OK;
    }
    VT_TRY(vt_cell_begin(w->p->out, c->hash, c->key, &s->lock, e));
    vt_status st = launch_command(w, s, e);
    if (st == VT_OK)
        w->running++;
    else
        vt_cell_release(s->lock);
    return st;
}

/* out: the last line of a log that is not empty, or "no message". */
static void last_line(const char *path, char *out, size_t size) {
    char *line = NULL;
    size_t room = 0;
    snprintf(out, size, "no message");
    FILE *f;
    vt_file_stream(&f, path, NULL);
    while (f && getline(&line, &room, f) >= 0) {
        line[strcspn(line, "\r\n")] = 0;
        if (*line) snprintf(out, size, "%s", line);
    }
    free(line);
    if (f) fclose(f);
}

/* Fails with the cell's name and the last line of its log: VT_E_USAGE for exit code 2, else VT_E_IO. */
static vt_status fail_with_log(const work *w, int cell, int code, vt_err *e) {
    char name[200], log[VT_PATH_MAX], line[1200];
    vt_plan_name(w->p, cell, name, sizeof name);
    VT_TRY(vt_cell_path(log, w->p->out, w->p->cells[cell].hash, "log.txt", e));
    last_line(log, line, sizeof line);
    return vt_fail(e, code == 2 ? VT_E_USAGE : VT_E_IO, "%s failed (%.20s.../log.txt): %s", name,
                   w->p->cells[cell].hash, line);
}

/* Ends a cell by its exit code: writes done.json, and all cells of its hash are done. VT_INTERRUPTED for a failure
 * after an interrupt; code 1 of a timing whose steps are all logged is success. */
static vt_status finish_cell(work *w, const slot *s, int code, vt_err *e) {
    vt_plan_cell *c = &w->p->cells[s->cell];
    double times[3];
    if (code && asked_to_stop(w)) return VT_INTERRUPTED;
    if (code == 1 && c->timed && vt_times_read(w->p, c, times, NULL) == VT_OK)
        code = 0; /* it stops half-way on purpose */
    if (code) return fail_with_log(w, s->cell, code, e);
    w->done++;
    VT_TRY(vt_cell_end(w->p->out, c->hash, vt_now() - s->began, e));
    for (int k = 0; k < w->p->n; k++)
        if (!strcmp(w->p->cells[k].hash, c->hash)) w->p->cells[k].state = VT_CELL_DONE;
    return VT_OK;
}

/* Waits for one running cell and finishes it; if waiting fails, all slots are released. */
static vt_status wait_one(work *w, vt_err *e) {
    long id;
    int code, i = 0;
    vt_status st = w->r->wait(w->r->ctx, &id, &code, e);
    if (st != VT_OK) { /* nor will any later wait tell */
        while (w->running) vt_cell_release(w->slots[--w->running].lock);
        return st;
    }
    while (i < w->running && w->slots[i].id != id) i++;
    if (i == w->running) return vt_fail(e, VT_E_IO, "process %ld was not begun here", id);
    slot s = w->slots[i];
    w->slots[i] = w->slots[--w->running];
    st = finish_cell(w, &s, code, e);
    vt_cell_release(s.lock);
    return st;
}

/* Sets *over to whether other ranks can give no more work (no team, an interrupt, a rank gave up, all done); else
 * sleeps 0.2 s. */
static vt_status wait_for_others(const work *w, bool *over, vt_err *e) {
    const struct timespec tick = {.tv_nsec = 200000000};
    *over = !w->r->team || asked_to_stop(w) || given_up(w);
    if (!*over) VT_TRY(all_done(w, over, e));
    if (!*over) nanosleep(&tick, NULL);
    return VT_OK;
}

/* Starts and waits until nothing is left, on failure only waits; VT_INTERRUPTED says how many cells are kept. */
static vt_status run_all(work *w, int jobs, vt_err *e) {
    vt_status s = VT_OK;
    for (bool over = false; s == VT_OK && !over;) {
        bool may = w->running < jobs && !asked_to_stop(w) && !given_up(w);
        int cell = may ? next_cell(w) : -1;
        if (cell >= 0)
            s = start_cell(w, cell, e);
        else if (w->running)
            s = wait_one(w, e);
        else
            s = wait_for_others(w, &over, e);
    }
    if (s != VT_OK && w->r->team) vt_team_add(w->r->team, (size_t)w->p->n, 1);
    vt_err ignored = {0};
    while (w->running) wait_one(w, &ignored); /* what has begun ends in its own time, or by the same signal */
    if (s == VT_OK && asked_to_stop(w)) s = VT_INTERRUPTED;
    if (s == VT_INTERRUPTED)
        return vt_fail(e, s, "interrupted; %d of %d cells are kept: the same command goes on", w->done, w->total);
    return s;
}

vt_status vt_schedule(vt_plan *p, const vt_runner *r, int jobs, int threads, vt_err *e) {
    work w = {.p = p, .r = r, .threads = threads / jobs > 0 ? threads / jobs : 1};
    VT_TRY(vt_plan_ready(p, e));
    for (int i = 0; i < p->n; i++) w.total += vt_plan_needs(p, i);
    if (!w.total && !r->team) return VT_OK;
    w.started = calloc((size_t)p->n, sizeof *w.started);
    if (!w.started) return vt_fail(e, VT_E_MEMORY, "no memory for %d cells", p->n);
    vt_status s = r->team ? check_same_cells(&w, e) : VT_OK;
    if (s == VT_OK && r->team) s = check_one_cache(&w, e);
    if (s == VT_OK) s = vt_team_counters(r->team, (size_t)p->n + 1, e);
    if (s == VT_OK) s = run_all(&w, jobs < JOBS_MOST ? jobs : JOBS_MOST, e);
    free(w.started);
    return vt_team_agree(r->team, s, e);
}
