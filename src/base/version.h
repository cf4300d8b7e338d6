/* SPDX-License-Identifier: MIT */
/* The version of this program, and what stands for its build in ledgers. */
#pragma once

#define VT_VERSION "0.1.0"
#define VT_VERSION_DATE "November 24, 2026" /* of its manual pages */
/* Results are the same bytes for one build and one BLAS kernel: this stands for the build in every ledger. */
#ifdef VT_LEVEL /* built for a level of x86-64, and not for the machine it was built on */
#define VT_COMPILER "compiler " __VERSION__ " " VT_LEVEL
#else
#define VT_COMPILER "compiler " __VERSION__
#endif
