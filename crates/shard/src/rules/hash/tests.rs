//! What PostgreSQL 15 says of the same values; `tests/it` asks a real one again.

use super::{PARTITION_SEED, bytes, integer};

#[test]
fn integers_hash_as_postgresql_hashes_them() {
    let cases: [(i64, i64, i64); 9] = [
        (0, 4154612158245552303, -4403592609991167795),
        (1, -3670598878359251130, 5968994663651403477),
        (-1, -1888257769727981238, -5017072347659237694),
        (42, 8010225493015854792, 7363975540656877951),
        (2147483648, 1977219185673256887, 4938542303000433043),
        (-2147483649, -9109110466470504941, -6050265599104649060),
        (i64::MAX, 1977219185673256887, 4938542303000433043),
        (i64::MIN, -9109110466470504941, -6050265599104649060),
        (12345678901, -9000078242344944653, -8965660519115195620),
    ];
    for (value, plain, seeded) in cases {
        assert_eq!(integer(value, 0) as i64, plain, "{value}");
        assert_eq!(integer(value, PARTITION_SEED) as i64, seeded, "{value} with the seed");
    }
}

#[test]
fn texts_of_every_tail_length_hash_as_postgresql_hashes_them() {
    let cases: [(&str, i64, i64); 10] = [
        ("", -6939563903564495251, -5700645584453517373),
        ("a", 3591986179850072241, -6705225459120232837),
        ("abc", -6747756470228489321, 3628778498291917250),
        ("abcd", -1038429303365892052, 4029384952263848046),
        ("abcdefgh", -8882191227074733005, -7754745184861941070),
        ("abcdefghi", -3278210106038014113, -7860738947571725408),
        ("abcdefghijk", 3112909444737856467, -2046435308545367432),
        ("abcdefghijkl", -7556637188122330412, -7876791541613377658),
        ("abcdefghijklm", 8871624171452417744, -6785754114725280077),
        ("grüße aus köln an der spree", 8244137251331077633, -269852944203839152),
    ];
    for (value, plain, seeded) in cases {
        assert_eq!(bytes(value.as_bytes(), 0) as i64, plain, "{value}");
        assert_eq!(bytes(value.as_bytes(), PARTITION_SEED) as i64, seeded, "{value} with the seed");
    }
    assert_eq!(bytes(&[0; 16], PARTITION_SEED) as i64, -5281082146396728638, "the uuid of zeros");
}
