// Where the viewer's data comes from: the page itself, or a server that tells when there is more.
//
// A source is { isLive, open(show, fail) }: `show(document)` is called with the data, and again when it has grown.
// What `open` gives back, if anything, ends that; `wake()` asks anew, after something was done with the run.

import { grown } from "./grown.js";

const PAUSE = 400; // milliseconds at least between two documents

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

// `documents` is the address of the document, `events` that of a stream whose messages say that the journal has grown.
export function served(documents, events) {
  const source = {
    isLive: true,
    wake() {},
    open(show, fail) {
      let stream = null;
      let isAsking = false;
      let isStale = false;
      let isClosed = false;
      let data = null; // the document as it was given last
      let name = ""; // by which the server knows it
      const ask = async () => {
        if (isClosed) return;
        if (isAsking) {
          isStale = true;
          return;
        }
        isAsking = true;
        const began = performance.now();
        try {
          const base = name ? `${documents.includes("?") ? "&" : "?"}base=${name}` : "";
          const answer = await fetch(documents + base, { headers: { accept: "application/json" } });
          if (!answer.ok) throw new Error(await reason(answer));
          const told = await answer.json();
          if (isClosed) return;
          data = told.base ? grown(data, told) : told;
          name = (answer.headers.get("etag") || "").replaceAll('"', "");
          show(data);
          if (!stream && events) stream = listen(data.events ? data.events.rows.length : 0);
        } catch (error) {
          if (!isClosed) fail(`the server gave no data: ${error.message}`);
        }
        // a long run takes longer to tell: it is asked for less often
        const pause = Math.max(PAUSE, 3 * (performance.now() - began));
        setTimeout(() => {
          isAsking = false;
          if (isStale) {
            isStale = false;
            ask();
          }
        }, pause);
      };
      const listen = (after) => {
        const opened = new EventSource(`${events}${events.includes("?") ? "&" : "?"}after=${after}`);
        opened.onmessage = ask;
        opened.onerror = ask; // which says whether the server is gone; the browser itself asks for the stream again
        opened.addEventListener("standing", ask);
        opened.addEventListener("end", () => {
          opened.close(); // else the browser would ask again, for ever
          ask();
        });
        return opened;
      };
      source.wake = () => {
        if (stream && stream.readyState === EventSource.CLOSED) stream = null;
        ask();
      };
      const look = () => {
        if (!document.hidden) ask();
        else if (stream) {
          stream.close(); // browsers have few streams for one server: nobody looks at this one
          stream = null;
        }
      };
      document.addEventListener("visibilitychange", look);
      ask();
      return () => {
        isClosed = true;
        document.removeEventListener("visibilitychange", look);
        if (stream) stream.close();
      };
    },
  };
  return source;
}

// Why a server gave no answer: what its problem says, else the status.
async function reason(answer) {
  try {
    return (await answer.json()).detail || `${answer.status} ${answer.statusText}`;
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}
