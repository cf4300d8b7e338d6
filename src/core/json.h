/* The only door to a parser of JSON. A value takes many times its text in memory ("{}," 230 bytes), so what a text
 * would take is added up first, and one that asks for more than any file of ours or of the Hub does is not parsed. */
#ifndef VT_CORE_JSON_H
#define VT_CORE_JSON_H

#include <jansson.h>
#include <stddef.h>

/* Bytes of memory for n bytes of text: so many, and so many times the text. */
#define VT_JSON_SPARE ((size_t)16 << 20)
#define VT_JSON_TIMES 16

/* As json_loadb without doubled keys: NULL with line, position and text of what is wrong in *why (which may be NULL).
 */
json_t *vt_json(const char *text, size_t n, json_error_t *why);
/* The value of a file of at most VT_JSON_FILE bytes; NULL: not there, or no JSON. */
#define VT_JSON_FILE ((size_t)256 << 20)
json_t *vt_json_file(const char *path);

#endif
