#include "attacks/rank.h"

static int class_at(const float *z, int classes, int rank) {
    for (int k = 0; k < classes; k++) {
        int above = 0;
        for (int j = 0; j < classes; j++) above += z[j] > z[k] || (z[j] == z[k] && j > k);
        if (above == rank - 1) return k;
    }
    return 0;
}

int vt_target_of_rank(const float *z, int classes, int label, int rank) {
    int t = class_at(z, classes, rank);
    return t != label ? t : class_at(z, classes, 1);
}
