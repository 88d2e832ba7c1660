"""redis-py: strings, rows as hashes, pipelines, scans, channels and errors, in both protocol versions.

Runs against Redis too. The server comes from REDIS_HOST and REDIS_PORT; ON_ASHLAR=1 adds what Redis does not have.
"""

import os

import redis

ON_ASHLAR = os.environ.get("ON_ASHLAR") == "1"


def connect(protocol, **options):
    return redis.Redis(
        host=os.environ.get("REDIS_HOST", "127.0.0.1"),
        port=int(os.environ.get("REDIS_PORT", "6380")),
        protocol=protocol,
        **options,
    )


def strings(client, prefix):
    binary = bytes(range(256))
    assert client.set(prefix + "binary", binary) is True
    assert client.get(prefix + "binary") == binary
    assert client.get(prefix + "missing") is None
    assert client.set(prefix + "n", 1, nx=True) is True
    assert client.set(prefix + "n", 2, nx=True) is None
    assert client.set(prefix + "n", 5, xx=True, get=True) == b"1"
    assert client.incr(prefix + "n") == 6
    assert client.incrby(prefix + "n", 2**40) == 2**40 + 6
    assert client.decr(prefix + "n", 6) == 2**40
    assert client.mset({prefix + "a": "a", prefix + "b": "ß"}) is True
    assert client.mget(prefix + "a", prefix + "missing", prefix + "b") == [b"a", None, "ß".encode()]
    assert client.append(prefix + "a", "bc") == 3
    assert client.strlen(prefix + "a") == 3
    assert client.getrange(prefix + "a", 1, -1) == b"bc"
    assert client.setrange(prefix + "a", 1, "XY") == 3
    assert client.getdel(prefix + "a") == b"aXY"
    assert client.exists(prefix + "a", prefix + "b", prefix + "n") == 2
    assert client.type(prefix + "b") == b"string"
    big = b"x" * (8 << 20)
    assert client.set(prefix + "big", big) is True
    assert client.get(prefix + "big") == big
    assert client.delete(prefix + "binary", prefix + "n", prefix + "b", prefix + "big", prefix + "a") == 4


def pipelines(client, prefix):
    with client.pipeline(transaction=False) as batch:
        for i in range(1000):
            batch.set(f"{prefix}p{i}", i)
        for i in range(1000):
            batch.incr(f"{prefix}p{i}")
        replies = batch.execute()
    assert replies == [True] * 1000 + list(range(1, 1001))
    # An error in the middle is that command's alone.
    with client.pipeline(transaction=False) as batch:
        batch.set(prefix + "p0", "text").incr(prefix + "p0").get(prefix + "p0")
        replies = batch.execute(raise_on_error=False)
    assert replies[0] is True and replies[2] == b"text", replies
    assert isinstance(replies[1], redis.ResponseError), replies

    found = set(client.scan_iter(match=prefix + "p*", count=50))
    assert found == {f"{prefix}p{i}".encode() for i in range(1000)}, len(found)
    assert sorted(client.keys(prefix + "p99?")) == [f"{prefix}p{i}".encode() for i in range(990, 1000)]
    assert client.unlink(*(f"{prefix}p{i}" for i in range(1000))) == 1000
    assert list(client.scan_iter(match=prefix + "*")) == []


def transactions(client, prefix):
    """MULTI and EXEC, which is what a pipeline is by default, and a compare-and-set with WATCH."""
    one, two = prefix + "one", prefix + "two"
    with client.pipeline() as block:
        assert block.set(one, 1).incr(one).get(one).set(two, "b").execute() == [True, 2, b"2", True]
    with client.pipeline() as block:
        block.watch(one)
        seen = int(block.get(one))
        client.set(one, 10)
        block.multi()
        block.set(one, seen + 1)
        try:
            block.execute()
            raise AssertionError("EXEC went past a key that was changed")
        except redis.WatchError:
            pass
    # What redis-py has for it: tries until nobody interferes.
    tries = []

    def add(block):
        seen = int(block.get(one))
        tries.append(seen)
        if len(tries) == 1:
            client.incr(one)
        block.multi()
        block.set(one, seen + 100)

    assert client.transaction(add, one) == [True]
    assert tries == [10, 11] and client.get(one) == b"111", tries
    assert client.delete(one, two) == 2


