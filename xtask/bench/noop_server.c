/*
 * The ceiling of the key rows: a server that does nothing. It answers every command with the same bytes, without reading what
 * it says, so no server can be quicker under this client on this machine.
 *
 * Compiled by the benchmark with `cc -O2`. Arguments: a port of the loopback interface, and how many bytes a value has; 0 answers +OK.
 * Says `ok ready` when it listens, and ends when its standard input does.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_MAX = 1024, READ_MAX = 1 << 16, VALUE_MAX = 4096 };

static char replies[READ_MAX * 4];
static size_t reply_length;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* As many replies as fit, one after the other, so that those to a whole pipeline are one write. */
static void prepare(size_t value_bytes) {
    char reply[VALUE_MAX + 32];
    if (value_bytes == 0) {
        reply_length = (size_t)sprintf(reply, "+OK\r\n");
    } else {
        reply_length = (size_t)sprintf(reply, "$%zu\r\n", value_bytes);
        memset(reply + reply_length, 'x', value_bytes);
        reply_length += value_bytes;
        memcpy(reply + reply_length, "\r\n", 2);
        reply_length += 2;
    }
    for (size_t at = 0; at + reply_length <= sizeof replies; at += reply_length) {
        memcpy(replies + at, reply, reply_length);
    }
}

/* Answers what one read delivers; 0 when the client has gone. */
static int answer(int client) {
    static char request[READ_MAX];
    ssize_t count = read(client, request, sizeof request);
    if (count <= 0) {
        return 0;
    }
    /* A command begins with an asterisk, and redis-benchmark's keys and values hold none. */
    size_t commands = 0;
    for (ssize_t at = 0; at < count; at++) {
        commands += request[at] == '*';
    }
    size_t fitting = sizeof replies / reply_length;
    while (commands > 0) {
        size_t now = commands < fitting ? commands : fitting;
        size_t left = now * reply_length;
        for (const char *from = replies; left > 0;) {
            ssize_t written = write(client, from, left);
            if (written <= 0) {
                return 0;
            }
            from += written;
            left -= (size_t)written;
        }
        commands -= now;
    }
    return 1;
}

static void watch(int epoll, int file) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = file}};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event) != 0) {
        fail("epoll_ctl");
    }
}

int main(int count, char **arguments) {
    if (count != 3 || atoi(arguments[2]) < 0 || atoi(arguments[2]) > VALUE_MAX) {
        fprintf(stderr, "a port and a number of bytes up to %d are needed\n", VALUE_MAX);
        return 2;
    }
    prepare((size_t)atoi(arguments[2]));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 511) != 0) {
        fail("listening");
    }
    int epoll = epoll_create1(0);
    watch(epoll, STDIN_FILENO);
    watch(epoll, listener);
    puts("ok ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int place = 0; place < ready; place++) {
            int file = events[place].data.fd;
            if (file == STDIN_FILENO) {
                return 0;
            }
            if (file == listener) {
                int client = accept(listener, NULL, NULL);
                if (client >= 0) {
                    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                    watch(epoll, client);
                }
            } else if (!answer(file)) {
                close(file);
            }
        }
    }
}
