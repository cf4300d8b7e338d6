/* SPDX-License-Identifier: MIT */
/* The cells of tables on disk: OUT/cells/HASH/ with cell.json (what the hash is of), run/ (the training's or
 * evaluation's own folder, resumable), log.txt, and done.json once it is finished. OUT/cache.json says which version
 * wrote it. A cache may come from another machine or person: all that is read from it is checked. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include "base/status.h"

typedef enum vt_cell_state { VT_CELL_MISSING, VT_CELL_BEGUN, VT_CELL_DONE } vt_cell_state;

/* Checks a folder without changing it, and waits while another process is making it a cache. *there: it is a cache
 * (else empty or absent). VT_E_USAGE if it is another version's, or a folder with other things in it. */
vt_status vt_cache_look(const char *dir, bool *there, vt_err *e);
/* Makes dir a cache, unless it is one; VT_E_USAGE if it is another version's or holds other things, VT_E_IO. */
vt_status vt_cache_make(const char *dir, vt_err *e);

/* out [VT_PATH_MAX]: a cell's folder, or a file in it (file NULL: the folder). VT_E_USAGE if it is too long. */
vt_status vt_cell_path(char *out, const char *dir, const char *hash, const char *file, vt_err *e);
/* *state of the cell with this hash of `key`. VT_E_FORMAT if its cell.json is not `key`, or if it is finished and its
 * files are no longer those it was finished with: what a table reads of them (ledger, log, trained models) has its
 * SHA-256 in done.json. */
vt_status vt_cell_look(const char *dir, const char *hash, const json_t *key, vt_cell_state *state, vt_err *e);
/* Before a cell's run: makes its folder and cell.json. *lock keeps other tables from the cell until it is closed; -1:
 * this file system has no locks. VT_E_IO if another holds it. */
vt_status vt_cell_begin(const char *dir, const char *hash, const json_t *key, int *lock, vt_err *e);
/* Releases the lock of vt_cell_begin; -1 is none. */
void vt_cell_release(int lock);
/* After a cell's run: writes done.json with its files' hashes and this run's seconds. VT_E_IO without a result. */
vt_status vt_cell_end(const char *dir, const char *hash, double seconds, vt_err *e);
/* hex: SHA-256 of a file of a finished cell that vt_cell_look has accepted, from done.json or else computed. */
vt_status vt_cell_sha(const char *dir, const char *hash, const char *file, char hex[65], vt_err *e);
/* hex: SHA-256 of a key's JSON with sorted keys. False: no memory. */
bool vt_cell_hash(const json_t *key, char hex[65]);

/* Copies the finished cells of cache `from` that `to` has not finished; *n: how many, counted also before a failure.
 * A cell that both hold must have the same key; only regular files and folders are copied. */
vt_status vt_cache_merge(const char *to, const char *from, int *n, vt_err *e);
