//! Pickles as bytes, and what is made of them.

use proptest::prelude::*;

use super::*;

const MOST: usize = 1 << 20;

fn columns(pickle: &[u8]) -> Columns {
    match read(pickle, MOST).unwrap().examples {
        Examples::Columns(columns) => columns,
        Examples::Objects => panic!("objects"),
    }
}

fn refused(pickle: &[u8]) -> String {
    read(pickle, MOST).unwrap_err().to_string()
}

/// What every array's pickle begins with, in protocol 2: the array without a state on the stack, its dtype kept as 1.
fn array(shape: &[u8], order: &[u8], code: &[u8], fortran: bool, raw: &[u8]) -> Vec<u8> {
    [
        b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85C\x01btR(K\x01".as_slice(),
        shape,
        b"cnumpy\ndtype\n(U\x02",
        code,
        b"\x89\x88tR(K\x03U\x01",
        order,
        b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb",
        if fortran { b"\x88".as_slice() } else { b"\x89" },
        &[b'C', raw.len() as u8],
        raw,
        b"tb",
    ]
    .concat()
}

/// A list of examples with one field.
fn examples(values: &[&[u8]]) -> Vec<u8> {
    let rows = values.iter().flat_map(|value| [b"}U\x01x", *value, b"s"].concat());
    [b"\x80\x03](".to_vec(), rows.collect(), b"e.".to_vec()].concat()
}

#[test]
fn values_become_columns() {
    let square = [&b"K\x02K\x03\x86"[..], b"K\x03\x85", b")"];
    for (value, dtype, shape, row) in [
        (&b"K\x07"[..], "<i8", &[][..], &[7, 0, 0, 0, 0, 0, 0, 0][..]),
        (b"\x8a\x01\xff", "<i8", &[], &[0xff; 8]),
        (b"I-1\n", "<i8", &[], &[0xff; 8]),
        (b"L255L\n", "<i8", &[], &[255, 0, 0, 0, 0, 0, 0, 0]),
        (b"I01\n", "|b1", &[], &[1]),
        (b"\x88", "|b1", &[], &[1]),
        (b"G\x3f\xf8\0\0\0\0\0\0", "<f4", &[], &[0, 0, 0xc0, 0x3f]),
        (b"F1.5\n", "<f4", &[], &[0, 0, 0xc0, 0x3f]),
        (&array(square[0], b"|", b"u1", false, b"abcdef"), "|u1", &[2, 3], b"abcdef"),
        (&array(square[0], b"|", b"u1", true, b"adbecf"), "|u1", &[2, 3], b"abcdef"),
        (&array(square[0], b">", b"i2", true, b"aAdDbBeEcCfF"), "<i2", &[2, 3], b"AaBbCcDdEeFf"),
        (&array(square[1], b"|", b"b1", false, b"\0\x02\xff"), "|b1", &[3], b"\0\x01\x01"),
        (&array(square[2], b">", b"c8", false, b"abcdefgh"), "<c8", &[], b"dcbahgfe"),
    ] {
        let found = columns(&examples(&[value, value]));
        let [column] = &found.columns[..] else { panic!("{found:?}") };
        assert_eq!((column.dtype.as_str(), &column.shape[..], &column.values[..]), (dtype, shape, &row.repeat(2)[..]));
        assert_eq!((found.rows, found.bad.len(), found.dropped.len()), (2, 0, 0));
    }
}

#[test]
fn rows_that_differ_are_bad_and_zeros() {
    let found = columns(&examples(&[b"K\x07", b"N", b"\x88", b"\x8a\x09\0\0\0\0\0\0\0\0\x01", b"U\x01a", b"K\x01"]));
    assert_eq!(found.columns[0].values.iter().map(|&byte| u64::from(byte)).sum::<u64>(), 8);
    assert_eq!(
        (found.columns[1].name.as_slice(), &found.columns[1].values[..]),
        (&b"has_x"[..], &[1, 0, 0, 0, 0, 1][..])
    );
    let bad: Vec<_> = found.bad.iter().map(|bad| (bad.row, bad.column)).collect();
    assert_eq!(bad, [(2, Some(0)), (3, Some(0)), (4, Some(0))]);
    assert_eq!(found.bad[0].found, Found::Numbers("|b1".to_owned(), vec![]));
    assert_eq!(found.bad[1].found, Found::Integer(65));
    assert_eq!(found.bad[2].found, Found::Type("str"));
}

#[test]
fn of_equal_names_the_last_value_counts_at_the_place_of_the_first() {
    let found = columns(b"](}(U\x01xK\x01U\x01yK\x02U\x01xK\x03ue.");
    let values: Vec<_> = found.columns.iter().map(|column| (&column.name[..], column.values[0])).collect();
    assert_eq!(values, [(&b"x"[..], 3), (b"y", 2)]);
}

#[test]
fn lists_that_hold_themselves_are_objects() {
    for pickle in [&b"]q\0h\0a."[..], b"].", b").", b"](}e.", b"](}U\x01xNse.", b"](}K\x01K\x02se.", b"]NaK\x01a."] {
        assert!(matches!(read(pickle, MOST).unwrap().examples, Examples::Objects), "{pickle:?}");
    }
}

#[test]
fn objects_fit_into_bounds_that_nothing_reaches() {
    for most in [1 << 62, usize::MAX / 4 + 1, usize::MAX] {
        assert!(matches!(read(b"]NaK\x01a.", most).unwrap().examples, Examples::Objects), "{most}");
    }
}

#[test]
fn what_is_no_pickle_is_told() {
    for (pickle, message) in [
        (&b""[..], "expected a pickle, but it can't be read: EOFError: Ran out of input"),
        (b"].N", "expected a pickle and nothing after it, but found more bytes"),
        (b"cos\nsystem\n.", "but it names os.system, which is refused"),
        (b"U\x02osU\x06system\x93.", "but it names os.system, which is refused"),
        (b"(ios\nsystem\n.", "but it names os.system, which is refused"),
        (b"K\x01.", "expected a list of examples, or a dict that has one in 'examples', found int"),
        (b"\x80\x06].", "unsupported pickle protocol: 6"),
        (b"\x95\x02\0\0\0\0\0\0\0]M\0\0.", "pickle exhausted before end of frame"),
        (b"\x95\x0a\0\0\0\0\0\0\0\x95\x01\0\0\0\0\0\0\0].", "beginning of a new frame before end of current frame"),
        (b"h\0.", "Memo value not found at index 0"),
        (b"]r\0\0\0\x10.", "at byte 1 it keeps a value as number 268435456, though it has kept no more than 0"),
        (
            b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff",
            "at byte 0 it says that its next value ends at byte 18446744073709551624",
        ),
        (b"(a.", "unexpected MARK found"),
        (b"]K\x01s.", "unexpected MARK found"),
        (b"]K\x01K\x01s.", "'list' object can't be filled"),
        (b"}]Ns.", "unhashable type: 'list'"),
        (b"](}e0(.", "unexpected MARK found"),
    ] {
        assert!(refused(pickle).contains(message), "{pickle:?}: {}", refused(pickle));
    }
}

#[test]
fn everything_counts_before_it_is_there() {
    let zeros = vec![0; 1000];
    for (what, times) in [
        (&b"2"[..], 100_000),
        (b"]", 100_000),
        (b"}", 100_000),
        (b")", 100_000),
        (b"(", 200_000),
        (b"N\x85", 100_000),
        (b"(K\x01K\x01\x91", 100_000),
        (b"V\\u1234\n", 400_000),
    ] {
        let pickle = [b"N", &what.repeat(times)[..], b"."].concat();
        assert!(refused(&pickle).contains("more than max_bytes (1048576)"), "{what:?}: {}", refused(&pickle));
    }
    // One large array in many examples.
    let kept = [&b"B\xe8\x03\0\0"[..], &zeros, b"q\x07"].concat();
    let raw = array(b"M\xe8\x03\x85", b"|", b"u1", false, b"");
    let raw = [&raw[..raw.len() - 4], b"h\x07tbq\x08"].concat();
    let pickle =
        [&kept[..], b"0](", &[&b"}U\x01x"[..], &raw, b"s"].concat(), &b"}U\x01xh\x08s".repeat(2000), b"e."].concat();
    assert!(
        refused(&pickle).contains("its columns take 2001000 bytes, but 1048576 are allowed"),
        "{}",
        refused(&pickle)
    );
}

#[test]
fn keys_whose_hash_would_not_end_are_refused() {
    let deep = [b"}(".as_slice(), b")", &b"\x85".repeat(300), b"Nu."].concat();
    let wide = [b"}(".as_slice(), b")", &b"2\x86".repeat(40), b"Nu."].concat();
    for pickle in [deep, wide] {
        assert!(refused(&pickle).contains("a key is made of up to"), "{}", refused(&pickle));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = read(&bytes, MOST);
    }

    #[test]
    fn pickles_that_are_cut_are_refused(cut in 0_usize..100) {
        let whole = examples(&[&array(b"K\x01\x85", b"<", b"u2", false, b"ab"), b"N"]);
        prop_assert!(columns(&whole).rows == 2);
        prop_assert!(read(&whole[..cut.min(whole.len() - 1)], MOST).is_err());
    }
}
