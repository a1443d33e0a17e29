'use strict';

// Gives JavaScript programs the tools of this sandbox: `callTool(name, args)`, `callTool.list()`
// and `ToolError`. Node runs this file at every start, in every thread, so it loads nothing before
// the first call.

(() => {
  const SOCKET = '/run/stockade/tools.sock';
  const LONE_SURROGATE = /\p{Surrogate}/u;
  const LINE_FEED = 10;

  /** A tool call failed; `code` is the reason in one word. */
  class ToolError extends Error {
    constructor(message, code = 'failed') {
      super(message);
      this.code = code;
    }

    get name() {
      return 'ToolError';
    }
  }

  /** The connection to the tool broker on the host; calls share it and are matched by id. */
  class Connection {
    constructor() {
      this.waiting = new Map();
      this.asked = 0;
      this.pieces = [];
      this.failure = null;
      this.socket = require('net').connect(process.env.STOCKADE_TOOLS_SOCKET || SOCKET);
      this.socket.on('data', (bytes) => this.take(bytes));
      this.socket.on('error', (error) => this.fail(unreachable(error)));
      this.socket.on('close', () => this.end());
    }

    /** Adds an id to a request and sends it; resolves to the answer, never rejects. */
    ask(request) {
      return new Promise((resolve) => {
        this.asked += 1;
        // Only a call that waits for its answer keeps the program alive.
        if (this.waiting.size === 0) this.socket.ref();
        this.waiting.set(this.asked, resolve);
        this.socket.write(`{"id":${this.asked}${request}\n`);
      });
    }

    take(bytes) {
      let begin = 0;
      for (let end; (end = bytes.indexOf(LINE_FEED, begin)) !== -1; begin = end + 1) {
        this.pieces.push(bytes.subarray(begin, end));
        const line = this.pieces.length === 1 ? this.pieces[0] : Buffer.concat(this.pieces);
        this.pieces = [];
        this.answer(line.toString('utf8'));
      }
      if (begin < bytes.length) this.pieces.push(bytes.subarray(begin));
    }

    answer(line) {
      let answer;
      try {
        answer = JSON.parse(line) || {};
      } catch {
        answer = {};
      }
      const resolve = this.waiting.get(answer.id);
      if (resolve === undefined) {
        // Protocol error: no running call gets an answer.
        this.fail(answer.error || broken('the answer is not valid'));
        this.socket.destroy();
        return;
      }
      this.waiting.delete(answer.id);
      if (this.waiting.size === 0) this.socket.unref();
      resolve(answer);
    }

    fail(error) {
      if (this.failure === null) this.failure = error;
    }

    end() {
      if (connection === this) connection = null;
      const error = this.failure || broken('the host closed it');
      for (const resolve of this.waiting.values()) resolve({ error });
      this.waiting.clear();
    }
  }

  let connection = null;

  async function ask(request) {
    if (connection === null) connection = new Connection();
    const answer = await connection.ask(request);
    // Created here and not where the answer arrived, so that the stack names the caller.
    if (answer.error) throw new ToolError(answer.error.message, answer.error.code);
    return answer.result;
  }

  function broken(why) {
    return { code: 'broken', message: `the connection to the host was lost before the answer: ${why}` };
  }

  function unreachable(error) {
    if (error.syscall !== 'connect') return broken(error.message);
    return { code: 'broken', message: `no tool can be called: the socket of the tools cannot be reached (${error.message})` };
  }

  /** Calls a tool with an object of arguments; resolves to its result. */
  async function callTool(name, args = {}) {
    if (typeof name !== 'string') throw new TypeError(`the name of a tool is a string, not ${typeof name}`);
    const text = isPlain(args) ? written(args, name) : '';
    if (!String(text).startsWith('{')) throw new TypeError(`${name}: arguments are an object, such as {query: "x"}`);
    return await ask(`,"call":${written(name, name)},"arguments":${text}}`);
  }

  /** The tools that can be called: name, description, input_schema, maybe output_schema. */
  async function list() {
    return await ask(',"list":true}');
  }

  /** JSON with the same meaning; JSON.stringify alone writes null for values that JSON lacks. */
  function written(value, tool) {
    try {
      return JSON.stringify(value, function check(key, inner) {
        const odd = oddity(inner, this);
        const place = key === '' ? 'the value' : `\`${key.slice(0, 60)}\``;
        if (odd !== null) throw new TypeError(`${tool}: ${place} ${odd}`);
        if (LONE_SURROGATE.test(key)) throw new TypeError(`${tool}: a key has a lone surrogate`);
        return inner;
      });
    } catch (error) {
      if (error instanceof RangeError) throw new TypeError(`${tool}: the arguments are nested too deep`);
      throw error;
    }
  }

  function oddity(value, holder) {
    switch (typeof value) {
      case 'boolean': return null;
      case 'number': return Number.isFinite(value) ? null : `is ${value}, and JSON has no such number`;
      case 'string': return LONE_SURROGATE.test(value) ? 'is not valid text: it has a lone surrogate' : null;
      // Omitted from an object, as everywhere in JavaScript; an array cannot omit it.
      case 'undefined': return Array.isArray(holder) ? 'is undefined in an array, which is not JSON' : null;
      case 'object': return value === null || Array.isArray(value) || isPlain(value) ? null
        : `is a ${value.constructor.name}, which is not JSON`;
      default: return `is a ${typeof value}, which is not JSON`;
    }
  }

  /** Whether JSON.stringify writes everything in an object. */
  function isPlain(value) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const hollow = [Map, Set, WeakMap, WeakSet, Promise, RegExp, Error, ArrayBuffer, SharedArrayBuffer];
    return !ArrayBuffer.isView(value) && !hollow.some((kind) => value instanceof kind);
  }

  Object.defineProperty(callTool, 'list', { value: list, writable: true, configurable: true });
  for (const [name, value] of Object.entries({ callTool, ToolError })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
})();
