//! Examples into columns, and what protobuf allows them to look like.

use proptest::prelude::*;
use seekset_core::example::record::{Decoded, Map, features, sequences};
use seekset_core::example::{Cells, Column, Dtype, Feature, Items, Schema, Shape, Slot, Values, decode, encode, infer};
use seekset_core::{Error, Result};

fn feature(name: &str, dtype: Dtype, shape: Shape) -> Feature {
    Feature { name: name.to_owned(), dtype, shape, default: None }
}

fn schema(features: Vec<Feature>) -> Schema {
    Schema::new(features).unwrap()
}

fn columns<'a>(payloads: &[&'a [u8]], schema: &'a Schema) -> Result<Vec<Column<'a>>> {
    decode::examples(payloads, schema, schema.features().iter().map(|_| None).collect())
}

/// A field with a length, of one byte or two.
fn field(number: u8, body: &[u8]) -> Vec<u8> {
    let (low, high) = (body.len() as u8 & 0x7f, (body.len() >> 7) as u8);
    let length = if high == 0 { vec![low] } else { vec![low | 0x80, high] };
    [&[number << 3 | 2][..], &length, body].concat()
}

/// An entry of a map.
fn entry(name: &[u8], value: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name), field(2, value)].concat())
}

/// An `Example` of one feature `x`, given its bytes.
fn of_x(feature: &[u8]) -> Vec<u8> {
    field(1, &entry(b"x", feature))
}

#[test]
fn fixed_shapes_are_stacked_and_others_ragged() {
    let first = encode::example(&[
        ("x", Items::Float(&[1.0, 2.0])),
        ("n", Items::Int(&[-1])),
        ("many", Items::Int(&[1, 300, i64::MIN])),
        ("name", Items::Bytes(&[b"one"])),
        ("tags", Items::Bytes(&[b"a", b""])),
    ]);
    let second = encode::example(&[
        ("tags", Items::Bytes(&[])),
        ("name", Items::Bytes(&[b"two"])),
        ("many", Items::Int(&[])),
        ("not asked for", Items::Int(&[5])),
        ("n", Items::Int(&[7])),
        ("x", Items::Float(&[f32::INFINITY, -0.0])),
    ]);
    let schema = schema(vec![
        feature("x", Dtype::F32, Shape::Fixed(2)),
        feature("n", Dtype::I32, Shape::Fixed(1)),
        feature("many", Dtype::I64, Shape::Ragged(1)),
        feature("name", Dtype::Bytes, Shape::Fixed(1)),
        feature("tags", Dtype::Bytes, Shape::Ragged(1)),
    ]);
    let (mut x, mut n) = ([9.0; 4], [9; 2]);
    let slots = vec![Some(Slot::F32(&mut x)), Some(Slot::I32(&mut n)), None, None, None];
    let found = decode::examples(&[&first, &second], &schema, slots).unwrap();
    let column =
        |values, offsets: Option<&[i64]>| Column { values, offsets: offsets.map(<[i64]>::to_vec), steps: None };
    assert_eq!(found[0], column(Cells::Placed, None));
    assert_eq!(found[1], column(Cells::Placed, None));
    assert_eq!(found[2], column(Cells::I64(vec![1, 300, i64::MIN]), Some(&[0, 3, 3])));
    assert_eq!(found[3], column(Cells::Bytes(vec![b"one", b"two"]), None));
    assert_eq!(found[4], column(Cells::Bytes(vec![b"a", b""]), Some(&[0, 2, 2])));
    assert_eq!((x, n), ([1.0, 2.0, f32::INFINITY, -0.0], [-1, 7]));
}

#[test]
fn numbers_may_be_packed_or_not() {
    let (one, two) = (1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes());
    let single = |value: [u8; 4]| [&[1 << 3 | 5][..], &value].concat();
    for floats in [
        field(1, &[one, two].concat()),
        [single(one), single(two)].concat(),
        [single(one), field(1, &two)].concat(),
        [field(1, &one), field(1, &[]), field(1, &two)].concat(),
    ] {
        let payload = of_x(&field(2, &floats));
        assert_eq!(features(&payload).unwrap(), [("x", Decoded::Float(vec![1.0, 2.0]))]);
    }
    for ints in [&b"\x0a\x03\x01\xac\x02"[..], b"\x08\x01\x08\xac\x02", b"\x08\x01\x0a\x02\xac\x02"] {
        let payload = of_x(&field(3, ints));
        assert_eq!(features(&payload).unwrap(), [("x", Decoded::Int(vec![1, 300]))]);
    }
}

