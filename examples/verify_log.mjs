// Verifies audit logs and proofs without toolgen: node verify_log.mjs KEY.pub FOLDER|PROOF.json ...   docs/reference/audit-format.md says what each step is.
// JSON.stringify writes strings and numbers as RFC 8785 asks for (it is made of ECMAScript's rules), so only the order of names is left to do.
import { createHash, createPublicKey, verify as good } from "node:crypto";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { gunzipSync } from "node:zlib";

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();
const utf8 = new TextDecoder("utf-8", { fatal: true });
const byUtf16 = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort(byUtf16).map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

function isSigned(kind, whole, key) {
  const id = sha256(Buffer.from(key.export({ format: "jwk" }).x, "base64url")).toString("hex").slice(0, 32);
  const data = Buffer.from(`toolgen audit ${kind} v1\n${canonical(whole[kind])}`);
  return whole[kind].key === id && good(null, data, key, Buffer.from(whole.signature, "base64"));
}

function statements(path, kind, key, faults) {
  const found = existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
  return found.flatMap((line, index) => {
    try {
      const whole = JSON.parse(line);
      if (isSigned(kind, whole, key)) return [whole[kind]];
    } catch {}
    faults.push(`${basename(path)}:${index + 1}: not signed by this key`);
    return [];
  });
}

function linesOf(path, active, faults) {
  const data = path.endsWith(".gz") ? gunzipSync(readFileSync(path)) : readFileSync(path);
  const end = data.lastIndexOf(10) + 1;
  const rest = data.subarray(end);
  const zeros = rest.indexOf(0) < 0 ? rest.length : rest.indexOf(0);
  const torn = rest.subarray(0, zeros);
  if ((rest.length && !active) || rest.subarray(zeros).some((byte) => byte) || (torn.length && torn[0] !== 123)) {
    faults.push(`${basename(path)}: bytes that are no entry stand at its end`);
  }
  return end ? data.subarray(0, end - 1).toString("latin1").split("\n").map((line) => Buffer.from(line, "latin1")) : [];
}

function hashOf({ hash, prev, ...content }) {
  return sha256(prev, canonical(content)).toString("hex");
}

function verifyStream(folder, stream, key) {
  const faults = [];
  const checkpoints = statements(join(folder, `${stream}.checkpoints`), "checkpoint", key, faults);
  const removals = statements(join(folder, `${stream}.removals`), "removal", key, faults);
  const signed = [...checkpoints, ...removals];
  const all = readdirSync(folder).filter((name) => name.startsWith(`${stream}.0`) && name.includes(".jsonl")).sort();
  const closed = all.filter((name) => !(name.endsWith(".gz") && all.includes(name.slice(0, -3)))); // packing was not finished
  let [seq, head] = [0, ""];
  for (const name of [...closed, `${stream}.jsonl`].filter((name) => existsSync(join(folder, name)))) {
    linesOf(join(folder, name), name === `${stream}.jsonl`, faults).forEach((line, index) => {
      let entry;
      try {
        const text = utf8.decode(line);
        entry = JSON.parse(text);
        if (canonical(entry) !== text || !Number.isInteger(entry.seq) || typeof entry.prev !== "string") throw new Error();
      } catch {
        faults.push(`${name}:${index + 1}: no entry`);
        return;
      }
      const let_go = (it) => it.size > entry.seq - 1 || (it.size === entry.seq - 1 && it.head === entry.prev);
      if (seq === 0 && removals.some(let_go)) [seq, head] = [entry.seq - 1, entry.prev];
      if (entry.seq !== seq + 1 || entry.prev !== head || entry.stream !== stream || hashOf(entry) !== entry.hash) {
        faults.push(`${name}:${index + 1}: edited, or not the entry that follows`);
      }
      [seq, head] = [entry.seq, entry.hash];
      if (signed.some((it) => it.size === seq && it.head !== head)) faults.push(`${name}:${index + 1}: not what was signed`);
    });
  }
  if (Math.max(seq, ...signed.map((it) => it.size)) > seq) faults.push(`${stream}: ends at entry ${seq}, but more was signed`);
  return faults;
}

function verifyLog(folder, key) {
  const names = readdirSync(folder).filter((name) => /\.(jsonl(\.gz)?|checkpoints)$/.test(name));
  const streams = [...new Set(names.map((name) => name.split(".")[0]))].sort();
  return streams.length ? streams.flatMap((stream) => verifyStream(folder, stream, key)) : ["contains no audit log"];
}

// RFC 9162, section 2.1.3.2, with an entry's own hash as its leaf.
function verifyProof(path, key) {
  const { entry, path: nodes, checkpoint: whole } = JSON.parse(readFileSync(path, "utf8"));
  const it = whole.checkpoint;
  if (!isSigned("checkpoint", whole, key)) return ["its checkpoint is not signed by this key"];
  if (hashOf(entry) !== entry.hash || entry.stream !== it.stream) return ["its entry was edited"];
  let [place, last, node] = [entry.seq - it.first, it.size - it.first, Buffer.from(entry.hash, "hex")];
  const possible = place >= 0 && place <= last;
  for (const beside of nodes.map((text) => Buffer.from(text, "hex"))) {
    if (last === 0) return ["its path is too long"];
    const right = place % 2 === 1 || place === last;
    node = right ? sha256("\x01", beside, node) : sha256("\x01", node, beside);
    while (right && place % 2 === 0 && place) [place, last] = [place / 2, Math.floor(last / 2)];
    [place, last] = [Math.floor(place / 2), Math.floor(last / 2)];
  }
  return possible && last === 0 && node.toString("hex") === it.root ? [] : ["its entry is not among those that were signed"];
}

const [keyPath, ...paths] = process.argv.slice(2);
const key = createPublicKey(readFileSync(keyPath));
const verdicts = paths.map((path) => [path, (statSync(path).isDirectory() ? verifyLog : verifyProof)(path, key)]);
for (const [path, faults] of verdicts) console.log(`${path}: ${faults.join("; ") || "intact"}`);
process.exit(verdicts.some(([, faults]) => faults.length) ? 1 : 0);
