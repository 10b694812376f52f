// The same as flock-x64.s.
.globl _start
_start:
  mov x0, #64
  ldr x9, [sp]              // argc
  cmp x9, #4
  b.ne 2f
  ldr x9, [sp, #24]         // argv[2]
  ldrb w9, [x9, #1]
  mov x1, #6                // LOCK_EX | LOCK_NB
  cmp w9, #115              // 's'
  b.ne 1f
  mov x1, #5                // LOCK_SH | LOCK_NB
1:
  mov x0, #3
  mov x8, #32               // flock
  svc #0
  mov x9, x0
  mov x0, #0
  cbz x9, 2f
  mov x0, #1
  cmn x9, #11               // EWOULDBLOCK
  b.eq 2f
  mov x0, #71
2:
  mov x8, #93               // exit
  svc #0
