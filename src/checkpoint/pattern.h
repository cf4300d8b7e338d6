/* SPDX-License-Identifier: MIT */
/* Patterns of tensor names: letters stand for themselves, * for any characters (also none), {i} for a whole number,
 * {2i+1} for one of that form. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define VT_NAME_MAX 255 /* longer names fit no pattern */

/* What the letters and the stars of a pattern stand for in one name. */
typedef struct vt_binding {
    int64_t number[26];
    uint32_t known; /* bit k: letter 'a' + k */
    struct {
        const char *text;
        size_t n;
    } star[2];
    int stars;
} vt_binding;

/* What a pattern holds, or a sentence that begins with `who`. */
vt_status vt_pattern_check(const char *pattern, const char *who, uint32_t *letters, int *stars, vt_err *e);
/* Does the name fit? *b, zeroed, then says how. The pattern must have passed the check. */
bool vt_pattern_match(const char *pattern, const char *name, vt_binding *b);
/* The name that a pattern makes of it; false: too long, a negative number, or a letter
 * or star that stands for nothing. */
bool vt_pattern_expand(const char *pattern, const vt_binding *b, char out[VT_NAME_MAX + 1]);
