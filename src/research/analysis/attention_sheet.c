/* SPDX-License-Identifier: MIT */
/* The attention maps of a checkpoint as one SVG. Each tile is the image in grey, under a map of as many pixels as make
 * it smooth; the viewer enlarges both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/analysis/attention_maps.h"
#include "base/markup.h"
#include "eval/report/page.h"
#include "data/dataset.h"

enum { TILE = 132, GAP = 8, LEFT = 150, TOP = 84, HEAD = 24, SCALE = 20, KEY = 44, FINE = 4 };

/* Colour of v in 0 to 1, cut off: black over violet and red to light yellow, so that grey prints rise too. */
static void heat_colour(uint8_t rgb[3], double v) {
    static const double stops[][3] = {{4, 4, 16},    {62, 16, 96},   {140, 32, 104},
                                      {212, 64, 62}, {248, 142, 28}, {252, 248, 172}};
    enum { LAST = sizeof stops / sizeof *stops - 1 };
    double at = fmin(fmax(v, 0), 1) * LAST;
    int k = at < LAST ? (int)at : LAST - 1;
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)lrint(stops[k][c] + (at - k) * (stops[k + 1][c] - stops[k][c]));
}

/* Value of map [grid, grid] at (y, x) in units of patches, linear between their centres. */
static double interpolate_map(const double *map, int grid, double y, double x) {
    y = fmin(fmax(y, 0), grid - 1), x = fmin(fmax(x, 0), grid - 1);
    int i = (int)y, k = (int)x, down = i + 1 < grid ? grid : 0, right = k + 1 < grid;
    const double *p = map + i * grid + k;
    double a = y - i, b = x - k;
    return (1 - a) * ((1 - b) * p[0] + b * p[right]) + a * ((1 - b) * p[down] + b * p[down + right]);
}

/* Paints the map, interpolated, over the whole image, in heat colours; `most` is the brightest value. */
static void paint_heat_map(vt_image *im, const double *map, int grid, double most) {
    size_t plane = (size_t)im->shape.width * (size_t)im->shape.height;
    uint8_t rgb[3];
    for (int y = 0; y < im->shape.height; y++)
        for (int x = 0; x < im->shape.width; x++) {
            heat_colour(rgb, interpolate_map(map, grid, (y + 0.5) / FINE - 0.5, (x + 0.5) / FINE - 0.5) / most);
            for (size_t c = 0; c < 3; c++) im->rgb[c * plane + (size_t)(y * im->shape.width + x)] = rgb[c];
        }
}

/* Luma of BT.601, as Pillow's convert("L"), of rgb [3, side, side], dimmed to leave brightness to the map. */
static void paint_grey_image(vt_image *im, const uint8_t *rgb) {
    size_t plane = (size_t)im->shape.width * (size_t)im->shape.height;
    for (size_t i = 0; i < plane; i++) {
        double y = 0.299 * rgb[i] + 0.587 * rgb[plane + i] + 0.114 * rgb[2 * plane + i];
        for (size_t c = 0; c < 3; c++) im->rgb[c * plane + i] = (uint8_t)lrint(24 + 0.6 * y);
    }
}

/* Writes one tile as an <image> with the picture embedded, at (x, y) in SVG units; `more` holds extra attributes. */
static vt_status write_image(FILE *f, const vt_image *im, double x, double y, const char *more, vt_err *e) {
    fprintf(f, "<image x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" preserveAspectRatio=\"none\" %s href=\"", x, y,
            TILE, TILE, more);
    VT_TRY(vt_page_picture(f, im, e));
    fputs("\"/>\n", f);
    return VT_OK;
}

/* Writes escaped words at (x, y) with the CSS class `kind`. */
static void write_text(FILE *f, double x, double y, const char *kind, const char *words) {
    fprintf(f, "<text x=\"%.0f\" y=\"%.0f\" class=\"%s\">", x, y, kind);
    vt_html(f, words);
    fputs("</text>\n", f);
}

/* Left edge of a column's tiles in SVG units; -1 is the image's own. */
static double column_x(int column) { return LEFT + (column + 1) * (TILE + GAP); } /* -1: the image */

/* Largest value of a map in both passes, which share a scale; 1 if all are 0. */
static double largest_share(const vt_maps *m, int image, int column) {
    double most = 0;
    for (int pass = 0; pass < m->passes; pass++) {
        const double *v = vt_maps_at(m, image, pass, column);
        for (int k = 0; k < m->grid * m->grid; k++) most = fmax(most, v[k]);
    }
    return most > 0 ? most : 1;
}

/* Writes "clean" or "attacked", the predicted class, and whether it is right. */
static void write_row_label(FILE *f, const vt_maps *m, int i, int pass, double y, const vt_dataset *data) {
    const vt_map_image *im = &m->image[i];
    char name[24];
    bool wrong = im->predicted[pass] != im->label;
    vt_dataset_class_name(data, im->predicted[pass], name, sizeof name);
    write_text(f, 12, y + TILE / 2.0 - 14, "strong", pass ? "attacked" : "clean");
    write_text(f, 12, y + TILE / 2.0 + 5, wrong ? "wrong" : "", name);
    write_text(f, 12, y + TILE / 2.0 + 22, wrong ? "wrong" : "faint", wrong ? "wrong" : "right");
}

