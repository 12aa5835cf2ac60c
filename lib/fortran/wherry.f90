! Managed memory for Fortran: the main calls of libwherry.so.
!
! An installation has this module as source, because a .mod file suits one version of one compiler.
! docs/fortran.md shows how to compile it.
!
! A call that fails stores the CUresult in `stat`, and its text in `errmsg`, if they are present;
! `stat` is 0 after success. Without `stat` it ends the program with one line. The address and the
! size of an array are c_loc(array) and wherry_bytes(array). Any thread may call any procedure, but
! not in a child made by fork(). The first call starts the library.
module wherry
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  private

  public :: wherry_allocate, wherry_free, wherry_advise, wherry_prefetch, wherry_synchronize
  public :: wherry_attach, wherry_detach, wherry_device_count, wherry_get_page_state, wherry_name
  public :: wherry_bytes, wherry_device, wherry_host_node

  ! Where memory can be: wherry_device(number), wherry_host, or wherry_host_node(number).
  type, bind(c), public :: wherry_place
    integer(c_int) :: kind
    integer(c_int) :: id
  end type
  integer(c_int), parameter :: kind_device = 1, kind_host = 2, kind_host_node = 3
  type(wherry_place), parameter, public :: wherry_host = wherry_place(kind_host, 0)

  ! Advice: see cuMemAdvise in wherry/cuda.h.
  integer(c_int), parameter, public :: wherry_set_read_mostly = 1
  integer(c_int), parameter, public :: wherry_unset_read_mostly = 2
  integer(c_int), parameter, public :: wherry_set_preferred_location = 3
  integer(c_int), parameter, public :: wherry_unset_preferred_location = 4
  integer(c_int), parameter, public :: wherry_set_accessed_by = 5
  integer(c_int), parameter, public :: wherry_unset_accessed_by = 6

  ! Where a page is. In the masks bit 0 is the host, bit 1 + d device d.
  type, bind(c), public :: wherry_page_state
    integer(c_size_t), private :: size = 0
    integer(c_int32_t) :: resident = 0      ! processors whose memory has a copy
    integer(c_int32_t) :: mapped_read = 0   ! processors whose page table may have an entry
    integer(c_int32_t) :: mapped_write = 0  ! ... a writable entry
    integer(c_int32_t) :: node = -1         ! NUMA node of the first copy; -1: there is none
  end type

  integer(c_int), parameter :: attach_global = 1
  integer, parameter :: devices_max = 8

  ! The devices' primary contexts, once they have been retained, until the program ends. Threads
  ! that store one at the same time store the same.
  type(c_ptr), save :: contexts(0:devices_max - 1) = c_null_ptr

  interface
    integer(c_int) function cuInit(flags) bind(c, name='cuInit')
      import :: c_int
      integer(c_int), value :: flags
    end function
    integer(c_int) function cuGetErrorName(code, text) bind(c, name='cuGetErrorName')
      import :: c_int, c_ptr
      integer(c_int), value :: code
      type(c_ptr), intent(out) :: text
    end function
    integer(c_int) function cuGetErrorString(code, text) bind(c, name='cuGetErrorString')
      import :: c_int, c_ptr
      integer(c_int), value :: code
      type(c_ptr), intent(out) :: text
    end function
    integer(c_size_t) function strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
    integer(c_int) function cuDeviceGetCount(number) bind(c, name='cuDeviceGetCount')
      import :: c_int
      integer(c_int), intent(out) :: number
    end function
    integer(c_int) function cuDevicePrimaryCtxRetain(context, device) &
        bind(c, name='cuDevicePrimaryCtxRetain')
      import :: c_int, c_ptr
      type(c_ptr), intent(out) :: context
      integer(c_int), value :: device
    end function
    integer(c_int) function cuCtxPushCurrent(context) bind(c, name='cuCtxPushCurrent_v2')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
    end function
    integer(c_int) function cuCtxPopCurrent(context) bind(c, name='cuCtxPopCurrent_v2')
      import :: c_int, c_ptr
      type(c_ptr), intent(out) :: context
    end function
    integer(c_int) function cuCtxSynchronize() bind(c, name='cuCtxSynchronize')
      import :: c_int
    end function
    integer(c_int) function cuMemAllocManaged(memory, bytes, flags) &
        bind(c, name='cuMemAllocManaged')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(out) :: memory
      integer(c_size_t), value :: bytes
      integer(c_int), value :: flags
    end function
    integer(c_int) function cuMemFree(memory) bind(c, name='cuMemFree_v2')
      import :: c_int, c_ptr
      type(c_ptr), value :: memory
    end function
    integer(c_int) function cuMemAdvise(address, bytes, advice, place) &
        bind(c, name='cuMemAdvise_v2')
      import :: c_int, c_ptr, c_size_t, wherry_place
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
      integer(c_int), value :: advice
      type(wherry_place), value :: place
    end function
    integer(c_int) function cuMemPrefetchAsync(address, bytes, place, flags, stream) &
        bind(c, name='cuMemPrefetchAsync_v2')
      import :: c_int, c_ptr, c_size_t, wherry_place
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
      type(wherry_place), value :: place
      integer(c_int), value :: flags
      type(c_ptr), value :: stream
    end function
    integer(c_int) function wherryThreadAttach(device) bind(c, name='wherryThreadAttach')
      import :: c_int
      integer(c_int), value :: device
    end function
    integer(c_int) function wherryThreadDetach() bind(c, name='wherryThreadDetach')
      import :: c_int
    end function
    integer(c_int) function wherryGetPageState(address, state) bind(c, name='wherryGetPageState')
      import :: c_int, c_ptr, wherry_page_state
      type(c_ptr), value :: address
      type(wherry_page_state), intent(inout) :: state
    end function
    integer(c_int) function wherryNameRange(address, bytes, name) bind(c, name='wherryNameRange')
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
      character(kind=c_char), intent(in) :: name(*)
    end function
  end interface

