# Follows instructions.s, in the same section. See simple.rs for the rules.

    # The number of bytes below the program's stack pointer, and the slots in them: see place.rs.
    .set TAKEN, {taken}
    .set RETURN, {return_at}
    .set NUMBER, {number_at}
    .set FLAGS_AT, {flags_at}
    .set FIRST, {first_at}
    .set LAST, {last_at}
    .set RESULT, {result_at}

    # Offsets in the state, as simple.rs asserts.
    .set GATE, 0
    .set THREADS, 8
    .set WORDS, 16
    .set START, 24
    .set END, 32
    .set SHIFT, 40
    .set DESCRIPTOR, 44
    .set CLASSES, 48
    .set CLASSES_MAX, 512
    .set WINDOWS_START, 560
    .set WINDOWS_END, 568
    .set STATE_BYTES, 576

    # Values of `calls::SimpleClass`.
    .set DIRECT, 1
    .set BUFFER, 2
    .set RECEIVE, 3
    .set CLOSE, 4
    .set PATH, 5
    .set PATH_AT, 6
    .set STATUS, 7
    # The commands of STATUS are 1 to this number.
    .set STATUS_LAST, 4
    .set MSG_ZEROCOPY, 0x4000000

    # States of a block's word.
    .set STATE, 15
    .set RESIDENT, 1
    .set PLAIN, 7
    .set PIN, 0x10000
    .set BLOCKS_MAX, {blocks_max}
    .set MINUS_EFAULT, -14
    # The cache line size: a processor predicts no jump in the line to which a call returns.
    .set LINE, 64

    .pushsection .bss.uzram_dispatch, "aw", @nobits
    .balign 16
    .hidden uzram_dispatch_state
    .globl uzram_dispatch_state
uzram_dispatch_state:
    .zero STATE_BYTES
    .popsection

    # Restores the program's flags, and loads rax from a slot.
    .macro restore_with slot
    mov rax, [rsp + FLAGS_AT]
    add al, 127
    sahf
    mov rax, [rsp + \slot]
    .endm

    .macro label name
    .hidden uzram_dispatch_\name
    .globl uzram_dispatch_\name
uzram_dispatch_\name:
    .endm

    # Stubs jump here, with the address after the call in rcx. Issues the call if the call does not
    # need the hook; else makes the kernel dispatch the call. Changes rcx and r11, as any call does.
    .balign 16
    label simple
    lea rsp, [rsp - TAKEN]
    label simple_begins
    mov [rsp + RETURN], rcx
    label simple_returns
    mov [rsp + NUMBER], rax
    label simple_numbered
    mov [rsp + RESULT], rax
    lahf
    seto al
    mov [rsp + FLAGS_AT], rax
    label simple_decides
    mov rax, [rsp + NUMBER]
    cmp rax, CLASSES_MAX
    jae 90f
    lea r11, [rip + uzram_dispatch_state]
    mov rcx, [r11 + GATE]
    cmp qword ptr [rcx], 0
    jne 90f
    movzx r11d, byte ptr [r11 + rax + CLASSES]
    cmp r11d, DIRECT
    jb 90f
    je 80f
    cmp r11d, RECEIVE
    jb 10f
    je 5f
    cmp r11d, STATUS
    je 4f
    cmp r11d, PATH
    jb 6f
    mov rcx, rdi
    cmovne rcx, rsi
    # The call is dispatched if its path begins with `/p`, as paths in /proc do.
    cmp byte ptr [rcx], 47
    jne 80f
    cmp byte ptr [rcx + 1], 112
    je 90f
    jmp 80f
5:  test r10d, MSG_ZEROCOPY
    jnz 90f
    mov rcx, r8
    or rcx, r9
    jnz 90f
    jmp 10f
4:  lea ecx, [rsi - 1]
    cmp ecx, STATUS_LAST
    jae 90f
