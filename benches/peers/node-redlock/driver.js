// Drives redlock over stdin and stdout, as ../README.md says: one ioredis client, the options of redlock's README,
// which are its defaults.
"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { setTimeout: sleep } = require("timers/promises");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");

const LEASE_MS = 30_000;
const SETTINGS =
  "one ioredis client; default options: 10 retries, 100 to 300 ms between them; leases of 30 s";

const nanos = () => process.hrtime.bigint();

function version(name) {
  const file = path.join(__dirname, "node_modules", name, "package.json");
  return JSON.parse(fs.readFileSync(file)).version.replace(/^v/, "");
}

async function repeat(redlock, key, end, hold) {
  const task = { stamps: [], failures: 0n };
  for (let asked = nanos(); asked < end; asked = nanos()) {
    let lock;
    try {
      lock = await redlock.acquire([key], LEASE_MS);
    } catch (error) {
      task.failures += 1n;
      continue;
    }
    const held = nanos();
    if (hold > 0) {
      await sleep(hold);
    }
    const releasing = nanos();
    try {
      await lock.release();
    } catch (error) {
      task.failures += 1n;
    }
    task.stamps.push(asked, held, releasing, nanos());
  }
  return task;
}

function write(file, tasks) {
  const numbers = tasks.flatMap(({ stamps, failures }) => [
    BigInt(stamps.length / 4),
    failures,
    ...stamps,
  ]);
  fs.writeFileSync(file, new Uint8Array(BigUint64Array.from(numbers).buffer));
}

async function main() {
  const [host, port] = process.argv[2].split(":");
  const redis = new Redis({ host, port: Number(port) });
  const redlock = new Redlock([redis]);
  // An attempt that finds the lock busy is reported here too, and is no error.
  redlock.on("error", () => {});
  await redis.ping();
  console.log(`peer\t${version("redlock")}, ioredis ${version("ioredis")}, Node ${process.versions.node}\t${SETTINGS}`);
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const [, row, tasks, millis, hold, key, file] = line.value.split(" ");
    if (row === "fair") {
      console.log("no");
      continue;
    }
    console.log("ready");
    await lines.next();
    const end = nanos() + BigInt(millis) * 1_000_000n;
    const keys = Array.from({ length: Number(tasks) }, (_, task) => (row === "own" ? `${key}:${task}` : key));
    write(file, await Promise.all(keys.map((key) => repeat(redlock, key, end, Number(hold)))));
    console.log("done");
  }
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
