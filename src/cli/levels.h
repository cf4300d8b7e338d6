/* SPDX-License-Identifier: MIT */
/* One program for every x86-64 machine. A package's command is built for the baseline (make LEVEL=x86-64-v2); beside
 * it, in ../libexec/vitrine/LEVEL/vitrine, stand the same sources built for processors that can do more, whose compiler
 * may then use AVX2 (x86-64-v3) or AVX-512 (x86-64-v4) in every loop of ours. */
#pragma once

/* Goes on as the best of those that are there and that this processor can run, or as the one that VITRINE_LEVEL names;
 * returns where this program is it already. Only of the C library, before the others begin (cli/early). */
void vt_levels_choose(char **argv, char **env);
