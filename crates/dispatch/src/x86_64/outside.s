# Follows simple.s, in the same section.

    .hidden uzram_dispatch_end
    .globl uzram_dispatch_end
uzram_dispatch_end:

    # (to, from, bytes) -> number of bytes not copied, because source or target is not accessible.
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

    # Makes a stub's call by an instruction whose calls the kernel dispatches. When this crate calls
    # the C library, the library's calls may get here too. The kernel lets these calls through.
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

    # The tails, which tail.rs writes. Their pages contain nothing else.
    .balign 4096
    .hidden uzram_dispatch_tails
    .globl uzram_dispatch_tails
uzram_dispatch_tails:
    .fill {tails_bytes}, 1, 0xcc
    .popsection
