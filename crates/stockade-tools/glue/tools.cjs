'use strict';

// Gives JavaScript programs the tools of this sandbox: `callTool(name, args)`, `callTool.list()`
// and `ToolError`. Node runs this file whenever it starts, in every thread, so it loads nothing
// before the first call.

(() => {
  const SOCKET = '/run/stockade/tools.sock';
  const LONE_SURROGATE = /\p{Surrogate}/u;
  const LINE_FEED = 10;

  /** A call to a tool has no result; `code` says in one word why. */
  class ToolError extends Error {
    constructor(message, code = 'failed') {
      super(message);
      this.code = code;
    }

    get name() {
      return 'ToolError';
    }
  }

  /** The connection to the desk on the host; calls share it, and their ids tell them apart. */
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

    /** Sends a request that still lacks its id; resolves to the answer, never rejects. */
    ask(request) {
      return new Promise((resolve) => {
        this.asked += 1;
        // A call that waits for its answer keeps the program alive, and nothing else does.
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
        // One side did not understand the other: no call that is under way has an answer.
        this.fail(answer.error || broken('the answer is no answer'));
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
    // Made here and not where the answer came in, so that the stack names the caller.
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

  /** JSON that means what it was given; JSON.stringify alone makes null of what it cannot say. */
  function written(value, tool) {
    try {
      return JSON.stringify(value, function check(key, inner) {
        const odd = oddity(inner, this);
        const place = key === '' ? 'what was passed' : `\`${key.slice(0, 60)}\``;
        if (odd !== null) throw new TypeError(`${tool}: ${place} ${odd}`);
        if (LONE_SURROGATE.test(key)) throw new TypeError(`${tool}: a lone surrogate is in a key`);
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
      case 'string': return LONE_SURROGATE.test(value) ? 'is no text: a lone surrogate is in it' : null;
      // Left out of an object, as everywhere in JavaScript; an array cannot leave it out.
      case 'undefined': return Array.isArray(holder) ? 'is undefined in an array, which is no JSON' : null;
      case 'object': return value === null || Array.isArray(value) || isPlain(value) ? null
        : `is a ${value.constructor.name}, which is no JSON`;
      default: return `is a ${typeof value}, which is no JSON`;
    }
  }

  /** Whether JSON.stringify writes all that an object holds. */
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
