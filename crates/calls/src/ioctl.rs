//! The last argument of `ioctl`, whose kind depends on the request. The number of a newer request
//! encodes a direction and the size of a structure. The list `OLD` describes the older requests.

use crate::argument::Access::{self, Both, Read, Write};
use crate::argument::Argument::{self, Plain, Pointee, Unknown};
use crate::argument::Pointee::Words;
use crate::count::Length;

/// A range of request numbers that encode no direction: the lowest number, the highest number, the
/// kernel's access to the memory of the argument, and the size of that memory. The size is 0 if the
/// argument is a number or unused.
type Run = (u32, u32, Access, usize);

const OLD: &[Run] = &[
    // Files and block devices.
    (0x0001, 0x0001, Both, 4),
    (0x0002, 0x0002, Write, 4),
    (0x0301, 0x0301, Write, 16),
    (0x125d, 0x125d, Read, 4),
    (0x125e, 0x125e, Write, 4),
    (0x125f, 0x125f, Read, 0),
    (0x1260, 0x1260, Write, 8),
    (0x1261, 0x1262, Read, 0),
    (0x1263, 0x1263, Write, 8),
    (0x1264, 0x1264, Read, 0),
    (0x1265, 0x1265, Write, 8),
    (0x1266, 0x1266, Read, 0),
    (0x1267, 0x1267, Write, 2),
    (0x1268, 0x1268, Write, 4),
    (0x1269, 0x1269, Read, 24),
    (0x1277, 0x1277, Read, 16),
    (0x1278, 0x127c, Write, 4),
    (0x127d, 0x127d, Read, 16),
    (0x127e, 0x127e, Write, 2),
    (0x127f, 0x127f, Read, 16),
    // Generic SCSI.
    (0x2285, 0x2285, Both, 88),
    // Loop devices.
    (0x4c00, 0x4c01, Read, 0),
    (0x4c02, 0x4c02, Read, 168),
    (0x4c03, 0x4c03, Write, 168),
    (0x4c04, 0x4c04, Read, 232),
    (0x4c05, 0x4c05, Write, 232),
    (0x4c06, 0x4c09, Read, 0),
    (0x4c0a, 0x4c0a, Read, 304),
    // Terminals.
    (0x5401, 0x5401, Write, 36),
    (0x5402, 0x5404, Read, 36),
    (0x5405, 0x5405, Write, 18),
    (0x5406, 0x5408, Read, 18),
    (0x5409, 0x540e, Read, 0),
    (0x540f, 0x540f, Write, 4),
    (0x5410, 0x5410, Read, 4),
    (0x5411, 0x5411, Write, 4),
    (0x5412, 0x5412, Read, 1),
    (0x5413, 0x5413, Write, 8),
    (0x5414, 0x5414, Read, 8),
    (0x5415, 0x5415, Write, 4),
    (0x5416, 0x5418, Read, 4),
    (0x5419, 0x5419, Write, 4),
    (0x541a, 0x541a, Read, 4),
    (0x541b, 0x541b, Write, 4),
    (0x541d, 0x541d, Read, 0),
    (0x541e, 0x541e, Write, 72),
    (0x541f, 0x541f, Read, 72),
    (0x5420, 0x5421, Read, 4),
    (0x5422, 0x5422, Read, 0),
    (0x5423, 0x5423, Read, 4),
    (0x5424, 0x5424, Write, 4),
    (0x5425, 0x5428, Read, 0),
    (0x5429, 0x5429, Write, 4),
    (0x542e, 0x542e, Write, 32),
    (0x542f, 0x542f, Both, 32),
    (0x5437, 0x5437, Read, 0),
    (0x5450, 0x5451, Read, 0),
    (0x5452, 0x5452, Read, 4),
    (0x5456, 0x5456, Write, 36),
    (0x5457, 0x5457, Read, 36),
    (0x5459, 0x5459, Write, 4),
    (0x545c, 0x545c, Read, 0),
    (0x545d, 0x545d, Write, 80),
    (0x5460, 0x5460, Write, 8),
    // Sockets: their owners, times of packets, routes, and network interfaces.
    (0x8901, 0x8902, Read, 4),
    (0x8903, 0x8905, Write, 4),
    (0x8906, 0x8907, Write, 16),
    (0x890b, 0x890d, Read, 120),
    (0x8910, 0x8911, Both, 40),
    (0x8912, 0x8912, Both, 16),
    (0x8913, 0x8952, Both, 40),
    (0x8953, 0x8955, Both, 68),
    (0x8960, 0x8962, Both, 68),
    (0x8970, 0x8981, Both, 40),
    (0x8982, 0x8983, Both, 56),
    (0x8984, 0x89ff, Both, 40),
];

/// The fields of a request's number: the position and the mask of the structure's size, and the
/// bits of the direction.
const SIZE_AT: u32 = 16;
const SIZE_MASK: usize = 0x3fff;
const KERNEL_READS: usize = 1 << 30;
const KERNEL_WRITES: usize = 1 << 31;

/// Returns the kind of the last argument of `ioctl` for this request.
pub(crate) fn argument(request: usize) -> Argument {
    // The kernel ignores the upper half of the register.
    let number = request as u32;
    let run = OLD.iter().find(|(first, last, ..)| (*first..=*last).contains(&number));
    if let Some((_, _, access, bytes)) = run {
        return if *bytes == 0 { Plain } else { structure(*access, *bytes) };
    }
    let (reads, writes) = (request & KERNEL_READS != 0, request & KERNEL_WRITES != 0);
    let bytes = request >> SIZE_AT & SIZE_MASK;
    match (reads, writes) {
        _ if bytes == 0 => Unknown,
        (true, true) => structure(Both, bytes),
        (true, false) => structure(Read, bytes),
        (false, true) => structure(Write, bytes),
        (false, false) => Unknown,
    }
}

/// Returns the kind of the address of a structure of `bytes` bytes. Any machine word of the
/// structure may be an address.
fn structure(access: Access, bytes: usize) -> Argument {
    Pointee(Words(access, Length::Bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_in_order_and_apart() {
        OLD.iter().for_each(|(first, last, ..)| assert!(first <= last));
        OLD.windows(2).for_each(|pair| assert!(pair[0].1 < pair[1].0, "{:#x}", pair[1].0));
    }

    #[test]
    fn requests_are_read() {
        assert_eq!(argument(0x5401), structure(Write, 36));
        assert_eq!(argument(0x541b), structure(Write, 4));
        assert_eq!(argument(0x5451), Plain);
        // TIOCGPTN: the kernel writes a pseudoterminal's number. TIOCSPTLCK: the kernel reads the
        // new state of a lock.
        assert_eq!(argument(0x8004_5430), structure(Write, 4));
        assert_eq!(argument(0x4004_5431), structure(Read, 4));
        assert_eq!(argument(0xc020_660b), structure(Both, 32));
        // The kernel ignores the upper half of the register.
        assert_eq!(argument(0xffff_ffff_0000_541b), structure(Write, 4));
        assert_eq!(argument(0x4b33), Unknown);
    }
}
