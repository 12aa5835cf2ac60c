#pragma once

#define IO_URING_VERSION_MAJOR 2
#define IO_URING_VERSION_MINOR 9
