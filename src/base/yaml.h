/* SPDX-License-Identifier: MIT */
/* YAML as vitrine's own files use it: one document of mappings, sequences and scalars; anchors, aliases and tags are
 * refused, and so is what is larger than a megabyte. Every refusal names file and line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* Reads the whole of a file, malloc'ed (vt_file_read); VT_E_FORMAT if it is larger than a megabyte. */
vt_status vt_yaml_file(char **text, size_t *n, const char *path, vt_err *e);

typedef enum vt_yaml_kind { VT_YAML_SCALAR, VT_YAML_LIST, VT_YAML_MAP } vt_yaml_kind;
typedef struct vt_yaml_node {
    vt_yaml_kind kind;
    int line;
    char *key;   /* of a map's child, else NULL */
    char *value; /* of a scalar, else NULL */
    struct vt_yaml_node *items;
    int n;
} vt_yaml_node;
/* Parses the document's map (an empty file is an empty one) of at most `depth` levels; noun: "recipe", in sentences.
 * VT_E_FORMAT: not such YAML; VT_E_USAGE: a key twice, or a scalar too long. *out is then NULL. */
vt_status vt_yaml_tree(vt_yaml_node **out, const char *text, size_t n, const char *path, const char *noun, int depth,
                       vt_err *e);
void vt_yaml_free(vt_yaml_node *root); /* accepts NULL */
/* Returns the child of a map; NULL: none. */
const vt_yaml_node *vt_yaml_get(const vt_yaml_node *map, const char *key);
