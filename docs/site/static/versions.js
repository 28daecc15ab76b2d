// Link to the sites of other versions, which docs/site/publish.py lists beside this one.
const site = new URL(document.documentElement.dataset.content_root, location.href);
fetch(new URL("../versions.json", site))
  .then((answer) => (answer.ok ? answer.json() : []))
  .then((versions) => {
    if (!versions.length) return;
    const place = document.createElement("nav");
    place.className = "versions";
    place.setAttribute("aria-label", "Versions");
    for (const { version, url } of versions) {
      const link = document.createElement("a");
      link.href = new URL(`../${url}`, site);
      link.textContent = version;
      if (new URL(link.href).pathname === site.pathname) link.setAttribute("aria-current", "true");
      place.append(link);
    }
    document.querySelector(".sidebar-brand")?.after(place);
  })
  .catch(() => {}); // a site alone has no list