def rows(client, number):
    key = f"fruit:{{{number}}}"
    assert client.hset(key, mapping={"name": "Apfel", "grams": 150}) == 2
    assert client.hset(key, "ripe", "t") == 1
    assert client.hset(key, mapping={"grams": 155}) == 0
    assert client.hget(key, "grams") == b"155"
    assert client.hget(key, "name") == b"Apfel"
    assert client.hmget(key, "ripe", "grams") == [b"t", b"155"]
    assert client.hincrby(key, "grams", -5) == 150
    assert client.hsetnx(key, "name", "Birne") == 0
    assert client.hexists(key, "ripe")
    assert client.hdel(key, "ripe") == 1
    assert not client.hexists(key, "ripe")
    row = client.hgetall(key)
    if ON_ASHLAR:  # a row has its key as a column
        assert row.pop(b"id") == str(number).encode(), row
    assert row == {b"name": b"Apfel", b"grams": b"150"}, row
    assert client.type(key) == b"hash"
    assert key.encode() in set(client.scan_iter(match="fruit:*"))
    try:
        client.get(key)
        raise AssertionError("a row was read as a string")
    except redis.ResponseError as error:
        assert str(error).startswith("WRONGTYPE"), error
    if ON_ASHLAR:
        # The columns have types, and a change that does not fit changes nothing.
        for field, value in (("grams", "heavy"), ("grams", 2**31), ("ripe", "perhaps"), ("colour", "red")):
            try:
                client.hset(key, mapping={"name": "changed", field: value})
                raise AssertionError(f"{field} = {value} was accepted")
            except redis.ResponseError:
                pass
        assert client.hget(key, "name") == b"Apfel"
        assert set(client.hkeys(key)) == {b"id", b"name", b"grams"}
        assert client.hlen(key) == 3
    assert client.delete(key) == 1
    assert client.hgetall(key) == {}
    assert client.exists(key) == 0


def names(client, prefix):
    """What a cache does with whole values: a new one takes the place of the old at once."""
    old, new = prefix + "page", prefix + "page:new"
    assert client.set(old, "old", ex=1000) is True
    assert client.set(new, "new") is True
    assert client.copy(new, old) == 0
    assert client.rename(new, old) is True
    assert client.get(old) == b"new" and client.ttl(old) == -1
    assert client.copy(old, new) == 1
    assert client.renamenx(new, old) is False
    assert client.object("ENCODING", old) == b"embstr"
    assert client.object("REFCOUNT", old) == 1
    assert client.lcs(old, new, len=True) == 3
    assert client.setbit(new, 1, 0) == 1
    assert client.bitcount(old) == client.bitcount(new) + 1
    assert client.delete(old, new) == 2


def channels(client, prefix):
    channel = prefix + "stale"
    with client.pubsub() as listener:
        listener.subscribe(channel)
        listener.psubscribe(prefix + "*")
        kinds = [listener.get_message(timeout=60)["type"] for _ in range(2)]
        assert kinds == ["subscribe", "psubscribe"], kinds
        assert client.publish(channel, "page") == 2
        with client.pipeline() as block:
            assert block.set(prefix + "page", 1).publish(channel, "pages").delete(prefix + "page").execute() == [True, 2, 1]
        heard = [listener.get_message(timeout=60) for _ in range(4)]
        assert [message["type"] for message in heard] == ["message", "pmessage"] * 2, heard
        assert [message["data"] for message in heard] == [b"page", b"page", b"pages", b"pages"], heard
        assert client.pubsub_numsub(channel) == [(channel.encode(), 1)]
        listener.unsubscribe()
        listener.punsubscribe()
        kinds = [listener.get_message(timeout=60)["type"] for _ in range(2)]
        assert kinds == ["unsubscribe", "punsubscribe"], kinds
    assert client.publish(channel, "nobody") == 0


def errors(client, prefix):
    client.set(prefix + "word", "word")
    for command, text in (
        (("INCR", prefix + "word"), "value is not an integer or out of range"),
        (("GET",), "wrong number of arguments for 'get' command"),
        (("SET", prefix + "word", "x", "NX", "XX"), "syntax error"),
        (("NOSUCHCOMMAND", "x"), "unknown command 'NOSUCHCOMMAND'"),
    ):
        try:
            client.execute_command(*command)
            raise AssertionError(f"no error: {command}")
        except redis.ResponseError as error:
            assert text in str(error), (command, error)
    assert client.delete(prefix + "word") == 1


def main():
    for protocol in (2, 3):
        with connect(protocol, client_name=f"tour-{protocol}") as client:
            assert client.ping() is True
            assert client.echo("hello") == b"hello"
            assert client.client_getname() in (f"tour-{protocol}", f"tour-{protocol}".encode())
            assert client.client_id() > 0
            assert "redis_version" in client.info("server")
            prefix = f"redis-py:{protocol}:"
            strings(client, prefix)
            pipelines(client, prefix)
            transactions(client, prefix)
            names(client, prefix)
            channels(client, prefix)
            rows(client, 200 + protocol)
            errors(client, prefix)
    with connect(3, decode_responses=True) as client:
        assert client.set("redis-py:text", "grün") is True
        assert client.get("redis-py:text") == "grün"
        assert client.delete("redis-py:text") == 1
    print("ok")


main()
