/* Queries about virtual memory management, for any libcuda.so.1. Prints a line for each, with tabs
 * between the case, the result and the returned values. Later queries depend on the state that
 * earlier ones left. */
#include <cuda.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define STEP ((size_t)2 << 20)
#define UNTOUCHED 0x77

enum {
  invalid,
  device,
  host,
  host_node,
  host_node_current,
  no_location
};

/* The reserved range, and the memory mapped there: `first` has two steps, `second` has one. */
static CUdeviceptr place;
static CUmemGenericAllocationHandle first, second;

/* ---- output */

static const char* text(const char* format, ...) {
  static char texts[4][80];
  static unsigned next;
  char* const here = texts[next++ % 4];
  va_list values;
  va_start(values, format);
  vsnprintf(here, sizeof texts[0], format, values);
  va_end(values);
  return here;
}

static void tell(const char* name, CUresult result, const char* value) {
  const char* error = NULL;
  cuGetErrorName(result, &error);
  printf("%s\t%s\t%s\n", name, error != NULL ? error : "?", value);
  fflush(stdout);
}

static void ask(const char* name, CUresult result) {
  tell(name, result, "");
}

static const char* number(unsigned long long value) {
  return value == UNTOUCHED ? "-" : text("%#llx", value);
}

/* Addresses differ from run to run, so prints the distance from the queried address. */
static const char* address(unsigned long long value, CUdeviceptr from) {
  if (value == UNTOUCHED) return "-";
  return value == 0 ? "0" : text("p%+lld", (long long)(value - from));
}

static const char* attribute_value(int attribute, unsigned long long value, CUdeviceptr at) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return value == UNTOUCHED ? "-" : value == 0 ? "0" : "set";
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return address(value, at);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return number(value);
    default:
      return number(value & 0xffffffff);
  }
}

/* Queries all attributes of a pointer, except P2P_TOKENS, which would change its state. */
static void ask_pointer(const char* name, CUdeviceptr at) {
  for (int attribute = CU_POINTER_ATTRIBUTE_CONTEXT;
       attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; ++attribute) {
    unsigned long long value[4] = {UNTOUCHED};
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) continue;
    const CUresult result = cuPointerGetAttribute(value, (CUpointer_attribute)attribute, at);
    tell(text("%s.attr%d", name, attribute), result, attribute_value(attribute, value[0], at));
  }
  CUdeviceptr base = 0;
  size_t size = 0;
  const CUresult result = cuMemGetAddressRange(&base, &size, at);
  tell(text("%s.range", name), result, text("%s %zu", address(base, at), size));
}

/* ---- arguments */

static CUmemLocation location(int type, int id) {
  CUmemLocation made = {0};
  made.type = (CUmemLocationType)type;
  made.id = id;
  return made;
}

static CUmemAllocationProp properties(int type, int id) {
  CUmemAllocationProp made = {0};
  made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  made.location = location(type, id);
  made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return made;
}

static CUresult create_for_now(size_t size, CUmemAllocationProp wanted, const char** told) {
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuMemCreate(&handle, size, &wanted, 0);
  *told = handle != 0 ? "handle" : "0";
  if (handle != 0) cuMemRelease(handle);
  return result;
}
static void ask_create(const char* name, CUmemAllocationProp wanted) {
  const char* told = NULL;
  ask(name, create_for_now(STEP, wanted, &told));
}
static void ask_create_told(const char* name, size_t size, CUmemAllocationProp wanted) {
  const char* told = NULL;
  const CUresult result = create_for_now(size, wanted, &told);
  tell(name, result, told);
}

static void ask_reserve(const char* name, size_t size, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags) {
  CUdeviceptr got = UNTOUCHED;
  const CUresult result = cuMemAddressReserve(&got, size, alignment, hint, flags);
  const int is_aligned = alignment > STEP && got % alignment == 0;
  tell(text("reserve.%s", name), result,
       got == UNTOUCHED  ? "-"
       : is_aligned      ? "aligned"
       : got % STEP == 0 ? "2M-aligned"
                         : "odd");
  if (got != UNTOUCHED) ask(text("reserve.%s.free", name), cuMemAddressFree(got, size));
}

