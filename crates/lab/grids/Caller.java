/** One thread's requests and what it thinks of their answers. Only {@link #call} is timed. */
interface Caller {
    /** Makes the next request ready. */
    void make();

    /** Sends it and waits for its answer. An exception ends the measurement: whether the request was done is not known. */
    void call() throws Exception;

    /** What is wrong with the answer; null if nothing is. */
    String judge();

    /** After the last call: reads what was last written, and says what is wrong with it; null if nothing is. */
    String readBack() throws Exception;
}