contains

  pure type(wherry_place) function wherry_device(number)
    integer, intent(in) :: number
    wherry_device = wherry_place(kind_device, int(number, c_int))
  end function

  ! One NUMA node of the host.
  pure type(wherry_place) function wherry_host_node(number)
    integer, intent(in) :: number
    wherry_host_node = wherry_place(kind_host_node, int(number, c_int))
  end function

  ! The size of an array, which c_sizeof returns for some arrays only.
  pure integer(c_size_t) function wherry_bytes(array)
    class(*), intent(in) :: array(..)
    wherry_bytes = size(array, kind=c_size_t) * (storage_size(array, c_size_t) / 8)
  end function

  ! Allocates `bytes` bytes of managed memory, which are zero. c_f_pointer makes an array of them:
  !     call wherry_allocate(memory, n * c_sizeof(0._c_double))
  !     call c_f_pointer(memory, array, [n])
  ! Errors: 1 (invalid value): bytes is 0; 2 (out of memory).
  subroutine wherry_allocate(memory, bytes, stat, errmsg)
    type(c_ptr), intent(out) :: memory
    integer(c_size_t), intent(in) :: bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    memory = c_null_ptr
    code = enter(0)
    if (code == 0) code = leave(cuMemAllocManaged(memory, bytes, attach_global))
    call finish('cuMemAllocManaged', code, stat, errmsg)
  end subroutine

  ! Frees what wherry_allocate returned. Waits for prefetches. Errors: 1: it returned another
  ! address, or the memory has been freed.
  subroutine wherry_free(memory, stat, errmsg)
    type(c_ptr), intent(in) :: memory
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish('cuMemFree', cuMemFree(memory), stat, errmsg)
  end subroutine

  ! Tells how the program will use all pages that the bytes overlap. `place` is the processor that
  ! is meant; read-mostly advice ignores it. Errors: 1: the bytes are not managed memory, or
  ! unknown advice; 101 (invalid device): there is no such device.
  subroutine wherry_advise(address, bytes, advice, place, stat, errmsg)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: bytes
    integer(c_int), intent(in) :: advice
    type(wherry_place), intent(in) :: place
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = enter(0)
    if (code == 0) code = leave(cuMemAdvise(address, bytes, advice, place))
    call finish('cuMemAdvise', code, stat, errmsg)
  end subroutine

  ! Moves all pages that the bytes overlap to `place`, ahead of their use. Returns at once;
  ! wherry_synchronize waits. Errors: 1: the bytes are not managed memory; 101: there is no such
  ! device.
  subroutine wherry_prefetch(address, bytes, place, stat, errmsg)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: bytes
    type(wherry_place), intent(in) :: place
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = enter(merge(place%id, 0_c_int, place%kind == kind_device))
    if (code == 0) code = leave(cuMemPrefetchAsync(address, bytes, place, 0_c_int, c_null_ptr))
    call finish('cuMemPrefetchAsync', code, stat, errmsg)
  end subroutine

  ! Waits until all work of all devices has finished. Errors: 700, 719: a device has failed.
  subroutine wherry_synchronize(stat, errmsg)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code, number, device
    code = cuInit(0_c_int)
    if (code == 0) code = cuDeviceGetCount(number)
    device = 0
    do while (code == 0 .and. device < number)
      code = enter(device)
      if (code == 0) code = leave(cuCtxSynchronize())
      device = device + 1_c_int
    end do
    call finish('cuCtxSynchronize', code, stat, errmsg)
  end subroutine

  ! Returns the number of devices; 0 after an error.
  integer function wherry_device_count(stat, errmsg)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code, number
    number = 0
    code = cuInit(0_c_int)
    if (code == 0) code = cuDeviceGetCount(number)
    call finish('cuDeviceGetCount', code, stat, errmsg)
    wherry_device_count = int(number)
  end function

  ! Makes the calling thread count as a coherent device (kind=coherent in WHERRY_DEVICES) until
  ! wherry_detach. Errors: 101: there is no such device; 801 (not supported): it is not coherent.
  subroutine wherry_attach(device, stat, errmsg)
    integer, intent(in) :: device
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int) :: code
    code = cuInit(0_c_int)
    if (code == 0) code = wherryThreadAttach(int(device, c_int))
    call finish('wherryThreadAttach', code, stat, errmsg)
  end subroutine

  ! Makes the calling thread count as the host again. Errors: 1: it is not attached.
  subroutine wherry_detach(stat, errmsg)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish('wherryThreadDetach', wherryThreadDetach(), stat, errmsg)
  end subroutine

  ! Returns where the page is that contains the address, without accessing it. Errors: 1: it is not
  ! in managed memory.
  subroutine wherry_get_page_state(address, state, stat, errmsg)
    type(c_ptr), intent(in) :: address
    type(wherry_page_state), intent(out) :: state
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    state%size = c_sizeof(state)
    call finish('wherryGetPageState', wherryGetPageState(address, state), stat, errmsg)
  end subroutine

  ! Gives memory a name, which reports on a trace use. Trailing blanks are no part of the name.
  ! Errors: 1: the bytes are not in one allocation, or the name is empty or has more than 255 bytes.
  subroutine wherry_name(address, bytes, name, stat, errmsg)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: bytes
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call finish('wherryNameRange', wherryNameRange(address, bytes, trim(name) // c_null_char), &
                stat, errmsg)
  end subroutine

  ! Makes the device's primary context current. After success, leave() must follow.
  integer(c_int) function enter(device)
    integer(c_int), intent(in) :: device
    type(c_ptr) :: context
    enter = cuInit(0_c_int)
    if (enter /= 0) return
    context = c_null_ptr
    if (device >= 0 .and. device < devices_max) context = contexts(device)
    if (.not. c_associated(context)) then
      enter = cuDevicePrimaryCtxRetain(context, device)
      if (enter /= 0) return
      contexts(device) = context
    end if
    enter = cuCtxPushCurrent(context)
  end function

  ! Makes the earlier context current. Returns the result of the call in between.
  integer(c_int) function leave(code)
    integer(c_int), intent(in) :: code
    type(c_ptr) :: context
    leave = cuCtxPopCurrent(context)
    if (code /= 0) leave = code
  end function

  subroutine finish(call_name, code, stat, errmsg)
    character(*), intent(in) :: call_name
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(stat)) stat = int(code)
    if (code == 0) return
    if (present(errmsg)) errmsg = error_text(call_name, code)
    if (present(stat)) return
    write (error_unit, '(a)') error_text(call_name, code)
    stop 1, quiet=.true.
  end subroutine

  ! For example: "cuMemFree: CUDA_ERROR_INVALID_VALUE (invalid argument)".
  function error_text(call_name, code) result(text)
    character(*), intent(in) :: call_name
    integer(c_int), intent(in) :: code
    character(:), allocatable :: text
    type(c_ptr) :: name, description
    character(12) :: number
    integer(c_int) :: unknown
    unknown = cuGetErrorName(code, name)
    if (unknown == 0) unknown = cuGetErrorString(code, description)
    if (unknown == 0) then
      text = call_name // ': ' // text_of(name) // ' (' // text_of(description) // ')'
    else
      write (number, '(i0)') code
      text = call_name // ': error ' // trim(number)
    end if
  end function

  function text_of(bytes) result(text)
    type(c_ptr), intent(in) :: bytes
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(bytes, letters, [strlen(bytes)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

end module
