/* SPDX-License-Identifier: MIT */
/* Parameters of operators that move numbers (op_move.c, op_concat.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y[i] = x[map[i]], or fill where map[i] is -1. Runs of `run` numbers lie one after another in both. */
typedef struct vt_move {
    int32_t *map;
    size_t n, run;
    double fill;
    bool apart; /* each number of x is there once: its gradient is no sum */
} vt_move;
/* Sets m->run to the largest n that divides m->n so that runs of n places follow one another in map. */
void vt_move_runs(vt_move *m);
/* Sets m->apart for an x of n numbers; false: no memory. */
bool vt_move_look(vt_move *m, size_t n);

/* Of each of `outer` pieces of the result the parts, one input each. */
typedef struct vt_concat {
    size_t outer, *part;
} vt_concat;
