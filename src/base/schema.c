/* SPDX-License-Identifier: MIT */
#include "base/schema.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/text.h"

enum { NAME = 300 }; /* characters of an object's name */

/* ---- reading ---- */

/* Writes what values the row takes into buf, and returns it: "text", "a whole number from 1 to 4096", "linf, l2 or
 * l1". */
static const char *expected_value(const vt_key *k, char *buf, size_t size) {
    static const char *const types[] = {
        [VT_KEY_TEXT] = "text",          [VT_KEY_CHARS] = "text of one line",
        [VT_KEY_INT] = "a whole number", [VT_KEY_SEED] = "a whole number",
        [VT_KEY_REAL] = "a number",      [VT_KEY_TRIPLE] = "a list of three numbers",
        [VT_KEY_BOOL] = "true or false", [VT_KEY_CHOICE] = "text",
        [VT_KEY_OBJECT] = "an object",   [VT_KEY_TEXTS] = "a list of texts",
        [VT_KEY_GROUP] = "an object",    [VT_KEY_ITEMS] = "a list",
    };
    size_t at = 0;
    if (k->type == VT_KEY_CHARS)
        snprintf(buf, size, "%s and %s %.0f bytes", types[k->type], k->flags & VT_KEY_MUST ? "1 to" : "at most",
                 k->most - 1);
    else if (k->type != VT_KEY_ITEMS && k->most > k->least)
        snprintf(buf, size, "%s from %.10g to %.10g", types[k->type], k->least, k->most);
    else if (!k->names)
        snprintf(buf, size, "%s", types[k->type]);
    for (int i = 0; k->names && k->names[i] && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s", !i ? "" : k->names[i + 1] ? ", " : " or ", k->names[i]);
    return buf;
}

/* Fails with VT_E_FORMAT: "NAMEkey is VALUE, must be ..."; v NULL: it is missing. */
static vt_status fail_value(const char *name, const vt_key *k, const json_t *v, vt_err *e) {
    char *text = v ? vt_json_text(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL, expected[120];
    vt_fail(e, VT_E_FORMAT, "%s%s is %.60s, must be %s", name, k->key,
            text ? text
            : v  ? "?"
                 : "missing",
            expected_value(k, expected, sizeof expected));
    free(text);
    return VT_E_FORMAT;
}

/* Returns the index of a text in k->names; -1: it is none of them. */
static int choice_index(const vt_key *k, const char *text) {
    int i = 0;
    while (k->names[i] && strcmp(k->names[i], text) != 0) i++;
    return k->names[i] ? i : -1;
}

/* Returns whether x is within the row's limits, if it has any. */
static bool is_in_range(const vt_key *k, double x) { return k->most <= k->least || (x >= k->least && x <= k->most); }

/* Returns whether v is a list of three numbers. */
static bool is_triple(const json_t *v) {
    bool good = json_array_size(v) == 3;
    for (size_t i = 0; i < 3; i++) good = good && json_is_number(json_array_get(v, i));
    return good;
}

/* Returns whether v is a list of texts alone. */
static bool is_texts(const json_t *v) {
    bool good = json_is_array(v);
    for (size_t i = 0; i < json_array_size(v); i++) good = good && json_is_string(json_array_get(v, i));
    return good;
}

/* Returns whether v has the row's type and lies in its range. */
static bool is_valid(const vt_key *k, const json_t *v) {
    const char *text = json_string_value(v);
    switch (k->type) {
    case VT_KEY_TEXT:
    case VT_KEY_CHOICE:
        return text && (!k->names || choice_index(k, text) >= 0);
    case VT_KEY_CHARS:
        return text && *text && vt_text_is_plain(text) && (double)strlen(text) < k->most;
    case VT_KEY_INT:
        return json_is_integer(v) && is_in_range(k, (double)json_integer_value(v));
    case VT_KEY_SEED:
        return json_is_integer(v);
    case VT_KEY_REAL:
        return json_is_number(v) && is_in_range(k, json_number_value(v));
    case VT_KEY_TRIPLE:
        return is_triple(v);
    case VT_KEY_BOOL:
        return json_is_boolean(v);
    case VT_KEY_TEXTS:
        return is_texts(v);
    case VT_KEY_OBJECT:
    case VT_KEY_GROUP:
        return json_is_object(v);
    default:
        return json_is_array(v);
    }
}

/* Stores a valid value at `at` in the struct. */
static void store_value(void *at, const vt_key *k, const json_t *v) {
    switch (k->type) {
    case VT_KEY_TEXT:
        *(const char **)at = json_string_value(v);
        break;
    case VT_KEY_CHARS:
        snprintf(at, (size_t)k->most, "%s", json_string_value(v));
        break;
    case VT_KEY_INT:
        *(int *)at = (int)json_integer_value(v);
        break;
    case VT_KEY_SEED:
        *(uint64_t *)at = (uint64_t)json_integer_value(v);
        break;
    case VT_KEY_REAL:
        *(double *)at = json_number_value(v);
        break;
    case VT_KEY_TRIPLE:
        for (size_t i = 0; i < 3; i++) ((double *)at)[i] = json_number_value(json_array_get(v, i));
        break;
    case VT_KEY_BOOL:
        *(bool *)at = json_is_true(v);
        break;
    case VT_KEY_CHOICE:
        *(int *)at = choice_index(k, json_string_value(v));
        break;
    default:
        *(const json_t **)at = v;
    }
}

/* Reads a list of objects (NULL: empty) into a new array at k->at, also after a failure to be freed, with the count of
 * those begun at k->count. VT_E_FORMAT: more than k->most, or one is refused. */
static vt_status read_items(void *to, const vt_key *k, const json_t *list, const char *name, vt_err *e) {
    size_t n = json_array_size(list);
    char item[NAME];
    if (n > (size_t)k->most)
        return vt_fail(e, VT_E_FORMAT, "%s%s has %zu members, must have at most %.0f", name, k->key, n, k->most);
    char *items = calloc(n + 1, k->size);
    if (!items) return vt_fail(e, VT_E_MEMORY, "%s%s: no memory", name, k->key);
    memcpy((char *)to + k->at, &items, sizeof items); /* as a pointer to its own type */
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        *(int *)(void *)((char *)to + k->count) = (int)i + 1;
        snprintf(item, sizeof item, "%s%s[%zu]", name, k->key, i);
        if (!json_is_object(v)) return fail_value(item, &(vt_key){.key = "", .type = VT_KEY_OBJECT}, v, e);
        snprintf(item, sizeof item, "%s%s[%zu].", name, k->key, i);
        VT_TRY(vt_keys_read(items + i * k->size, v, k->keys, item, e));
    }
    return VT_OK;
}

/* Reads the value of one row from o (NULL: absent) into the struct `to`; absent, TEXT gets "" or NULL, REAL k->absent,
 * ITEMS an empty array. VT_E_FORMAT: not valid, or missing in o though VT_KEY_MUST. */
static vt_status read_key(void *to, const vt_key *k, const json_t *o, const char *name, vt_err *e) {
    void *at = (char *)to + k->at;
    const json_t *v = json_object_get(o, k->key);
    char group[NAME];
    if (!v && k->type == VT_KEY_TEXT) *(const char **)at = k->flags & VT_KEY_NULL ? NULL : "";
    if (!v && k->type == VT_KEY_REAL) *(double *)at = k->absent;
    if (!v && o && k->flags & VT_KEY_MUST) return fail_value(name, k, v, e);
    if (k->type == VT_KEY_CHARS && v && !(k->flags & VT_KEY_MUST) && json_is_string(v) && !json_string_length(v))
        return VT_OK;
    if (v && !is_valid(k, v)) return fail_value(name, k, v, e);
    if (k->type == VT_KEY_ITEMS) return read_items(to, k, v, name, e);
    if (k->type != VT_KEY_GROUP) {
        if (v) store_value(at, k, v);
        return VT_OK;
    }
    snprintf(group, sizeof group, "%s%s.", name, k->key);
    return vt_keys_read(to, v, k->keys, group, e);
}

vt_status vt_keys_read(void *to, const json_t *o, const vt_key *keys, const char *name, vt_err *e) {
    for (const vt_key *k = keys; k->key; k++)
        if (!(k->flags & VT_KEY_WRITE)) VT_TRY(read_key(to, k, o, name, e));
    return VT_OK;
}

/* ---- writing ---- */

/* Returns the list of objects that a row of ITEMS stands for. */
static json_t *items_json(void *from, const vt_key *k) {
    char *items;
    memcpy(&items, (char *)from + k->at, sizeof items);
    json_t *list = json_array();
    for (int i = 0, n = *(int *)(void *)((char *)from + k->count); i < n; i++) {
        json_t *o = json_object();
        vt_keys_write(o, items + (size_t)i * k->size, k->keys);
        json_array_append_new(list, o);
    }
    return list;
}

/* Returns the value of a row for writing; NULL: left out, for it reads as absent, or no memory. A TEXT in the struct
 * becomes the value's own, or "" or NULL. */
static json_t *value_json(void *from, const vt_key *k) {
    void *at = (char *)from + k->at;
    const double *x = at;
    bool always = k->flags & VT_KEY_ALWAYS || (k->given && *(int *)(void *)((char *)from + k->given));
    json_t *o;
    switch (k->type) {
    case VT_KEY_TEXT: {
        const char **text = at;
        o = *text && (**text || always) ? json_string(*text) : NULL;
        *text = o ? json_string_value(o) : k->flags & VT_KEY_NULL ? NULL : "";
        return o;
    }
    case VT_KEY_CHARS:
        return *(char *)at || always ? json_string(at) : NULL;
    case VT_KEY_INT:
        return *(int *)at || always ? json_integer(*(int *)at) : NULL;
    case VT_KEY_SEED:
        return *(uint64_t *)at || always ? json_integer((json_int_t) * (uint64_t *)at) : NULL;
    case VT_KEY_REAL:
        return *x != k->absent || always ? json_real(*x) : NULL;
    case VT_KEY_TRIPLE:
        return always || x[0] != 0 || x[1] != 0 || x[2] != 0 ? json_pack("[f,f,f]", x[0], x[1], x[2]) : NULL;
    case VT_KEY_BOOL:
        return *(bool *)at || always ? json_boolean(*(bool *)at) : NULL;
    case VT_KEY_CHOICE:
        return *(int *)at || always ? json_string(k->names[*(int *)at]) : NULL;
    case VT_KEY_GROUP:
        o = json_object();
        vt_keys_write(o, from, k->keys);
        if (json_object_size(o) || always) return o;
        json_decref(o);
        return NULL;
    case VT_KEY_ITEMS:
        return always || *(int *)(void *)((char *)from + k->count) ? items_json(from, k) : NULL;
    default:
        o = *(json_t **)at;
        return json_is_array(o) && !json_array_size(o) ? NULL : json_incref(o);
    }
}

void vt_keys_write(json_t *o, void *from, const vt_key *keys) {
    for (const vt_key *k = keys; k->key; k++) {
        if (k->flags & VT_KEY_READ) continue;
        json_t *v = value_json(from, k), *there = json_object_get(o, k->key);
        if (v && there && json_is_array(there)) {
            json_array_extend(there, v);
            json_decref(v);
        } else if (v) {
            json_object_set_new(o, k->key, v);
        }
    }
}