static void ask_set_access(const char* name, size_t size, int type, int id, int flags) {
  CUmemAccessDesc wanted = {0};
  wanted.location = location(type, id);
  wanted.flags = (CUmemAccess_flags)flags;
  ask(text("setaccess.%s", name), cuMemSetAccess(place, size, &wanted, 1));
}

static void ask_get_access(const char* name, CUmemLocation asked, CUdeviceptr at) {
  unsigned long long flags = UNTOUCHED;
  const CUresult result = cuMemGetAccess(&flags, &asked, at);
  tell(text("getaccess.%s", name), result, number(flags));
}

static CUresult import(CUmemGenericAllocationHandle* handle, int fd, int type) {
  return cuMemImportFromShareableHandle(handle, (void*)(uintptr_t)fd,
                                        (CUmemAllocationHandleType)type);
}

static void ask_properties(const char* name, CUmemGenericAllocationHandle handle) {
  CUmemAllocationProp told;
  memset(&told, 0xff, sizeof told);
  const CUresult result = cuMemGetAllocationPropertiesFromHandle(&told, handle);
  tell(name, result,
       text("type%d ht%d loc%d id%d", told.type, told.requestedHandleTypes, told.location.type,
            told.location.id));
}

/* ---- the queries */

static void granularity(void) {
  size_t bytes = 0;
  for (int type = invalid; type <= no_location; ++type)
    for (int option = 0; option <= 2; ++option) {
      const CUmemAllocationProp wanted = properties(type, 0);
      bytes = UNTOUCHED;
      const CUresult result =
          cuMemGetAllocationGranularity(&bytes, &wanted, (CUmemAllocationGranularity_flags)option);
      tell(text("gran.loc%d.opt%d", type, option), result, number(bytes));
    }
  CUmemAllocationProp wanted = properties(device, 0);
  ask("gran.null", cuMemGetAllocationGranularity(NULL, &wanted, 0));
  ask("gran.nullprop", cuMemGetAllocationGranularity(&bytes, NULL, 0));
  wanted = properties(device, 5);
  ask("gran.dev5", cuMemGetAllocationGranularity(&bytes, &wanted, 0));
  wanted = properties(device, -1);
  ask("gran.dev-1", cuMemGetAllocationGranularity(&bytes, &wanted, 0));
  wanted = properties(device, 0);
  wanted.type = 0;
  ask("gran.type0", cuMemGetAllocationGranularity(&bytes, &wanted, 0));
  wanted.type = 2;
  ask("gran.typemanaged", cuMemGetAllocationGranularity(&bytes, &wanted, 0));
}

static void create(void) {
  const size_t sizes[] = {0, 1, 4096, 65536, STEP, STEP / 2 * 3, 2 * STEP};
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp wanted = properties(device, 0);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    ask_create_told(text("create.size%zu", sizes[i]), sizes[i], wanted);
  for (int type = invalid; type <= no_location; ++type)
    ask_create_told(text("create.loc%d", type), STEP, properties(type, 0));
  for (int types = 0; types <= 8; ++types) {
    wanted.requestedHandleTypes = (CUmemAllocationHandleType)types;
    ask_create(text("create.handletype%d", types), wanted);
  }
  wanted = properties(device, 0);
  ask("create.flags1", cuMemCreate(&handle, STEP, &wanted, 1));
  ask("create.null", cuMemCreate(NULL, STEP, &wanted, 0));
  ask("create.nullprop", cuMemCreate(&handle, STEP, NULL, 0));
  wanted.type = 0;
  ask_create("create.type0", wanted);
  wanted.type = 2;
  ask_create("create.type2", wanted);
  ask_create("create.dev9", properties(device, 9));
  ask_create("create.numa7", properties(host_node, 7));
  ask_create("create.numa-1", properties(host_node, -1));
  wanted = properties(device, 0);
  wanted.allocFlags.usage = 1;
  ask_create("create.usage1", wanted);
  wanted = properties(device, 0);
  wanted.allocFlags.compressionType = 1;
  ask_create("create.compression1", wanted);
  wanted = properties(device, 0);
  wanted.allocFlags.gpuDirectRDMACapable = 1;
  ask_create("create.rdma1", wanted);
  wanted = properties(device, 0);
  wanted.allocFlags.reserved[0] = 1;
  ask_create("create.reserved", wanted);
  wanted = properties(device, 0);
  wanted.win32HandleMetaData = &handle;
  ask_create("create.win32", wanted);
  wanted = properties(device, 0);
  ask("create.huge", cuMemCreate(&handle, (size_t)1 << 46, &wanted, 0));
}

