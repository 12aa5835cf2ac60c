#error "run-time compilation (NVRTC): is not available on Wherry (see docs/cuda-sources.md)"
