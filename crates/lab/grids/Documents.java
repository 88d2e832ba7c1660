/** The documents of {@code sql-json-sum}, byte for byte those of {@code crates/lab/src/workload/documents.rs}. */
final class Documents {
    /** Their map, which is their table in SQL. */
    static final String TABLE = "ashlar_lab_documents";

    /** The field that is summed up: the column {@code value} of the row with the same id. */
    static final String SUMMED = "value";

    /** Fields that are asked for. */
    private static final int ASKED = 2;

    private Documents() {}

    /** The document of an id, of so many fields. */
    static String of(long id, int fields) {
        StringBuilder text = new StringBuilder(800);
        text.append("{\"id\": ").append(id).append(", \"value\": ").append(Rows.value(id));
        for (int field = 1; field <= fields - ASKED; field++) {
            int filler = (int) Numbers.mix(id << 5 | field);
            text.append(field < 10 ? ", \"field_0" : ", \"field_").append(field).append("\": \"");
            text.append(String.format("%08x", filler)).append('"');
        }
        return text.append('}').toString();
    }
}
