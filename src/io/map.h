/* A whole file, mapped for reading. */
#ifndef VT_IO_MAP_H
#define VT_IO_MAP_H

#include <stddef.h>
#include <stdint.h>
#include "core/hash.h"
#include "core/status.h"

typedef struct vt_map {
    const uint8_t *bytes; /* of an empty file: NULL */
    size_t n;
} vt_map;

vt_status vt_map_open(vt_map *m, const char *path, vt_err *e); /* regular files only */
void vt_map_close(vt_map *m);                                  /* safe twice */
/* Hashes the bytes; pages leave memory as they are done with. */
void vt_map_hash(const vt_map *m, vt_sha *sha);
/* Bytes [at, at + n) may leave memory until they are looked at again; pages shared with neighbours stay. */
void vt_map_release(const vt_map *m, size_t at, size_t n);

#endif
