/* SPDX-License-Identifier: MIT */
/* One line of a ledger: a record as text, and back. */
#pragma once

#include "eval/ledger.h"

enum { VT_LINE_ROOM = 760 };

/* The line as it stands in the file, with its checksum where the ledger has them; returns its length. */
int vt_line_text(char buf[VT_LINE_ROOM], const vt_ledger *l, const vt_record *r);
bool vt_line_parse(vt_record *r, const json_t *o); /* false: it is no such line */
/* Has it the checksum of what it says? Always so of a line without one in a ledger of format 1. */
bool vt_line_is_as_written(const vt_ledger *l, const json_t *o, const vt_record *r);
