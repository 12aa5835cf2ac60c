"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const about = data.about;
  const binSeconds = data.bins.width_ns / 1e9;
  // When each part of the time begins, and when the last one ends.
  const times = Array.from({length: data.bins.count + 1}, (_, bin) => bin * binSeconds);
  const binOf = (index) => Math.min(index, data.bins.count - 1);

  // Okabe and Ito's colours, which colour-blind people can tell apart: the host, then the devices.
  const processorColours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f4fc9",
                            "#8c564b"];
  const copiesColour = "#222222";
  const colourOf = (processor) => processorColours[processor % processorColours.length];
  // The reasons for moves, in the order of the stack.
  const reasons = {
    "fault": ["on a fault", "#0072b2"],
    "speculative prefetch": ["with a fault, expected to be used", "#56b4e9"],
    "user prefetch": ["prefetched by the program", "#009e73"],
    "eviction": ["evicted", "#d55e00"],
    "thrash pin": ["to where thrashing pages are pinned", "#cc79a7"],
    "advice": ["by advice", "#f0e442"],
    "copy": ["by a copy", "#7f4fc9"],
    "sample": ["after samples of use", "#8c564b"],
    "read-only copies": ["read-only copies", "#222222"],
  };

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }
  const byId = (id) => document.getElementById(id);

  // Three digits, without zeros at the end.
  const digits = (value) => String(Number(value >= 100 ? value.toFixed(0) : value.toPrecision(3)));
  function scaled(value, step, units) {
    let unit = 0;
    while (Math.abs(value) >= step && unit + 1 < units.length) {
      value /= step;
      ++unit;
    }
    return (unit === 0 && Number.isInteger(value) ? String(value) : digits(value)) + " " + units[unit];
  }
  const bytesText = (bytes) => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  const timeText = (ns) => scaled(ns, 1000, ["ns", "µs", "ms", "s"]);
  const countText = (count) => count.toLocaleString("en-US");
  const counted = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;
  const shortCount = (count) => scaled(count, 1000, ["", "k", "M", "G"]).trim();
  // A moment of the run: as exact as a part of the time is long.
  function momentText(seconds) {
    return data.bins.width_ns < 1e5 && about.seconds < 1 ? (seconds * 1e3).toFixed(3) + " ms"
                                                         : seconds.toFixed(about.seconds < 60 ? 3 : 1) + " s";
  }

  function showHeader() {
    document.title = "Wherry report: " + about.program;
    byId("program").textContent = about.program;
    const settings = about.settings;
    const warn = (text) => byId("warnings").append(element("p", text, "warning"));
    if (about.events === 0) warn("The trace has no events: the program used no managed memory before it ended.");
    if (!about.complete)
      warn("The trace breaks off: the program was killed or still runs, or the disk was full. " +
           "This page shows what came before.");
    if (about.dropped > 0)
      warn(countText(about.dropped) + " events were dropped when this was recorded: the counts are too low.");
    if (about.few_accesses)
      warn("This policy leaves pages mapped: the trace lacks most accesses to them. To find what moves, record under " +
           "WHERRY_POLICY=migrate-always.");
    const fact = (name, text) => {
      const row = element("div");
      row.append(element("dt", name), element("dd", text));
      byId("about").append(row);
    };
    fact("Run", `${momentText(about.seconds)}, process ${about.process}, ` +
                `${new Date(about.start_unix_ms).toISOString().slice(0, 19).replace("T", " ")} UTC`);
    fact("Events", countText(about.events));
    if (settings) {
      let policy = settings.policy || "none: accesses that another tool recorded";
      if (settings.policy && settings.policy_in_force !== settings.policy)
        policy += `, which is ${settings.policy_in_force} here`;
      fact("Policy", policy);
    }
    for (const processor of about.processors)
      fact(processor.name, [processor.kind === processor.name ? "" : processor.kind,
                            processor.capacity > 0 ? bytesText(processor.capacity) : "memory without a limit",
                            processor.workers > 0 ? counted(processor.workers, "worker") : "",
                            processor.nodes.length > 0 ? `NUMA node ${processor.nodes.join(", ")}` : ""]
                               .filter((part) => part).join(", "));
    if (settings) {
      fact("Machine", [settings.cpu, settings.cpus > 0 ? `${counted(settings.cpus, "CPU")}, ${counted(settings.nodes, "NUMA node")}` : "",
                       settings.kernel ? `Linux ${settings.kernel}` : ""].filter((part) => part).join(", "));
      fact("Library", `Wherry ${settings.version}, trap: ${about.trap}`);
    } else {
      fact("Library", `trap: ${about.trap}`);
    }
    const environment = Object.entries(settings ? settings.environment : {});
    byId("environment").hidden = environment.length === 0;
    byId("environment").querySelector("summary").textContent = `${environment.length} WHERRY_ settings`;
    for (const [name, value] of environment)
      byId("environment").querySelector("ul").append(element("li", `${name}=${value}`));
  }

  function showTotals() {
    const sum = (key) => data.memory.reduce((total, memory) => total + memory[key], 0);
    for (const [name, text] of [["faults", countText(sum("faults"))], ["waited for faults", timeText(sum("fault_ns"))],
                                ["moved", bytesText(sum("moved_bytes"))], ["copied", bytesText(sum("copied_bytes"))],
                                ["evicted", bytesText(sum("evicted_bytes"))],
                                ["kernels", countText(data.kernels.reduce((total, k) => total + k.launches, 0))]]) {
      const tile = element("div");
      tile.append(element("b", text), element("span", name));
      byId("totals").append(tile);
    }
  }

  function showFindings() {
    for (const finding of data.findings) {
      const item = element("li");
      const attempt = element("p", undefined, "attempt");
      attempt.append(element("b", "Try: "), finding.attempt);
      item.append(element("p", finding.observation + ".", "observation"),
                  element("p", finding.evidence + ".", "evidence"), attempt);
      byId("findings").append(item);
    }
    if (data.findings.length === 0)
      byId("findings").replaceWith(element("p", "Nothing stands out: no memory moves often, and no long series of " +
                                                "faults could be one prefetch."));
  }

  const axisWidth = 170;
  const charts = [];
  const chartWidth = () => Math.max(480, byId("where").clientWidth - 48);

  function timeAxis(label) {
    return {scale: "x", label, labelSize: label ? 20 : 0, labelGap: 0, size: 30, labelFont: "13px system-ui",
            font: "12px system-ui", stroke: "#5b6470", grid: {stroke: "#eceff2"}, ticks: {stroke: "#dde1e6"},
            values: (_, splits) => splits.map((second) => momentText(second).replace(/(\.\d*?)0+ /, "$1 ")
                                                                           .replace(/\. /, " "))};
  }
  function options(height, y, series, more) {
    return Object.assign({
      width: chartWidth(), height,
      scales: {x: {time: false, range: (_, low, high) => [low, high]}, y: y.scale},
      axes: [timeAxis(more && more.timeLabel), Object.assign({scale: "y", size: axisWidth, font: "12px system-ui",
                                        stroke: "#1b1f24", ticks: {stroke: "#dde1e6"},
                                        grid: {stroke: "#eceff2"}}, y.axis)],
      cursor: {sync: {key: "time", setSeries: false}, drag: {x: true, y: false}, points: {show: false}},
      series: [{label: "time", value: (_, value) => (value === null ? "–" : momentText(value))}, ...series],
      padding: [8, 14, 0, 0],
    }, more && more.options);
  }
  function draw(chartOptions, values, target) {
    const chart = new uPlot(chartOptions, [times, ...values], target);
    charts.push(chart);
    return chart;
  }

  const map = data.map;
  const shares = map.shares.map((text) => (text === null ? null : Uint8Array.from(atob(text), (c) => c.charCodeAt(0))));
  const holderName = (holder) => (holder < about.processors.length ? about.processors[holder].name
                                                                   : "copies at several processors");
  const holderColour = (holder) => (holder < about.processors.length ? colourOf(holder) : copiesColour);

  // One pixel for each row and each part of the time.
  function mapPicture() {
    const canvas = document.createElement("canvas");
    canvas.width = data.bins.count;
    canvas.height = map.rows;
    const context = canvas.getContext("2d");
    const picture = context.createImageData(canvas.width, canvas.height);
    const colours = shares.map((_, holder) => [1, 3, 5].map((at) => parseInt(holderColour(holder).slice(at, at + 2), 16)));
    for (let cell = 0; cell < canvas.width * canvas.height; ++cell) {
      let left = 255;
      const colour = [0, 0, 0];
      shares.forEach((of, holder) => {
        if (of === null || of[cell] === 0) return;
        const share = Math.min(of[cell], left);
        left -= share;
        for (let i = 0; i < 3; ++i) colour[i] += share * colours[holder][i];
      });
      for (let i = 0; i < 3; ++i) picture.data[4 * cell + i] = (colour[i] + left * 244) / 255;
      picture.data[4 * cell + 3] = 255;
    }
    context.putImageData(picture, 0, 0);
    return canvas;
  }

  // Names beside the rows: neighbours of one name have one, the highest ones come first where there is
  // no room for all, and those that would overlap are moved apart.
  function mapLabels(height) {
    const groups = [];
    for (const segment of map.segments) {
      const last = groups[groups.length - 1];
      const end = segment.first_row + segment.rows;
      if (last && last.name === segment.name && segment.name !== "") last.end = end;
      else groups.push({name: segment.name, begin: segment.first_row, end, address: segment.begin});
    }
    const least = 14 * map.rows / height;
    const labels = groups.sort((a, b) => (b.end - b.begin) - (a.end - a.begin))
                         .slice(0, Math.floor(map.rows / least))
                         .map((group) => ({at: (group.begin + group.end) / 2, name: group.name || group.address}))
                         .sort((a, b) => a.at - b.at);
    labels.forEach((label, i) => { if (i > 0) label.at = Math.max(label.at, labels[i - 1].at + least); });
    for (let i = labels.length - 1, below = map.rows + least / 2; i >= 0; below = labels[i--].at)
      labels[i].at = Math.min(labels[i].at, below - least);
    return labels;
  }
  const shortName = (name) => (name.length > 24 ? name.slice(0, 23) + "…" : name);

  function segmentOf(row) {
    return map.segments.find((segment) => row >= segment.first_row && row < segment.first_row + segment.rows);
  }

  function mapReadout(chart) {
    const {left, top} = chart.cursor;
    if (left === undefined || left < 0 || top < 0) return "";
    const bin = binOf(Math.max(0, Math.floor(chart.posToVal(left, "x") / binSeconds)));
    const row = Math.floor(chart.posToVal(top, "y"));
    const segment = segmentOf(row);
    if (!segment) return "";
    const address = BigInt(segment.begin) + BigInt((row - segment.first_row) * segment.row_bytes);
    const parts = shares.map((of, holder) => [holder, of === null ? 0 : of[row * data.bins.count + bin]])
                        .filter(([, share]) => share > 0)
                        .map(([holder, share]) => `${holderName(holder)} ${Math.round(share / 2.55)} %`);
    return `${momentText(bin * binSeconds)}: ${segment.name || "no name"}, ${bytesText(segment.row_bytes)} at ` +
           `0x${address.toString(16)}: ${parts.join(", ") || "in no memory"}`;
  }

  function showMap() {
    if (map.rows === 0) {
      byId("where").hidden = true;
      return;
    }
    const add = (text, colour) => {
      const entry = element("span");
      const swatch = element("i");
      swatch.style.background = colour;
      entry.append(swatch, text);
      byId("holders").append(entry);
    };
    shares.forEach((of, holder) => {
      if (of !== null || holder < about.processors.length) add(holderName(holder), holderColour(holder));
    });
    add("in no memory", "#f4f4f4");
    const height = Math.min(620, Math.max(260, 26 * map.segments.length + 60));
    const plotHeight = height - 58;
    const labels = mapLabels(plotHeight);
    const picture = mapPicture();
    const paint = (chart) => {
      const {ctx, bbox} = chart;
      const x = (second) => chart.valToPos(second, "x", true);
      const y = (row) => chart.valToPos(row, "y", true);
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(picture, x(0), y(0), x(data.bins.count * binSeconds) - x(0), y(map.rows) - y(0));
      ctx.fillStyle = "#ffffff";
      map.segments.forEach((segment, i) => {
        if (i === 0) return;
        const thickness = segment.name === map.segments[i - 1].name ? 0.5 : 2;
        ctx.fillRect(bbox.left, Math.round(y(segment.first_row)) - 1, bbox.width, thickness * devicePixelRatio);
      });
      ctx.restore();
    };
    draw(options(height, {
      scale: {dir: -1, range: [0, map.rows]},
      axis: {grid: {show: false}, splits: () => labels.map((label) => label.at),
             ticks: {show: false}, values: () => labels.map((label) => shortName(label.name))},
    }, [{label: "row", paths: () => null, points: {show: false}}], {
      timeLabel: "time since recording began",
      options: {legend: {show: false},
                hooks: {draw: [paint],
                        setCursor: [(chart) => { byId("map-readout").textContent = mapReadout(chart); }]}},
    }), [times.map(() => 0)], byId("map"));
    if (map.bytes_left_out > 0)
      byId("map").after(element("p", `${bytesText(map.bytes_left_out)} in many small ranges are not shown.`, "note"));
  }

  // `lines`: {name, colour, values}. Stacked: each line lies on those before it.
  function showTimeline(title, lines, text, {stacked, highest, steps}) {
    if (lines.length === 0) return;
    const box = element("div", undefined, "chart");
    box.append(element("h3", title));
    byId("timelines").append(box);
    const sums = new Array(data.bins.count).fill(0);
    const heights = lines.map((line) => line.values.map((value, bin) => (stacked ? sums[bin] += value : value)));
    const order = lines.map((_, i) => i);
    if (stacked) order.reverse();  // the highest is painted first
    const step = uPlot.paths.stepped({align: 1});
    const series = order.map((i) => ({
      label: lines[i].name, stroke: lines[i].colour, fill: lines[i].colour + (stacked ? "" : "30"),
      width: stacked ? 0.5 : 1, paths: step, points: {show: false},
      value: (_, value, __, index) => (index === null ? "–" : text(lines[i].values[binOf(index)])),
    }));
    const scale = {range: (_, low, high) => [0, highest || (high > 0 ? high * 1.05 : 1)]};
    draw(options(190, {scale, axis: Object.assign({values: (_, splits) => splits.map(text)}, steps && {incrs: steps})},
                 series),
         order.map((i) => [...heights[i], heights[i][data.bins.count - 1]]), box);
  }

  function showTimelines() {
    const binarySteps = Array.from({length: 50}, (_, power) => 2 ** power);
    const rate = (values) => values.map((value) => value / binSeconds);
    const ofProcessors = (lines, convert) => lines.map((line) => ({
      name: line.name, values: convert(line.values),
      colour: colourOf(about.processors.findIndex((processor) => processor.name === line.name)),
    }));
    const {faults, moved_bytes: moved, busy_ns: busy} = data.timelines;
    showTimeline("Faults per second, by the processor that waits", ofProcessors(faults, rate),
                 (value) => shortCount(Math.round(value)) + "/s", {stacked: true});
    showTimeline("Bytes moved per second, by reason", moved.map((line) => ({
      name: (reasons[line.name] || [line.name])[0], colour: (reasons[line.name] || ["", "#999999"])[1],
      values: rate(line.values),
    })), (value) => bytesText(Math.round(value)) + "/s", {stacked: true, steps: binarySteps});
    showTimeline("Devices that have a kernel",
                 ofProcessors(busy, (values) => values.map((ns) => 100 * ns / data.bins.width_ns)),
                 (value) => Math.round(value) + " %", {stacked: false, highest: 105});
    byId("when").hidden = charts.length === 0;
  }

  // `columns`: [heading, key, text]. The rows are sorted by the column `first`.
  function showTable(id, rows, columns, first) {
    const table = byId(id);
    const head = table.createTHead().insertRow();
    const body = table.createTBody();
    const show = (column, descending) => {
      const key = columns[column][1];
      const sign = descending ? -1 : 1;
      const sorted = [...rows].sort((a, b) => sign * (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0));
      body.replaceChildren(...sorted.slice(0, 30).map((row) => {
        const line = element("tr");
        line.append(...columns.map(([, name, text]) => element("td", text ? text(row[name]) : row[name])));
        return line;
      }));
      [...head.cells].forEach((cell, i) => {
        if (i === column) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      });
    };
    columns.forEach(([heading], column) => {
      const cell = element("th", heading);
      cell.addEventListener("click", () => show(column, cell.getAttribute("aria-sort") !== "descending"));
      head.append(cell);
    });
    show(first, true);
  }

  function showTables() {
    const some = (text) => (value) => (value === 0 ? "–" : text(value));
    const used = data.memory.filter((memory) => memory.faults + memory.moved_bytes + memory.copied_bytes > 0);
    byId("memories").hidden = used.length === 0;
    showTable("memory", used, [
      ["memory", "name"], ["size", "bytes", some(bytesText)], ["moved", "moved_bytes", some(bytesText)],
      ["copied", "copied_bytes", some(bytesText)], ["evicted", "evicted_bytes", some(bytesText)],
      ["moves of each page", "moves_of_each_page", some(String)], ["thrashing", "thrashings", some(countText)],
      ["throttled", "throttled_ns", some(timeText)], ["held", "held_bytes", some(bytesText)], ["faults", "faults", some(countText)],
      ["waited for faults", "fault_ns", some(timeText)],
    ], 2);
    byId("launches").hidden = data.kernels.length === 0;
    showTable("kernels", data.kernels, [["kernel", "name"], ["launches", "launches", countText],
                                        ["time", "time_ns", timeText], ["mean", "mean_ns", timeText]], 2);
  }

  for (const kernel of data.kernels) kernel.mean_ns = kernel.time_ns / kernel.launches;
  showHeader();
  showTotals();
  showFindings();
  showMap();
  showTimelines();
  showTables();
  window.addEventListener("resize", () => {
    for (const chart of charts) chart.setSize({width: chartWidth(), height: chart.height});
  });
  document.body.dataset.drawn = "true";
})();
