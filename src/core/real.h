/* SPDX-License-Identifier: MIT */
/* The number type of nn/ and models/: these files are compiled twice into the same binary, once with real = float
 * and once, with VT_DOUBLE defined, with real = double. VT_R(name) gives each copy its own symbol. */
#pragma once

#ifdef VT_DOUBLE
typedef double real;
#define VT_R(name) name##_f64
#define VT_REAL_BITS 64
#else
typedef float real;
#define VT_R(name) name##_f32
#define VT_REAL_BITS 32
#endif
