# `flock -n -x 3` and `flock -n -s 3` for machines that have no flock: locks the file that is open as descriptor 3.
# The exit codes are those of util-linux: 0 if the file is now locked, 1 if another process has the lock, 64 for other
# arguments, and 71 if the file cannot be locked for another reason.
.globl _start
_start:
  mov $64, %edi
  cmpq $4, (%rsp)           # argc
  jne 2f
  mov 24(%rsp), %rax        # argv[2]
  mov $6, %esi              # LOCK_EX | LOCK_NB
  cmpb $'s', 1(%rax)
  jne 1f
  mov $5, %esi              # LOCK_SH | LOCK_NB
1:
  mov $3, %edi
  mov $73, %eax             # flock
  syscall
  xor %edi, %edi
  test %rax, %rax
  jz 2f
  mov $1, %edi
  cmp $-11, %rax            # EWOULDBLOCK
  je 2f
  mov $71, %edi
2:
  mov $60, %eax             # exit
  syscall
