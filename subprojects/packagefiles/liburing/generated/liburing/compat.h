// What liburing.h needs of the kernel's headers: those of Linux 5.6 or later.
#pragma once

#include <linux/openat2.h>
#include <linux/time_types.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define UAPI_LINUX_IO_URING_H_SKIP_LINUX_TIME_TYPES_H 1

struct futex_waitv;  // complete since Linux 5.16

#ifndef BLOCK_URING_CMD_DISCARD  // since Linux 6.12
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif
