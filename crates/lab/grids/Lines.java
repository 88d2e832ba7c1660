import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The conversation with the lab that started this program: a command a line on standard input, an answer a line on
 * standard output, {@code ok ...} or {@code error ...}. A command that takes long may say lines of its own before. The line {@code stop}
 * has no answer: it asks what is under way to end early. The end of the input ends the program, so that none outlives the lab.
 */
final class Lines {
    /** Answers one command at a time, given as its words. */
    interface Commands {
        String answer(String[] words) throws Exception;

        /** Called on another thread while a command is under way, or none is. */
        default void stop() {}
    }

    private final PrintStream answers = System.out;

    /** Takes standard output for the answers: whatever else the program prints goes to the error output. */
    Lines() {
        System.setOut(System.err);
    }

    /** Says a line; one line only. */
    void say(String line) {
        answers.println(line.replace('\n', ' ').replace('\r', ' '));
    }

    /** Says that the program is ready, then answers until the input ends. */
    void serve(Commands commands) throws IOException {
        say("ok ready");
        // Of its own, so that a line can be read while a command is under way.
        ExecutorService worker = Executors.newSingleThreadExecutor();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String command = line;
            if (command.equals("stop")) {
                commands.stop();
            } else {
                worker.execute(() -> say(answer(commands, command)));
            }
        }
        commands.stop();
    }

    private static String answer(Commands commands, String command) {
        try {
            return "ok " + commands.answer(command.split(" "));
        } catch (Exception | Error error) {
            error.printStackTrace();
            return "error " + error;
        }
    }
}
