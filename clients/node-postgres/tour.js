// node-postgres: parameters, types, a pool, transactions, cursors (portals with row limits), error fields, notices.
// Plain PostgreSQL: the same program runs against both servers. Host and port come from PGHOST and PGPORT.
'use strict';

const assert = require('node:assert/strict');
const { Client, Pool, types } = require('pg');
const Cursor = require('pg-cursor');

async function typesBothWays(client) {
  await client.query(`CREATE TABLE node_types (
    id integer PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision, n numeric(20,5),
    t text, v varchar(20), bin bytea, d date, tm time, ts timestamp, tz timestamptz, u uuid, j json, jb jsonb,
    ints integer[], texts text[])`);
  const moment = new Date('2024-07-01T12:00:00.123Z');
  const marks = Array.from({ length: 19 }, (_, i) => `$${i + 1}`).join(', ');
  await client.query(`INSERT INTO node_types VALUES (${marks})`, [
    1, true, -32768, '9223372036854775807', 1.5, 0.1, '123456789012345.67891', 'grün 🌳', 'varchar',
    Buffer.from([0, 1, 255, 92, 39]), '2024-02-29', '23:59:59.5', '1999-12-31 23:59:59.000001', moment,
    '01234567-89ab-cdef-0123-456789abcdef', JSON.stringify({ b: 1, a: [null] }), { b: 1, a: [null] },
    [1, null, 3], ['a,b', 'q"q', null, ''],
  ]);
  await client.query('INSERT INTO node_types (id) VALUES ($1)', [2]);
  // Dates and timestamps without a zone as their text: JavaScript's Date would put them into the machine's zone.
  const text = { getTypeParser: (oid, format) => ([1082, 1114].includes(oid) ? (value) => value : types.getTypeParser(oid, format)) };
  const { rows, fields } = await client.query({ text: 'SELECT * FROM node_types ORDER BY id', types: text });
  assert.deepEqual(rows[0], {
    id: 1, b: true, i2: -32768, i8: '9223372036854775807', f4: 1.5, f8: 0.1, n: '123456789012345.67891',
    t: 'grün 🌳', v: 'varchar', bin: Buffer.from([0, 1, 255, 92, 39]), d: '2024-02-29', tm: '23:59:59.5',
    ts: '1999-12-31 23:59:59.000001', tz: moment, u: '01234567-89ab-cdef-0123-456789abcdef',
    j: { b: 1, a: [null] }, jb: { a: [null], b: 1 }, ints: [1, null, 3], texts: ['a,b', 'q"q', null, ''],
  });
  assert.ok(Object.entries(rows[1]).every(([name, value]) => name === 'id' || value === null), rows[1]);
  const oids = [23, 16, 21, 20, 700, 701, 1700, 25, 1043, 17, 1082, 1083, 1114, 1184, 2950, 114, 3802, 1007, 1009];
  assert.deepEqual(fields.map((field) => field.dataTypeID), oids);
  await client.query('DROP TABLE node_types');
}

async function statements(client) {
  await client.query('CREATE TABLE node_item (id bigint PRIMARY KEY, name text NOT NULL, price numeric(8,2), sold integer)');
  for (let id = 1; id <= 100; id += 1) {
    const result = await client.query('INSERT INTO node_item VALUES ($1, $2, $3, $4)', [id, `item ${id}`, id / 4, id % 10]);
    assert.deepEqual([result.command, result.rowCount], ['INSERT', 1]);
  }
  const found = await client.query('SELECT name, price FROM node_item WHERE id = $1', [42]);
  assert.deepEqual(found.rows, [{ name: 'item 42', price: '10.50' }]);
  const arrays = await client.query({ text: 'SELECT id, sold FROM node_item WHERE id < $1 ORDER BY id', values: [3], rowMode: 'array' });
  assert.deepEqual(arrays.rows, [['1', 1], ['2', 2]]);
  // A named statement is parsed once for its connection.
  for (let id = 1; id <= 20; id += 1) {
    const { rows } = await client.query({ name: 'by id', text: 'SELECT name FROM node_item WHERE id = $1', values: [id] });
    assert.deepEqual(rows, [{ name: `item ${id}` }]);
  }
  const updated = await client.query('UPDATE node_item SET price = price * 2 WHERE sold = $1 RETURNING id', [3]);
  assert.equal(updated.rowCount, 10);
  assert.equal(updated.rows.length, 10);
  const several = await client.query("SELECT 1 AS one; SELECT 'two' AS two; UPDATE node_item SET sold = 0 WHERE id = 1");
  assert.deepEqual(several.map((result) => result.command), ['SELECT', 'SELECT', 'UPDATE']);
  assert.deepEqual(several[1].rows, [{ two: 'two' }]);
  const any = await client.query('SELECT id FROM node_item WHERE id = ANY($1) ORDER BY id', [[2, 7, 500]]);
  assert.deepEqual(any.rows, [{ id: '2' }, { id: '7' }]);
  const upsert = await client.query(
    'INSERT INTO node_item VALUES ($1, $2, 1, 1) ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING name, sold', [5, 'upserted']);
  assert.deepEqual(upsert.rows, [{ name: 'upserted', sold: 5 }]);
  const empty = await client.query('');
  assert.deepEqual(empty.rows, []);
}

