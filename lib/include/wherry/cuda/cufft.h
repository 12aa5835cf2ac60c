#error "cuFFT: is not available on Wherry (see docs/cuda-sources.md)"
