! Heat spreads in a plate: the 2D heat equation on two devices, each with half of the plate. The
! program's own OpenMP threads count as the devices.
program heat
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int32_t, c_loc, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use wherry
  implicit none

  integer, parameter :: rows = 2048, columns = 1026, steps = 20, devices = 2
  type(c_ptr) :: memory(2)
  real(real64), pointer, contiguous :: even(:, :), odd(:, :)
  real(real64), allocatable, target :: ordinary_even(:, :), ordinary_odd(:, :)
  integer :: device
  logical :: same

  if (wherry_device_count() < devices) then
    write (error_unit, '(a)') 'heat: it needs WHERRY_DEVICES="kind=coherent;kind=coherent"'
    stop 2, quiet=.true.
  end if
  call wherry_allocate(memory(1), rows * columns * c_sizeof(0._real64))
  call wherry_allocate(memory(2), rows * columns * c_sizeof(0._real64))
  call c_f_pointer(memory(1), even, [rows, columns])
  call c_f_pointer(memory(2), odd, [rows, columns])
  call wherry_name(memory(1), wherry_bytes(even), 'plate.even')
  call wherry_name(memory(2), wherry_bytes(odd), 'plate.odd')

  call fill(even)
  call fill(odd)
  ! Each device's columns go to its memory ahead of their use.
  do device = 0, devices - 1
    call prefetch(even(:, first_column(device):first_column(device + 1) - 1), device)
    call prefetch(odd(:, first_column(device):first_column(device + 1) - 1), device)
  end do
  call wherry_synchronize()
  call run(even, odd)
  do device = 0, devices - 1
    print '(2a, i0, a)', word(share(even, device) > 0.8, 'most', 'few'), &
      ' of the columns of device ', device, ' are in its memory'
  end do

  allocate (ordinary_even(rows, columns), ordinary_odd(rows, columns))
  call fill(ordinary_even)
  call fill(ordinary_odd)
  call run(ordinary_even, ordinary_odd)
  same = maxval(abs(even - ordinary_even)) <= 0
  print '(a, f0.3, 3a)', 'sum ', sum(even), ', ', word(same, 'as', 'NOT as'), &
    ' with ordinary arrays'
  call wherry_free(memory(1))
  call wherry_free(memory(2))
  if (.not. same) stop 1, quiet=.true.

contains

  function word(condition, yes, no)
    logical, intent(in) :: condition
    character(*), intent(in) :: yes, no
    character(:), allocatable :: word
    word = no
    if (condition) word = yes
  end function

  ! The first column of the device's part; the plate's edge keeps its temperature.
  pure integer function first_column(device)
    integer, intent(in) :: device
    first_column = 2 + (columns - 2) * device / devices
  end function

  subroutine fill(plate)
    real(real64), intent(out) :: plate(:, :)
    plate = 0
    plate(:, 1) = 100  ! the hot edge
  end subroutine

  subroutine prefetch(part, device)
    real(real64), intent(in), target, contiguous :: part(:, :)
    integer, intent(in) :: device
    call wherry_prefetch(c_loc(part), wherry_bytes(part), wherry_device(device))
  end subroutine

  ! After an even number of steps the result is in `first`.
  subroutine run(first, second)
    real(real64), intent(inout), contiguous :: first(:, :), second(:, :)
    integer :: step
    do step = 1, steps, 2
      call advance(first, second)
      call advance(second, first)
    end do
  end subroutine

  ! Each part runs on a thread that counts as its device meanwhile.
  subroutine advance(old, new)
    real(real64), intent(in), contiguous :: old(:, :)
    real(real64), intent(inout), contiguous :: new(:, :)
    integer :: device
    !$omp parallel do num_threads(devices) schedule(static, 1)
    do device = 0, devices - 1
      call wherry_attach(device)
      call spread_heat(old, new, first_column(device), first_column(device + 1) - 1)
      call wherry_detach()
    end do
    !$omp end parallel do
  end subroutine

  subroutine spread_heat(old, new, first, last)
    real(real64), intent(in), contiguous :: old(:, :)
    real(real64), intent(inout), contiguous :: new(:, :)
    integer, intent(in) :: first, last
    integer :: column, row
    do column = first, last
      do row = 2, rows - 1
        new(row, column) = old(row, column) + 0.2_real64 * (old(row - 1, column) &
          + old(row + 1, column) + old(row, column - 1) + old(row, column + 1) &
          - 4 * old(row, column))
      end do
    end do
  end subroutine

  ! The part of the device's columns that begin in its memory, from 0 to 1.
  real function share(plate, device)
    real(real64), intent(in), target, contiguous :: plate(:, :)
    integer, intent(in) :: device
    type(wherry_page_state) :: state
    integer :: column, there
    there = 0
    do column = first_column(device), first_column(device + 1) - 1
      call wherry_get_page_state(c_loc(plate(1, column)), state)
      if (state%resident == shiftl(1_c_int32_t, 1 + device)) there = there + 1
    end do
    share = real(there) / real(first_column(device + 1) - first_column(device))
  end function

end program
