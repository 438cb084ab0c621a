"use strict";
// The login of reports and dashboards, shown for every address outside of their path. The fragment holds the path,
// and the port of Prefect's pages where the login began there: #PATH or #PATH.PORT. Without a fragment the path is
// the one that this browser stored, so that links and bookmarks need not hold it.
const KEY = "curriculum-path";
const [, outdated, page] = /^(?:\/([0-9a-f]{32}))?(\/.*)$/.exec(location.pathname);
const [, given, port] = /^#([0-9a-f]{32})(?:\.(\d{1,5}))?$/.exec(location.hash) ?? [];
const stored = localStorage.getItem(KEY);
if (given) {
  fetch(`/${given}/style.css`).then((answer) => {
    if (!answer.ok) return;
    localStorage.setItem(KEY, given);
    location.replace(port ? `http://${location.hostname}:${port}/v2/runs` : `/${given}${page}${location.search}`);
  });
} else if (/^[0-9a-f]{32}$/.test(stored) && stored !== outdated) {
  location.replace(`/${stored}${page}${location.search}`);
}
// Another fragment alone loads no page.
addEventListener("hashchange", () => location.reload());
