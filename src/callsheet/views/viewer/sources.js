// Sources of the viewer's data: the page itself, or a server that reports changes.
//
// A source is { isLive, open(show, fail) }: `show(document)` is called with the data, and again after changes.
// `open` may return a function that closes the source; `wake()` requests the data again after an action.

import { applyChanges } from "./changes.js";
import { clockAhead, reports } from "./state.js";

const CLOCK_PRECISION = 2; // the difference of clocks, in seconds, that is ignored
const MIN_INTERVAL = 400; // the minimum time between two requests, in milliseconds
const RETRY_INTERVAL = 5000; // the time until a refused stream is requested again, in milliseconds

export function embedded(element) {
  return {
    isLive: false,
    open(show, fail) {
      let data;
      try {
        data = JSON.parse(element.textContent);
      } catch (error) {
        fail(`the data of this page cannot be read: ${error.message}`);
        return;
      }
      show(data);
    },
  };
}

// `documents` is the URL of the document, `events` that of a stream with a message for each change of the journal.
// `onSignedOut` is called when the server requires to sign in again, as after a restart with another token.
export function served(documents, events, onSignedOut = () => {}) {
  const source = {
    isLive: true,
    wake() {},
    open(show, fail) {
      let stream = null;
      let isLoading = false;
      let isStale = false;
      let isClosed = false;
      let data = null; // the last document
      let etag = "";
      let refusal = ""; // why the server does not report changes
      const load = async () => {
        if (isClosed) return;
        if (isLoading) {
          isStale = true;
          return;
        }
        isLoading = true;
        const began = performance.now();
        try {
          const base = etag ? `${documents.includes("?") ? "&" : "?"}base=${etag}` : "";
          const answer = await fetch(documents + base, { headers: { accept: "application/json" } });
          if (answer.status === 401) onSignedOut();
          if (!answer.ok) throw new Error(await reason(answer));
          clockAhead.value = aheadBy(answer.headers.get("date"));
          const update = await answer.json();
          if (isClosed) return;
          data = update.base ? applyChanges(data, update) : update;
          etag = (answer.headers.get("etag") || "").replaceAll('"', "");
          show(data);
          if (refusal) fail(refusal);
          if (!stream && events) stream = listen(data.events ? data.events.rows.length : 0);
        } catch (error) {
          if (!isClosed) fail(`the server returned no data: ${error.message}`);
        }
        // the document of a long run takes longer, so it is requested less often
        const pause = Math.max(MIN_INTERVAL, 3 * (performance.now() - began));
        setTimeout(() => {
          isLoading = false;
          if (isStale) {
            isStale = false;
            load();
          }
        }, pause);
      };
      const listen = (after) => {
        const opened = new EventSource(`${events}${events.includes("?") ? "&" : "?"}after=${after}`);
        opened.onmessage = load;
        opened.onopen = () => (refusal = "");
        opened.onerror = () => {
          load(); // shows an error if the server is gone; the browser reconnects the stream itself
          if (opened.readyState === EventSource.CLOSED && opened === stream) retry();
        };
        opened.addEventListener("standing", load);
        opened.addEventListener("progress", (event) => (reports.value = JSON.parse(event.data).calls));
        opened.addEventListener("end", () => {
          reports.value = [];
          opened.close(); // otherwise the browser would reconnect forever
          load();
        });
        return opened;
      };
      // A refused stream is not reconnected by the browser, which does not tell the reason either.
      const retry = async () => {
        const abort = new AbortController();
        try {
          const answer = await fetch(events, { signal: abort.signal });
          refusal = answer.ok ? "" : await reason(answer);
        } catch {
          refusal = ""; // the server is gone, which the next load reports
        }
        abort.abort();
        if (refusal) fail(refusal);
        setTimeout(() => {
          stream = null;
          load();
        }, RETRY_INTERVAL);
      };
      source.wake = () => {
        if (stream && stream.readyState === EventSource.CLOSED) stream = null;
        load();
      };
      const onVisibilityChange = () => {
        if (!document.hidden) load();
        else if (stream) {
          stream.close(); // browsers allow few connections to a server, and this page is hidden
          stream = null;
        }
      };
      document.addEventListener("visibilitychange", onVisibilityChange);
      load();
      return () => {
        isClosed = true;
        document.removeEventListener("visibilitychange", onVisibilityChange);
        if (stream) stream.close();
      };
    },
  };
  return source;
}

// By how many seconds the clock of the server is ahead of this one; 0 within the precision of its header.
function aheadBy(date) {
  const ahead = (Date.parse(date || "") - Date.now()) / 1000;
  return Math.abs(ahead) > CLOCK_PRECISION ? ahead : 0;
}

// The reason of an error response: the detail of its problem document, otherwise the status.
async function reason(answer) {
  try {
    const problem = await answer.json();
    const [first] = problem.diagnostics || [];
    const help = first && first.help ? `; ${first.help}` : "";
    return problem.detail ? problem.detail + help : `${answer.status} ${answer.statusText}`;
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}