static void reserve(void) {
  ask_reserve("0", 0, 0, 0, 0);
  ask_reserve("1", 1, 0, 0, 0);
  ask_reserve("4096", 4096, 0, 0, 0);
  ask_reserve("2M", STEP, 0, 0, 0);
  ask_reserve("3M", STEP / 2 * 3, 0, 0, 0);
  ask_reserve("2M.al4096", STEP, 4096, 0, 0);
  ask_reserve("2M.al3", STEP, 3, 0, 0);
  ask_reserve("2M.al4M", STEP, 2 * STEP, 0, 0);
  ask_reserve("2M.al1G", STEP, 1u << 30, 0, 0);
  ask_reserve("2M.al3M", STEP, STEP / 2 * 3, 0, 0);
  ask_reserve("2M.hint", STEP, 0, 0x300000000000, 0);
  ask_reserve("2M.hintodd", STEP, 0, 0x300000000123, 0);
  ask_reserve("2M.flags1", STEP, 0, 0, 1);
  ask_reserve("huge", (size_t)1 << 52, 0, 0, 0);
  ask("reserve.null", cuMemAddressReserve(NULL, STEP, 0, 0, 0));
  cuMemAddressReserve(&place, 4 * STEP, 0, 0, 0);
  ask("free.partial", cuMemAddressFree(place, STEP));
  ask("free.more", cuMemAddressFree(place, 8 * STEP));
  ask("free.inside", cuMemAddressFree(place + STEP, STEP));
  ask("free.0size", cuMemAddressFree(place, 0));
  ask("free.0", cuMemAddressFree(0, STEP));
  ask_pointer("reserved", place);
  ask_pointer("reserved+5", place + 5);
}

