/* SPDX-License-Identifier: MIT */
/* The only door to JSON. Reading: a value takes many times its text in memory ("{}," 230 bytes), so a text's
 * cost is added up first, and a text that would cost more than any file of ours or of the Hub is not parsed. Writing:
 * jansson gives a number 17 digits, 0.1 too; here it has the fewest of 15, 16 and 17 that read back as the same
 * double. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "base/files.h"

/* jansson's builders silently drop a value for which memory ran out: json_object_set_new(o, "x", json_real(1)) leaves
 * it out. vt_json_refused counts the allocations that failed in this thread: code that builds a document takes the
 * number before, and vt_json_whole returns `o` if it has not changed, else frees it and returns NULL. */
size_t vt_json_refused(void);
/* Returns o if vt_json_refused() is still `before`; else frees it and returns NULL. */
json_t *vt_json_whole(json_t *o, size_t before);

/* Bytes of memory that n bytes of text may cost: VT_JSON_SPARE + VT_JSON_TIMES * n. */
#define VT_JSON_SPARE ((size_t)16 << 20)
#define VT_JSON_TIMES 16

/* Parses as json_loadb; NULL, with line, position and text of what is wrong in *why (may be NULL), also for a doubled
 * key and for a text whose memory would exceed the bound above. */
json_t *vt_json(const char *text, size_t n, json_error_t *why);
/* Returns the status of what vt_json could not read: VT_E_MEMORY or VT_E_FORMAT. */
vt_status vt_json_why(const json_error_t *why);
/* Reads a regular file of at most `most` bytes into *out; VT_OK with *out NULL: not there, longer, or not JSON, as *why
 * (may be NULL) then says. It fails with VT_E_MEMORY alone: what the file holds is then unknown. */
vt_status vt_json_file(json_t **out, const char *path, size_t most, vt_err *why, vt_err *e);

/* A finite number as text, an integer without a point. */
enum { VT_NUMBER_ROOM = 32 };
/* Writes a finite v into buf with the fewest of 15, 16 and 17 digits that read back as v, an integer without a point;
 * returns the length. */
int vt_json_number(char buf[VT_NUMBER_ROOM], double v);
/* Returns v as a number, null unless finite; NULL: no memory. */
json_t *vt_json_real(double v);
/* Returns o as json_dumps does, with short numbers; to be freed. NULL: no memory (o NULL is none either). */
char *vt_json_text(const json_t *o, size_t flags);
/* Writes o as vt_json_text and a line's end to a stream. false: no memory (o NULL is none either). */
bool vt_json_write(FILE *f, const json_t *o, size_t flags);
/* Writes o as vt_json_text to the file dir/name, complete or not at all. o NULL fails: there was no memory for it. */
vt_status vt_json_save(const char *dir, const char *name, const json_t *o, size_t flags, vt_err *e);
/* Writes o, which stays the caller's, to a file begun and commits it; abandons it on failure, and if o is NULL. */
vt_status vt_json_commit(vt_file *f, const json_t *o, size_t flags, vt_err *e);
/* Returns o as text for a hash, to be freed: as vt_json_text, but reals have 17 digits. NULL: no memory. */
char *vt_json_hashed(const json_t *o, size_t flags);
