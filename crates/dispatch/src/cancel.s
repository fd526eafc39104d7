    # See cancel.rs: (number, arguments, instructions that make the call) -> result.
    .macro uzram_dispatch_cancellable name, personality
    .balign 16
    .type uzram_dispatch_\name, @function
    .hidden uzram_dispatch_\name
    .globl uzram_dispatch_\name
uzram_dispatch_\name:
    .cfi_startproc
    .ifnb \personality
    .cfi_personality 0x1b, \personality
    .endif
    push rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    push r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    push r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    sub rsp, 32
    .cfi_adjust_cfa_offset 32
    mov rbx, rdi
    mov r12, rsi
    mov r13, rdx
    # PTHREAD_CANCEL_ASYNCHRONOUS; the type before comes to lie on the stack.
    mov edi, 1
    lea rsi, [rsp + 16]
    call qword ptr [rip + {set_type}]
    mov rdi, rbx
    mov rsi, [r12]
    mov rdx, [r12 + 8]
    mov rcx, [r12 + 16]
    mov r8, [r12 + 24]
    mov r9, [r12 + 32]
    mov rax, [r12 + 40]
    mov [rsp], rax
    call r13
    mov rbx, rax
    mov edi, [rsp + 16]
    xor esi, esi
    call qword ptr [rip + {set_type}]
    mov rax, rbx
    add rsp, 32
    .cfi_adjust_cfa_offset -32
    pop r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    pop r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    pop rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    ret
    .cfi_endproc
    .size uzram_dispatch_\name, . - uzram_dispatch_\name
    .endm

    .pushsection .text.uzram_dispatch_cancel, "ax", @progbits
    uzram_dispatch_cancellable cancellable
    uzram_dispatch_cancellable cancellable_held, {unwound}
    .popsection