static void map(void) {
  const CUmemAllocationProp wanted = properties(device, 0);
  ask("create", cuMemCreate(&first, 2 * STEP, &wanted, 0));
  ask("create2", cuMemCreate(&second, STEP, &wanted, 0));
  ask_set_access("unmapped", STEP, device, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  ask("unmap.unmapped", cuMemUnmap(place, STEP));
  ask_get_access("unmapped", location(device, 0), place);
  ask("map.half", cuMemMap(place, STEP, 0, first, 0));
  cuMemUnmap(place, STEP);
  ask("map.offset", cuMemMap(place, STEP, STEP, first, 0));
  cuMemUnmap(place, STEP);
  ask("map.offsetbeyond", cuMemMap(place, 2 * STEP, STEP, first, 0));
  cuMemUnmap(place, 2 * STEP);
  ask("map.odd", cuMemMap(place + 4096, STEP, 0, second, 0));
  ask("map.size4096", cuMemMap(place, 4096, 0, second, 0));
  ask("map.more", cuMemMap(place, 2 * STEP, 0, second, 0));
  ask("map.flags", cuMemMap(place, STEP, 0, second, 1));
  ask("map.0", cuMemMap(0, STEP, 0, second, 0));
  ask("map.size0", cuMemMap(place, 0, 0, second, 0));
  ask("map.unreserved", cuMemMap(place + 64 * STEP, STEP, 0, second, 0));
  ask("map.over", cuMemMap(place + 3 * STEP, 2 * STEP, 0, first, 0));
  ask("map", cuMemMap(place, 2 * STEP, 0, first, 0));
  ask("map.again", cuMemMap(place, 2 * STEP, 0, first, 0));
  ask("map.overlap", cuMemMap(place + STEP, STEP, 0, second, 0));
  ask("map2", cuMemMap(place + 2 * STEP, STEP, 0, second, 0));
  ask("map.alias", cuMemMap(place + 3 * STEP, STEP, 0, second, 0));
  ask_pointer("mapped", place);
  ask_pointer("mapped+M+3", place + STEP + 3);
  ask_pointer("mapped2", place + 2 * STEP);
}

static void access_before_any(void) {
  char bytes[32];
  ask_get_access("fresh", location(device, 0), place);
  ask("memset.noaccess", cuMemsetD8(place, 1, 16));
  ask("dtoh.noaccess", cuMemcpyDtoH(bytes, place, 16));
  ask("addressfree.mapped", cuMemAddressFree(place, 4 * STEP));
}

static void set_access(void) {
  const int all = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemAccessDesc wanted = {0};
  wanted.location = location(device, 0);
  wanted.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ask("setaccess.null", cuMemSetAccess(place, 2 * STEP, NULL, 1));
  ask("setaccess.count0", cuMemSetAccess(place, 2 * STEP, &wanted, 0));
  ask_set_access("size0", 0, device, 0, all);
  ask_set_access("half", STEP, device, 0, all);
  ask("setaccess.odd", cuMemSetAccess(place + 4096, STEP, &wanted, 1));
  ask_set_access("beyond", 8 * STEP, device, 0, all);
  ask_set_access("two", 3 * STEP, device, 0, all);
  ask_set_access("flags2", 2 * STEP, device, 0, 2);
  ask_set_access("dev9", 2 * STEP, device, 9, all);
  ask_set_access("host", 2 * STEP, host, 0, all);
  ask_set_access("numa0", 2 * STEP, host_node, 0, all);
  ask_set_access("numa9", 2 * STEP, host_node, 9, all);
  ask_set_access("loc0", 2 * STEP, invalid, 0, all);
  ask_set_access("read", 2 * STEP, device, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  ask_get_access("read", location(device, 0), place);
  ask_set_access("none", 2 * STEP, device, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  ask_get_access("none", location(device, 0), place);
  ask_set_access("rw", 3 * STEP, device, 0, all);
}

static void get_access(void) {
  unsigned long long flags = 0;
  const CUmemLocation here = location(device, 0);
  ask_get_access("rw", here, place + 5);
  ask_get_access("host", location(host, 0), place);
  const CUmemLocation nowhere = location(device, 9);
  ask("getaccess.dev9", cuMemGetAccess(&flags, &nowhere, place));
  ask("getaccess.null", cuMemGetAccess(NULL, &here, place));
  ask("getaccess.nullloc", cuMemGetAccess(&flags, NULL, place));
  ask("getaccess.beyond", cuMemGetAccess(&flags, &here, place + 100 * STEP));
  ask_pointer("accessible", place);
}

static void use(void) {
  char bytes[32];
  unsigned one = 1;
  ask("memset", cuMemsetD8(place, 1, 16));
  ask("memset.across", cuMemsetD8(place + 2 * STEP - 8, 1, 16));
  ask("dtoh.across", cuMemcpyDtoH(bytes, place + 2 * STEP - 8, 16));
  ask("memset.beyond", cuMemsetD8(place + 3 * STEP - 8, 1, 16));
  ask("memset.alias", cuMemsetD8(place + 3 * STEP, 1, 16));
  ask("memfree", cuMemFree(place));
  ask("advise",
      cuMemAdvise(place, STEP, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location(device, 0)));
  ask("prefetch", cuMemPrefetchAsync(place, STEP, location(device, 0), 0, 0));
  ask("setattr.sync", cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, place));
}

static void retain(void) {
  CUmemGenericAllocationHandle got = 0;
  const CUresult result = cuMemRetainAllocationHandle(&got, (void*)(uintptr_t)(place + 5));
  tell("retain", result, got == first ? "same" : got != 0 ? "other" : "0");
  ask("retain.release", cuMemRelease(got));
  ask("retain.unmapped", cuMemRetainAllocationHandle(&got, (void*)(uintptr_t)(place + 100 * STEP)));
  ask("retain.null", cuMemRetainAllocationHandle(NULL, (void*)(uintptr_t)place));
  ask("retain.0", cuMemRetainAllocationHandle(&got, NULL));
  ask_properties("props", first);
  ask("props.null", cuMemGetAllocationPropertiesFromHandle(NULL, first));
}

static void share(void) {
  const int as_file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int fd = -1;
  int other_fd = -1;
  CUresult result = cuMemExportToShareableHandle(&fd, first, as_file, 0);
  tell("export", result, fd >= 0 ? "fd" : "-");
  ask("export.flags", cuMemExportToShareableHandle(&other_fd, first, as_file, 1));
  ask("export.type2", cuMemExportToShareableHandle(&other_fd, first, 2, 0));
  ask("export.type8", cuMemExportToShareableHandle(&other_fd, first, 8, 0));
  ask("export.null", cuMemExportToShareableHandle(NULL, first, as_file, 0));
  CUmemAllocationProp wanted = properties(device, 0);
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  CUmemGenericAllocationHandle handle = 0;
  ask("create.noexport", cuMemCreate(&handle, STEP, &wanted, 0));
  ask("export.noexport", cuMemExportToShareableHandle(&other_fd, handle, as_file, 0));
  cuMemRelease(handle);

  handle = 0;
  result = import(&handle, fd, as_file);
  tell("import.self", result, handle == first ? "same" : handle != 0 ? "other" : "0");
  ask_properties("import.props", handle);
  ask("import.reexport", cuMemExportToShareableHandle(&other_fd, handle, as_file, 0));
  ask("import.release", cuMemRelease(handle));
  ask("import.devnull", import(&handle, open("/dev/null", O_RDONLY), as_file));
  ask("import.closed", import(&handle, 999, as_file));
  ask("import.null", import(NULL, fd, as_file));
  ask("import.type2", import(&handle, fd, 2));
}

static void end(void) {
  CUmemGenericAllocationHandle got = 0;
  ask("release.mapped", cuMemRelease(first));
  ask("memset.released", cuMemsetD8(place, 2, 16));
  ask("retain.released", cuMemRetainAllocationHandle(&got, (void*)(uintptr_t)place));
  if (got != 0) cuMemRelease(got);
  ask("unmap.half", cuMemUnmap(place, STEP));
  ask("unmap.odd", cuMemUnmap(place + 4096, 2 * STEP));
  ask("unmap.size0", cuMemUnmap(place, 0));
  ask("unmap.beyond", cuMemUnmap(place, 16 * STEP));
  ask("unmap.both", cuMemUnmap(place, 3 * STEP));
  ask("unmap.again", cuMemUnmap(place, 2 * STEP));
  ask("release2", cuMemRelease(second));
  ask("addressfree", cuMemAddressFree(place, 4 * STEP));
  ask("addressfree.again", cuMemAddressFree(place, 4 * STEP));
  ask_pointer("freed", place);
}

int main(void) {
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS)
    return 1;
  granularity();
  create();
  reserve();
  map();
  access_before_any();
  set_access();
  get_access();
  use();
  retain();
  share();
  end();
  return 0;
}
