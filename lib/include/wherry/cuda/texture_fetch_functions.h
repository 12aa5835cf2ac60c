#error "textures: are not available on Wherry (see docs/cuda-sources.md)"
