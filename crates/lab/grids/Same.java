/**
 * What the client in Java makes of given numbers, for a test that compares it with what the lab makes of them. A line for each; the
 * test, {@code crates/lab/src/java/tests.rs}, prints the same lines.
 */
final class Same {
    private Same() {}

    public static void main(String[] arguments) {
        StringBuilder out = new StringBuilder();
        for (long seed : new long[] {0, 1, -1, 0x0123456789abcdefL}) {
            Numbers numbers = Numbers.of(seed, 3, 7);
            out.append("numbers ").append(Long.toUnsignedString(numbers.next()));
            for (long limit : new long[] {1, 2, 100, 1 << 20, 4_000_000_000L}) {
                out.append(' ').append(numbers.below(limit));
            }
            out.append(' ').append(Long.toHexString(Double.doubleToLongBits(numbers.fraction()))).append('\n');
        }
        for (long key : new long[] {0, 42, 999_999, 3_999_999_999L}) {
            for (int version : new int[] {0, 7, -1}) {
                for (int bytes : new int[] {8, 9, 15, 16, 100, 801}) {
                    byte[] value = Keys.value(key, version, bytes);
                    byte[] damaged = value.clone();
                    damaged[bytes - 1] ^= 1;
                    out.append("value ").append(Keys.key(key)).append(' ');
                    for (byte part : value) {
                        out.append(Character.forDigit(part >> 4 & 15, 16)).append(Character.forDigit(part & 15, 16));
                    }
                    out.append(' ').append(Integer.toUnsignedString(Keys.version(value)));
                    out.append(' ').append(Keys.fault(key, bytes, value) == null);
                    out.append(' ').append(Keys.fault(key, bytes, damaged) == null);
                    out.append("; ").append(Keys.fault(key + 1, bytes, value)).append('\n');
                }
            }
        }
        for (long key : new long[] {0, 42, 999_999, 3_999_999_999L}) {
            for (int version : new int[] {0, 7, -1}) {
                String[] texts = Structured.of(key, version).texts();
                String[] damaged = texts.clone();
                damaged[8] = "x";
                out.append("structured ").append(Structured.name(key)).append(' ').append(String.join(" ", texts));
                out.append(' ').append(Structured.fault(key, texts) == null).append("; ");
                out.append(Structured.fault(key, damaged)).append("; ").append(Structured.fault(key, null)).append('\n');
            }
        }
        for (long id : new long[] {0, 42, 999_999, 199_999_999}) {
            out.append("row ").append(Rows.value(id)).append(' ').append(Rows.label(id, 0)).append(' ');
            out.append(Rows.label(id, -7)).append(' ').append(Rows.labelHead(id)).append('|');
            for (int number : Rows.numbers(id)) {
                out.append(' ').append(number);
            }
            out.append('\n');
        }
        for (long id : new long[] {0, 42, 999_999, 199_999_999}) {
            for (int fields : new int[] {33, 22}) {
                out.append("document ").append(Documents.of(id, fields)).append('\n');
            }
            out.append("pick ").append(Rows.pickedRow(id, 1000)).append(' ').append(Rows.pickedAmount(id)).append('\n');
        }
        out.append("joined ").append(Rows.joined(50, 1000)).append('\n');
        ByValue byValue = new ByValue(1000);
        for (long place : new long[] {0, 1, 500, 999}) {
            long low = byValue.at(place);
            out.append("by value ").append(low).append(' ').append(byValue.rows(low, ByValue.VALUES));
            out.append(' ').append(byValue.ids(0, low + 1)).append('\n');
        }
        out.append("sum ").append(new Rows(1000).between(10, 900)).append('\n');
        for (String distribution : new String[] {"uniform", "zipfian"}) {
            for (long count : new long[] {1, 2, 3, 1000, 100_000}) {
                Choice choice = new Choice(distribution, count);
                Numbers numbers = new Numbers(count);
                out.append("choice");
                for (int draw = 0; draw < 100; draw++) {
                    out.append(' ').append(choice.next(numbers));
                }
                out.append('\n');
            }
        }
        System.out.print(out);
    }
}
