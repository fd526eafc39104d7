    # See inner.rs. What a process of several threads comes to first, at the function's own entry:
    # its arguments, its stack.
    .macro uzram_dispatch_inner name, tried, rest
    .balign 16
    .type uzram_dispatch_inner_\name, @function
    .hidden uzram_dispatch_inner_\name
    .globl uzram_dispatch_inner_\name
uzram_dispatch_inner_\name:
    .cfi_startproc
    push rdi
    .cfi_adjust_cfa_offset 8
    push rsi
    .cfi_adjust_cfa_offset 8
    push rdx
    .cfi_adjust_cfa_offset 8
    # A thread that was cancelled ends here, as it does in the function.
    call qword ptr [rip + pthread_testcancel@GOTPCREL]
    mov rdx, [rsp]
    mov rsi, [rsp + 8]
    mov rdi, [rsp + 16]
    call \tried
    pop rdx
    .cfi_adjust_cfa_offset -8
    pop rsi
    .cfi_adjust_cfa_offset -8
    pop rdi
    .cfi_adjust_cfa_offset -8
    movabs rcx, 0x8000000000000000
    cmp rax, rcx
    je 1f
    ret
    # What the jump was written over, and on.
1:  sub rsp, 0x28
    .cfi_adjust_cfa_offset 0x28
    mov [rsp + 0x18], rdx
    jmp qword ptr [rip + \rest]
    .cfi_endproc
    .size uzram_dispatch_inner_\name, . - uzram_dispatch_inner_\name
    .endm

    .pushsection .text.uzram_dispatch_inner, "ax", @progbits
    uzram_dispatch_inner read, {try_read}, {rest_of_read}
    uzram_dispatch_inner write, {try_write}, {rest_of_write}
    .popsection