async function cursors(client) {
  const cursor = client.query(new Cursor('SELECT id FROM node_item WHERE id <= $1 ORDER BY id', [10]));
  assert.deepEqual((await cursor.read(3)).map((row) => row.id), ['1', '2', '3']);
  assert.deepEqual((await cursor.read(5)).map((row) => row.id), ['4', '5', '6', '7', '8']);
  assert.deepEqual((await cursor.read(5)).map((row) => row.id), ['9', '10']);
  assert.deepEqual(await cursor.read(5), []);
  await cursor.close();
  const abandoned = client.query(new Cursor('SELECT a.id FROM node_item a, node_item b, node_item c, node_item d, node_item e'));
  assert.equal((await abandoned.read(2)).length, 2);
  await abandoned.close();
  assert.deepEqual((await client.query('SELECT 1 AS after')).rows, [{ after: 1 }]);
}

async function pool() {
  const shared = new Pool({ max: 8 });
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) =>
    shared.query('SELECT name FROM node_item WHERE id = $1', [(i % 4) + 1])));
  answers.forEach((answer, i) => assert.deepEqual(answer.rows, [{ name: `item ${(i % 4) + 1}` }]));
  // Different rows by different connections at the same time: nothing is lost.
  await Promise.all(Array.from({ length: 50 }, (_, i) =>
    shared.query('UPDATE node_item SET sold = sold + 1000 WHERE id = $1', [i + 1])));
  const { rows } = await shared.query('SELECT count(*) AS changed FROM node_item WHERE sold >= 1000');
  assert.deepEqual(rows, [{ changed: '50' }]);
  await shared.end();
}

async function transactions(client) {
  await client.query('BEGIN');
  await client.query("UPDATE node_item SET name = 'kept' WHERE id = 1");
  await client.query('SAVEPOINT s');
  await assert.rejects(client.query("INSERT INTO node_item VALUES (1, 'duplicate', 1, 1)"), { code: '23505' });
  await assert.rejects(client.query('SELECT 1'), { code: '25P02' });
  await client.query('ROLLBACK TO SAVEPOINT s');
  await client.query('COMMIT');
  await client.query('BEGIN');
  await client.query('DELETE FROM node_item');
  assert.equal((await client.query('SELECT * FROM node_item')).rowCount, 0);
  await client.query('ROLLBACK');
  const { rows } = await client.query('SELECT name FROM node_item WHERE id = 1');
  assert.deepEqual(rows, [{ name: 'kept' }]);
  // COMMIT of a failed transaction rolls back and says so.
  await client.query('BEGIN');
  await assert.rejects(client.query('SELECT 1 / 0'), { code: '22012' });
  assert.equal((await client.query('COMMIT')).command, 'ROLLBACK');
}

async function errors(client) {
  const cases = [
    ['42P01', 'SELECT * FROM node_missing'],
    ['42703', 'SELECT missing FROM node_item'],
    ['42883', 'SELECT no_such_function(1)'],
    ['23505', "INSERT INTO node_item VALUES (1, 'x', 1, 1)"],
    ['23502', 'INSERT INTO node_item (id) VALUES (900)'],
    ['22003', "INSERT INTO node_item VALUES (900, 'x', 12345678, 1)"],
    ['22012', 'SELECT 1 % 0'],
    ['22P02', "SELECT 'x'::bigint"],
  ];
  for (const [code, sql] of cases) {
    await assert.rejects(client.query(sql), { code, severity: 'ERROR' }, sql);
  }
  await assert.rejects(client.query('SELECT 1 FROM WHERE'), { code: '42601', position: '15' });
  await assert.rejects(client.query('SELECT id FROM node_item WHERE id = $1', ['not a number']), { code: '22P02' });
  await assert.rejects(client.query('SELECT id FROM node_item WHERE id = $1 AND name = $2', [1]), { code: '08P01' });
  assert.deepEqual((await client.query('SELECT 1 AS alive')).rows, [{ alive: 1 }]);
}

async function notices(client) {
  const seen = [];
  client.on('notice', (notice) => seen.push(`${notice.severity} ${notice.code}`));
  await client.query('DROP TABLE IF EXISTS node_never_was');
  await client.query('COMMIT');
  assert.deepEqual(seen, ['NOTICE 00000', 'WARNING 25P01']);
}

async function main() {
  const client = new Client();
  await client.connect();
  await client.query('DROP TABLE IF EXISTS node_types');
  await client.query('DROP TABLE IF EXISTS node_item');
  await typesBothWays(client);
  await statements(client);
  await cursors(client);
  await pool();
  await transactions(client);
  await errors(client);
  await notices(client);
  await client.query('DROP TABLE node_item');
  await client.end();
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
