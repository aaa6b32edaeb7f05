// The slider over the events of the run; all panels show the run after the current event.
import { useMemo } from "preact/hooks";
import { clock, duration, html } from "./ui.js";
import { goTo, isPlaying, model, play, seq } from "./state.js";

const MARKS = 240;

export function Scrubber() {
  const made = model.value;
  const at = made.events[seq.value - 1];
  return html`<section class="scrub" aria-label="Playback">
    <div class="buttons">
      <button class="plain" onClick=${() => goTo(1)} aria-label="First event" title="First event (g)">|◀</button>
      <button class="plain" onClick=${() => goTo(seq.value - 1)} aria-label="Previous event"
          title="Previous event (h)">◀</button>
      <button class="plain play" onClick=${play} aria-pressed=${isPlaying.value}
          title="Playback of the journal; nothing is executed (space)">${isPlaying.value ? "❚❚ pause" : "► play"}</button>
      <button class="plain" onClick=${() => goTo(seq.value + 1)} aria-label="Next event"
          title="Next event (l)">▶</button>
      <button class="plain" onClick=${() => goTo(made.last)} aria-label="Last event"
          title="Last event (G)">▶|</button>
    </div>
    <div class="track">
      <${Density} made=${made} />
      <input type="range" min="1" max=${made.last} step="1" value=${seq.value} aria-label="Event"
        aria-valuetext=${at ? `event ${at.seq} of ${made.last}, ${at.type} ${at.key}` : ""}
        onInput=${(event) => goTo(Number(event.currentTarget.value))} />
    </div>
    <output class="now"><b>event ${seq.value}</b>/${made.last} <code>${at ? at.type : ""} ${at ? at.key : ""}</code>
      <span class="quiet">${at ? `+${duration(at.t)} · ${clock(made.clockAt(at.t))}` : ""}</span></output>
  </section>`;
}

// Marks of errors, calls in doubt and questions along the slider.
function Density({ made }) {
  const marks = useMemo(() => {
    const found = new Map();
    for (const event of made.events) {
      if (event.type !== "err" && event.type !== "in_doubt" && event.type !== "ask") continue;
      const place = Math.round(((event.seq - 1) / Math.max(1, made.last - 1)) * MARKS);
      if (found.get(place) !== "err") found.set(place, event.type);
    }
    return [...found];
  }, [made]);
  return html`<svg class="density" viewBox="0 0 ${MARKS} 10" preserveAspectRatio="none" aria-hidden="true">
    ${marks.map(([place, type]) => html`<rect key=${place} class=${type} x=${Math.min(MARKS - 1, place)} y="0"
        width="1" height="10" />`)}
  </svg>`;
}