#[test]
fn odd_messages_mean_what_protobuf_says() {
    let int = |value: u8| field(3, &[8, value]);
    let float = field(2, &field(1, &1.0_f32.to_le_bytes()));
    let unknown = b"\x38\x01\x39\0\0\0\0\0\0\0\0\x3a\x01z\x3b\x08\x01\x3c\x3d\0\0\0\0";
    let beside = |message: &[u8]| [&unknown[..], message, unknown].concat();
    for (what, payload, expected) in [
        (
            "unknown fields are passed over",
            {
                let list = field(3, &beside(&[8, 5]));
                let map = beside(&field(1, &beside(&[field(1, b"x"), field(2, &beside(&list))].concat())));
                beside(&field(1, &map))
            },
            vec![5],
        ),
        ("of one name the last counts", field(1, &[entry(b"x", &int(1)), entry(b"x", &int(2))].concat()), vec![2]),
        ("whatever the first was", field(1, &[entry(b"x", &float), entry(b"x", &int(2))].concat()), vec![2]),
        ("even in another piece", [of_x(&int(1)), of_x(&int(2))].concat(), vec![2]),
        ("lists in pieces are joined", of_x(&[int(1), int(2)].concat()), vec![1, 2]),
        ("of two kinds the last counts", of_x(&[float.clone(), int(2)].concat()), vec![2]),
        ("and starts anew", of_x(&[int(1), float.clone(), int(2)].concat()), vec![2]),
        (
            "features in pieces are joined",
            { field(1, &field(1, &[field(2, &int(1)), field(1, b"x"), field(2, &int(2))].concat())) },
            vec![1, 2],
        ),
        (
            "of two keys the last counts",
            { field(1, &field(1, &[field(1, b"y"), field(2, &int(1)), field(1, b"x")].concat())) },
            vec![1],
        ),
        (
            "another wire type is another field",
            of_x(&field(3, &[&[8, 1][..], &[1 << 3 | 5, 0, 0, 0, 0]].concat())),
            vec![1],
        ),
        ("a varint may be longer than needed", of_x(&field(3, b"\x08\x85\x80\x00")), vec![5]),
    ] {
        assert_eq!(features(&payload).unwrap(), [("x", Decoded::Int(expected.clone()))], "{what}");
        let schema = schema(vec![feature("x", Dtype::I64, Shape::Ragged(1))]);
        assert_eq!(columns(&[&payload], &schema).unwrap()[0].values, Cells::I64(expected), "{what}");
    }
}

#[test]
fn a_missing_feature_takes_its_default() {
    let with = |shape, default| Feature { default: Some(default), ..feature("x", Dtype::F32, shape) };
    let full = encode::example(&[("x", Items::Float(&[3.0, 4.0]))]);
    let no_list = of_x(&[]);
    let no_value = field(1, &field(1, &field(1, b"x")));
    let payloads = [&b""[..], &full, &no_list, &no_value];
    let fixed = schema(vec![with(Shape::Fixed(2), Values::F32(vec![7.0, 8.0]))]);
    let found = columns(&payloads, &fixed).unwrap();
    assert_eq!(found[0].values, Cells::F32(vec![7.0, 8.0, 3.0, 4.0, 7.0, 8.0, 7.0, 8.0]));
    let ragged = schema(vec![with(Shape::Ragged(1), Values::F32(vec![]))]);
    let found = columns(&payloads, &ragged).unwrap();
    assert_eq!((&found[0].values, &found[0].offsets), (&Cells::F32(vec![3.0, 4.0]), &Some(vec![0, 0, 2, 2, 2])));
    let strings =
        Feature { default: Some(Values::Bytes(vec![b"none".to_vec()])), ..feature("x", Dtype::Bytes, Shape::Fixed(1)) };
    let strings = schema(vec![strings]);
    assert_eq!(columns(&[b"", b""], &strings).unwrap()[0].values, Cells::Bytes(vec![b"none", b"none"]));
}

