/* SPDX-License-Identifier: MIT */
/* What a run's header says, for all who read it: reports, resumes, verifications. It is written in evaluate.c. */
#ifndef VT_EVAL_HEADER_H
#define VT_EVAL_HEADER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "attacks/scoring.h"

/* Header values as text: "linf 8/255", weights hash and so on. */
const char *vt_header_text(const json_t *header, const char *key);
/* The header's entry 1, 2, ... of "attacks"; NULL where there is none. */
const json_t *vt_header_attack(const json_t *header, int entry);
/* What the verdicts of an entry (1, 2, ...) are about; entry 0, clean: VT_SCORE_BALL. */
vt_scoring vt_header_scoring(const json_t *header, int entry);
/* An entry of the header's attacks by its name and, unless it is scored in the ball, how: "pgd", "pgd, 8-bit". */
const char *vt_attack_label(const json_t *attack, char *buf, size_t size);
/* Stage k of it: its name, and what tells it from another stage of that name: "pgd (loss=ce)", "apgd-t (10 %)". */
const char *vt_stage_label(const json_t *attack, int k, char *buf, size_t size);
/* What was allowed: "linf eps 8/255", "patch 16 x 16, count 1, anywhere". */
const char *vt_header_threat(const json_t *header, char *buf, size_t size);
/* The checkpoint by the name of its file, or where the ledger has none (made before there was one) by its hash. */
const char *vt_header_weights(const json_t *header, char *buf, size_t size);
/* Sentence i that every report has to say of data, model (preprocessing, classes, resolution of the attack) and
 * surrogate; NULL past the end. */
const char *vt_header_note(const json_t *header, size_t i);
/* Was the run made by vitrine curve? The header says so. */
bool vt_is_curve(const json_t *header);
/* Side in pixels of the images that were attacked (a model may enlarge them inside); 0: not stated, or absurd. */
int vt_header_side(const json_t *header);
/* Keys of two headers that differ, "a, b"; false: none. The format's number and what the
 * checkpoint is called are none of them. */
bool vt_header_difference(const json_t *a, const json_t *b, bool allow_mixed, char *names, size_t size);

#endif
