// Which page is shown: the address after # says it.

import { onConnection } from "./api.js";
import { JobPage } from "./job_page.js";
import { JobsPage } from "./jobs_page.js";
import { showConnection } from "./messages.js";

let page = null;

function show() {
  page?.close();
  const place = document.getElementById("page");
  const [, id] = /^#\/jobs\/([^/]+)$/.exec(location.hash) ?? [];
  let job = null;
  try {
    job = id ? decodeURIComponent(id) : null;
  } catch {
    job = null; // a broken address leads to the list
  }
  page = job ? new JobPage(place, job) : new JobsPage(place);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address holds the page, not a place in it
  document.getElementById("page").focus();
});
onConnection(showConnection);
window.addEventListener("hashchange", () => {
  show();
  window.scrollTo(0, 0);
});
show();
