#error "bfloat16: is not available on Wherry (see docs/cuda-sources.md)"
