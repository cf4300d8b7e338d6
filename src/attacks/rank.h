/* Target classes by rank, shared by the targeted attacks. */
#ifndef VT_ATTACKS_RANK_H
#define VT_ATTACKS_RANK_H

/* Class at rank r (1 = the largest logit) of z; among equal logits the higher index ranks first, as the reference's
 * sort does. If that class is the label, the class at rank 1 stands in (algorithms.md A.5). */
int vt_target_of_rank(const float *z, int classes, int label, int rank);

#endif
