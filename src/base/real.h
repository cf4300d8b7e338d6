/* SPDX-License-Identifier: MIT */
/* The number type of nn/ and models/: these files are compiled twice into the same binary, once with real = float
 * and once, with VT_DOUBLE defined, with real = double. VT_R(name) gives each copy its own symbol. */
#ifndef VT_CORE_REAL_H /* tests include it in both precisions */
#define VT_CORE_REAL_H

#ifdef VT_DOUBLE
typedef double real;
#define VT_R(name) name##_f64
#define VT_REAL_BITS 64
#else
typedef float real;
#define VT_R(name) name##_f32
#define VT_REAL_BITS 32
#endif

#endif
