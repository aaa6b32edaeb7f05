// Where the viewer's data comes from: the page itself, or a server that tells when there is more.
//
// A source is { isLive, open(show, fail) }: `show(document)` is called with the data, and again when it has grown.

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
  return {
    isLive: true,
    open(show, fail) {
      let isAsking = false;
      let isStale = false;
      const ask = async () => {
        if (isAsking) {
          isStale = true;
          return;
        }
        isAsking = true;
        try {
          const answer = await fetch(documents, { headers: { accept: "application/json" } });
          if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
          show(await answer.json());
        } catch (error) {
          fail(`the server gave no data: ${error.message}`);
        }
        setTimeout(() => {
          isAsking = false;
          if (isStale) {
            isStale = false;
            ask();
          }
        }, 400);
      };
      ask();
      if (events) new EventSource(events).onmessage = ask;
    },
  };
}
