/* SPDX-License-Identifier: MIT */
/* SHA256SUMS: what the files of a finished run were when it ended, in the form that `sha256sum -c` reads; and run.json,
 * which differs from machine to machine and so carries its own hash. A byte changed later is noticed by either. */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "eval/ledger.h"
#include "eval/verify_run.h"

/* Writes SHA256SUMS in dir: the ledger, adv.bin, every report, and what --save-adv and --save-npz wrote, as they are
 * now. Call it last. VT_E_IO also for a link in place of adv. */
vt_status vt_checksums_write(const char *dir, vt_err *e);
/* Adds findings: files that are not as SHA256SUMS says, or are missing; reports that are not what the ledger gives; a
 * changed run.json; no SHA256SUMS. Fails only where the check could not be made. */
vt_status vt_checksums_check(const vt_ledger *l, vt_findings *found, vt_err *e);
/* Adds findings on SHA256SUMS and the files that it names alone. */
vt_status vt_checksums_files(const char *dir, vt_findings *found, vt_err *e);
/* Prints "DIR: results.json, ...", the files of a run that are there. */
void vt_checksums_list(FILE *f, const char *dir);

/* Writes o to f as text with its hash as the last key, "sha256": of the text itself, with zeros in the hash's place (o
 * keeps those). VT_E_MEMORY; a write error is left in f. */
vt_status vt_checksums_json(json_t *o, FILE *f, vt_err *e);
