(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("charts").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const config = { displayModeBar: false, responsive: true };
  const narrow = () => window.innerWidth < 640;
  const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const jobs = [];

  const layout = (extra) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: css("--soft") },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink"), size: 12 } },
    ...extra,
  });

  function bars(panel) {
    const at = panel.labels.map((_, i) => i);
    const trace = (name, shares, colour, width) => ({
      type: "bar", name, orientation: panel.horizontal ? "h" : "v", width,
      x: panel.horizontal ? shares : at, y: panel.horizontal ? at : shares,
      customdata: panel.labels, marker: { color: colour },
      hovertemplate: `%{customdata}<br>${name}: <b>%{${panel.horizontal ? "x" : "y"}:.2%}</b><extra></extra>`,
    });
    const share = { tickformat: ".1~%", nticks: 4, gridcolor: css("--line"), zeroline: false, fixedrange: true, rangemode: "tozero" };
    const count = panel.labels.length;
    const clean = (text) => text.replace(/ to .*$/, "").replace(/^under /, "<").replace(/ and over$/, "+").replace(/^(<?\d{4}-\d\d)-\d\d.*$/, "$1");
    const longest = Math.max(...panel.labels.filter((v) => v !== "missing").map((v) => clean(v).length), 1);
    const every = panel.horizontal ? 1 : Math.ceil(count / Math.max(2, Math.floor(36 / (longest + 2))));
    const missing = panel.labels[count - 1] === "missing" && !panel.horizontal;
    const shown = at.filter((i) => (missing && i === count - 1) || (i % every === Math.floor(every / 2) && i + (missing ? every / 2 : 0) < count));
    const label = {
      tickmode: "array", tickvals: shown, fixedrange: true, zeroline: false, showgrid: false,
      ticktext: shown.map((i) => (panel.horizontal ? short(panel.labels[i], 20) : clean(panel.labels[i]).replace("<", "&lt;"))),
      tickfont: { color: css("--ink"), size: 11 }, tickangle: 0, automargin: true,
    };
    // One towering bar would hide the rest of a number line: cut it, and write its shares beside it.
    const heights = at.map((i) => Math.max(panel.real[i], panel.synthetic[i]));
    const tower = heights.indexOf(Math.max(...heights));
    const next = Math.max(0, ...heights.filter((_, i) => i !== tower));
    const cut = !panel.horizontal && next > 0 && heights[tower] > 5 * next;
    const side = tower < count / 2 ? "left" : "right";
    const note = cut && {
      x: tower, y: 1, yref: "paper", yanchor: "top", xanchor: side, xshift: side === "left" ? 12 : -12, showarrow: false, align: side,
      text: `↑ ${(100 * panel.real[tower]).toFixed(1)} % real<br>↑ ${(100 * panel.synthetic[tower]).toFixed(1)} % synthetic`,
      font: { color: css("--ink"), size: 11 },
    };
    if (cut) Object.assign(share, { range: [0, 2 * next], rangemode: "normal" });
    const fewest = Math.max(count, 4) - 0.5; // so that two bars do not fill the panel
    return {
      traces: [trace("real", panel.real, css("--real"), 0.9), trace("synthetic", panel.synthetic, css("--synthetic"), 0.42)],
      layout: layout({
        barmode: "overlay", height: 236, annotations: note ? [note] : [], margin: { l: panel.horizontal ? 8 : 36, r: missing ? 26 : 10, t: 6, b: 24 },
        xaxis: panel.horizontal ? share : label,
        yaxis: panel.horizontal ? { ...label, range: [fewest, -0.5], ticklabelstandoff: 4 } : share,
      }),
    };
  }

  function heat(square, top, what, signed = false) {
    const n = square.names.length;
    const names = square.names.map((v) => short(v, narrow() ? 12 : 20));
    const at = names.map((_, i) => i);
    const labels = (width) => ({ tickmode: n > 40 ? "auto" : "array", tickvals: at, ticktext: names, fixedrange: true, showgrid: false, zeroline: false, automargin: true, tickfont: { color: css("--ink"), size: n > 24 || narrow() ? 8 : width < 420 ? 9 : 11 } });
    const scale = signed ? [[0, css("--minus-2")], [0.25, css("--minus-1")], [0.5, css("--heat-0")], [0.75, css("--heat-1")], [1, css("--heat-2")]] : [[0, css("--heat-0")], [0.33, css("--heat-1")], [0.67, css("--heat-2")], [1, css("--heat-3")]];
    return (width) => ({
      traces: [{
        type: "heatmap", z: square.cells, x: at, y: at, colorscale: scale, zmin: signed ? -top : 0, zmax: top, xgap: 1, ygap: 1, hoverongaps: false,
        customdata: square.names.map((a) => square.names.map((b) => `${a} × ${b}`)),
        hovertemplate: `%{customdata}<br>${what}: <b>%{z:.3f}</b><extra></extra>`,
        colorbar: { thickness: 8, len: 0.9, outlinewidth: 0, tickfont: { size: 10 }, nticks: 5, xpad: 4 },
      }],
      layout: layout({
        height: Math.round(Math.min(760, Math.max(300, width * (width > 800 ? 0.62 : 0.98)))), margin: { l: 8, r: 0, t: 10, b: 8 },
        xaxis: { ...labels(width), tickangle: -55 }, yaxis: { ...labels(width), autorange: "reversed" },
      }),
    });
  }

  function draw(job) {
    const { traces, layout: look } = job.make();
    Object.assign(job.node.style, { height: look.height + "px", aspectRatio: "" });
    return Plotly.react(job.node, traces, look, config);
  }

  const grid = document.getElementById("panels");
  for (const panel of data.panels) {
    const box = document.createElement("article");
    box.className = "panel";
    box.innerHTML = `<header><span class="name">${panel.name}</span><span class="soft small">distance ${panel.distance.toFixed(3)}</span></header><div class="chart"></div>`;
    grid.append(box);
    jobs.push({ node: box.lastChild, make: () => bars(panel) });
  }
  const largest = Math.max(0.1, ...data.distance.cells.flat().filter((v) => v !== null));
  const gaps = data.relation_difference.cells.flat().filter((v) => v !== null).map(Math.abs);
  const squares = [
    ["distance", largest, "distance"],
    ["relation_real", 1, "relation", true], ["relation_synthetic", 1, "relation", true],
    ["relation_difference", Math.max(0.2, ...gaps), "difference", true],
  ];
  for (const [id, top, what, signed] of squares) {
    const node = document.getElementById(id);
    if (node) jobs.push({ node, make: () => heat(data[id], top, what, signed)(node.clientWidth || 600) });
  }

  let round = 0;
  function drawAll() {
    const mine = ++round;
    let next = 0;
    const step = () => {
      const until = performance.now() + 40;
      while (mine === round && next < jobs.length && performance.now() < until) draw(jobs[next++]);
      if (mine === round && next < jobs.length) requestAnimationFrame(step);
    };
    step();
  }
  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("(max-width: 640px)").addEventListener("change", drawAll);

  // On paper: light colours whatever the screen has, and drawings that scale to the page.
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    jobs.forEach(draw);
    for (const svg of document.querySelectorAll(".main-svg")) {
      const [width, height] = [svg.getAttribute("width"), svg.getAttribute("height")];
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      Object.assign(svg.closest(".chart").style, { height: "auto", aspectRatio: `${width} / ${height}` });
    }
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    document.querySelectorAll(".main-svg").forEach((svg) => svg.removeAttribute("viewBox"));
    jobs.forEach(draw);
  });
})();