6:  cmp edi, [rip + uzram_dispatch_state + DESCRIPTOR]
    je 90f
    jmp 80f

    # The buffer has rdx bytes at rsi. rcx becomes its start, rax its end.
10: mov rcx, rsi
    lea rax, [rsi + rdx]
    lea r11, [rip + uzram_dispatch_state]
    cmp rax, rcx
    jbe 90f
    cmp rcx, [r11 + END]
    jae 60f
    cmp rax, [r11 + START]
    jbe 60f
    sub rcx, [r11 + START]
    jb 90f
    cmp rax, [r11 + END]
    ja 90f
    sub rax, [r11 + START]
    dec rax
    mov r11, rcx
    mov ecx, [rip + uzram_dispatch_state + SHIFT]
    shr r11, cl
    shr rax, cl
    mov rcx, rax
    sub rcx, r11
    cmp rcx, BLOCKS_MAX
    jae 90f
    mov rcx, [rip + uzram_dispatch_state + WORDS]
    lea r11, [rcx + r11 * 4]
    lea rcx, [rcx + rax * 4]
    mov [rsp + FIRST], r11
    mov [rsp + LAST], rcx
    mov rcx, [rip + uzram_dispatch_state + THREADS]
    cmp qword ptr [rcx], 1
    jne 13f
    # The process has one thread, so no other thread evicts the blocks during the call.
11: mov eax, [r11]
    and eax, STATE
    cmp eax, RESIDENT
    je 12f
    cmp eax, PLAIN
    jne 90f
12: add r11, 4
    cmp r11, [rsp + LAST]
    jbe 11b
    jmp 70f

    # The buffer is outside of `memory`. If the buffer overlaps the windows, the hook is called.
60: cmp rcx, [r11 + WINDOWS_END]
    jae 70f
    cmp rax, [r11 + WINDOWS_START]
    ja 90f

    # No byte of the buffer can be evicted, so the kernel's result is final, even EFAULT.
70: restore_with NUMBER
    syscall
    label simple_answered
    .balign LINE
    jmp 83f

    # Pins the blocks. Those whose words lie from FIRST up to r11 are pinned already.
    label simple_pins
13: mov eax, [r11]
    mov ecx, eax
    and ecx, STATE
    cmp ecx, RESIDENT
    je 14f
    cmp ecx, PLAIN
    jne 20f
14: cmp eax, -PIN
    jae 20f
    lea ecx, [rax + PIN]
    lock cmpxchg [r11], ecx
    label simple_swapped
    jne 13b
    label simple_pinned
    add r11, 4
    cmp r11, [rsp + LAST]
    jbe 13b
    restore_with NUMBER
    label simple_pinned_call
    syscall
    label simple_pinned_done
    mov [rsp + RESULT], rax
    label simple_unpins
    mov rcx, [rsp + FIRST]
    label simple_unpin
    lock sub dword ptr [rcx], PIN
    label simple_unpinned
    add rcx, 4
    cmp rcx, [rsp + LAST]
    jbe uzram_dispatch_simple_unpin
    label simple_released
    restore_with RESULT
    label simple_exits
83: mov rcx, [rsp + RETURN]
    lea rsp, [rsp + TAKEN]
    label simple_leaves
    jmp rcx

    # A block is absent. Unpins the blocks whose words lie from FIRST up to r11.
    label simple_undoes
20: cmp r11, [rsp + FIRST]
    jbe 90f
    sub r11, 4
    label simple_undo
    lock sub dword ptr [r11], PIN
    label simple_undone
    jmp 20b

80: restore_with NUMBER
    syscall
    label simple_done
    lea rcx, [rax - MINUS_EFAULT]
    jrcxz 82f
    .balign LINE
    jmp 83b
    # The call had no effect, because memory is absent or not mapped. The call is dispatched.
    label simple_retries
82: mov rax, [rsp + NUMBER]
    jmp uzram_dispatch_slow
90: restore_with NUMBER
    jmp uzram_dispatch_slow
    label simple_end
