import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * The conversation with the benchmark that started this program: a command a line on standard input, an answer a line on
 * standard output, {@code ok ...} or {@code error ...}. The end of the input ends the program, so that none outlives
 * the benchmark.
 */
final class Lines {
    /** Answers one command, given as its words. */
    interface Commands {
        String answer(String[] words) throws Exception;
    }

    private final PrintStream answers = System.out;

    /** Takes standard output for the answers: whatever else the program prints goes to the error output. */
    Lines() {
        System.setOut(System.err);
    }

    /** Says that the program is ready, then answers until the input ends. */
    void serve(Commands commands) throws IOException {
        answers.println("ok ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = "ok " + commands.answer(line.split(" "));
            } catch (Exception | Error error) {
                error.printStackTrace();
                answer = "error " + error.toString().replace('\n', ' ');
            }
            answers.println(answer);
        }
    }
}
