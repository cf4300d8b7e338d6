/* SPDX-License-Identifier: MIT */
/* Lists as VNN-COMP lays them out: instances.csv (network, specification, seconds a line) and a tool's results.csv
 * (category, network, specification, seconds to prepare, verdict, seconds; or network, specification, verdict,
 * seconds).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* A line of either; texts lie in the list's. */
typedef struct vt_instance {
    const char *category; /* or "" */
    const char *network, *spec;
    const char *verdict; /* of results */
    double seconds;      /* that an instance may take; 0: not said */
    char name[300];      /* NETWORK_SPEC without folders and endings, after which VNN-COMP names a witness's file */
} vt_instance;

typedef struct vt_instances {
    char *text, *path;
    vt_instance *list;
    size_t n;
} vt_instances;

enum { VT_INSTANCES_BYTES = 1 << 26, VT_INSTANCES_MOST = 1 << 15 };

/* Reads a list; results: lines with verdicts. VT_E_FORMAT: "FILE: line L: ..."; a name that occurs twice is refused in
 * instances, of results the last one counts. *l is to be freed in any case. */
vt_status vt_instances_read(vt_instances *l, const char *path, bool results, vt_err *e);
void vt_instances_free(vt_instances *l);
/* Returns the last line of this name; NULL: there is none. */
const vt_instance *vt_instances_find(const vt_instances *l, const char *name);
