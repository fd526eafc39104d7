//! Calls, without the C library's part in them.

/// Issues a call without the C library's part in it. Returns an error's number as a negative one.
pub fn raw(number: i64, arguments: &[usize]) -> i64 {
    let [a, b, c, d, e, f] =
        std::array::from_fn(|nth| arguments.get(nth).copied().unwrap_or_default());
    // SAFETY: a case names memory of its own trial, which nothing else refers to, or memory that
    // the kernel refuses; the process is a child made for this call.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    let makes_child = [libc::SYS_clone, libc::SYS_clone3].contains(&number);
    if answer == 0 && makes_child {
        // SAFETY: ends the child that the call made.
        unsafe { libc::_exit(0) };
    }
    let error = || i64::from(std::io::Error::last_os_error().raw_os_error().unwrap());
    match answer {
        -1 => -error(),
        // It has an unsigned int for an answer.
        answer if number == libc::SYS_modify_ldt => i64::from(answer as i32),
        answer => answer,
    }
}

/// What the C library answered, which has to be no error.
pub fn done(answer: i32) -> usize {
    assert!(answer >= 0, "{}", std::io::Error::last_os_error());
    answer as usize
}

/// Issues a call, which has to succeed.
pub fn must(number: i64, arguments: &[usize]) -> usize {
    let answer = raw(number, arguments);
    assert!(answer >= 0, "call {number}: {answer}");
    answer as usize
}

/// This process.
pub fn me() -> usize {
    std::process::id() as usize
}
