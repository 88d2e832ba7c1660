//! Numbers as PostgreSQL 15 writes them.

use super::*;

#[test]
fn numbers_are_written_by_their_template() {
    let rows = [
        (false, "1234.50", "9,999.99", " 1,234.50"),
        (false, "12", "0000", " 0012"),
        (true, "0.5", "9.9", " -.5"),
        (false, "0.00", "FM999.99", "0."),
        (false, "0.00", "FM999.90", ".00"),
        (true, "1234.57", "FM9,999.99", "-1,234.57"),
        (false, "1234", "999", " ###"),
        (true, "1234.57", "999.99", "-###.##"),
        (true, "0.00", "0000.00", " 0000.00"),
        (false, "5", "9099", "  005"),
        (false, "123", "9,999,999", "       123"),
        (false, "5.00", "FM90.99", "5."),
        (false, "0", "999", "   0"),
        (false, "0.50", "0.00%", " 0.50%"),
        (true, "1234.50", "$9,999.00", "$-1,234.50"),
        (false, "12.3", "FM€990.0 €", "€12.3 €"),
        (false, "123", "(99)", "( ##)"),
    ];
    for (is_negative, digits, pattern, expected) in rows {
        assert_eq!(to_char(is_negative, digits, pattern).unwrap(), expected, "{digits} {pattern}");
    }
    for pattern in ["S999", "999MI", "9.", ".99", "RN", "99%99", "L999", "%", ""] {
        assert!(to_char(false, "1", pattern).is_err(), "{pattern}");
    }
}
