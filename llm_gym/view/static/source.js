// Where the data come from: the server that serves this page, or the page itself if exported.

async function ask(path, options) {
  const answer = await fetch(path, options);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

const query = (fields) => new URLSearchParams(fields).toString();

const served = {
  live: true,
  sources: () => ask("api/sources"),
  metrics: (source, from, generation) => ask(`api/metrics?${query({ source, from, generation })}`),
  episodes: (source, version) => ask(`api/episodes?${query({ source, version })}`),
  episode: (source, file, line) => ask(`api/episode?${query({ source, file, line })}`),
  search: (words) => ask(`api/search?${query({ words })}`),
  suite: () => ask("api/suite"),
  play: (body) => ask("api/play", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }),
};

function embedded(data) {
  const says = (record, words) => [...record.states, ...record.actions,
    ...record.messages.map((message) => String(message.content))]
    .some((text) => text.toLowerCase().includes(words));
  return {
    live: false,
    sources: async () => data.sources,
    metrics: async (source) => data.metrics[source],
    episodes: async (source) => data.episodes[source],
    episode: async (source, file, line) => {
      const found = data.records[`${source}/${file}/${line}`];
      if (!found) throw new Error("the exported page does not hold this episode");
      return found;
    },
    search: async (words) => Object.entries(data.records)
      .filter(([, record]) => says(record, words.toLowerCase()))
      .map(([key]) => key.split("/").map(Number)),
    suite: async () => data.suite,
  };
}

const holder = document.getElementById("data");
export const backend = holder ? embedded(JSON.parse(holder.textContent)) : served;

// Everything that is known so far, brought up to date by `refresh`.
export const store = { sources: [], metrics: [], episodes: [], files: [], versions: [], problems: [] };

export async function open() {
  const about = await backend.sources();
  store.version = about.version;
  store.sources = about.sources;
  await refresh();
}

// Returns what has changed: {metrics, episodes}.
export async function refresh() {
  const changed = { metrics: false, episodes: false };
  // A run that has not begun has no settings yet.
  if (backend.live && store.sources.some((source) => !source.is_run)) store.sources = (await backend.sources()).sources;
  for (let at = 0; at < store.sources.length; at++) {
    const known = store.metrics[at] || { generation: -1, rows: [] };
    const told = await backend.metrics(at, known.rows.length, known.generation);
    if (told.rows.length || told.generation !== known.generation) {
      store.metrics[at] = { generation: told.generation, rows: known.rows.slice(0, told.from).concat(told.rows) };
      changed.metrics = true;
    }
    const listed = await backend.episodes(at, store.versions[at] ?? -1);
    if (listed.files) {
      store.versions[at] = listed.version;
      store.files[at] = listed.files;
      changed.episodes = true;
    }
  }
  if (changed.episodes) store.episodes = flat();
  return changed;
}

function flat() {
  const all = [];
  store.problems = [];
  store.files.forEach((files, source) => files.forEach((file, number) => {
    for (const problem of file.problems) store.problems.push(`${file.name}: ${problem}`);
    for (const row of file.rows) {
      const [line, env, seed, split, group, instance, policy, version, stop, success, reward,
        turns, tokens, invalid, snippet] = row;
      all.push({ source, file: number, label: file.name, iteration: file.iteration, line, env, seed,
        split, group, instance, policy, version, stop, success, reward, turns, tokens, invalid, snippet });
    }
  }));
  return all;
}

export const address = (row) => `${row.source}/${row.file}/${row.line}`;

export function find(source, file, line) {
  return store.episodes.find((row) => row.source === source && row.file === file && row.line === line);
}

// The same instance: of one environment, by the name that it gives itself or by its seed.
export function sameInstance(row) {
  if (row.instance === null && row.seed === null) return [];
  return store.episodes.filter((other) => other !== row && other.env === row.env
    && (row.instance !== null ? other.instance === row.instance
      : other.seed === row.seed && other.split === row.split));
}
