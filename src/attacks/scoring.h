/* SPDX-License-Identifier: MIT */
/* What a verdict is about: points of the ball, points of 8 bits, or points as a paper scored them. */
#pragma once

/* What an entry's verdicts are about: points of the ball; its points of 8 bits (after the same attack's entry in
 * floats); whatever the point of a paper's evaluator, which is scored as the paper did. */
#define VT_SCORING_LIST(X) X(BALL, "ball") X(EIGHT_BIT, "8-bit") X(PUBLISHED, "as published")
typedef enum vt_scoring {
#define VT_SCORING_ENUM(id, text) VT_SCORE_##id,
    VT_SCORING_LIST(VT_SCORING_ENUM)
#undef VT_SCORING_ENUM
        VT_SCORING_COUNT
} vt_scoring;
const char *vt_scoring_name(vt_scoring s);
vt_scoring vt_scoring_find(const char *name); /* VT_SCORE_BALL for any other text */