/* Writes image i's tiles in one pass: the picture, then grey with heat by column. room: two scratch images. */
static vt_status write_row(FILE *f, const vt_maps *m, int i, int pass, double y, vt_image room[2], vt_err *e) {
    vt_image own = {.shape = vt_shape_rgb(m->side), .rgb = m->image[i].rgb[pass]};
    const char *crisp = m->side < TILE ? "style=\"image-rendering:pixelated\"" : "";
    VT_TRY(write_image(f, &own, column_x(-1), y, crisp, e));
    paint_grey_image(&room[0], own.rgb);
    for (int c = 0; c < m->columns; c++) {
        VT_TRY(write_image(f, &room[0], column_x(c), y, crisp, e));
        paint_heat_map(&room[1], vt_maps_at(m, i, pass, c), m->grid, largest_share(m, i, c));
        VT_TRY(write_image(f, &room[1], column_x(c), y, "opacity=\"0.68\"", e));
    }
    return VT_OK;
}

/* Height of one image's rows in SVG units. */
static double block_height(const vt_maps *m) { return HEAD + m->passes * (TILE + GAP) + SCALE; }

/* Writes the heading, rows and scales of image i. */
static vt_status write_image_block(FILE *f, const vt_maps *m, int i, const vt_dataset *data, vt_image room[2],
                                   vt_err *e) {
    double y = TOP + i * block_height(m) + HEAD;
    char words[100], name[48];
    vt_dataset_class_name(data, m->image[i].label, name, sizeof name);
    snprintf(words, sizeof words, "image %d: %s", m->image[i].image, name);
    write_text(f, 12, y - 8, "strong", words);
    for (int pass = 0; pass < m->passes; pass++, y += TILE + GAP) {
        write_row_label(f, m, i, pass, y, data);
        VT_TRY(write_row(f, m, i, pass, y, room, e));
    }
    for (int c = 0; c < m->columns; c++) {
        snprintf(words, sizeof words, "0 to %.3g %%", 100 * largest_share(m, i, c));
        write_text(f, column_x(c), y + 6, "faint", words);
    }
    return VT_OK;
}

/* Writes "image", then each column's name, the part after its comma on a second line. */
static void write_column_headings(FILE *f, const vt_maps *m) {
    char name[64];
    write_text(f, column_x(-1), TOP - 6, "strong", "image");
    for (int c = 0; c < m->columns; c++) {
        vt_maps_name(name, m, c);
        char *comma = strchr(name, ',');
        if (comma) *comma = 0, write_text(f, column_x(c), TOP + 10, "faint", comma + 2);
        write_text(f, column_x(c), TOP - 6, "strong", name);
    }
}

/* Writes the colour scale at height y, with what a value means. */
static void write_colour_key(FILE *f, const vt_maps *m, double y) {
    uint8_t rgb[3];
    for (int k = 0; k < 64; k++) {
        heat_colour(rgb, k / 63.0);
        fprintf(f, "<rect x=\"%d\" y=\"%.0f\" width=\"4.5\" height=\"12\" fill=\"#%02x%02x%02x\"/>", LEFT + 4 * k, y,
                rgb[0], rgb[1], rgb[2]);
    }
    fputc('\n', f);
    write_text(f, LEFT + 270, y + 11, "",
               m->class_query ? "share of the class token's attention that a patch gets"
                              : "share of attention that a patch gets, mean over all patches");
}

vt_status vt_maps_sheet(FILE *f, const vt_maps *m, const char *title, const vt_dataset *data, vt_err *e) {
    double width = fmax(column_x(m->columns), LEFT + 660), height = TOP + m->images * block_height(m) + KEY;
    vt_image room[2] = {{.shape = vt_shape_rgb(m->side)}, {.shape = vt_shape_rgb(FINE * m->grid)}};
    vt_status s = VT_OK;
    for (int i = 0; i < 2; i++)
        if (!(room[i].rgb = malloc(vt_shape_values(room[i].shape))))
            s = vt_fail(e, VT_E_MEMORY, "no memory for a sheet of attention maps");
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
            "role=\"img\"><title>",
            width, height, width, height);
    vt_html(f, title);
    fputs("</title>\n<style>text{font:13px "
          "Helvetica,Arial,sans-serif;fill:#1d2329}.strong{font-weight:bold}.faint{fill:#5c6670}.wrong{fill:#b5472b;"
          "font-weight:bold}.title{font-size:16px;font-weight:bold}</style>\n"
          "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
          f);
    write_text(f, 12, 30, "title", title);
    write_column_headings(f, m);
    for (int i = 0; i < m->images && s == VT_OK; i++) s = write_image_block(f, m, i, data, room, e);
    write_colour_key(f, m, height - 28);
    fputs("</svg>\n", f);
    vt_image_free(&room[0]), vt_image_free(&room[1]);
    return s;
}
