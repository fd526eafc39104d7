    # See local.rs. The argument is a module and an offset; the module can but be this library.
    .pushsection .tbss.uzram_preload, "awT", @nobits
    .balign 8
    .hidden uzram_preload_anchor
    .type uzram_preload_anchor, @tls_object
uzram_preload_anchor:
    .zero 8
    .size uzram_preload_anchor, 8
    .popsection

    .pushsection .text.uzram_preload, "ax", @progbits
    .balign 16
    .hidden __tls_get_addr
    .globl __tls_get_addr
    .type __tls_get_addr, @function
__tls_get_addr:
    mov rax, fs:[0]
    add rax, [rip + uzram_preload_anchor@GOTTPOFF]
    lea rcx, [uzram_preload_anchor@DTPOFF]
    sub rax, rcx
    add rax, [rdi + 8]
    ret
    .popsection
