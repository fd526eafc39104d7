//! Another library that rustc compiled, for a program that also links libuzram.

/// Returns whether a panic was caught.
#[unsafe(no_mangle)]
pub extern "C" fn other_catches() -> i32 {
    std::panic::set_hook(Box::new(|_| {}));
    let numbers: Vec<usize> = (0..std::process::id() as usize % 7 + 1).collect();
    std::panic::catch_unwind(|| numbers[numbers.len()]).is_err().into()
}
