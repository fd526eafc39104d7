# Follows simple.s, in the same section.

    .hidden uzram_dispatch_end
    .globl uzram_dispatch_end
uzram_dispatch_end:

    # (to, from, bytes) -> bytes that were not copied, as one side is not there.
    .hidden uzram_dispatch_copy
    .globl uzram_dispatch_copy
uzram_dispatch_copy:
    mov rcx, rdx
    .hidden uzram_dispatch_copying
    .globl uzram_dispatch_copying
uzram_dispatch_copying:
    rep movsb
    .hidden uzram_dispatch_copied
    .globl uzram_dispatch_copied
uzram_dispatch_copied:
    mov rax, rcx
    ret

    # The call of a stub that the kernel is to dispatch. Code of ours that calls the C library may come
    # here, too: its calls are let through.
    .hidden uzram_dispatch_slow
    .globl uzram_dispatch_slow
uzram_dispatch_slow:
    syscall
    .hidden uzram_dispatch_slow_end
    .globl uzram_dispatch_slow_end
uzram_dispatch_slow_end:
    mov rcx, [rsp + RETURN]
    lea rsp, [rsp + TAKEN]
    jmp rcx

    # Tails, which tail.rs writes: 256 of 32 bytes, on pages that have nothing else.
    .balign 4096
    .hidden uzram_dispatch_tails
    .globl uzram_dispatch_tails
uzram_dispatch_tails:
    .fill 8192, 1, 0xcc
    .popsection
