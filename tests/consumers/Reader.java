import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonDeserializer;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Date;
import java.util.List;

/** Reads every line of a file into a class with Gson and with Jackson and prints what the object then holds. */
public class Reader {
  public static void main(String[] args) throws Exception {
    Class<?> target = Class.forName(args[0]);
    Gson gson = new GsonBuilder()
        .registerTypeAdapter(Date.class, (JsonDeserializer<Date>) (json, type, context) -> new Date(json.getAsLong()))
        .create();
    ObjectMapper jackson = new ObjectMapper()
        .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
        .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT);
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    for (String line : Files.readAllLines(Paths.get(args[1]), StandardCharsets.UTF_8)) {
      out.println(attempt(() -> gson.fromJson(line, target)));
      out.println(attempt(() -> jackson.readValue(line, target)));
    }
  }

  interface Reading { Object read() throws Exception; }

  static String attempt(Reading reading) throws Exception {
    Object value;
    try {
      value = reading.read();
    } catch (Exception error) {
      return text("refused: " + error.getClass().getSimpleName());
    }
    StringBuilder out = new StringBuilder();
    dump(value, out);
    return out.toString();
  }

  static void dump(Object value, StringBuilder out) throws Exception {
    if (value == null || value instanceof Boolean || value instanceof Long || value instanceof Integer
        || value instanceof Double) {
      out.append(value);
    } else if (value instanceof String) {
      out.append(text((String) value));
    } else if (value instanceof BigDecimal) {
      out.append(text(((BigDecimal) value).toPlainString()));
    } else if (value instanceof Date) {
      out.append(((Date) value).getTime());
    } else if (value instanceof List) {
      out.append('[');
      String comma = "";
      for (Object item : (List<?>) value) {
        out.append(comma);
        dump(item, out);
        comma = ",";
      }
      out.append(']');
    } else {
      out.append('{');
      String comma = "";
      for (Field field : value.getClass().getFields()) {
        out.append(comma).append(text(field.getName())).append(':');
        dump(field.get(value), out);
        comma = ",";
      }
      out.append('}');
    }
  }

  static String text(String value) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : value.toCharArray()) {
      out.append(c < ' ' || c > '~' || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
    }
    return out.append('"').toString();
  }
}
