/* SPDX-License-Identifier: MIT */
/* Kinds of files that people often give in place of weights or images, recognised by their first bytes: they are
 * named in the refusal, not read. */
#ifndef VT_IO_UNSUPPORTED_FILE_H
#define VT_IO_UNSUPPORTED_FILE_H

#include <stddef.h>
#include <stdint.h>

/* "an ONNX model: ...", what it is and what to do, to stand behind "is "; NULL: none that is known. */
const char *vt_unsupported_file(const uint8_t *bytes, size_t n);

#endif
