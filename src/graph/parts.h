/* SPDX-License-Identifier: MIT */
/* Networks made from an ONNX network: cut inside, with a linear head on what is there, or with its weights moved a
 * little. They share constants with the network that they come from, which must outlive them. */
#pragma once

#include "graph/network.h"

/* Finds values through which everything that follows the image passes (between residual blocks, for one): at most
 * VT_CUTS, spread evenly over the work, the last of them before the last product. Sets n->cuts, n->shares, n->n_cuts.
 */
vt_status vt_network_find_cuts(vt_network *n, vt_err *e);
/* Sets *out to n up to cut `cut`, with logits z [classes] = w f + b, zero, of its features f; NULL on failure. */
vt_status vt_network_cut(vt_network **out, const vt_network *n, int cut, int classes, vt_err *e);
/* Returns the number of features at a cut: a list's numbers; of maps [C,H,W] or [H,W,C] the mean of each channel; of
 * tokens [T,D] the first and, up to 1024 features together, the mean of all. */
size_t vt_network_features(const vt_network *n, int cut);
/* Sets the head of a cut network: w [rows, features], b [rows] (NULL: zero); w NULL: each row shows one feature. */
void vt_network_set_head(vt_network *n, const double *w, const double *b, int rows);
/* Sets *out to n with every constant that a product multiplies by moved by `share` of the root mean square of its row
 * (slice of its first side) times normals keyed by the seed and the value's index; NULL on failure. */
vt_status vt_network_move_weights(vt_network **out, const vt_network *n, double share, uint64_t seed, vt_err *e);