#[test]
fn what_does_not_fit_is_named_with_record_and_feature() {
    let good = encode::example(&[("x", Items::Int(&[1, 2]))]);
    let bad = |items| encode::example(&[("x", items)]);
    let large = bad(Items::Int(&[1, 1 << 31]));
    for (payload, dtype, shape, message) in [
        (vec![], Dtype::I64, Shape::Fixed(2), "expected it, or a default to take instead; found neither"),
        (bad(Items::Float(&[1.0])), Dtype::I64, Shape::Fixed(2), "expected int64 values, found float values"),
        (bad(Items::Bytes(&[b"1"])), Dtype::I64, Shape::Ragged(1), "expected int64 values, found bytes values"),
        (bad(Items::Int(&[1])), Dtype::I64, Shape::Fixed(2), "expected 2 values, found 1"),
        (bad(Items::Int(&[1, 2, 3])), Dtype::I64, Shape::Fixed(2), "expected 2 values, found 3"),
        (bad(Items::Int(&[])), Dtype::I64, Shape::Fixed(2), "expected 2 values, found 0"),
        (bad(Items::Int(&[1])), Dtype::I64, Shape::Ragged(2), "expected a multiple of 2 values, found 1"),
        (large, Dtype::I32, Shape::Fixed(2), "expected values that fit into int32, found 2147483648"),
    ] {
        let schema = schema(vec![feature("x", dtype, shape)]);
        let error = columns(&[&good, &payload], &schema).unwrap_err();
        assert!(matches!(error, Error::Feature { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("<bytes>: record 1: feature 'x': {message}"));
    }
}

#[test]
fn damage_is_named_with_record_and_byte() {
    for (payload, message) in [
        (&b"\x0a\x05\x0a"[..], "byte 1 of its payload: expected a length of at most 1, found 5"),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "byte 1 of its payload: expected a length of at most 0, found 18446744073709551615",
        ),
        (b"\x0a\x02\x0a\x80", "byte 3 of its payload: expected a varint, found the end of the message inside it"),
        (
            &of_x(&field(2, b"\x0a\x03abc")),
            "byte 13 of its payload: expected packed floats of four bytes each, found 3 bytes",
        ),
        (
            &of_x(&field(2, b"\x0d\x01")),
            "byte 12 of its payload: expected a fixed-width number, found the end of the message inside it",
        ),
        (
            &of_x(&field(3, b"\x0a\x02\x01\x80")),
            "byte 14 of its payload: expected a varint, found the end of the message inside it",
        ),
    ] {
        let kind = if payload.get(9) == Some(&0x12) { Dtype::F32 } else { Dtype::I64 };
        let schema = schema(vec![Feature { default: None, ..feature("x", kind, Shape::Ragged(1)) }]);
        let error = columns(&[payload], &schema).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        let whole =
            format!("<bytes>: record 0: this is no tf.train.Example, or a damaged one: {message}; a payload of");
        assert!(error.to_string().starts_with(&whole), "{error}");
    }
}

/// A record with everything in it, and all that can be asked of it.
fn specimen() -> (Vec<u8>, Schema, Schema) {
    let steps = [Items::Bytes(&[b"ab", b"c"]), Items::Bytes(&[])];
    let context = [("x", Items::Float(&[1.0, 2.0])), ("y", Items::Int(&[-1, 300])), ("z", Items::Bytes(&[b"hi"]))];
    let payload = encode::sequence_example(&context, &[("s", &steps), ("t", &[Items::Int(&[5]), Items::Int(&[6])])]);
    let fixed =
        [("x", Dtype::F32, Shape::Fixed(2)), ("y", Dtype::I32, Shape::Ragged(1)), ("z", Dtype::Bytes, Shape::Fixed(1))];
    let lists = [("s", Dtype::Bytes, Shape::Ragged(1)), ("t", Dtype::I64, Shape::Fixed(1))];
    let of = |all: &[(&str, Dtype, Shape)]| schema(all.iter().map(|&(n, d, s)| feature(n, d, s)).collect());
    (payload, of(&fixed), of(&lists))
}

#[test]
fn cut_at_every_byte_it_is_refused() {
    let (payload, context, lists) = specimen();
    assert!(columns(&[&payload], &context).is_ok() && decode::sequences(&[&payload], &lists).is_ok());
    // A message is whole where a field of it ends: there, what follows is missing rather than cut.
    let whole = 2 + usize::from(payload[1]);
    for cut in 0..payload.len() {
        for found in [columns(&[&payload[..cut]], &context), decode::sequences(&[&payload[..cut]], &lists)] {
            match found {
                Err(Error::Feature { .. }) | Ok(_) => assert!(cut == 0 || cut == whole, "{cut}"),
                Err(Error::Corrupt { .. }) => assert!(cut != 0 && cut != whole, "{cut}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn any_byte_may_be_any_other_without_a_panic() {
    let (payload, context, lists) = specimen();
    for at in 0..payload.len() {
        for value in 0..=255 {
            let mut damaged = payload.clone();
            damaged[at] = value;
            let _ = (columns(&[&damaged], &context), decode::sequences(&[&damaged], &lists));
            let _ = (features(&damaged), sequences(&damaged));
        }
    }
}

#[test]
fn sequences_come_with_where_their_steps_start() {
    let (payload, _, lists) = specimen();
    let other = encode::sequence_example(&[], &[("s", &[]), ("t", &[Items::Int(&[7])])]);
    let found = decode::sequences(&[&payload, &other], &lists).unwrap();
    let (s, t) = (&found[0], &found[1]);
    assert_eq!(s.values, Cells::Bytes(vec![b"ab", b"c"]));
    assert_eq!((s.offsets.as_deref(), s.steps.as_deref()), (Some(&[0, 2, 2][..]), Some(&[0, 2, 2][..])));
    assert_eq!(t.values, Cells::I64(vec![5, 6, 7]));
    assert_eq!((t.offsets.as_deref(), t.steps.as_deref()), (None, Some(&[0, 2, 3][..])));

    let error = decode::sequences(&[b""], &lists).unwrap_err();
    assert_eq!(
        error.to_string(),
        "<bytes>: record 0: feature 's': expected it, or a default to take instead; found neither"
    );
    let wrong = encode::sequence_example(&[], &[("s", &[]), ("t", &[Items::Int(&[7]), Items::Int(&[])])]);
    let error = decode::sequences(&[&wrong], &lists).unwrap_err();
    assert_eq!(error.to_string(), "<bytes>: record 0: feature 't': step 1: expected 1 values, found 0");
    let lenient = Feature { default: Some(Values::I64(vec![0])), ..feature("t", Dtype::I64, Shape::Fixed(1)) };
    let lenient = schema(vec![lenient]);
    let found = decode::sequences(&[b"", &payload], &lenient).unwrap();
    assert_eq!((&found[0].values, &found[0].steps), (&Cells::I64(vec![5, 6]), &Some(vec![0, 0, 2])));
}

#[test]
fn many_records_in_many_threads_give_the_same_columns_and_the_first_error() {
    let floats: Vec<f32> = (0..64_u8).map(f32::from).collect();
    let payload = |n: i64| {
        let ragged = vec![n; (n % 3) as usize];
        encode::example(&[("x", Items::Float(&floats)), ("n", Items::Int(&[n])), ("r", Items::Int(&ragged))])
    };
    let mut payloads: Vec<Vec<u8>> = (0..3000).map(payload).collect();
    let schema = schema(vec![
        feature("x", Dtype::F32, Shape::Fixed(64)),
        feature("n", Dtype::I64, Shape::Fixed(1)),
        feature("r", Dtype::I64, Shape::Ragged(1)),
    ]);
    let (mut x, mut n) = (vec![0.0; 3000 * 64], vec![0; 3000]);
    let slots = vec![Some(Slot::F32(&mut x)), Some(Slot::I64(&mut n)), None];
    let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let found = decode::examples(&slices, &schema, slots).unwrap();
    assert!(x.chunks(64).all(|row| row == floats));
    assert!(n.iter().copied().eq(0..3000));
    let ragged: Vec<i64> = (0..3000).flat_map(|n| vec![n; (n % 3) as usize]).collect();
    assert_eq!(found[2].values, Cells::I64(ragged));
    assert_eq!(found[2].offsets.as_ref().unwrap().last(), Some(&3000));

    for wrong in [2900, 1700, 800] {
        payloads[wrong] = encode::example(&[]);
    }
    let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let error = columns(&slices, &schema).unwrap_err();
    assert!(error.to_string().starts_with("<bytes>: record 800: feature 'x'"), "{error}");
}

#[test]
fn records_that_resemble_the_one_before_are_read_for_themselves() {
    let int = |value: u8| field(3, &field(1, &[value]));
    let two = field(3, &[field(1, &[1]), field(1, &[2])].concat());
    let float = field(2, &field(1, &1.0_f32.to_le_bytes()));
    let unknown = b"\x38\x01";
    let record = |entries: &[Vec<u8>]| field(1, &entries.concat());
    let payloads = [
        record(&[entry(b"x", &int(1)), entry(b"y", &int(2))]),
        record(&[entry(b"x", &int(3)), entry(b"y", &int(4))]),
        record(&[entry(b"y", &int(5)), entry(b"x", &int(6))]),
        record(&[entry(b"y", &int(7)), entry(b"x", &two)]),
        record(&[entry(b"y", &int(8)), entry(b"x", &two)]),
        record(&[entry(b"z", &float), entry(b"x", &int(9)), entry(b"y", &int(9))]),
        record(&[entry(b"z", &float), entry(b"x", &int(10)), entry(b"y", &int(10))]),
        record(&[entry(b"x", &int(1)), unknown.to_vec(), entry(b"x", &int(11)), entry(b"y", &int(11))]),
        record(&[entry(b"x", &int(1)), unknown.to_vec(), entry(b"x", &int(12)), entry(b"y", &int(12))]),
        record(&[entry(b"x", &[int(1), int(13)].concat()), entry(b"y", &int(13))]),
        record(&[entry(b"x", &[int(1), int(14)].concat()), entry(b"y", &int(14))]),
        record(&[entry(b"x", &[int(1), float.clone(), int(15)].concat()), entry(b"y", &int(15))]),
        record(&[entry(b"x", &[int(2), float.clone(), int(16)].concat()), entry(b"y", &int(16))]),
        record(&[entry(b"x", &[]), entry(b"y", &int(17))]),
        record(&[entry(b"x", &int(18))]),
    ];
    let optional = |name| Feature { default: Some(Values::I64(vec![])), ..feature(name, Dtype::I64, Shape::Ragged(1)) };
    let schema = schema(vec![optional("x"), optional("y")]);
    let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let together = columns(&slices, &schema).unwrap();
    for (k, column) in together.iter().enumerate() {
        let (Cells::I64(values), Some(offsets)) = (&column.values, &column.offsets) else { panic!("{column:?}") };
        for (record, slice) in slices.iter().enumerate() {
            let alone = columns(&[slice], &schema).unwrap();
            let part = values[offsets[record] as usize..offsets[record + 1] as usize].to_vec();
            assert_eq!(alone[k].values, Cells::I64(part), "record {record}");
        }
    }
    assert_eq!(together[0].values, Cells::I64(vec![1, 3, 6, 1, 2, 1, 2, 9, 10, 11, 12, 1, 13, 1, 14, 15, 16, 18]));

    // A head that comes again must not lead over the end of the map.
    let cut = &payloads[0][..payloads[0].len() - 1];
    let shorter = [&[0x0a, cut.len() as u8 - 2][..], &cut[2..]].concat();
    let error = columns(&[&payloads[0], &shorter], &schema).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn a_slot_of_another_size_is_refused() {
    let schema = schema(vec![feature("x", Dtype::F32, Shape::Fixed(2))]);
    assert!(decode::examples(&[b""], &schema, vec![Some(Slot::F32(&mut [0.0; 3]))]).is_err());
    assert!(decode::examples(&[b""], &schema, vec![Some(Slot::I64(&mut [0; 2]))]).is_err());
    assert!(decode::examples(&[b""], &schema, vec![]).is_err());
}

#[test]
fn shapes_are_inferred_from_what_all_records_have() {
    let first = encode::example(&[
        ("one", Items::Int(&[1])),
        ("three", Items::Float(&[1.0, 2.0, 3.0])),
        ("any", Items::Bytes(&[b"a"])),
        ("none", Items::Int(&[])),
        ("seldom", Items::Int(&[1])),
    ]);
    let second = encode::example(&[
        ("one", Items::Int(&[2])),
        ("three", Items::Float(&[4.0, 5.0, 6.0])),
        ("any", Items::Bytes(&[])),
        ("none", Items::Int(&[])),
    ]);
    let found = infer::features(&[&first, &second], Map::Features).unwrap();
    let seldom = Feature { default: Some(Values::I64(vec![])), ..feature("seldom", Dtype::I64, Shape::Ragged(1)) };
    let expected = [
        feature("any", Dtype::Bytes, Shape::Ragged(1)),
        feature("none", Dtype::I64, Shape::Ragged(1)),
        feature("one", Dtype::I64, Shape::Fixed(1)),
        seldom,
        feature("three", Dtype::F32, Shape::Fixed(3)),
    ];
    assert_eq!(found, expected);
    assert_eq!(infer::features(&[], Map::Features).unwrap(), []);

    let other = encode::example(&[("one", Items::Float(&[1.0]))]);
    let error = infer::features(&[&first, &other], Map::Features).unwrap_err();
    assert_eq!(
        error.to_string(),
        "<bytes>: record 1: feature 'one': expected int64 values as in record 0, found float values"
    );
    let error = infer::features(&[&first, b"\x0a\x01"], Map::Features).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains("record 1"), "{error}");

    let (payload, ..) = specimen();
    let empty = encode::sequence_example(&[], &[("s", &[]), ("t", &[])]);
    let lists = infer::features(&[&payload, &empty], Map::Sequences).unwrap();
    assert_eq!(lists, [feature("s", Dtype::Bytes, Shape::Ragged(1)), feature("t", Dtype::I64, Shape::Fixed(1))]);
    let gap = field(2, &entry(b"t", &[field(1, &[]), field(1, &field(3, &[8, 1]))].concat()));
    let lists = infer::features(&[&gap, &gap], Map::Sequences).unwrap();
    let default = Some(Values::I64(vec![]));
    assert_eq!(lists, [Feature { default, ..feature("t", Dtype::I64, Shape::Ragged(1)) }]);
    let schema = schema(lists);
    assert_eq!(decode::sequences(&[&gap], &schema).unwrap()[0].offsets, Some(vec![0, 0, 1]));
}

#[test]
fn names_that_are_no_text_are_refused_where_a_name_is_needed() {
    let payload = field(1, &entry(b"\xff", &field(3, &[8, 1])));
    let error = features(&payload).unwrap_err();
    assert!(error.to_string().ends_with(r"expected feature names in UTF-8, found \xff"), "{error}");
    let schema =
        schema(vec![Feature { default: Some(Values::I64(vec![])), ..feature("x", Dtype::I64, Shape::Ragged(1)) }]);
    assert!(columns(&[&payload], &schema).is_ok());
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        floats in prop::collection::vec(any::<f32>(), 0..20),
        ints in prop::collection::vec(any::<i64>(), 0..20),
        strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5),
        names in prop::collection::hash_set(".{0,12}", 3),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let items = [Items::Float(&floats), Items::Int(&ints), Items::Bytes(&slices)];
        let named: Vec<_> = names.iter().copied().zip(items).collect();
        let payload = encode::example(&named);
        let bits = |floats: &[f32]| floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>();
        let found = features(&payload).unwrap();
        prop_assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        prop_assert!(matches!(&found[0].1, Decoded::Float(found) if bits(found) == bits(&floats)));
        prop_assert_eq!(&found[1].1, &Decoded::Int(ints.clone()));
        prop_assert_eq!(&found[2].1, &Decoded::Bytes(slices.clone()));
        let steps = [Items::Int(&ints), Items::Int(&[])];
        let payload = encode::sequence_example(&named, &[("steps", &steps)]);
        prop_assert_eq!(features(&payload).unwrap().len(), 3);
        prop_assert_eq!(sequences(&payload).unwrap()[0].1.clone(), [Some(Decoded::Int(ints)), Some(Decoded::Int(vec![]))]);
    }

    #[test]
    fn any_bytes_are_columns_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, context, lists) = specimen();
        let _ = (columns(&[&bytes], &context), decode::sequences(&[&bytes], &lists));
    }
}
