//! Tests that the server's numbers are the numbers in the protocol's document.

use super::super::request::Kind;
use super::*;
use testkit::nbd::numbers as document;

/// Compares constants of the server with constants of the same names in the test client.
macro_rules! expect_same {
    ($($own:ident $documents:ident,)*) => {
        $(assert_eq!($own, document::$documents, stringify!($own));)*
    };
}

#[test]
fn numbers_are_the_documents() {
    expect_same! {
        NBDMAGIC NBDMAGIC,
        IHAVEOPT IHAVEOPT,
        BASE_ALLOCATION BASE_ALLOCATION,
        OPTION_REPLY_MAGIC OPTION_REPLY_MAGIC,
        REQUEST_MAGIC REQUEST_MAGIC,
        SIMPLE_REPLY_MAGIC SIMPLE_REPLY_MAGIC,
        STRUCTURED_REPLY_MAGIC STRUCTURED_REPLY_MAGIC,
        FLAG_FIXED_NEWSTYLE FIXED_NEWSTYLE,
        FLAG_NO_ZEROES NO_ZEROES,
        OPT_EXPORT_NAME EXPORT_NAME,
        OPT_ABORT ABORT,
        OPT_LIST LIST,
        OPT_STARTTLS STARTTLS,
        OPT_INFO INFO,
        OPT_GO GO,
        OPT_STRUCTURED_REPLY STRUCTURED_REPLY,
        OPT_LIST_META_CONTEXT LIST_META_CONTEXT,
        OPT_SET_META_CONTEXT SET_META_CONTEXT,
        REP_ACK ACK,
        REP_SERVER REP_SERVER,
        REP_INFO REP_INFO,
        REP_META_CONTEXT REP_META_CONTEXT,
        REP_ERR_UNSUP ERR_UNSUP,
        REP_ERR_POLICY ERR_POLICY,
        REP_ERR_INVALID ERR_INVALID,
        REP_ERR_UNKNOWN ERR_UNKNOWN,
        REP_ERR_TOO_BIG ERR_TOO_BIG,
        INFO_EXPORT INFO_EXPORT,
        INFO_NAME INFO_NAME,
        INFO_DESCRIPTION INFO_DESCRIPTION,
        INFO_BLOCK_SIZE INFO_BLOCK_SIZE,
        FLAG_HAS_FLAGS HAS_FLAGS,
        FLAG_READ_ONLY READ_ONLY,
        FLAG_SEND_FLUSH SEND_FLUSH,
        FLAG_SEND_FUA SEND_FUA,
        FLAG_SEND_TRIM SEND_TRIM,
        FLAG_SEND_WRITE_ZEROES SEND_WRITE_ZEROES,
        FLAG_SEND_DF SEND_DF,
        FLAG_CAN_MULTI_CONN CAN_MULTI_CONN,
        FLAG_SEND_CACHE SEND_CACHE,
        FLAG_SEND_FAST_ZERO SEND_FAST_ZERO,
        CMD_FLAG_FUA FUA,
        CMD_FLAG_NO_HOLE NO_HOLE,
        CMD_FLAG_DF DF,
        CMD_FLAG_REQ_ONE REQ_ONE,
        CMD_FLAG_FAST_ZERO FAST_ZERO,
        REPLY_FLAG_DONE CHUNK_DONE,
        REPLY_TYPE_NONE CHUNK_NONE,
        REPLY_TYPE_OFFSET_DATA CHUNK_OFFSET_DATA,
        REPLY_TYPE_BLOCK_STATUS CHUNK_BLOCK_STATUS,
        REPLY_TYPE_ERROR CHUNK_ERROR,
        STATE_HOLE STATE_HOLE,
        STATE_ZERO STATE_ZERO,
        STRING_MAX STRING_BYTES,
    }
    assert_eq!(FLAG_C_FIXED_NEWSTYLE, u32::from(document::FIXED_NEWSTYLE));
    assert_eq!(FLAG_C_NO_ZEROES, u32::from(document::NO_ZEROES));
    let kinds = [
        (Kind::Read, document::READ),
        (Kind::Write, document::WRITE),
        (Kind::Disc, document::DISC),
        (Kind::Flush, document::FLUSH),
        (Kind::Trim, document::TRIM),
        (Kind::Cache, document::CACHE),
        (Kind::WriteZeroes, document::WRITE_ZEROES),
        (Kind::BlockStatus, document::BLOCK_STATUS),
    ];
    for (own, number) in kinds {
        assert_eq!(Kind::ALL.get(usize::from(number)), Some(&own));
    }
    assert_eq!(Kind::ALL.len(), kinds.len());
    let errors = [
        (ErrorCode::Perm, document::EPERM),
        (ErrorCode::Io, document::EIO),
        (ErrorCode::Nomem, document::ENOMEM),
        (ErrorCode::Inval, document::EINVAL),
        (ErrorCode::Nospc, document::ENOSPC),
        (ErrorCode::Overflow, document::EOVERFLOW),
        (ErrorCode::Shutdown, document::ESHUTDOWN),
    ];
    errors.into_iter().for_each(|(own, number)| assert_eq!(own as u32, number, "{own:?}"));
}
