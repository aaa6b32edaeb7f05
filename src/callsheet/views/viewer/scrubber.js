// The slider over the events of the run; all panels show the run after the current event.
import { useMemo } from "preact/hooks";
import { Moment, duration, html } from "./ui.js";
import { goTo, isPlaying, model, play, seq } from "./state.js";

const MARKS = 240;

export function Scrubber() {
  const data = model.value;
  const at = data.events[seq.value - 1];
  return html`<section class="scrub" aria-label="Playback">
    <div class="buttons">
      <button class="plain" onClick=${() => goTo(1)} aria-label="First event" title="First event (g)">|◀</button>
      <button class="plain" onClick=${() => goTo(seq.value - 1)} aria-label="Previous event"
          title="Previous event (h)">◀</button>
      <button class="plain play" onClick=${play} aria-pressed=${isPlaying.value}
          title="Playback of the journal; nothing is executed (space)">${isPlaying.value ? "❚❚ pause" : "► play"}</button>
      <button class="plain" onClick=${() => goTo(seq.value + 1)} aria-label="Next event"
          title="Next event (l)">▶</button>
      <button class="plain" onClick=${() => goTo(data.last)} aria-label="Last event"
          title="Last event (G)">▶|</button>
    </div>
    <div class="track">
      <${Density} data=${data} />
      <input type="range" min="1" max=${data.last} step="1" value=${seq.value} aria-label="Event"
        aria-valuetext=${at ? `event ${at.seq} of ${data.last}, ${at.type} ${at.key}` : ""}
        onInput=${(event) => goTo(Number(event.currentTarget.value))} />
    </div>
    <output class="now"><b>event ${seq.value}</b>/${data.last} <code>${at ? at.type : ""} ${at ? at.key : ""}</code>
      <span class="quiet">${at ? html`+${duration(at.t)} · <${Moment} at=${data.clockAt(at.t)} isPrecise=${true} />` : ""}</span></output>
  </section>`;
}

// Marks of errors, calls in doubt and questions along the slider.
function Density({ data }) {
  const marks = useMemo(() => {
    const found = new Map();
    for (const event of data.events) {
      if (event.type !== "err" && event.type !== "in_doubt" && event.type !== "ask") continue;
      const place = Math.round(((event.seq - 1) / Math.max(1, data.last - 1)) * MARKS);
      if (found.get(place) !== "err") found.set(place, event.type);
    }
    return [...found];
  }, [data]);
  return html`<svg class="density" viewBox="0 0 ${MARKS} 10" preserveAspectRatio="none" aria-hidden="true">
    ${marks.map(([place, type]) => html`<rect key=${place} class=${type} x=${Math.min(MARKS - 1, place)} y="0"
        width="1" height="10" />`)}
  </svg>`;
}
