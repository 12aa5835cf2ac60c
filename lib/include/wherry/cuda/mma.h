#error "tensor cores (wmma): is not available on Wherry (see docs/cuda-sources.md)"
