! The Fortran module: what its procedures return, and what they refuse.
program calls_test
  use, intrinsic :: iso_c_binding
  use wherry
  implicit none

  integer(c_size_t), parameter :: page = 4096, bytes = 8 * page
  type(c_ptr) :: memory, no_memory
  type(wherry_page_state) :: state
  integer(c_int), pointer :: numbers(:)
  integer(c_int), target :: ordinary(1024)
  integer :: stat, failures
  character(100) :: errmsg

  failures = 0
  call expect('two devices', wherry_device_count() == 2)
  call wherry_allocate(memory, bytes)
  call c_f_pointer(memory, numbers, [bytes / c_sizeof(0_c_int)])
  call expect('the memory is zero', all(numbers == 0))
  call expect('its size', wherry_bytes(numbers) == bytes)
  call expect('the size of a part', wherry_bytes(numbers(::8)) == page)
  call expect('the size of a number', wherry_bytes(1._c_double) == 8)

  call wherry_prefetch(memory, bytes, wherry_device(1))
  call wherry_synchronize()
  call wherry_get_page_state(c_loc(numbers(2000)), state)
  call expect('the page is on device 1', state%resident == 4)
  call wherry_prefetch(memory, bytes, wherry_host_node(0))
  call wherry_synchronize()
  call wherry_get_page_state(c_loc(numbers(2000)), state)
  call expect('the page is on the host', state%resident == 1 .and. state%node == 0)

  call wherry_advise(memory, page, wherry_set_read_mostly, wherry_host)
  call wherry_prefetch(memory, bytes, wherry_device(0))
  call wherry_synchronize()
  call wherry_get_page_state(memory, state)
  call expect('a page that is mostly read is in two places', state%resident == 3)
  call wherry_get_page_state(c_loc(numbers(2000)), state)
  call expect('other pages are in one', state%resident == 2)

  ! Device 1 is coherent, device 0 isolated.
  call wherry_attach(1)
  numbers(2000) = 17
  call wherry_detach()
  call wherry_get_page_state(c_loc(numbers(2000)), state)
  call expect('the attached thread has brought it to device 1', state%resident == 4)
  call expect('it has the new value', numbers(2000) == 17)

  errmsg = 'untouched'
  call wherry_name(memory, bytes, 'numbers   ', stat, errmsg)
  call expect('success leaves errmsg alone', stat == 0 .and. errmsg == 'untouched')
  call wherry_name(memory, bytes, ' ', stat)
  call expect('an empty name is refused', stat == 1)
  call wherry_attach(0, stat, errmsg)
  call expect('an isolated device is refused', stat == 801 .and. &
    index(errmsg, 'wherryThreadAttach: CUDA_ERROR_NOT_SUPPORTED (') == 1)
  call wherry_detach(stat)
  call expect('the thread is not attached', stat == 1)
  call wherry_prefetch(memory, bytes, wherry_device(7), stat)
  call expect('there is no device 7', stat == 101)
  call wherry_prefetch(memory, bytes, wherry_device(-1), stat)
  call expect('there is no device -1', stat == 101)
  call wherry_get_page_state(c_loc(ordinary), state, stat)
  call expect('ordinary memory has no page state', stat == 1)
  call wherry_allocate(no_memory, shiftl(1_c_size_t, 60), stat)
  call expect('too much memory', stat == 2 .and. .not. c_associated(no_memory))
  call wherry_free(memory)
  call wherry_free(memory, stat)
  call expect('memory is freed once', stat == 1)

  if (command_argument_count() > 0) call wherry_free(memory)  ! ends the program
  if (failures > 0) stop 1
  print '(a)', 'all as expected'

contains

  subroutine expect(what, condition)
    character(*), intent(in) :: what
    logical, intent(in) :: condition
    if (condition) return
    failures = failures + 1
    print '(2a)', 'not so: ', what
  end subroutine

end program
