import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Date;
import org.apache.geode.pdx.PdxReader;
import org.apache.geode.pdx.PdxSerializable;
import org.apache.geode.pdx.PdxWriter;

/** A structured value as Geode's benchmarks have theirs: in PDX, field by field; a server keeps the bytes and knows no class of it. */
public final class GeodeValue implements PdxSerializable {
    private Structured value = new Structured();

    /** For the reader. */
    public GeodeValue() {}

    GeodeValue(Structured value) {
        this.value = value;
    }

    Structured value() {
        return value;
    }

    @Override
    public void toData(PdxWriter out) {
        out.writeLong("id", value.id).markIdentityField("id");
        out.writeLong("version", value.version);
        out.writeBoolean("active", value.active);
        out.writeString("status", value.status);
        out.writeLong("price", value.price);
        out.writeDouble("weight", value.weight);
        out.writeDate("opened", Date.from(value.opened.toInstant(ZoneOffset.UTC)));
        out.writeIntArray("positions", value.positions);
        out.writeString("holders", value.holders);
        out.writeString("note", value.note);
    }

    @Override
    public void fromData(PdxReader in) {
        value.id = in.readLong("id");
        value.version = in.readLong("version");
        value.active = in.readBoolean("active");
        value.status = in.readString("status");
        value.price = in.readLong("price");
        value.weight = in.readDouble("weight");
        value.opened = LocalDateTime.ofInstant(in.readDate("opened").toInstant(), ZoneOffset.UTC);
        value.positions = in.readIntArray("positions");
        value.holders = in.readString("holders");
        value.note = in.readString("note");
    }
}
