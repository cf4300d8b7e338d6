/* Reading the options that describe a run on images: shared by eval and what follows it. */
#ifndef VT_CLI_RUN_ARGS_H
#define VT_CLI_RUN_ARGS_H

#include "attacks/ball.h"
#include "cli/cli.h"
#include "io/dataset.h"

vt_status vt_cli_norm(const vt_cli *c, vt_norm *out, vt_err *e);
/* eps in pixel units: above 0; linf at most 1 (8 suggests 8/255). */
vt_status vt_cli_eps(const char *text, vt_norm norm, double *out, vt_err *e);
/* --data, --split, --preprocess */
vt_status vt_cli_data(const vt_cli *c, vt_dataset **out, vt_err *e);
/* --images A:B, a file with one index a line, imagenette-v1, or everything; ascending and distinct. */
vt_status vt_cli_images(const vt_cli *c, const vt_dataset *d, int32_t **out, size_t *n, vt_err *e);

#endif
