//! System calls without the C library's wrappers.

/// Issues a system call without the C library's wrapper. Returns the kernel's result, which is a
/// negated errno if the call failed.
pub fn raw(number: i64, arguments: &[usize]) -> i64 {
    let [a, b, c, d, e, f] =
        std::array::from_fn(|nth| arguments.get(nth).copied().unwrap_or_default());
    // SAFETY: the arguments refer to memory of the case's own trial, which no other code uses, or
    // to memory that the kernel refuses. The process is a child created for this call.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    let makes_child = [libc::SYS_clone, libc::SYS_clone3].contains(&number);
    if answer == 0 && makes_child {
        // SAFETY: `_exit` has no requirements, and ends the child that the call created.
        unsafe { libc::_exit(0) };
    }
    let error = || i64::from(std::io::Error::last_os_error().raw_os_error().unwrap());
    match answer {
        -1 => -error(),
        // `modify_ldt` returns an unsigned int.
        answer if number == libc::SYS_modify_ldt => i64::from(answer as i32),
        answer => answer,
    }
}

/// Asserts that `answer`, the result of a function of the C library, is not an error. Returns
/// `answer`.
pub fn done(answer: i32) -> usize {
    assert!(answer >= 0, "{}", std::io::Error::last_os_error());
    answer as usize
}

/// Issues a system call, asserts that it succeeds, and returns its result.
pub fn must(number: i64, arguments: &[usize]) -> usize {
    let answer = raw(number, arguments);
    assert!(answer >= 0, "call {number}: {answer}");
    answer as usize
}

/// Returns the id of this process.
pub fn me() -> usize {
    std::process::id() as usize
}
