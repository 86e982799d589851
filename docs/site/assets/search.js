/* Search over sections of the pages: BM25 over stems, with synonyms, beginnings of words and near spellings. search_index.py writes the index. */
"use strict";

(() => {
  const { sections, postings, words, synonyms } = window.SEARCH_INDEX;
  const SHOWN = 30, SYNONYM = 0.55, BEGINNING = 0.6, SPELLING = 0.8;
  const K = 1.4, B = 0.35;
  const stemmer = new Stemmer();
  const stopped = new Set([...stopwords].filter((word) => !["why", "not", "own", "same"].includes(word)));
  for (const word of ["how", "one", "want", "get", "use", "using", "make", "need", "way"]) stopped.add(word);
  const mean = sections.reduce((sum, section) => sum + section[3], 0) / sections.length;
  const known = (stem) => Object.hasOwn(postings, stem);

  const split = (text) => (text.toLowerCase().match(/[a-z0-9]+/g) || []);
  const rarity = (stem) => {
    const count = known(stem) ? postings[stem].length / 2 : 0;
    return Math.log(1 + (sections.length - count + 0.5) / (count + 0.5));
  };

  /* Edits (a letter more, less, other, or two exchanged) between two words; more than `most` is `most + 1`. */
  const edits = (left, right, most) => {
    if (Math.abs(left.length - right.length) > most) return most + 1;
    let before = [], last = Array.from({ length: right.length + 1 }, (_, at) => at);
    for (let row = 1; row <= left.length; row++) {
      const now = [row];
      for (let at = 1; at <= right.length; at++) {
        const same = left[row - 1] === right[at - 1];
        now[at] = Math.min(last[at] + 1, now[at - 1] + 1, last[at - 1] + (same ? 0 : 1));
        if (row > 1 && at > 1 && left[row - 1] === right[at - 2] && left[row - 2] === right[at - 1])
          now[at] = Math.min(now[at], before[at - 2] + 1);
      }
      if (Math.min(...now) > most) return most + 1;
      before = last;
      last = now;
    }
    return last[right.length];
  };

  /* Stems that are near a word which no page has: words that begin with it, else the words with the fewest edits. */
  const near = (word) => {
    const begun = [], spelt = [];
    let least = word.length < 4 ? 0 : word.length < 8 ? 1 : 2;
    for (const [stem, spellings] of Object.entries(words)) {
      for (const one of spellings) {
        if (word.length > 2 && one.startsWith(word)) begun.push(stem);
        const count = edits(word, one, least);
        if (count > least) continue;
        if (count < least) spelt.length = 0;
        least = count;
        spelt.push([stem, one]);
      }
    }
    if (begun.length) return [...new Set(begun)].slice(0, 20).map((stem) => [stem, BEGINNING]);
    return [...new Map(spelt)].map(([stem, as]) => [stem, SPELLING, as]);
  };

  /* What is looked for: for each word of the question the stems that count as it, and how much. */
  const parse = (query) => {
    const all = split(query), kept = all.filter((word) => !stopped.has(word)), corrections = [];
    const asked = (kept.length ? kept : all).map((word) => {
      const stem = stemmer.stemWord(word), found = new Map();
      if (known(stem)) found.set(stem, 1);
      else for (const [other, weight, as] of near(word)) {
        found.set(other, weight);
        if (as) corrections.push([word, as]);
      }
      return { word, stems: found, of: [...found.keys()] };
    });
    const every = all.map((word) => {
      const own = asked.find((one) => one.word === word);
      return own && own.of.length ? own.of : [stemmer.stemWord(word)];
    });
    for (const group of synonyms) {
      for (const phrase of group) {
        const from = every.findIndex((_, at) => phrase.every((stem, more) => every[at + more]?.includes(stem)));
        if (from < 0) continue;
        const parts = asked.filter((one) => phrase.some((stem) => one.of.includes(stem)));
        for (const other of group)
          for (const stem of other === phrase ? [] : other)
            if (known(stem)) for (const one of parts)
              if (!one.stems.has(stem)) one.stems.set(stem, SYNONYM / other.length);
      }
    }
    return { asked: asked.filter((one) => one.stems.size), missing: asked.filter((one) => !one.stems.size), corrections, every };
  };

  /* Sections that answer a question, best first. */
  const search = (query) => {
    const { asked, missing, corrections, every } = parse(query);
    const scores = new Map();
    let whole = 0;
    for (const one of asked) {
      const best = new Map();
      const value = one.of.length ? Math.max(...one.of.map(rarity)) : 1;
      whole += value;
      for (const [stem, weight] of one.stems) {
        const list = postings[stem];
        for (let at = 0; at < list.length; at += 2) {
          const section = list[at], count = list[at + 1];
          const full = (count * (K + 1)) / (count + K * (1 - B + (B * sections[section][3]) / mean));
          best.set(section, Math.max(best.get(section) || 0, weight * full));
        }
      }
      for (const [section, part] of best) {
        const score = scores.get(section) || { sum: 0, covered: 0 };
        score.sum += value * part;
        score.covered += value * Math.min(1, part);
        scores.set(section, score);
      }
    }
    const results = [...scores].map(([at, { sum, covered }]) => {
      const heading = split(sections[at][2].at(-1)).map((word) => stemmer.stemWord(word));
      const inside = heading.filter((stem) => asked.some((one) => one.stems.has(stem))).length;
      const exact = every.filter((stems, word) => word && heading.some(
        (stem, place) => place && stems.includes(stem) && every[word - 1].includes(heading[place - 1]))).length;
      const share = covered / whole;
      const content = heading.filter((stem) => !stopped.has(stem)).length || 1;
      const named = heading.length === every.length && exact === heading.length - 1;
      const score = (named ? 1 : sections[at][6]) * sum * share * share * (1 + 0.5 * Math.min(1, inside / content) + 0.25 * exact);
      return { at, share, score };
    });
    const most = Math.max(0, ...results.map((one) => one.share));
    const good = results.filter((one) => one.share >= most * 0.6);
    good.sort((left, right) => sections[left.at][4] - sections[right.at][4] || right.score - left.score);
    const found = good.slice(0, SHOWN).map(({ at, score }) => {
      const [page, anchor, headings, , , excerpt] = sections[at];
      return { page, anchor, headings, excerpt, score };
    });
    return { found, missing: missing.map((one) => one.word), corrections };
  };
  window.searchSections = search;

  const element = (name, text, parent) => {
    const made = document.createElement(name);
    made.textContent = text;
    parent.append(made);
    return made;
  };

  const show = (query) => {
    const { found, missing, corrections } = search(query);
    const list = document.getElementById("search-results"), root = document.documentElement.dataset.content_root;
    document.title = `${query} - Search`;
    for (const { page, anchor, headings, excerpt } of found) {
      const item = element("li", "", list);
      const link = element("a", headings.at(-1), item);
      link.href = root + page + (anchor && `#${anchor}`);
      if (headings.length > 1) element("span", ` in ${headings.slice(0, -1).join(" › ")}`, item).className = "search-place";
      if (excerpt) element("p", excerpt, item);
    }
    const said = [found.length === SHOWN ? `The first ${SHOWN} sections.` : found.length === 1 ? "1 section." : `${found.length} sections.`];
    if (corrections.length) said.push(`Searched for ${[...new Set(corrections.map(([, as]) => as))].slice(0, 3).join(", ")} too.`);
    if (missing.length) said.push(`No page has ${missing.join(", ")}.`);
    document.getElementById("search-status").textContent = said.join(" ");
  };

  const query = new URLSearchParams(location.search).get("q");
  for (const input of document.querySelectorAll('input[name="q"]')) input.value = query || "";
  if (query?.trim()) show(query.trim());
})();
