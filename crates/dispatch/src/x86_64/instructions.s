# instructions.rs describes each function.

    # The mask that yields a block's base; offsets in the block, as thread.rs asserts.
    .set BLOCK_MASK, -{block_bytes}
    .set STORAGE, 8
    .set POINTER, 16
    # The offset of the interrupted stack pointer in a context.
    .set STACK_POINTER, 160

    # Returns the thread pointer in r12; changes rax, rcx, rdi, rsi, r11. The system call writes to
    # the 8 bytes below the stack pointer.
    .macro get_pointer
    cmp byte ptr [rip + uzram_dispatch_is_fast], 0
    je 91f
    rdfsbase r12
    jmp 92f
91: mov eax, 158
    mov edi, 0x1003
    lea rsi, [rsp - 8]
    syscall
    mov r12, [rsp - 8]
92:
    .endm

    # Sets the thread pointer to r12; changes rax, rcx, rdi, rsi, r11.
    .macro set_pointer
    cmp byte ptr [rip + uzram_dispatch_is_fast], 0
    je 93f
    wrfsbase r12
    jmp 94f
93: mov eax, 158
    mov edi, 0x1002
    mov rsi, r12
    syscall
94:
    .endm

    # 1 if instructions read and write the thread pointer, 0 if system calls do.
    .pushsection .bss.uzram_dispatch, "aw", @nobits
    .hidden uzram_dispatch_is_fast
    .globl uzram_dispatch_is_fast
uzram_dispatch_is_fast:
    .zero 1
    .popsection

    .pushsection .text.uzram_dispatch, "ax", @progbits
    .balign 64
    .hidden uzram_dispatch_start
    .globl uzram_dispatch_start
uzram_dispatch_start:

    # Returns from a signal. rsp is the address after the frame's first word.
    .hidden uzram_dispatch_restorer
    .globl uzram_dispatch_restorer
uzram_dispatch_restorer:
    mov eax, 15
    syscall
    ud2

    # (signal, info, context): the handler of all signals. The kernel calls it. During the handler,
    # the thread pointer is this crate's. The handler returns to the restorer, so it preserves no
    # register.
    .hidden uzram_dispatch_entry
    .globl uzram_dispatch_entry
uzram_dispatch_entry:
    mov r13, rdi
    mov r14, rsi
    mov r15, rdx
    mov rbx, rsp
    and rbx, BLOCK_MASK
    get_pointer
    mov rbp, r12
    mov rax, [r15 + STACK_POINTER]
    dec rax
    and rax, BLOCK_MASK
    cmp rax, rbx
    je 1f
    mov [rbx + POINTER], r12
1:
    cmp r12, [rbx + STORAGE]
    je 2f
    mov r12, [rbx + STORAGE]
    set_pointer
2:
    mov rdi, r13
    mov rsi, r14
    mov rdx, r15
    sub rsp, 8
    call uzram_dispatch_on_signal
    add rsp, 8
    mov r12, rbp
    test al, al
    jz 3f
    mov r12, [rbx + POINTER]
3:
    cmp r12, [rbx + STORAGE]
    je 4f
    set_pointer
4:
    ret

    # (number, six arguments) -> result
    .hidden uzram_dispatch_syscall
    .globl uzram_dispatch_syscall
uzram_dispatch_syscall:
    mov rax, rdi
    mov rdi, rsi
    mov rsi, rdx
    mov rdx, rcx
    mov r10, r8
    mov r8, r9
    mov r9, [rsp + 8]
    syscall
    .hidden uzram_dispatch_called
    .globl uzram_dispatch_called
uzram_dispatch_called:
    ret

    # (call): issues the call. If the call has a mask, signals may arrive in the signal window.
    .hidden uzram_dispatch_issue
    .globl uzram_dispatch_issue
uzram_dispatch_issue:
    push rbx
    mov rbx, rdi
    cmp qword ptr [rbx + 64], 0
    je 2f
    mov eax, 14
    mov edi, 2
    mov rsi, [rbx + 64]
    xor edx, edx
    mov r10d, 8
    syscall
    .hidden uzram_dispatch_window
    .globl uzram_dispatch_window
uzram_dispatch_window:
2:
    mov rax, [rbx]
    mov rdi, [rbx + 8]
    mov rsi, [rbx + 16]
    mov rdx, [rbx + 24]
    mov r10, [rbx + 32]
    mov r8, [rbx + 40]
    mov r9, [rbx + 48]
    syscall
    .hidden uzram_dispatch_issued
    .globl uzram_dispatch_issued
uzram_dispatch_issued:
    mov [rbx + 56], rax
    cmp qword ptr [rbx + 64], 0
    je 3f
    mov eax, 14
    mov edi, 2
    mov rsi, [rbx + 72]
    xor edx, edx
    mov r10d, 8
    syscall
    .hidden uzram_dispatch_window_end
    .globl uzram_dispatch_window_end
uzram_dispatch_window_end:
3:
    pop rbx
    ret

    # (number, five arguments in memory, the child's frame, function) -> result. The child's stack
    # begins below the frame. The child calls the function, then returns from the frame.
    .hidden uzram_dispatch_clone
    .globl uzram_dispatch_clone
uzram_dispatch_clone:
    push rbx
    push r12
    mov rbx, rdx
    mov r12, rcx
    mov rax, rdi
    mov r11, rsi
    mov rdi, [r11]
    mov rsi, [r11 + 8]
    mov rdx, [r11 + 16]
    mov r10, [r11 + 24]
    mov r8, [r11 + 32]
    syscall
    test rax, rax
    jz 4f
    pop r12
    pop rbx
    ret
4:
    xor ebp, ebp
    mov r14, r12
    mov rsp, rbx
    and rsp, -16
    mov r13, rbx
    and r13, BLOCK_MASK
    mov r12, [r13 + STORAGE]
    set_pointer
    mov rdi, rbx
    call r14
    mov r12, [r13 + POINTER]
    set_pointer
    lea rsp, [rbx + 8]
    mov eax, 15
    syscall
    ud2

    # (start, bytes, number, code): unmaps this range with its stack, then makes call `number`.
    .hidden uzram_dispatch_leave
    .globl uzram_dispatch_leave
uzram_dispatch_leave:
    mov r12, rdx
    mov r13, rcx
    mov eax, 11
    syscall
    mov rax, r12
    mov rdi, r13
    syscall
    ud2
