// The page reads as well without it: heads become buttons that sort their table by the first number of each cell.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const value = (row, column) => {
    const text = row.cells[column].textContent, number = parseFloat(text.replace(/,/g, "").replace(/^[^\d-]*/, ""));
    return column ? (Number.isNaN(number) ? -Infinity : number) : text;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const old = head.getAttribute("aria-sort"), first = column ? "descending" : "ascending";
      const order = old ? (old === "ascending" ? "descending" : "ascending") : first;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a === b ? 0 : a - b);
      const keyed = [...body.rows].map((row) => [value(row, column), row]);
      keyed.sort((a, b) => sign * compare(a[0], b[0]));
      body.append(...keyed.map((pair) => pair[1]));
    });
  });
}
