/* SPDX-License-Identifier: MIT */
/* The cells of tables on disk: OUT/cells/HASH/ with cell.json (what the hash is of), run/ (the training's or
 * evaluation's own folder, resumable), log.txt, and done.json once it is finished. OUT/cache.json says which version
 * wrote it. A cache may come from another machine or person: nothing in it is believed unseen. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include "base/status.h"

typedef enum vt_cell_state { VT_CELL_MISSING, VT_CELL_BEGUN, VT_CELL_DONE } vt_cell_state;

/* Looks at a folder and changes nothing. VT_E_USAGE: another version's, or a folder with other things in it. *there:
 * it is a cache (else empty or absent). */
vt_status vt_cache_look(const char *dir, bool *there, vt_err *e);
/* The same, and makes it one. */
vt_status vt_cache_make(const char *dir, vt_err *e);

/* Folder of a cell, or a file in it (NULL: the folder itself). */
vt_status vt_cell_path(char *out, const char *dir, const char *hash, const char *file, vt_err *e);
/* Refuses a cell whose cell.json is not `key`, and a finished one whose files are no longer those that it was finished
 * with: what a table reads of them (ledger, log, trained models) has its SHA-256 in done.json. */
vt_status vt_cell_look(const char *dir, const char *hash, const json_t *key, vt_cell_state *state, vt_err *e);
/* Before its run: the folder and cell.json. *lock keeps other tables from the cell until it is closed; -1: this file
 * system has no locks. */
vt_status vt_cell_begin(const char *dir, const char *hash, const json_t *key, int *lock, vt_err *e);
/* After it: done.json, with the seconds that this last turn took. */
vt_status vt_cell_end(const char *dir, const char *hash, double seconds, vt_err *e);
/* SHA-256 of a file of a finished cell that vt_cell_look has let pass. */
vt_status vt_cell_sha(const char *dir, const char *hash, const char *file, char hex[65], vt_err *e);
/* Hash of a key: SHA-256 of its JSON with sorted keys. false: no memory. */
bool vt_cell_hash(const json_t *key, char hex[65]);

/* Copies the finished cells of cache `from` that `to` does not hold; *n: how many. A cell that both hold must be the
 * same question; regular files and folders alone are taken. */
vt_status vt_cache_merge(const char *to, const char *from, int *n, vt_err *e);
