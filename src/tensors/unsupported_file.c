/* SPDX-License-Identifier: MIT */
/* Kinds of files that are named in a refusal, not read. */
#include <string.h>
#include "tensors/weights.h"

#define EXPORT "its weights must be saved under names, by torch.save(model.state_dict(), FILE) or as safetensors"
#define PICKLE "a Python pickle, but not one that torch.save wrote"
#define PAGE "a web page, not the file that it should have linked to"

static const struct {
    const char *bytes;
    size_t n, at;
    const char *what;
} kinds[] = {
    {"ustar", 5, 257,
     "a tar archive (PyTorch before 0.1.10, or a packed folder): unpack it (tar xf) and give what comes out, or load "
     "and save it again"},
    {"\x1f\x8b", 2, 0, "compressed by gzip: unpack it first (tar xf, or gunzip) and give what comes out"},
    {"\xfd"
     "7zXZ",
     5, 0, "compressed by xz: unpack it first (tar xf, or unxz) and give what comes out"},
    {"BZh", 3, 0, "compressed by bzip2: unpack it first (tar xf, or bunzip2) and give what comes out"},
    {"\x28\xb5\x2f\xfd", 4, 0, "compressed by zstd: unpack it first (tar xf, or unzstd) and give what comes out"},
    {"7z\xbc\xaf\x27\x1c", 6, 0, "a 7z archive: unpack it first and give what comes out"},
    {"Rar!", 4, 0, "a RAR archive: unpack it first and give what comes out"},
    {"\x89HDF", 4, 0, "an HDF5 file (Keras, MATLAB): not read; " EXPORT},
    {"MATLAB 5.0 MAT-file", 19, 0,
     "a MATLAB file: not read; CIFAR's Python and binary versions are, and so are NumPy's arrays"},
    {"PAR1", 4, 0,
     "a Parquet table (a data set of the Hugging Face hub): not read; NumPy's arrays and folders of "
     "pictures are"},
    {"\x93NUMPY", 6, 0, "a NumPy array, not weights"},
    {"GGUF", 4, 0, "a GGUF file: not read; " EXPORT},
    {"TFL3", 4, 4, "a TensorFlow Lite model: not read; " EXPORT},
    {"\x08\x01\x12", 3, 0, "a TensorFlow SavedModel: not read; " EXPORT},
    {"\x80\x02", 2, 0, PICKLE},
    {"\x80\x03", 2, 0, PICKLE},
    {"\x80\x04", 2, 0, PICKLE},
    {"\x80\x05", 2, 0, PICKLE},
    {"version https://git-lfs", 23, 0, "a Git LFS pointer, not the file it stands for: git lfs pull fetches that"},
    {"<!DOCTYPE", 9, 0, PAGE},
    {"<html", 5, 0, PAGE},
};

/* A protocol buffer whose first field is ir_version, a small number, and whose next one is one that a ModelProto may
 * have there (onnx.proto: producer_name, producer_version, domain, model_version, doc_string, graph, opset_import). */
static bool is_onnx(const uint8_t *b, size_t n) {
    static const char next[] = "\x12\x1a\x22\x28\x32\x3a\x42";
    return n > 3 && b[0] == 0x08 && b[1] >= 2 && b[1] < 32 && memchr(next, b[2], sizeof next - 1);
}

/* A header length that fits the file, and a header that begins as one. */
static bool is_safetensors(const uint8_t *b, size_t n) {
    uint64_t header;
    return n > 8 && (memcpy(&header, b, 8), header <= n - 8) && b[8] == '{';
}

const char *vt_unsupported_file(const uint8_t *bytes, size_t n) {
    if (is_safetensors(bytes, n)) return NULL; /* whatever its length looks like */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= kinds[i].at + kinds[i].n && !memcmp(bytes + kinds[i].at, kinds[i].bytes, kinds[i].n))
            return kinds[i].what;
    return is_onnx(bytes, n) ? "an ONNX model: not read; " EXPORT : NULL;
}
